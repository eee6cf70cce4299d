"""Figures of a corpus: how much of each sub-domain, how long, what was dropped on the way and why.

Time grows with what was dropped and with the ids of the documents, which are gone through in streams; memory with the
number of sources, reasons and samples, and one part.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from infra.artifacts import Artifact
from infra.builds import MAX_EXCERPT
from tasks.deidentify.stage import Treatment, deidentify
from tasks.segment.lengths import LENGTH_BINS

SAMPLES = 3
"""Examples that are shown of each kind."""

EXCERPT = 120
"""Characters of an example."""


def summarise(stages: Mapping[str, Artifact]) -> dict[str, Any]:
    """All figures, as plain JSON values.

    Args:
        stages: the artifacts of the corpus flow by the name of their stage, in the order in which they were made:
            those with a table documents, and segment, which has counted how long the last documents are.
    """
    documents = [artifact for artifact in stages.values() if "documents" in artifact.manifest.tables]
    segments = stages["segment"]
    lengths = segments.to_table("lengths")
    lengths = pl.DataFrame(lengths).group_by("counted", "source", "bin").agg(pl.col("rows", "length", "bytes").sum())
    written, cut = (lengths.filter(pl.col("counted") == name) for name in ("documents", "segments"))
    return {
        "sources": _sources(written, cut),
        "tokens_are_counted": "vocabulary" in segments.manifest.inputs,
        "steps": [
            {"stage": artifact.stage, "documents": artifact.rows("documents"), "fingerprint": artifact.fingerprint}
            for artifact in documents
        ],
        "document_lengths": _lengths(written),
        "segment_lengths": _lengths(cut),
        "dropped": _dropped(stages),
        "duplicates": _duplicates(stages),
        "replaced": _replaced(stages),
        "is_decontaminated": "decontaminate" in stages,
        "contamination": _contamination(stages),
    }


def _sources(written: pl.DataFrame, cut: pl.DataFrame) -> list[dict[str, Any]]:
    """A row for each sub-domain and one for all: the columns of eHealth's Table 1 and some more."""
    documents = written.group_by("source").agg(
        documents=pl.col("rows").sum(), bytes=pl.col("bytes").sum(), characters=pl.col("length").sum()
    )
    segments = cut.group_by("source").agg(segments=pl.col("rows").sum(), tokens=pl.col("length").sum())
    found = documents.join(segments, on="source", how="left").fill_null(0).sort("source")
    total = found.select(pl.lit("all").alias("source"), pl.exclude("source").sum())
    return [*found.to_dicts(), *total.to_dicts()]


def _lengths(counted: pl.DataFrame) -> dict[str, list[int]]:
    """Counts by source, one for each of `LENGTH_BINS`."""
    found = {source: [0] * len(LENGTH_BINS) for source in sorted(counted["source"].unique())}
    for source, bin_, count in counted.select("source", "bin", "rows").iter_rows():
        found[source][bin_] = count
    return found


def _dropped(stages: Mapping[str, Artifact]) -> list[dict[str, Any]]:
    """Rejected rows by stage, reason and source, with samples whose identifiers are replaced."""
    rows = []
    for artifact in stages.values():
        if "rejects" not in artifact.manifest.tables:
            continue
        rejects = artifact.scan("rejects")
        counted = rejects.group_by("reason", "source").agg(count=pl.len()).collect(engine="streaming")
        for row in counted.sort("reason", "source").to_dicts():
            samples = _first(rejects, row, "reason", "source").to_dicts()
            shown = [
                {
                    "place": _place(sample["doc_id"]),
                    "detail": _shown(sample["detail"]),
                    "excerpt": _shown(sample["excerpt"]),
                }
                for sample in samples
            ]
            rows.append({"stage": artifact.stage, **row, "samples": shown})
    return rows


