"""Profiles of the stage `clean`: the rules for one kind of source, and those of the papers as presets."""

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


class CleanProfile(BaseModel):
    """Rules of one kind of source. A share is a bound on part of the characters that are no blanks.

    Which of them were given matters: the others may be adapted to the source. So only those given are written down.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    strip_markup: bool = Field(default=True, description="HTML tags, comments, scripts and entities")
    strip_addresses: bool = Field(default=False, description="URLs and e-mail addresses")
    only_text: bool = Field(default=False, description="keep letters, digits, punctuation and signs only")
    simplify: bool = Field(default=False, description="Traditional characters to Simplified ones, by phrases (OpenCC)")
    join_lines: bool = Field(default=False, description="join lines that were broken at the width of a page")
    collapse_repeats: bool = Field(default=False, description="of equal lines in a row keep the first")
    drop_boilerplate: bool = Field(default=True, description="short lines that are a portal's phrases go")
    boilerplate: tuple[str, ...] = Field(default=(), description="more phrases that make a short line boilerplate")
    min_characters: int = Field(default=1, ge=1, description="shorter documents are dropped")
    min_han_share: float = Field(default=0.1, ge=0, le=1, description="least share of Chinese characters")
    languages: tuple[Language, ...] = Field(
        default=("zh",), min_length=1, description="those kept of the languages that East Asian scripts tell apart"
    )
    max_symbol_share: float = Field(default=0.7, ge=0, le=1, description="share of digits, punctuation and symbols")
    max_repeated_lines: float = Field(default=0.5, ge=0, le=1, description="share of lines that stood there before")
    max_repeated_phrase: float = Field(default=0.4, ge=0, le=1, description="share of the most frequent 10 characters")
    max_replaced: float = Field(default=0.01, ge=0, le=1, description="share of U+FFFD, where decoding failed")

    @model_serializer(mode="wrap")
    def _as_given(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in write(self).items() if name in self.model_fields_set}

    @field_validator("boilerplate")
    @classmethod
    def _phrases(cls, phrases: tuple[str, ...]) -> tuple[str, ...]:
        for phrase in phrases:
            if len(phrase.strip()) < 2 or "\n" in phrase:
                raise ValueError(f"{phrase!r} is no phrase: give two characters at least, on one line")
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
"""eHealth, section 4.1: "minimum pre-processing of deduplication and denoising". SMedBERT, appendix A.1.1: URLs, HTML
tags, e-mail addresses and all tokens except characters, digits and punctuation go, and so do documents shorter than
256. EMBERT, section 4.1: "similar to that of BERT", so the same minimum as eHealth's.
"""

SOURCES: Mapping[str, Mapping[str, Any]] = {
    "textbook": {"join_lines": True},
    "dialogue": {"max_symbol_share": 0.9, "max_repeated_lines": 0.7, "max_repeated_phrase": 0.6},
    # A record is what a hospital wrote: tables of digits and the same sentence every day belong to it.
    "emr": {
        "drop_boilerplate": False,
        "min_han_share": 0.0,
        "max_symbol_share": 1.0,
        "max_repeated_lines": 0.9,
        "max_repeated_phrase": 0.8,
    },
}
"""What a source changes in a profile, but for rules that were given."""


def adapted(profile: str | CleanProfile, source: str) -> CleanProfile:
    """The rules for a source: those of a name, or some that were given; the others are as the source needs them."""
    rules = PROFILES[profile] if isinstance(profile, str) else profile
    needed = SOURCES.get(source, {})
    return rules.model_copy(update={name: needed[name] for name in needed.keys() - rules.model_fields_set})


def laid_over(rules: CleanProfile, given: CleanProfile) -> CleanProfile:
    """Rules in which those that were given stand in the place of their own."""
    return rules.model_copy(update={name: getattr(given, name) for name in given.model_fields_set})


def read_profile(given: Any) -> Any:
    """A profile from a preset: a known name, or rules whose keys are known.

    Raises:
        ValueError: it is neither; the message names the nearest name or key.
    """
    if isinstance(given, str):
        if given not in PROFILES:
            raise ValueError(f"there is no profile {given!r}; there are {', '.join(PROFILES)}")
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
