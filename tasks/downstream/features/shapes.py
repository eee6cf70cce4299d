"""Shape of a task's records in tokens: everything that a saved model must remember about its task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from tasks.downstream.features import bioes
from tasks.downstream.features.alignment import TextTokenizer
from tasks.downstream.features.base import RIGHT, WRONG, Choices, Classes, Features, Shape
from tasks.downstream.features.spans import Tags
from tasks.downstream.features.triples import PairTypes, Relations
from tasks.downstream.readers.read import labels_of
from tasks.downstream.records import Kind, Record, Triple
from tasks.downstream.spec import TaskSpec


class TaskShape(BaseModel):
    """Conversion of records into a head's inputs and back; stored in `task.json` beside the weights."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    task: str
    kind: Kind
    head: str
    max_length: int
    labels: tuple[str, ...]
    """Classes, entity types or predicates, by number."""
    streams: tuple[tuple[str, ...], ...] = ()
    """Entity types of each stream of tags; empty unless the task is tagging."""
    pair_types: tuple[tuple[str, str, str, str, str], ...] = ()
    """TRIPLES: rows of `PairTypes`."""
    text_fields: tuple[str, ...] = Field(default=(), exclude_if=lambda value: not value)
    """Columns of the texts in the user's own file; empty for a benchmark's task, whose fields are in the catalogue."""

    @property
    def head_options(self) -> dict[str, Any]:
        """Arguments of `models.heads.build` that depend on the task."""
        tags = [bioes.number_of_tags(len(types)) for types in self.streams]
        if self.kind is Kind.NESTED_TAGGING:
            return {"num_labels": tags}
        if self.kind is Kind.CHOICE or self.head == "ranking":  # the latter: models of before November 2026
            return {}
        if self.kind is Kind.RANKING:
            return {"num_labels": len((WRONG, RIGHT))}
        return {"num_labels": tags[0] if tags else len(self.labels)}

    @property
    def output_labels(self) -> tuple[str, ...] | None:
        """Names of the head's outputs for transformers' `id2label`; None if it has several sets of outputs, or none."""
        if self.kind is Kind.RANKING:
            return (RIGHT,) if self.head == "ranking" else (WRONG, RIGHT)
        if self.kind is Kind.TAGGING:
            return tuple(bioes.begin_inside_names(self.streams[0]))
        return None if self.kind in (Kind.CHOICE, Kind.NESTED_TAGGING, Kind.TRIPLES) else self.labels

    def features(self, tokenizer: TextTokenizer) -> Features:
        """Return the encoder and decoder of the task's records."""
        return Features(self._shape(tokenizer))

    def _shape(self, tokenizer: TextTokenizer) -> Shape:
        if self.kind is Kind.CHOICE:
            return Choices(tokenizer, self.max_length)
        if self.streams:
            return Tags(self.streams, tokenizer, self.max_length)
        if self.kind is Kind.TRIPLES:
            return Relations(self.labels, PairTypes.from_json(self.pair_types), tokenizer, self.max_length)
        return Classes(self.kind, self.labels, tokenizer, self.max_length)


def shape_of(
    spec: TaskSpec, train: Sequence[Record], max_length: int | None = None, text_fields: tuple[str, ...] = ()
) -> TaskShape:
    """Return the shape of a task, with the benchmark's labels, or those of the training records if it fixes none."""
    labels = labels_of(spec, train)
    streams: tuple[tuple[str, ...], ...] = ()
    if spec.kind is Kind.TAGGING:
        streams = (labels,)
    if spec.kind is Kind.NESTED_TAGGING:
        # The outer entities (symptoms of CMeEE) have a stream of their own, so that the others may lie inside them.
        streams = (spec.nested_types, tuple(label for label in labels if label not in spec.nested_types))
    triples = [triple for record in train for triple in _triples(record)]
    return TaskShape(
        task=spec.name,
        kind=spec.kind,
        head=spec.head,
        max_length=max_length or spec.max_length,
        labels=labels,
        streams=streams,
        pair_types=tuple(tuple(row) for row in PairTypes.of(triples).to_json()),  # type: ignore[misc]
        text_fields=text_fields,
    )


def _triples(record: Record) -> list[Triple]:
    answer = record.answer
    return [one for one in answer if isinstance(one, Triple)] if isinstance(answer, tuple) else []