def _first(table: pl.LazyFrame, row: Mapping[str, Any], *columns: str) -> pl.DataFrame:
    """The first rows that agree with this one in some columns."""
    return table.filter(*(pl.col(name) == row[name] for name in columns)).head(SAMPLES).collect()


def _duplicates(stages: Mapping[str, Artifact]) -> list[dict[str, Any]]:
    """Dropped copies by source and kind, with samples of both texts."""
    if "deduplicate" not in stages:
        return []
    artifact = stages["deduplicate"]
    before = [one for one in stages.values() if "documents" in one.manifest.tables]
    given = before[before.index(artifact) - 1]
    table = artifact.scan("duplicates")
    counted = table.group_by("source", "kind").agg(count=pl.len(), similarity=pl.col("similarity").mean())
    rows = counted.collect(engine="streaming").sort("source", "kind").to_dicts()
    samples = [_first(table, row, "source", "kind").to_dicts() for row in rows]
    wanted = {sample[name] for found in samples for sample in found for name in ("doc_id", "kept_id")}
    texts = _texts(given, sorted(wanted))
    return [
        {
            **row,
            "similarity": round(row["similarity"], 3),
            "samples": [
                {
                    "similarity": round(sample["similarity"], 3),
                    "dropped": _shown(texts.get(sample["doc_id"], "")),
                    "kept": _shown(texts.get(sample["kept_id"], "")),
                }
                for sample in found
            ],
        }
        for row, found in zip(rows, samples, strict=True)
    ]


def _texts(artifact: Artifact, doc_ids: Collection[str]) -> dict[str, str]:
    """Texts of some documents; of the others only the ids are read."""
    ids = artifact.scan("documents").select("doc_id").with_row_index("row")
    rows = ids.filter(pl.col("doc_id").is_in(list(doc_ids))).collect(engine="streaming").sort("row")["row"].to_numpy()
    parts = artifact.parts("documents")
    borders = np.cumsum([0] + [part.rows for part in parts])
    cuts = np.searchsorted(rows, borders)
    found: dict[str, str] = {}
    for part, first, last, border in zip(parts, cuts, cuts[1:], borders, strict=False):
        if first < last:
            held = part.read(columns=["doc_id", "text"]).take(pa.array(rows[first:last] - border))
            found.update(zip(*(held[name].to_pylist() for name in held.column_names), strict=True))
    return found


def _replaced(stages: Mapping[str, Artifact]) -> dict[str, int]:
    """Identifiers by type."""
    counters = stages["deidentify"].manifest.counters if "deidentify" in stages else {}
    return {name.removeprefix("replaced_"): n for name, n in counters.items() if name.startswith("replaced_")}


def _contamination(stages: Mapping[str, Artifact]) -> list[dict[str, Any]]:
    """Documents that overlap with a benchmark, by its file."""
    if "decontaminate" not in stages:
        return []
    return (
        stages["decontaminate"]
        .scan("contamination")
        .group_by("benchmark", "source")
        .agg(
            documents=pl.col("doc_id").n_unique(), rows=pl.col("row").n_unique(), characters=pl.col("characters").sum()
        )
        .collect(engine="streaming")
        .sort("benchmark", "source")
        .to_dicts()
    )


def _place(doc_id: str) -> str:
    """File and row of what never became a document, without identifiers; of a document its id."""
    return str(Treatment().of_value("file", doc_id))


def _shown(text: str) -> str:
    """The beginning of a text, on one line, without identifiers."""
    treated, _ = deidentify(text[: 2 * EXCERPT])
    line = " ".join(treated.split())
    if len(text) > 2 * EXCERPT or len(text) == MAX_EXCERPT:
        # Cut before it was looked through: it may end with half of an identifier, which is known as none.
        return _LAST_WORD.sub("", line)[:EXCERPT] + "…"
    return line if len(line) <= EXCERPT else line[:EXCERPT] + "…"


_LAST_WORD = re.compile(r"[^\s,，。;；、:：]{1,40}$")
