"""Stage `report_entities`: a page about an entity vocabulary: its content, the quality of its phrases, its cuts.

The artifact holds `report.html`, which needs no other file, `summary.json`, and `table.json`: precision against
held-out names by band of quality.

Time and memory grow with the rows of the tables, of which only the counted columns are read.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from infra.artifacts import Artifact
from infra.pages import add_report, render
from infra.stage import Output, StageParams, stage
from tasks.segment.words import read_terms

TEMPLATE = Path(__file__).with_name("entities.html.j2")

BANDS = (0.9, 0.8, 0.7, 0.6, 0.5, 0.3, 0.0)
"""Lower borders of the bands of quality, the best first."""

SAMPLES = 12
"""Examples shown of each kind."""

ATOMIC_TERMS = 30
"""Number of atomic terms shown, the most frequent first."""


class ReportEntitiesParams(StageParams):
    """Title of the page, and seed of its samples."""

    title: str = "Entities"
    """Title of the page."""
    seed: int = 42
    """Seed of the drawn examples."""


@stage(name="report_entities", version=3, params=ReportEntitiesParams)
def report_entities(inputs: Mapping[str, Any], params: ReportEntitiesParams, out: Output) -> None:
    """Write the page about `inputs["entities"]` and, where given, the artifacts `phrases` and `synonyms`.

    The optional raw input `held_out` holds names, one per line, that the mining of phrases did not know.

    Raises:
        UserError: `held_out` is not UTF-8.
    """
    held_out = read_terms(inputs["held_out"]) if "held_out" in inputs else None
    summary = summarise(inputs["entities"], inputs.get("phrases"), inputs.get("synonyms"), held_out, params.seed)
    page = render(TEMPLATE, title=params.title, given=held_out is not None, **summary)
    add_report(out, page, summary, precision_table(summary))


def precision_table(summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the main table of the report: a row for each band of quality."""
    return [
        {
            "quality from": band["from"],
            "phrases": band["phrases"],
            "names of the graph": band["in_graph"],
            "unlabelled": band["unlabelled"],
            "held-out names": band["held_out"],
            "precision": band["precision"],
            "precision from here up": band["cumulated_precision"],
        }
        for band in summary["bands"]
    ]


def summarise(
    entities: Artifact,
    phrases: Artifact | None = None,
    synonyms: Artifact | None = None,
    held_out: Collection[str] | None = None,
    seed: int = 42,
) -> dict[str, Any]:
    """Return all figures as plain JSON values.

    Args:
        entities, phrases, synonyms: artifacts with these tables.
        held_out: names that the mining of phrases did not know; by default those of the graph that it did not use as
            labels.
    """
    drawn = random.Random(seed)
    table = entities.scan("entities")
    return {
        "rows": entities.rows("entities"),
        "counters": dict(entities.manifest.counters),
        "origins": _origins(table),
        "types": _types(table),
        "dropped": _dropped(entities, drawn),
        "bands": [] if phrases is None else _bands(phrases.scan("phrases"), table, held_out, drawn),
        "pieces": _pieces(table),
        "long_entities": _long_entities(table, drawn),
        "atomic_terms": _atomic_terms(table),
        "thesaurus": None if synonyms is None else _thesaurus(synonyms.scan("synonyms"), drawn),
    }


def _origins(table: pl.LazyFrame) -> list[dict[str, Any]]:
    rows = table.group_by("origin").agg(_COUNTS).sort("origin").collect()
    return rows.to_dicts()


def _types(table: pl.LazyFrame) -> list[dict[str, Any]]:
    rows = table.group_by("type").agg(_COUNTS).sort(pl.col("surfaces"), pl.col("type"), descending=[True, False])
    return rows.collect().to_dicts()


_COUNTS = (
    pl.col("surface").n_unique().alias("surfaces"),
    pl.col("entity_id").n_unique().alias("entities"),
    pl.col("surface").filter(pl.col("is_long")).n_unique().alias("long"),
    pl.col("surface").filter(pl.col("frequency") > 0).n_unique().alias("in_corpus"),
)


def _dropped(entities: Artifact, drawn: random.Random) -> list[dict[str, Any]]:
    if "rejects" not in entities.manifest.tables:
        return []
    rejects = entities.scan("rejects")
    counted = rejects.group_by("reason", "source").agg(count=pl.len()).sort("reason", "source").collect().to_dicts()
    for row in counted:
        own = rejects.filter(pl.col("reason") == row["reason"], pl.col("source") == row["source"])
        row["samples"] = _sample(own.select("excerpt").collect()["excerpt"].to_list(), drawn)
    return counted


