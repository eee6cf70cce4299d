"""Stage `deidentify`: identifiers of persons in clinical text give way to typed placeholders.

What counts as one, and how it is found, is in tasks/deidentify/find.py and tasks/deidentify/names.py. Rules miss some:
measured figures are in benchmarks/results, and text that must not leak goes past a person too. Time grows with the
characters, memory with one part.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from pydantic import field_validator

from infra.arrays.batching import batches_of
from infra.artifacts import Artifact, Part
from infra.builds import PartWriter
from infra.stage import Output, StageParams, stage
from tasks.deidentify.document_persons import OF_ANYTHING, cue_of, in_path, is_path, meta_may_name, speakers
from tasks.deidentify.find import Identifier, find_identifiers, may_hold, names_of, replace
from tasks.deidentify.untreated import count_untreated
from tasks.documents import document_id, meta_json, source_called, warn_of_absent_sources

DIALOGUE = "dialogue"
"""The source whose documents are turns, a line each."""

_WHOLE_NUMBER = re.compile(r"\d{5,20}\.0$")
"""A number as a table makes it of a column with gaps: 13812345678.0."""


def deidentify(text: str) -> tuple[str, dict[str, int]]:
    """The text with a placeholder such as 〔手机号〕 for each identifier, and how many of each type there were.

    The types are the keys of `tasks.deidentify.find.PLACEHOLDERS`; those that do not occur are not counted. Doing it
    again changes nothing.
    """
    treatment = Treatment()
    return treatment.of(text), dict(treatment.counts)


@dataclass
class Treatment:
    """Replaces identifiers in the texts of one document; a name found in one of them is known in the others."""

    counts: Counter[str] = field(default_factory=Counter)
    names: set[str] = field(default_factory=set)

    def of(self, text: str) -> str:
        """The text with placeholders."""
        if not text:
            return text
        while found := find_identifiers(text, self.names):  # what stands beside one may become one: each round
            text = self._replaced(text, found)  # leaves less text
        return text

    def of_value(self, key: str, value: Any) -> Any:
        """A value of `meta`. Keys stay, and are read as cues: {"姓名": …}, {"住院号": …}."""
        if isinstance(value, dict):
            return {name: self.of_value(name, inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [self.of_value(key, inner) for inner in value]
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            return value
        clear = str(value)
        if is_path(key):
            found = in_path(clear)
            # A folder may be called 平片; a person's file has a number beside the name.
            treated = self._replaced(clear, found, known=any(one.type != "name" for one in found))
        else:
            cue = cue_of(key)
            if _WHOLE_NUMBER.match(clear):
                clear = clear.removesuffix(".0")
            found = tuple(i for i in find_identifiers(cue + clear, self.names) if i.start >= len(cue))
            treated = self._replaced(cue + clear, found, known=cue != OF_ANYTHING)[len(cue) :]
        treated = self.of(treated)
        return value if treated == clear else treated

    def of_turns(self, text: str) -> str:
        """The text of a dialogue, in which persons may stand as speakers before their lines."""
        return self.of(self._replaced(text, speakers(text)))

    def _replaced(self, text: str, found: Sequence[Identifier], known: bool = True) -> str:
        """The text with placeholders for some identifiers of it, which are counted; their names are looked for in the
        other texts where they are `known` to be names.
        """
        self.counts.update(identifier.type for identifier in found)
        if known:
            self.names |= names_of(text, found)
        return replace(text, found)


class DeidentifyParams(StageParams):
    """Which documents are treated."""

    sources: tuple[str, ...] = ("emr", "dialogue")
    """Sources whose documents are treated; those of others pass as they are."""

    @field_validator("sources")
    @classmethod
    def _called(cls, sources: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(source_called, sources))


@stage(name="deidentify", version=6, params=DeidentifyParams, tables=("documents",))
def deidentify_documents(inputs: Mapping[str, Artifact], params: DeidentifyParams, out: Output) -> None:
    """Treat title, text and the values of `meta` in `inputs["documents"]`, part by part."""
    warn_of_absent_sources("deidentify.sources", params.sources, inputs["documents"])
    out.map(deidentify_part, inputs["documents"].parts("documents"), params)


def deidentify_part(part: PartWriter, documents: Part, params: DeidentifyParams) -> None:
    """Treat one part. The counters tell types and numbers; nothing that was replaced is written anywhere."""
    table = documents.read()
    part.count("documents_in", table.num_rows)
    columns = {name: table[name].to_pylist() for name in table.column_names}
    changed = 0
    treated = [place for place, source in enumerate(columns["source"]) if source in params.sources]
    for place, meta_may_hold in _suspected(columns, treated):
        row = {name: values[place] for name, values in columns.items()}
        counts = _treat(row, meta_may_hold)
        if counts:
            changed += 1
            for kind, number in counts.items():
                part.count(f"replaced_{kind}", number)
            for name, value in row.items():
                columns[name][place] = value
    if treated:
        part.count("documents_treated", len(treated))
        part.count("documents_changed", changed)
    if len(treated) < table.num_rows:
        part.counters.update(count_untreated(columns["source"], columns["text"], params.sources))
    part.write("documents", pa.table(columns, schema=table.schema) if changed else table)


def _suspected(columns: Mapping[str, Sequence[str]], places: Sequence[int]) -> Iterator[tuple[int, bool]]:
    """The rows among some that are worth a look, and whether their `meta` is; batch by batch."""
    for batch in batches_of(places, length=lambda place: len(columns["text"][place])):
        texts, titles = ([columns[name][place] for place in batch] for name in ("text", "title"))
        # What stands before a value in JSON is its key: a cue, as if it were written 姓名：
        held = [columns["meta"][place] for place in batch]
        metas = may_hold([meta.replace('": ', "：") for meta in held]) | np.array([*map(meta_may_name, held)])
        spoken = [columns["source"][place] == DIALOGUE and bool(speakers(columns["text"][place])) for place in batch]
        suspected = metas | may_hold(texts) | may_hold(titles) | np.array(spoken)
        yield from ((place, meta) for place, meta, is_it in zip(batch, metas.tolist(), suspected, strict=True) if is_it)


def _treat(row: dict[str, Any], meta_may_hold: bool) -> Counter[str]:
    """Change a row where it holds an identifier; returns how many of each type it held."""
    treatment = Treatment()
    meta = json.loads(row["meta"]) if meta_may_hold else None
    title, text = row["title"], row["text"]
    of_text = treatment.of_turns if row["source"] == DIALOGUE else treatment.of
    known = -1
    while known < len(treatment.names):  # again where the text named somebody whom the title names too
        known = len(treatment.names)
        if meta is None and known:
            meta = json.loads(row["meta"])
        if meta is not None:
            meta = treatment.of_value("", meta)
        title, text = treatment.of(title), of_text(text)
    if treatment.counts:
        row |= {"doc_id": document_id(row["source"], title, text), "title": title, "text": text}
        if meta is not None:
            row["meta"] = meta_json(meta)
    return treatment.counts
