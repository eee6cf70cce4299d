"""Stage `clean`: what is no text goes, documents that are none are dropped with their reason.

A profile is a set of rules (`tasks/clean_profile.py`); those of the papers are presets, and a source may have one of
its own. Case, full-width forms and numerals stay as they are: the tokeniser normalises them. Time grows with the
characters, memory with one part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field, field_validator

from infra.artifacts import Artifact, Part
from infra.builds import PartWriter
from infra.stage import Output, StageParams, stage
from tasks.characters import all_counts, all_needs
from tasks.clean_profile import PROFILES, SOURCES, CleanProfile, adapted, read_profile
from tasks.documents import document_id
from tasks.text_filters import problem_of
from tasks.text_rules import clean_counted, clean_text

__all__ = ["PROFILES", "SOURCES", "CleanParams", "CleanProfile", "clean", "clean_part", "clean_text"]

ROWS_AT_ONCE = 1_000
"""Documents that are held as Python objects at once."""


class CleanParams(StageParams):
    """The profile by name, or its rules; and those of single sources."""

    profile: str | CleanProfile = "ehealth"
    profiles: dict[str, str | CleanProfile] = Field(
        default_factory=dict, description="by source (dialogue, article, emr, textbook …), in the place of `profile`"
    )

    @field_validator("profile", mode="before")
    @classmethod
    def _known(cls, profile: Any) -> Any:
        return read_profile(profile)

    @field_validator("profiles", mode="before")
    @classmethod
    def _all_known(cls, profiles: Any) -> Any:
        if not isinstance(profiles, Mapping):
            return profiles
        return {source: _read_for(source, profile) for source, profile in profiles.items()}

    def rules(self, source: str) -> CleanProfile:
        """The rules for documents of a source."""
        return adapted(self.profiles.get(source, self.profile), source)


@stage(name="clean", version=2, params=CleanParams, tables=("documents", "rejects"))
def clean(inputs: Mapping[str, Artifact], params: CleanParams, out: Output) -> None:
    """Clean `inputs["documents"]`, part by part."""
    out.map(clean_part, inputs["documents"].parts("documents"), params)


def clean_part(part: PartWriter, documents: Part, params: CleanParams) -> None:
    """Clean one part."""
    rules: dict[str, CleanProfile] = {}
    for batch in documents.read().to_batches(max_chunksize=ROWS_AT_ONCE):
        rows = batch.to_pylist()
        for source in {row["source"] for row in rows} - rules.keys():
            rules[source] = params.rules(source)
        removed: list[Counter[str]] = [Counter() for _ in rows]
        texts = [
            clean_counted(row["text"], rules[row["source"]], counter, needs)
            for row, counter, needs in zip(rows, removed, all_needs([row["text"] for row in rows]), strict=True)
        ]
        cleaned = [
            _clean_row(part, row, text, rules[row["source"]], counter, counts)
            for row, text, counter, counts in zip(rows, texts, removed, all_counts(texts), strict=True)
        ]
        part.count("documents_in", len(rows))
        part.write("documents", [row for row in cleaned if row is not None])


def _clean_row(
    part: PartWriter,
    row: dict[str, Any],
    text: str,
    rules: CleanProfile,
    removed: Counter[str],
    counts: Sequence[int],
) -> dict[str, Any] | None:
    """The row with its cleaned text, or None where it was rejected."""
    problem = problem_of(text, row["text"], rules, counts)
    if problem:
        reason, detail = problem
        part.reject(doc_id=row["doc_id"], source=row["source"], reason=reason, detail=detail, text=text)
        return None
    removed["characters_removed"] = len(row["text"]) - len(text)
    removed["replacement_characters"] = row["text"].count("\ufffd")
    for name, amount in removed.items():
        if amount:
            part.count(name, amount)
    title = _clean_title(row["title"], rules)
    return {**row, "doc_id": document_id(row["source"], title, text), "title": title, "text": text}


def _clean_title(title: str, rules: CleanProfile) -> str:
    """A title is one line, whatever its phrases: the rules for lines do not ask for it."""
    if not title:
        return ""
    of_titles = rules.model_copy(update={"drop_boilerplate": False, "join_lines": False, "collapse_repeats": False})
    return clean_text(title, of_titles).replace("\n", " ")


def _read_for(source: str, profile: Any) -> Any:
    try:
        return read_profile(profile)
    except ValueError as error:
        raise ValueError(f"source {source!r}: {error}") from error
