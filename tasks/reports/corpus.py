"""Stage `report_corpus`: an HTML page about a corpus, and its figures beside it.

The artifact holds `report.html`, which needs no other file, `summary.json`, and `table.json`: eHealth's Table 1 for
this corpus. Excerpts are de-identified, whatever their source.

The page says nothing of when and where: the same documents give the same page. `tasks/reports/corpus_run.py` makes the
page of one run of it, with its date and its files.

Time grows with the dropped rows, with the ids of the documents, which are streamed, and with the texts of the sources
that are de-identified. Memory grows with the number of sources, reasons and samples, and holds one part.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from infra.artifacts import Artifact
from infra.builds import MAX_EXCERPT
from infra.pages import add_report, render
from infra.stage import Output, StageParams, stage
from tasks.deidentify.kinds import KINDS
from tasks.deidentify.treatment import Treatment, deidentify
from tasks.deidentify.untreated import untreated_sources
from tasks.ingest.losses import losses
from tasks.reports.quasi_identifiers import SMALL, look_at
from tasks.segment.lengths import LENGTH_BINS

TEMPLATE = Path(__file__).with_name("corpus.html.j2")

SAMPLES = 3
"""Examples shown of each kind."""

FILES = 20
"""Files with the most lost rows that are shown."""

MOST_LOST = 0.5
"""Share of lost rows above which a source or a file is marked."""

EXCERPT = 120
"""Characters shown of an example."""


class ReportParams(StageParams):
    """Title of the page."""

    title: str = "Corpus"
    """Title of the page."""


@stage(name="report_corpus", version=9, params=ReportParams, heavy=True)
def report_corpus(inputs: Mapping[str, Artifact], params: ReportParams, out: Output) -> None:
    """Write the page about the artifacts of the corpus flow, given by stage name in the order of the flow."""
    summary = summarise(inputs)
    page = render(TEMPLATE, title=params.title, bins=_bin_names(), small_group=SMALL, most_lost=MOST_LOST, **summary)
    add_report(out, page, summary, table_1(summary))


def table_1(summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return sub-domain, size and tokens as in eHealth's Table 1, with documents and segments."""
    return [
        {
            "sub-domain": row["source"],
            "documents": row["documents"],
            "size, MB": round(row["bytes"] / 1e6, 2),
            "segments": row["segments"],
            "tokens": row["tokens"],
        }
        for row in summary["sources"]
    ]


def _bin_names() -> list[str]:
    ends = [f"{high - 1:,}" for high in LENGTH_BINS[1:]]
    return [f"{low:,}-{end}" for low, end in zip(LENGTH_BINS, ends, strict=False)] + [f"{LENGTH_BINS[-1]:,}+"]


def summarise(stages: Mapping[str, Artifact]) -> dict[str, Any]:
    """Return all figures as plain JSON values.

    Args:
        stages: artifacts of the corpus flow by stage name, in the order in which they were made: those with a table
            documents, and segment, which has counted the lengths of the last documents.
    """
    documents = [artifact for artifact in stages.values() if "documents" in artifact.manifest.tables]
    segments = stages["segment"]
    lengths = segments.to_table("lengths")
    lengths = pl.DataFrame(lengths).group_by("counted", "source", "bin").agg(pl.col("rows", "length", "bytes").sum())
    of_documents = lengths.filter(pl.col("counted") == "documents")
    of_segments = lengths.filter(pl.col("counted") == "segments")
    return {
        "sources": _sources(of_documents, of_segments, _rows_read(stages)),
        "lost_files": [
            {**loss._asdict(), "file": _place(loss.file)} for loss in losses(next(iter(stages.values())))[:FILES]
        ],
        "parameters": [{"stage": stage, "parameters": _parameters(artifact)} for stage, artifact in stages.items()],
        "tokens_are_counted": "vocabulary" in segments.manifest.inputs,
        "steps": [
            {"stage": artifact.stage, "documents": artifact.rows("documents"), "fingerprint": artifact.fingerprint}
            for artifact in documents
        ],
        "document_lengths": _lengths(of_documents),
        "segment_lengths": _lengths(of_segments),
        "dropped": _dropped(stages),
        "duplicates": _duplicates(stages),
        "replaced": _replaced(stages),
        "untreated": _untreated(stages),
        "anonymity": _anonymity(stages),
        "is_decontaminated": "decontaminate" in stages,
        "contamination": _contamination(stages),
    }


