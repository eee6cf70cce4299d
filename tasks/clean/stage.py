"""Stage `clean`: removes everything that is not text, and drops unusable documents with a reason.

A profile is a set of rules (`tasks/clean/profile.py`). The rules of the papers are presets, and a source may have a
profile of its own. Case, full-width forms and numerals stay as they are: the tokeniser normalises them. Time grows
with the characters, memory with one part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pydantic import Field, field_validator

from infra.artifacts import Artifact, Part
from infra.builds import PartWriter
from infra.stage import Output, StageParams, stage
from tasks.clean.filters import problems_of
from tasks.clean.profile import PROFILES, SOURCES, CleanProfile, adapted, laid_over, read_profile
from tasks.clean.rules import clean_all, clean_text
from tasks.documents import document_id, source_called, warn_of_absent_sources

__all__ = ["PROFILES", "SOURCES", "CleanParams", "CleanProfile", "clean", "clean_part", "clean_text"]

IS_OF_PAGES = '"page_lines": true'
"""Part of the meta of a document with the lines of pages; no other text has it, as quotes are escaped in a value."""

ROWS_AT_ONCE = 1_000
"""Documents held as Python objects at once."""


class CleanParams(StageParams):
    """Profile of all documents, and of single sources."""

    profile: str | CleanProfile = "ehealth"
    """Name of a profile, or rules."""
    profiles: dict[str, str | CleanProfile] = Field(
        default_factory=dict,
        description=(
            "Profiles by source (dialogue, article, emr, textbook …): a name replaces `profile`, rules override those "
            "of `profile`."
        ),
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
        return {source_called(source): _read_for(source, profile) for source, profile in profiles.items()}

    def rules(self, source: str) -> CleanProfile:
        """Return the rules for documents of a source: its own, over the profile as the source needs it."""
        own = self.profiles.get(source, self.profile)
        return laid_over(adapted(self.profile, source), own) if isinstance(own, CleanProfile) else adapted(own, source)


@stage(name="clean", version=4, params=CleanParams, tables=("documents", "rejects"), heavy=True)
def clean(inputs: Mapping[str, Artifact], params: CleanParams, out: Output) -> None:
    """Clean `inputs["documents"]`, part by part."""
    warn_of_absent_sources("clean.profiles", params.profiles, inputs["documents"])
    out.map(clean_part, inputs["documents"].parts("documents"), params)


def clean_part(part: PartWriter, documents: Part, params: CleanParams) -> None:
    """Clean one part."""
    rules: dict[str, CleanProfile] = {}
    for batch in documents.read().to_batches(max_chunksize=ROWS_AT_ONCE):
        columns = {name: batch.column(name).to_pylist() for name in batch.schema.names}
        for source in set(columns["source"]) - rules.keys():
            rules[source] = params.rules(source)
        part.count("documents_in", batch.num_rows)
        rows = zip(columns["source"], columns["meta"], strict=True)
        part.write("documents", _clean_batch(part, columns, [_for_pages(rules[source], meta) for source, meta in rows]))


def _for_pages(rules: CleanProfile, meta: str) -> CleanProfile:
    """Return rules that also join the lines of a document whose lines ended at the width of a page, as in a PDF."""
    if IS_OF_PAGES not in meta or "join_lines" in rules.model_fields_set:
        return rules
    return rules.model_copy(update={"join_lines": True})


def _clean_batch(part: PartWriter, columns: dict[str, list[str]], rules: Sequence[CleanProfile]) -> pa.Table:
    """Return the documents that stay, cleaned; the others are written to the rejects."""
    raws = columns["text"]
    cleaned = clean_all(raws, rules)
    texts = [text for text, _ in cleaned]
    kept = []
    for number, problem in enumerate(problems_of(texts, raws, rules)):
        if problem is None:
            kept.append(number)
            continue
        doc_id, source = columns["doc_id"][number], columns["source"][number]
        part.reject(
            doc_id=doc_id, source=source, reason=problem[0], detail=problem[1], text=texts[number] or raws[number]
        )
    counters: Counter[str] = Counter()
    for number in kept:
        raw, text, title, source = raws[number], texts[number], columns["title"][number], columns["source"][number]
        cleaned_title = _clean_title(title, rules[number])
        if text == raw and cleaned_title == title:
            continue
        counters.update(cleaned[number][1])
        counters["characters_removed"] += len(raw) - len(text)
        columns["title"][number] = cleaned_title
        columns["doc_id"][number] = document_id(source, cleaned_title, text)
    counters["replacement_characters"] = sum(raws[number].count("\ufffd") for number in kept)
    for name, amount in counters.items():
        if amount:
            part.count(name, amount)
    columns["text"] = texts
    return pa.table({name: [values[number] for number in kept] for name, values in columns.items()})


def _clean_title(title: str, rules: CleanProfile) -> str:
    """Clean a title. It is one line, to which the rules for lines do not apply."""
    if not title:
        return ""
    of_titles = rules.model_copy(update={"drop_boilerplate": False, "join_lines": False, "collapse_repeats": False})
    return clean_text(title, of_titles).replace("\n", " ")


def _read_for(source: str, profile: Any) -> Any:
    try:
        return read_profile(profile)
    except ValueError as error:
        raise ValueError(f"source {source!r}: {error}") from error
