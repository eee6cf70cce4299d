"""Figures of a corpus: how much of each sub-domain, how long, what was dropped on the way and why.

Time grows with the tables, which are gone through in streams; memory with the number of sources, reasons and samples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from infra.artifacts import Artifact
from tasks.deidentify import deidentify

SAMPLES = 3
"""Examples that are shown of each kind."""

EXCERPT = 120
"""Characters of an example."""

LENGTH_BINS = [0, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384]
"""Lower borders of the lengths that are counted together; the last has no upper one."""


def summarise(stages: Mapping[str, Artifact]) -> dict[str, Any]:
    """All figures, as plain JSON values.

    Args:
        stages: the artifacts of the corpus flow by the name of their stage, in the order in which they were made;
            those with a table documents, and segment.
    """
    documents = [artifact for artifact in stages.values() if "documents" in artifact.manifest.tables]
    last, segments = documents[-1], stages["segment"]
    text = pl.col("text")
    written = _by_length(last.scan("documents"), text.str.len_chars(), bytes=text.str.len_bytes())
    cut = _by_length(segments.scan("segments"), pl.col("tokens"))
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
        "contamination": _contamination(stages),
    }


def _by_length(rows: pl.LazyFrame, length: pl.Expr, **sizes: pl.Expr) -> pl.DataFrame:
    """How many rows of each source fall into each of `LENGTH_BINS` (columns source, bin, rows), and the sums of their
    lengths (length) and of other sizes; in one pass.

    Sums are of 64 bits: polars adds 32-bit columns up in 32 bits, which 4.3 GB of one source overflow.
    """
    place = pl.sum_horizontal((pl.col("length") >= low).cast(pl.Int32) for low in LENGTH_BINS[1:])
    measured = rows.select("source", length=length, **sizes)
    sums = [pl.col(name).cast(pl.Int64).sum() for name in ("length", *sizes)]
    counted = measured.group_by("source", place.alias("bin")).agg(*sums, rows=pl.len().cast(pl.Int64))
    return counted.collect(engine="streaming")


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
            samples = _first(rejects, row, "reason", "source").select("detail", "excerpt").to_dicts()
            shown = [{name: _shown(value) for name, value in sample.items()} for sample in samples]
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


def _texts(artifact: Artifact, doc_ids: Sequence[str]) -> dict[str, str]:
    rows = artifact.scan("documents").filter(pl.col("doc_id").is_in(doc_ids)).select("doc_id", "text")
    return dict(rows.collect(engine="streaming").iter_rows())


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


def _shown(text: str) -> str:
    """The beginning of a text, on one line, without identifiers."""
    treated, _ = deidentify(text[: 2 * EXCERPT])
    line = " ".join(treated.split())
    return line if len(line) <= EXCERPT else line[:EXCERPT] + "…"