def _rows_read(stages: Mapping[str, Artifact]) -> pl.DataFrame:
    """Return the number of rows that the first stage met, by source: those that became documents and the others."""
    first = next(iter(stages.values()))
    tables = [first.scan(name).select("source") for name in ("documents", "rejects") if name in first.manifest.tables]
    return pl.concat(tables).group_by("source").agg(rows=pl.len()).collect(engine="streaming")


def _parameters(artifact: Artifact) -> str:
    """Return the parameters of a stage that say something, as JSON without identifiers: file names may have some."""
    said = {key: value for key, value in artifact.manifest.params.items() if value not in (None, [], {}, "")}
    return json.dumps(_treated(said), ensure_ascii=False)


def _treated(value: Any) -> Any:
    """Return a parameter whose texts have no identifiers; numbers stay: 67108864 bytes would be found as one."""
    if isinstance(value, Mapping):
        return {_treated(key): _treated(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_treated(one) for one in value]
    return deidentify(value)[0] if isinstance(value, str) else value


def _sources(of_documents: pl.DataFrame, of_segments: pl.DataFrame, read: pl.DataFrame) -> list[dict[str, Any]]:
    """Return a row for each sub-domain and one for all, with the columns of eHealth's Table 1 and some more.

    A source that lost all of its documents has a row, too.
    """
    documents = of_documents.group_by("source").agg(
        documents=pl.col("rows").sum(), bytes=pl.col("bytes").sum(), characters=pl.col("length").sum()
    )
    segments = of_segments.group_by("source").agg(segments=pl.col("rows").sum(), tokens=pl.col("length").sum())
    # A source may have no segment: all its documents were too short.
    found = read.join(documents, on="source", how="full", coalesce=True).join(segments, on="source", how="left")
    columns = ("source", "documents", "bytes", "characters", "segments", "tokens", "rows")
    found = found.fill_null(0).select(columns).sort("source")
    total = found.select(pl.lit("all").alias("source"), pl.exclude("source").sum())
    rows = pl.concat([found, total], how="vertical_relaxed")
    return rows.with_columns(lost=1 - pl.min_horizontal("documents", "rows") / pl.col("rows").clip(1)).to_dicts()


def _lengths(counted: pl.DataFrame) -> dict[str, list[int]]:
    """Return counts by source, one for each of `LENGTH_BINS`."""
    found = {source: [0] * len(LENGTH_BINS) for source in sorted(counted["source"].unique())}
    for source, bin_, count in counted.select("source", "bin", "rows").iter_rows():
        found[source][bin_] = count
    return found


def _dropped(stages: Mapping[str, Artifact]) -> list[dict[str, Any]]:
    """Return rejected rows by stage, reason and source, with samples whose identifiers are replaced."""
    rows = []
    for artifact in stages.values():
        if "rejects" not in artifact.manifest.tables:
            continue
        rejects = artifact.scan("rejects")
        counted = rejects.group_by("reason", "source").agg(count=pl.len()).collect(engine="streaming")
        for row in counted.sort("reason", "source").to_dicts():
            samples = _first(rejects, row, "reason", "source").to_dicts()
            rows.append({"stage": artifact.stage, **row, "samples": [_shown_reject(sample) for sample in samples]})
    return rows


def _shown_reject(sample: Mapping[str, str]) -> dict[str, str]:
    return {
        "place": _place(sample["doc_id"]),
        "detail": _shown(sample["detail"]),
        "excerpt": _shown(sample["excerpt"]),
    }


def _first(table: pl.LazyFrame, row: Mapping[str, Any], *columns: str) -> pl.DataFrame:
    """Return the first rows of a table that agree with `row` in some columns."""
    return table.filter(*(pl.col(name) == row[name] for name in columns)).head(SAMPLES).collect()


def _duplicates(stages: Mapping[str, Artifact]) -> list[dict[str, Any]]:
    """Return dropped copies by source and kind, with samples of both texts."""
    if "deduplicate" not in stages:
        return []
    artifact = stages["deduplicate"]
    # Dropped texts are no longer in the artifact of `deduplicate`, but in that of the stage before it.
    with_documents = [one for one in stages.values() if "documents" in one.manifest.tables]
    before = with_documents[with_documents.index(artifact) - 1]
    table = artifact.scan("duplicates")
    counted = table.group_by("source", "kind").agg(count=pl.len(), similarity=pl.col("similarity").mean())
    rows = counted.collect(engine="streaming").sort("source", "kind").to_dicts()
    samples = [_first(table, row, "source", "kind").to_dicts() for row in rows]
    wanted = {sample[name] for found in samples for sample in found for name in ("doc_id", "kept_id")}
    texts = _texts(before, sorted(wanted))
    return [
        {
            **row,
            "similarity": round(row["similarity"], 3),
            "samples": [_shown_pair(sample, texts) for sample in found],
        }
        for row, found in zip(rows, samples, strict=True)
    ]


def _shown_pair(sample: Mapping[str, Any], texts: Mapping[str, str]) -> dict[str, Any]:
    return {
        "similarity": round(sample["similarity"], 3),
        "dropped": _shown(texts.get(sample["doc_id"], "")),
        "kept": _shown(texts.get(sample["kept_id"], "")),
    }


def _texts(artifact: Artifact, doc_ids: Collection[str]) -> dict[str, str]:
    """Return the texts of some documents; of all others only the ids are read."""
    ids = artifact.scan("documents").select("doc_id").with_row_index("row")
    rows = ids.filter(pl.col("doc_id").is_in(list(doc_ids))).collect(engine="streaming").sort("row")["row"].to_numpy()
    parts = artifact.parts("documents")
    borders = np.cumsum([0] + [part.rows for part in parts])
    cuts = np.searchsorted(rows, borders)
    found: dict[str, str] = {}
    for part, first, last, border in zip(parts, cuts, cuts[1:], borders, strict=False):
        if first < last:  # rows[first:last] are in this part
            held = part.read(columns=["doc_id", "text"]).take(pa.array(rows[first:last] - border))
            found.update(zip(*(held[name].to_pylist() for name in held.column_names), strict=True))
    return found


def _replaced(stages: Mapping[str, Artifact]) -> list[dict[str, Any]]:
    """Return the number of replaced identifiers by kind, with what each kind is and what became of it."""
    if "deidentify" not in stages:
        return []
    manifest = stages["deidentify"].manifest
    operators = manifest.params.get("operators", {})
    rows = []
    for name, count in manifest.counters.items():
        if name.startswith("replaced_"):
            kind = name.removeprefix("replaced_")
            what = KINDS[kind].about.what if kind in KINDS else "a kind of your own rules"
            operator = operators.get(kind, manifest.params.get("operator", "placeholder"))
            rows.append({"kind": kind, "what": what, "operator": operator, "count": count})
    return rows


def _untreated(stages: Mapping[str, Artifact]) -> list[dict[str, Any]]:
    """Return the sources that are not de-identified, though a sample of their documents has identifiers."""
    if "deidentify" not in stages:
        return []
    found = untreated_sources(stages["deidentify"].manifest.counters)
    return [{"source": source, "documents": count} for source, count in found.items()]


def _anonymity(stages: Mapping[str, Artifact]) -> list[dict[str, Any]]:
    """Return how many of the de-identified documents that are left share quasi-identifiers."""
    if "deidentify" not in stages:
        return []
    sources = stages["deidentify"].manifest.params["sources"]
    left = [artifact for artifact in stages.values() if "documents" in artifact.manifest.tables][-1]
    tables = (part.read(columns=["source", "text"]) for part in left.parts("documents"))
    figures = look_at(
        text
        for table in tables
        for source, text in zip(table["source"].to_pylist(), table["text"].to_pylist(), strict=True)
        if source in sources
    )
    return [row for row in figures if row["documents"]]


def _contamination(stages: Mapping[str, Artifact]) -> list[dict[str, Any]]:
    """Return documents that overlap with a benchmark, by the benchmark's file."""
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
    """Return the file and row of a reject that never became a document, without identifiers, or a document's id."""
    return str(Treatment().of_value("file", doc_id))


def _shown(text: str) -> str:
    """Return the beginning of a text, on one line, without identifiers."""
    treated, _ = deidentify(text[: 2 * EXCERPT])
    line = " ".join(treated.split())
    if len(text) > 2 * EXCERPT or len(text) == MAX_EXCERPT:
        # The text was cut before it was de-identified: it may end with half of an identifier, such as 1381234, which
        # is not recognised as one.
        return _LAST_WORD.sub("", line)[:EXCERPT] + "…"
    return line if len(line) <= EXCERPT else line[:EXCERPT] + "…"


_LAST_WORD = re.compile(r"[^\s,，。;；、:：]{1,40}$")
"""The characters after the last separator: `1381234` of `电话：1381234`."""
