"""Profiles of the stage `clean`: rules for one kind of source, with the rules of the papers as presets."""

from __future__ import annotations

import difflib
import importlib.util
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    field_validator,
    model_serializer,
)

Language = Literal["zh", "zh-Hans", "zh-Hant", "yue", "ja", "ko"]

OPENCC_REMEDY = "simplify needs the package OpenCC: install it (make setup does), or set simplify = false"
"""Remedy where the optional package is missing."""


class CleanProfile(BaseModel):
    """Rules for one kind of source. Shares are of the characters other than blanks, unless a description differs.

    Rules that were not given may be adapted to the source. So only the given ones are serialised.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    strip_markup: bool = Field(default=True, description="Remove HTML tags, comments and scripts; resolve entities.")
    strip_addresses: bool = Field(default=False, description="Remove URLs and e-mail addresses.")
    only_text: bool = Field(default=False, description="Keep only letters, digits, punctuation and signs.")
    simplify: bool = Field(default=False, description="Convert Traditional Chinese to Simplified, by phrases (OpenCC).")
    join_lines: bool = Field(default=False, description="Join lines that were broken at the width of a page.")
    collapse_repeats: bool = Field(default=False, description="Keep only the first of equal lines in a row.")
    drop_boilerplate: bool = Field(default=True, description="Drop short lines that hold phrases of a portal.")
    boilerplate: tuple[str, ...] = Field(default=(), description="More phrases that make a short line boilerplate.")
    min_characters: int = Field(default=1, ge=1, description="Least number of characters of a document.")
    min_han_share: float = Field(default=0.1, ge=0, le=1, description="Least share of Chinese characters.")
    languages: tuple[Language, ...] = Field(
        default=("zh",), min_length=1, description="Languages to keep, of those written with East Asian scripts."
    )
    max_symbol_share: float = Field(
        default=0.7, ge=0, le=1, description="Largest share of digits, punctuation and symbols."
    )
    max_repeated_lines: float = Field(
        default=0.5, ge=0, le=1, description="Largest share of all characters in lines that occurred before."
    )
    max_repeated_phrase: float = Field(
        default=0.4, ge=0, le=1, description="Largest share of all characters in the most frequent 10-character phrase."
    )
    max_replaced: float = Field(
        default=0.01, ge=0, le=1, description="Largest share of U+FFFD, left where decoding failed, before cleaning."
    )

    @model_serializer(mode="wrap")
    def _as_given(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in write(self).items() if name in self.model_fields_set}

    @field_validator("boilerplate")
    @classmethod
    def _phrases(cls, phrases: tuple[str, ...]) -> tuple[str, ...]:
        for phrase in phrases:
            if len(phrase.strip()) < 2 or "\n" in phrase:
                raise ValueError(f"{phrase!r} is not a phrase: give at least two characters, on one line")
        return phrases

    @field_validator("simplify")
    @classmethod
    def _can_simplify(cls, simplify: bool) -> bool:
        if simplify and importlib.util.find_spec("opencc") is None:
            raise ValueError(OPENCC_REMEDY)
        return simplify


PROFILES: Mapping[str, CleanProfile] = {
    "ehealth": CleanProfile(),
    "smedbert": CleanProfile(strip_addresses=True, only_text=True, min_characters=256),
    "embert": CleanProfile(),
}
"""Rules of the papers, by name.

eHealth, section 4.1: "minimum pre-processing of deduplication and denoising". SMedBERT, appendix A.1.1: URLs, HTML
tags, e-mail addresses and all tokens except characters, digits and punctuation are removed, and documents shorter
than 256 are dropped. EMBERT, section 4.1: "similar to that of BERT", so the same minimum as eHealth's.
"""

SOURCES: Mapping[str, Mapping[str, Any]] = {
    "textbook": {"join_lines": True},
    "dialogue": {"max_symbol_share": 0.9, "max_repeated_lines": 0.7, "max_repeated_phrase": 0.6},
    # Records hold tables of digits, and the same sentence every day.
    "emr": {
        "drop_boilerplate": False,
        "min_han_share": 0.0,
        "max_symbol_share": 1.0,
        "max_repeated_lines": 0.9,
        "max_repeated_phrase": 0.8,
    },
}
"""Rules that a source changes in a profile, unless they were given."""


def adapted(profile: str | CleanProfile, source: str) -> CleanProfile:
    """Return the rules for a source: a named profile or given rules, and the others as the source needs them."""
    rules = PROFILES[profile] if isinstance(profile, str) else profile
    needed = SOURCES.get(source, {})
    return rules.model_copy(update={name: needed[name] for name in needed.keys() - rules.model_fields_set})


def laid_over(rules: CleanProfile, given: CleanProfile) -> CleanProfile:
    """Return rules in which given ones replace their own."""
    return rules.model_copy(update={name: getattr(given, name) for name in given.model_fields_set})


def read_profile(given: Any) -> Any:
    """Read a profile from a preset: a known name, or rules whose keys are known.

    Raises:
        ValueError: the name or a key is unknown; the message lists the names, or suggests a key.
    """
    if isinstance(given, str):
        if given not in PROFILES:
            raise ValueError(f"unknown profile {given!r}; known profiles: {', '.join(PROFILES)}")
        return given
    if not isinstance(given, Mapping):
        return given
    problems = []
    for key in sorted(given.keys() - CleanProfile.model_fields.keys()):
        close = difflib.get_close_matches(str(key), CleanProfile.model_fields, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"known keys: {', '.join(CleanProfile.model_fields)}"
        problems.append(f"unknown key {key!r}; {hint}")
    if problems:
        raise ValueError("; ".join(problems))
    try:
        return CleanProfile.model_validate(given)
    except ValidationError as error:
        raise ValueError("; ".join(f"{_place(one['loc'])}: {one['msg']}" for one in error.errors())) from error


def _place(location: tuple[int | str, ...]) -> str:
    return ".".join(map(str, location))
