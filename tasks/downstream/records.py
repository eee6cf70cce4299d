"""Downstream examples in one form, whatever file they came from.

A reader turns an official file into `Record`s. A model turns records without answers into answers of the same shape.
Metrics compare answers with answers, and a submission writes them in the official form. The kind of a task determines
the shape of an answer:

| kind | texts | answer |
|---|---|---|
| SINGLE | (text,) | label: str |
| PAIR | (text, text) | label: str |
| MULTI_LABEL | (text,) | labels: tuple of str, in the task's order |
| RANKING | (question, candidate) | "1" right, "0" wrong; `group` names the question |
| CHOICE | (evidence, question, option, option, …) | number of the right option, from 0: int |
| TAGGING | (text,) | entities: tuple of Entity; none overlap |
| NESTED_TAGGING | (text,) | entities: tuple of Entity; one may contain another |
| TRIPLES | (text,) | triples: tuple of Triple |
| NORMALISATION | (mention,) | standard terms: tuple of str |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Kind(StrEnum):
    """Shape of a task; see the module's table."""

    SINGLE = "single"
    PAIR = "pair"
    MULTI_LABEL = "multi_label"
    RANKING = "ranking"
    CHOICE = "choice"
    TAGGING = "tagging"
    NESTED_TAGGING = "nested_tagging"
    TRIPLES = "triples"
    NORMALISATION = "normalisation"


@dataclass(frozen=True, slots=True, order=True)
class Entity:
    """`text[start:end]` is an entity of this type. Offsets count characters (code points); `end` is exclusive."""

    start: int
    end: int
    type: str


@dataclass(frozen=True, slots=True, order=True)
class Triple:
    """A relation between two strings of the text; like CMeIE's, it has no offsets."""

    subject: str
    subject_type: str
    predicate: str
    object: str
    object_type: str


Answer = str | int | tuple[str, ...] | tuple[Entity, ...] | tuple[Triple, ...]


@dataclass(frozen=True, slots=True)
class Record:
    """One example. `answer` is None where the file has none (a test file)."""

    record_id: str
    """Identifier, unique within its file: the official id, or the record's number from 0."""
    texts: tuple[str, ...]
    answer: Answer | None = None
    group: str | None = None
    """RANKING: identifier shared by the candidates of one question."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """The official record's other fields, which a submission returns unchanged."""