def _bands(
    phrases: pl.LazyFrame, table: pl.LazyFrame, held_out: Collection[str] | None, drawn: random.Random
) -> list[dict[str, Any]]:
    """Return a row for each band of quality, the best first.

    Cumulated figures cover the band and all better ones.
    """
    in_graph = set(table.filter(pl.col("origin") != "phrase").select("surface").collect()["surface"])
    wanted = in_graph if held_out is None else set(held_out)
    rows = phrases.select("surface", "quality", unlabelled=pl.col("labelled_by") == "none").collect()
    rows = rows.with_columns(
        in_graph=pl.col("surface").is_in(pl.Series(sorted(in_graph), dtype=pl.String).implode()),
        right=pl.col("unlabelled") & pl.col("surface").is_in(pl.Series(sorted(wanted), dtype=pl.String).implode()),
    )
    # If the mining knew every name of the graph, no name was held out: a precision of 0 would be wrong.
    has_held_out = held_out is not None or bool(rows["right"].any())
    found = []
    for upper, lower in zip((2.0, *BANDS), BANDS, strict=False):
        band = rows.filter(pl.col("quality") >= lower, pl.col("quality") < upper)
        better = rows.filter(pl.col("quality") >= lower)
        found.append(
            {
                "from": lower,
                "phrases": band.height,
                "in_graph": int(band["in_graph"].sum()),
                "unlabelled": int(band["unlabelled"].sum()),
                "held_out": int(band["right"].sum()),
                "precision": _precision(band) if has_held_out else None,
                "cumulated_precision": _precision(better) if has_held_out else None,
                "samples": _sample(band["surface"].to_list(), drawn),
            }
        )
    return found


def _precision(phrases: pl.DataFrame) -> float | None:
    """Return the share of held-out names among the phrases without a label, or None if there are none of these."""
    unlabelled = int(phrases["unlabelled"].sum())
    return round(int(phrases["right"].sum()) / unlabelled, 4) if unlabelled else None


def _pieces(table: pl.LazyFrame) -> list[dict[str, int]]:
    """Return the number of surfaces by the number of their pieces."""
    cut = table.select("surface", pieces=pl.col("pieces").list.len().cast(pl.Int64)).unique()
    return cut.group_by("pieces").agg(surfaces=pl.len()).sort("pieces").collect().to_dicts()


def _long_entities(table: pl.LazyFrame, drawn: random.Random) -> list[dict[str, Any]]:
    """Return random long entities that occur in the corpus, or of all long entities if none of them occurs."""
    columns = ["surface", "type", "frequency", "pieces", "adjective", "atomic"]
    found = table.filter(pl.col("is_long")).select(columns).unique("surface").sort("surface").collect()
    seen = found.filter(pl.col("frequency") > 0)
    rows = (seen if seen.height else found).to_dicts()
    return drawn.sample(rows, min(2 * SAMPLES, len(rows)))


def _atomic_terms(table: pl.LazyFrame) -> list[dict[str, Any]]:
    """Return the atomic terms that are the core of most long entities, with the number of these."""
    cores = table.filter(pl.col("is_long")).select("surface", "atomic").unique().group_by("atomic").agg(count=pl.len())
    return (
        cores.sort(pl.col("count"), pl.col("atomic"), descending=[True, False]).head(ATOMIC_TERMS).collect().to_dicts()
    )


def _thesaurus(synonyms: pl.LazyFrame, drawn: random.Random) -> dict[str, Any]:
    rows = synonyms.collect()
    groups = rows.group_by("group_id").agg(
        pl.col("type").first(), pl.col("surface").sort(), size=pl.len(), ambiguous=pl.col("ambiguous").sum()
    )
    groups = groups.sort("group_id")
    ids = drawn.sample(groups["group_id"].to_list(), min(SAMPLES, groups.height))
    return {
        "groups": groups.height,
        "surfaces": rows.height,
        "ambiguous": int(rows["ambiguous"].sum()),
        "largest": int(groups["size"].max() or 0),  # type: ignore[arg-type]
        "by_type": (
            groups.group_by("type")
            .agg(groups=pl.len(), surfaces=pl.col("size").sum(), ambiguous=pl.col("ambiguous").sum())
            .sort("type")
            .to_dicts()
        ),
        "samples": groups.filter(pl.col("group_id").is_in(ids)).select("type", "surface").to_dicts(),
    }


def _sample(values: Sequence[str], drawn: random.Random) -> list[str]:
    ordered = sorted(values)
    return drawn.sample(ordered, min(SAMPLES, len(ordered)))
