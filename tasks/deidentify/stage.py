"""Stage `deidentify`: identifiers of persons in clinical text are replaced by typed placeholders.

What counts as one is in `tasks/deidentify/identifier_types.py` and `tasks/deidentify/names.py`. Rules miss some
identifiers: benchmarks/results has measured figures, and text that must not leak has to be checked by a person too.
Time grows with the characters, memory with one part.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pydantic import field_validator

from infra.arrays.batching import batches_of
from infra.artifacts import Artifact, Part
from infra.builds import PartWriter
from infra.stage import Output, StageParams, stage
from tasks.deidentify.document_persons import meta_may_name, speakers
from tasks.deidentify.find import may_hold
from tasks.deidentify.treatment import Treatment
from tasks.deidentify.untreated import count_untreated
from tasks.documents import document_id, meta_json, source_called, warn_of_absent_sources

DIALOGUE = "dialogue"
"""Source whose documents are turns, one per line."""


class DeidentifyParams(StageParams):
    """Rules of which documents are treated."""

    sources: tuple[str, ...] = ("emr", "dialogue")
    """Sources whose documents are treated; documents of other sources stay as they are."""

    @field_validator("sources")
    @classmethod
    def _called(cls, sources: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(source_called, sources))


@stage(name="deidentify", version=8, params=DeidentifyParams, tables=("documents",))
def deidentify_documents(inputs: Mapping[str, Artifact], params: DeidentifyParams, out: Output) -> None:
    """Treat title, text and the values of `meta` in `inputs["documents"]`, part by part."""
    warn_of_absent_sources("deidentify.sources", params.sources, inputs["documents"])
    out.map(deidentify_part, inputs["documents"].parts("documents"), params)


def deidentify_part(part: PartWriter, documents: Part, params: DeidentifyParams) -> None:
    """Treat one part. The counters hold types and numbers; nothing that was replaced is written anywhere."""
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
    """Yield the rows among some that may hold an identifier, and whether their `meta` may; batch by batch."""
    for batch in batches_of(places, length=lambda place: len(columns["text"][place])):
        texts, titles = ([columns[name][place] for place in batch] for name in ("text", "title"))
        # {"姓名": "王芳"} is read as 姓名：王芳
        held = [columns["meta"][place] for place in batch]
        metas = may_hold([meta.replace('": ', "：") for meta in held]) | np.array([*map(meta_may_name, held)])
        spoken = [columns["source"][place] == DIALOGUE and bool(speakers(columns["text"][place])) for place in batch]
        suspected = metas | may_hold(texts) | may_hold(titles) | np.array(spoken)
        yield from ((place, meta) for place, meta, is_it in zip(batch, metas.tolist(), suspected, strict=True) if is_it)


def _treat(row: dict[str, Any], meta_may_hold: bool) -> Counter[str]:
    """Replace the identifiers of a row in place, and return their number by type."""
    treatment = Treatment()
    meta = json.loads(row["meta"]) if meta_may_hold else None
    title, text = row["title"], row["text"]
    of_text = treatment.of_turns if row["source"] == DIALOGUE else treatment.of
    known = -1
    while known < len(treatment.names):  # the text may give a name that the title, treated before it, holds too
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
