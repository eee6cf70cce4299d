"""Entities marked in the text's own lines: one character and its tag per line, or spans after the text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from infra.errors import UserError
from tasks.downstream.readers.json import read_mentions
from tasks.downstream.readers.source_text import source_text
from tasks.downstream.spec import Row, TaskSpec

_TAG = re.compile(r"([BIMEOS])(?:[-_](.+))?")
"""Pattern of a tag: matches "B-dis", "I_sym" and "O", and not "X-dis". `_tag` refuses "B" and "O-dis"."""


def read_bio(path: Path, spec: TaskSpec) -> Iterator[Row]:
    """Read one character (or word) and its tag per line, blank lines between examples: BIO, BMES and BIOES.

    Words are joined without spaces. An I, M or E that continues nothing begins an entity, as for the CoNLL scorer.
    Lines without tags belong to a test file.

    Raises:
        UserError: a tag is malformed, or an example has lines with and without tags.
    """
    words: list[str] = []
    tags: list[tuple[str, str]] = []
    first = 1
    for number, line in enumerate([*source_text(path).split("\n"), ""], 1):
        if line.strip():
            if not words:
                first = number
            # A space can be the character itself: " \tO" is a space outside any entity.
            word, _, tag = line.rpartition("\t") if "\t" in line else line.strip().partition(" ")
            tag = tag.strip()
            word = word if word or "\t" in line else line.strip()
            words.append(word)
            if tag:
                tags.append(_tag(path, number, tag))
        elif words:
            yield _sentence(path, first, words, tags)
            words, tags = [], []


def _tag(path: Path, number: int, tag: str) -> tuple[str, str]:
    found = _TAG.fullmatch(tag)
    if not found or (found[1] == "O") != (found[2] is None):
        raise UserError(f"{path}, line {number}: {tag!r} is not a tag. Use B-type, I-type, O and the like.")
    return found[1], found[2] or ""


def _sentence(path: Path, first: int, words: Sequence[str], tags: Sequence[tuple[str, str]]) -> Row:
    if tags and len(tags) != len(words):
        raise UserError(
            f"{path}, lines {first} to {first + len(words) - 1}: {len(words)} words but {len(tags)} tags; "
            "give every line of an example a tag, or none."
        )
    fields: dict[str, Any] = {"text": "".join(words)}
    if tags:
        fields["entities"] = spans_of_tags(words, tags)
    return Row(f"line {first}", fields)


def spans_of_tags(words: Sequence[str], tags: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """Return the entities that tags mark, in characters of the joined words."""
    entities: list[dict[str, Any]] = []
    open_type = ""
    place = 0
    for word, (sign, kind) in zip(words, tags, strict=True):
        if sign in "IME" and kind == open_type:
            entities[-1]["end"] = place + len(word)
        elif sign != "O":
            entities.append({"start": place, "end": place + len(word), "type": kind, "mention": None})
        open_type = kind if sign in "BIM" else ""
        place += len(word)
    return entities


def read_chineseblue(path: Path, spec: TaskSpec) -> Iterator[Row]:
    """Read cMedQANER and cEHRNER, published both as JSON lines in .json and as tags in .txt, where none overlap."""
    return read_mentions(path, spec) if path.suffix == ".json" else read_bio(path, spec)


def read_piped(path: Path, spec: TaskSpec) -> Iterator[Row]:
    """Read CHIP 2020's cNNER: `text|||start end type|||…|||` with inclusive ends; a test file has texts only.

    Raises:
        UserError: a span is malformed.
    """
    for number, line in enumerate(source_text(path).split("\n"), 1):
        if not line.strip():
            continue
        text, *spans = line.split("|||")
        fields: dict[str, Any] = {"text": text}
        if spans:
            fields["entities"] = [_span(path, number, span) for span in spans if span.strip()]
        yield Row(f"line {number}", fields)


def _span(path: Path, number: int, span: str) -> dict[str, Any]:
    parts = span.split()
    if len(parts) != 3 or not (parts[0].isdecimal() and parts[1].isdecimal()):
        raise UserError(f"{path}, line {number}: {span!r} is not a span. Use `start end type`.")
    return {"start": int(parts[0]), "end": int(parts[1]) + 1, "type": parts[2], "mention": None}
