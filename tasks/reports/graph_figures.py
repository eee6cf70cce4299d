"""Figures of a knowledge graph: its content, the alignment of its sources, and neighbours.

Triples and neighbours are streamed, and samples of triples are drawn part by part. Time grows with the tables, memory
with the entities and the conflicts, and with one part. Figures of the graph in a corpus are in
tasks/reports/linking_figures.py.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from infra.artifacts import Artifact
from infra.schemas import TABLES
from tasks.reports.linking_figures import entity_counts, linking

NAME = 60
"""Most characters shown of a name; the longest names of a graph are whole sentences."""

CLAIMS = 8
"""Number of values shown of one conflict."""

ROWS_AT_ONCE = 1 << 18
"""Most rows in memory while samples are drawn."""

QUANTILES = (0.5, 0.9, 0.99)
"""Shares of the entities at which degrees are reported."""


def summarise(inputs: Mapping[str, Artifact], samples: int, top: int, seed: int) -> dict[str, Any]:
    """Return all figures as plain JSON values, with None for each part without input.

    Args:
        inputs: as `tasks.reports.graph.report_graph` takes them.
        samples: examples of each kind.
        top: rows of the lists of the most connected and the most frequent entities.
        seed: of all samples.
    """
    graph = inputs["graph"]
    counts = entity_counts(inputs)
    entities = _entities(graph, counts)
    return {
        "graph": _totals(graph, entities),
        "types": _types(entities, counts is not None),
        "relations": _relations(graph, entities, seed),
        "alignments": _alignments(graph, entities, samples, seed),
        "conflicts": _conflicts(graph, entities, samples, seed),
        "degrees": _degrees(entities),
        "hubs": _hubs(graph, entities, top),
        "linking": linking(inputs, entities, counts, samples, top, seed),
        "neighbours": _neighbours(inputs["neighbours"], entities, samples, seed) if "neighbours" in inputs else None,
        "embeddings": _embeddings(inputs["embeddings"]) if "embeddings" in inputs else None,
    }


def _entities(graph: Artifact, counts: pl.DataFrame | None) -> pl.DataFrame:
    """Return a row per entity, by id: (entity_id, name, type, names, head_of, tail_of, degree, count).

    `head_of` and `tail_of` count its triples, `degree` both of them (a self-loop twice), and `count` its mentions.
    """
    name = pl.col("name")
    rows = graph.scan("kg_entities").select(
        "entity_id",
        name=pl.when(name.str.len_chars() > NAME).then(name.str.head(NAME) + "…").otherwise(name),
        type="type",
        names=pl.col("aliases").list.len().cast(pl.Int64) + 1,
    )
    for end in ("head", "tail"):
        ends = graph.scan("kg_triples").group_by(entity_id=end).agg(pl.len().cast(pl.Int64).alias(f"{end}_of"))
        rows = rows.join(ends, on="entity_id", how="left")
    mentions = pl.LazyFrame(schema={"entity_id": pl.String, "count": pl.Int64}) if counts is None else counts.lazy()
    rows = rows.join(mentions.select("entity_id", "count"), on="entity_id", how="left")
    rows = rows.with_columns(pl.col("head_of", "tail_of", "count").fill_null(0))
    return rows.with_columns(degree=pl.col("head_of") + pl.col("tail_of")).collect(engine="streaming").sort("entity_id")


def _totals(graph: Artifact, entities: pl.DataFrame) -> dict[str, Any]:
    sources = graph.scan("kg_triples").select(source=pl.col("sources").explode()).drop_nulls()
    by_source = sources.group_by("source").agg(triples=pl.len()).collect(engine="streaming")
    return {
        "entities": entities.height,
        "names": int(entities["names"].sum()),
        "types": entities.filter(pl.col("type") != "")["type"].n_unique(),
        "triples": graph.rows("kg_triples"),
        "without_triples": entities.filter(pl.col("degree") == 0).height,
        "sources": by_source.sort("source").to_dicts(),
    }


def _types(entities: pl.DataFrame, linked: bool) -> list[dict[str, Any]]:
    """Return a row per type, the largest first; the figures of the corpus are None if none was linked."""
    occurring = pl.col("count") > 0
    rows = entities.group_by("type").agg(
        entities=pl.len(),
        names=pl.col("names").sum(),
        without_triples=(pl.col("degree") == 0).sum(),
        mean_degree=pl.col("degree").mean().round(2),
        in_corpus=occurring.sum() if linked else pl.lit(None),
        mentions=pl.col("count").sum() if linked else pl.lit(None),
    )
    return rows.sort(pl.col("entities"), pl.col("type"), descending=[True, False]).to_dicts()


def _relations(graph: Artifact, entities: pl.DataFrame, seed: int) -> list[dict[str, Any]]:
    """Return a row per relation, the most frequent first, with its most frequent pair of types and one triple."""
    types = entities.lazy().select("entity_id", "type")
    typed = (
        graph.scan("kg_triples")
        .select("head", "relation", "tail")
        .join(types.rename({"entity_id": "head", "type": "head_type"}), on="head")
        .join(types.rename({"entity_id": "tail", "type": "tail_type"}), on="tail")
        .group_by("relation", "head_type", "tail_type")
        .agg(pairs=pl.len())
        .collect(engine="streaming")
        .sort("relation", "pairs", "head_type", "tail_type", descending=[False, True, False, False])
    )
    rows = typed.group_by("relation", maintain_order=True).agg(
        pl.col("head_type", "tail_type").first(),
        triples=pl.col("pairs").sum(),
        share=(pl.col("pairs").first() / pl.col("pairs").sum()).round(4),
    )
    columns = ["relation", "head", "tail"]
    shown = draw(batches(graph, "kg_triples", columns), ["relation"], 1, seed).select(columns)
    rows = rows.join(with_names(shown, entities, "head", "tail"), on="relation")
    return rows.sort(pl.col("triples"), pl.col("relation"), descending=[True, False]).to_dicts()


def _alignments(graph: Artifact, entities: pl.DataFrame, samples: int, seed: int) -> list[dict[str, Any]] | None:
    """Return a row per kind of evidence: numbers of links and of their entities, and pairs of merged names."""
    if "kg_alignments" not in graph.manifest.tables:
        return None
    table = graph.scan("kg_alignments")
    counted = (
        table.group_by("evidence")
        .agg(
            links=pl.len(),
            entities=pl.col("entity_id").n_unique(),
            renamed=(pl.col("name") != pl.col("other_name")).sum(),
        )
        .collect(engine="streaming")
        .sort("evidence")
    )
    columns = ["evidence", "entity_id", "name", "other_name", "value", "score"]
    pairs = draw(batches(graph, "kg_alignments", columns), ["evidence"], samples, seed).rename({"entity_id": "entity"})
    shown = with_names(pairs.with_columns(pl.col("name", "other_name", "value").str.head(NAME)), entities, "entity")
    return _with_samples(counted, shown, ["evidence"])


def _conflicts(graph: Artifact, entities: pl.DataFrame, samples: int, seed: int) -> list[dict[str, Any]] | None:
    """Return a row per kind and relation, the most frequent first, with entities and the claims of the sources."""
    if "kg_conflicts" not in graph.manifest.tables:
        return None
    claims = graph.scan("kg_conflicts").rename({"entity_id": "entity"})
    key = ["kind", "relation", "entity"]
    conflicts = claims.select(key).unique().collect(engine="streaming").sort(key)
    counted = conflicts.group_by("kind", "relation").agg(conflicts=pl.len())
    counted = counted.sort(["kind", "conflicts", "relation"], descending=[False, True, False])
    drawn = draw([conflicts], ["kind", "relation"], samples, seed)
    stated = (
        claims.join(drawn.lazy().select(key), on=key, how="semi")
        .select(*key, claim=pl.struct(pl.col("value").str.head(NAME), "sources"))
        .collect(engine="streaming")
        .sort(*key, pl.col("claim").struct.field("value"))
        .group_by(key, maintain_order=True)
        .agg(claims=pl.col("claim").head(CLAIMS), more=(pl.len().cast(pl.Int64) - CLAIMS).clip(lower_bound=0))
    )
    return _with_samples(counted, with_names(stated, entities, "entity"), ["kind", "relation"])


def _degrees(entities: pl.DataFrame) -> dict[str, Any]:
    """Return the numbers of entities with 0, 1, 2 to 3, 4 to 7 … triples, and quantiles of their degrees."""
    degree = entities["degree"]
    most = int(degree.max() or 0)  # type: ignore[arg-type]
    # The bin is the length in bits: 0 for 0, 1 for 1, 2 for 2 and 3, 3 for 4 to 7.
    bins = most.bit_length() + 1
    counts = {
        name: np.bincount([int(value).bit_length() for value in entities[name].to_list()], minlength=bins).tolist()
        for name in ("degree", "head_of", "tail_of")
    }
    return {
        "bins": [0, *(1 << power for power in range(bins - 1))],
        **counts,
        "mean": round(float(degree.mean() or 0), 3),  # type: ignore[arg-type]
        "quantiles": {f"{share:.0%}": int(degree.quantile(share, "lower") or 0) for share in QUANTILES},
        "most": most,
    }


def _hubs(graph: Artifact, entities: pl.DataFrame, top: int) -> list[dict[str, Any]]:
    """Return the most connected entities, each with its most frequent relation and direction."""
    hubs = entities.sort(pl.col("degree"), pl.col("entity_id"), descending=[True, False]).head(top)
    hubs = hubs.filter(pl.col("degree") > 0)
    main = pl.concat(
        [_around(graph, hubs["entity_id"], end, direction) for end, direction in (("head", 1), ("tail", -1))]
    )
    main = main.sort("entity_id", "triples", "relation", "direction", descending=[False, True, False, True]).unique(
        "entity_id", keep="first", maintain_order=True
    )
    shown = hubs.join(main, on="entity_id", maintain_order="left")
    return shown.select("name", "type", "degree", "head_of", "tail_of", "relation", "direction", "triples").to_dicts()


def _around(graph: Artifact, ids: pl.Series, end: str, direction: int) -> pl.DataFrame:
    """Count the triples with one of the entities at this end: (entity_id, relation, triples, direction)."""
    own = graph.scan("kg_triples").filter(pl.col(end).is_in(ids.implode())).group_by(end, "relation")
    counted = own.agg(triples=pl.len()).collect(engine="streaming").rename({end: "entity_id"})
    return counted.with_columns(direction=pl.lit(direction))


def _neighbours(artifact: Artifact, entities: pl.DataFrame, samples: int, seed: int) -> dict[str, Any]:
    """Return the numbers of neighbours, and the neighbours of random entities.

    Entities are drawn from those with the largest number of neighbours, if possible from those of them that occur in
    the corpus: ten neighbours of a known term are easier to judge than the only one of an unknown term.
    """
    table = artifact.scan("neighbours")
    sizes = table.group_by("entity_id").agg(size=pl.len()).collect(engine="streaming")
    rows = entities.select("entity_id", "name", "type", "count").join(sizes, on="entity_id").sort("entity_id")
    full = rows.filter(pl.col("size") == pl.col("size").max())
    occurring = full.filter(pl.col("count") > 0)
    pool = occurring if occurring.height else full
    places = random.Random(seed).sample(range(pool.height), min(samples, pool.height))
    chosen = pool[places]
    found = (
        table.join(chosen.lazy().select("entity_id"), on="entity_id", how="semi")
        .collect(engine="streaming")
        .sort("entity_id", "rank")
        .rename({"neighbour_id": "neighbour"})
    )
    ranked = (
        with_names(found, entities, "neighbour")
        .group_by("entity_id", maintain_order=True)
        .agg(neighbours=pl.struct("rank", "neighbour", "relation", "direction", "score"))
    )
    shown = chosen.select("entity_id", "name", "type").join(ranked, on="entity_id", maintain_order="left")
    return {
        "rows": artifact.rows("neighbours"),
        "entities": sizes.height,
        "most": int(sizes["size"].max() or 0),  # type: ignore[arg-type]
        "with_most": full.height,
        "in_corpus": occurring.height > 0,
        "samples": shown.drop("entity_id").to_dicts(),
    }


def _embeddings(artifact: Artifact) -> dict[str, Any]:
    """Return figures of link prediction on the held-out triples, with a row per evaluation.

    The vectors are those of TransR's best MRR, the first one of equals.
    """
    metrics = artifact.scan("metrics").filter(pl.col("split") == "held_out").collect(engine="streaming")
    found: dict[tuple[int, str], dict[str, float]] = {}
    for step, name, value in metrics.sort("step", "name").select("step", "name", "value").iter_rows():
        model, _, figure = name.partition("_")
        found.setdefault((step, model), {})[figure] = round(value, 4)
    judged = metrics.filter(pl.col("name") == "transr_mrr").sort("value", "step", descending=[True, False])
    kept = judged["step"][0] if judged.height else None
    return {
        "entities": artifact.rows("kg_entity_vectors"),
        "relations": artifact.rows("kg_relation_vectors"),
        "figures": sorted({figure for figures in found.values() for figure in figures}, key=_figure_order),
        "looks": [
            {"step": step, "model": model, "kept": model == "transr" and step == kept, "figures": figures}
            for (step, model), figures in found.items()
        ],
    }


def _figure_order(figure: str) -> tuple[bool, int, str]:
    """Return a key that sorts MRR first, then Hits@k by k."""
    return figure != "mrr", len(figure), figure


def batches(artifact: Artifact, table: str, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
    """Yield the rows of a table in order, after an empty batch; one part of these columns is in memory."""
    yield pl.DataFrame(TABLES[table].empty_table()).select(columns)
    for part in artifact.parts(table):
        yield from map(pl.DataFrame, part.read(list(columns)).to_batches(ROWS_AT_ONCE))


def draw(frames: Iterable[pl.DataFrame], by: Sequence[str], count: int, seed: int) -> pl.DataFrame:
    """Return random rows without replacement, at most `count` of each group.

    Every row draws a number, and the rows with the smallest numbers of each group are kept. The result does not depend
    on how the rows are cut into frames, of which there must be at least one. Memory holds one frame and the result.
    """
    numbers = np.random.default_rng(seed)
    kept: list[pl.DataFrame] = []
    for frame in frames:
        rows = pl.concat([*kept, frame.with_columns(draw=numbers.random(frame.height))])
        kept = [rows.filter(pl.col("draw").rank("ordinal").over(by) <= count)]
    return kept[0].sort(*by, "draw").drop("draw")


def with_names(rows: pl.DataFrame, entities: pl.DataFrame, *columns: str) -> pl.DataFrame:
    """Return the rows in their order, with names in place of entity ids; an id without an entity is kept."""
    for column in columns:
        names = entities.select(pl.col("entity_id").alias(column), _name="name")
        rows = rows.join(names, on=column, how="left", maintain_order="left")
        rows = rows.with_columns(pl.coalesce("_name", column).alias(column)).drop("_name")
    return rows


def _with_samples(counted: pl.DataFrame, samples: pl.DataFrame, by: Sequence[str]) -> list[dict[str, Any]]:
    """Return the counted groups, each with its samples as a list of mappings."""
    rows = counted.to_dicts()
    for row in rows:
        own = samples.filter(*(pl.col(name) == row[name] for name in by))
        row["samples"] = own.drop(by).to_dicts()
    return rows


def type_table(summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the main table of the report: a row for each type."""
    columns = {
        "type": "type",
        "entities": "entities",
        "names": "names",
        "without_triples": "without triples",
        "mean_degree": "mean degree",
        "in_corpus": "in the corpus",
        "mentions": "mentions",
    }
    return [{title: row[key] for key, title in columns.items()} for row in summary["types"]]
