"""Tables in the place of artifacts of stages that a test does not run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import polars as pl
import pyarrow as pa

from tasks.phrases.stage import PENALTY, POSITIVES, WORDS

PHRASE_COLUMNS = {
    "surface": pl.String,
    "words": pl.List(pl.String),
    "quality": pl.Float64,
    "frequency": pl.Int64,
    "labelled_by": pl.String,
}
KG_COLUMNS = {
    "entity_id": pl.String,
    "name": pl.String,
    "aliases": pl.List(pl.String),
    "type": pl.String,
    "sources": pl.List(pl.String),
}


@dataclass(frozen=True)
class GivenTable:
    """An artifact with one table, as far as stages read it."""

    stage: str
    frame: pl.DataFrame
    files: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)

    @property
    def manifest(self) -> SimpleNamespace:
        return SimpleNamespace(params=self.params)

    def read_file(self, name: str) -> bytes:
        return self.files[name].encode()

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(json.dumps(self.frame.to_dicts()).encode()).hexdigest()[:32]

    def scan(self, table: str) -> pl.LazyFrame:
        assert table == self.stage
        return self.frame.lazy()

    def to_table(self, table: str) -> pa.Table:
        assert table == self.stage
        return self.frame.to_arrow()


def given_phrases(*rows: tuple[Sequence[str], float, str]) -> GivenTable:
    """Phrases of the embedded engine; a row is the words, the quality and who labelled it."""
    records = [
        {"surface": "".join(words), "words": list(words), "quality": quality, "frequency": 10, "labelled_by": label}
        for words, quality, label in rows
    ]
    vocabulary = dict.fromkeys(word for words, *_ in rows for word in words)
    files = {WORDS: "\n".join(vocabulary), PENALTY: "1.0", POSITIVES: ""}
    params = {"engine": "embedded", "unit": "words"}
    return GivenTable("phrases", pl.DataFrame(records, schema=PHRASE_COLUMNS), files, params)


def given_graph(*rows: tuple[str, str, Sequence[str], str]) -> GivenTable:
    """A table kg_entities; a row is id, name, aliases and type."""
    records: list[dict[str, Any]] = [
        {"entity_id": entity_id, "name": name, "aliases": list(aliases), "type": kind, "sources": ["test"]}
        for entity_id, name, aliases, kind in rows
    ]
    return GivenTable("kg_entities", pl.DataFrame(records, schema=KG_COLUMNS))
