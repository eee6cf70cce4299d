"""Result of every reader of a knowledge graph: named triples with the types of their ends, and the rejected rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import polars as pl

from infra.errors import UserError
from kg.fusion.union import LONG_RELATION, MAX_RELATION_NAME
from kg.fusion.vocabularies import read_table
from kg.graph import KnowledgeGraph

MISSING_END, EXTRA_FIELDS = "missing_end", "extra_fields"
"""Reasons for rejecting a row: a blank or missing head, relation or tail; more fields than the header."""

TRIPLE_SCHEMA = dict.fromkeys(("head", "relation", "tail", "head_type", "tail_type"), pl.String)
REJECT_SCHEMA = dict.fromkeys(("place", "reason", "detail", "excerpt"), pl.String)

EXCERPT = 80
"""Number of characters of a rejected row that are shown."""


@dataclass(frozen=True)
class SourceTriples:
    """Rows of a source that are triples, and the rejected rows."""

    triples: pl.DataFrame
    """(head, relation, tail, head_type, tail_type); only types may be missing."""
    rejects: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=REJECT_SCHEMA))
    """(place, reason, detail, excerpt): place is file#row."""
    types: Mapping[str, str] = field(default_factory=dict)
    """Types by name; they take precedence over those of the rows."""
    aliases: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Other names by name."""

    def graph(self, source: str) -> KnowledgeGraph:
        """Return the graph of the triples, with `source` as their source."""
        return KnowledgeGraph.from_frame(self.triples, source=source, types=self.types, aliases=self.aliases)


def checked(rows: pl.DataFrame, file: str) -> SourceTriples:
    """Split rows (head, relation, tail and optionally types) into triples and rejects; row n is `file#n`.

    n counts from 1, unless there is a column `row`.
    """
    numbers = rows["row"] if "row" in rows.columns else pl.Series("row", range(1, rows.height + 1))
    rows = rows.with_columns(
        *(pl.lit(None, pl.String).alias(name) for name in TRIPLE_SCHEMA if name not in rows.columns)
    ).select(pl.col(TRIPLE_SCHEMA.keys()).cast(pl.String).str.strip_chars().fill_null(""))
    ends = ("head", "relation", "tail")
    lacking = pl.concat_str([pl.when(pl.col(end) == "").then(pl.lit(f" {end}")).otherwise(pl.lit("")) for end in ends])
    length = pl.col("relation").str.len_chars()
    judged = rows.with_columns(
        row=numbers,
        reason=pl.when(lacking != "")
        .then(pl.lit(MISSING_END))
        .when(length > MAX_RELATION_NAME)
        .then(pl.lit(LONG_RELATION)),
        detail=pl.when(lacking != "")
        .then(pl.format("without{}", lacking))
        .otherwise(pl.format("{} characters", length)),
    )
    rejects = judged.filter(pl.col("reason").is_not_null()).select(
        pl.format("{}#{}", pl.lit(file), pl.col("row")).alias("place"),
        "reason",
        "detail",
        pl.concat_str(ends, separator=" | ").str.slice(0, EXCERPT).alias("excerpt"),
    )
    return SourceTriples(judged.filter(pl.col("reason").is_null()).select(TRIPLE_SCHEMA.keys()), rejects)


def retyped(found: SourceTriples, table: Path) -> SourceTriples:
    """Return the triples with types by relation (`with_types`); names without one in the table keep their type.

    Raises:
        UserError: as `with_types`.
    """
    by_relation = with_types(found.triples, table).select(pl.col("head_type", "tail_type").fill_null(""))
    ends = {
        end: pl.DataFrame({"name": found.triples[end], "type": by_relation[f"{end}_type"]}) for end in ("head", "tail")
    }
    typed = pl.concat(ends.values()).filter(pl.col("type") != "")["name"].unique()
    own = found.triples.with_columns(
        pl.when(pl.col(end).is_in(typed.implode()))
        .then(by_relation[f"{end}_type"])
        .otherwise(f"{end}_type")
        .alias(f"{end}_type")
        for end in ends
    )
    of_names = set(typed)
    return replace(found, triples=own, types={name: kind for name, kind in found.types.items() if name not in of_names})


def with_types(rows: pl.DataFrame, table: Path) -> pl.DataFrame:
    """Return the rows with head_type and tail_type by relation, from a CSV (relation, head_type, tail_type).

    Raises:
        UserError: the table cannot be read, or a relation occurs in it twice.
    """
    lines = pl.DataFrame(
        read_table(table, ("relation", "head_type", "tail_type")),
        schema=dict.fromkeys(("relation", "head_type", "tail_type"), pl.String),
    )
    twice = lines.filter(pl.col("relation").is_duplicated())["relation"]
    if len(twice):
        raise UserError(f"{table}: the relation {twice[0]} occurs twice. Delete one of the rows.")
    kept = rows.select(pl.exclude("head_type", "tail_type"))
    return kept.join(lines, on="relation", how="left", maintain_order="left")
