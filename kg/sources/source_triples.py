"""What every reader of a knowledge graph gives: named triples with the types of their ends, and what it rejected."""

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
"""Why a row is rejected: its head, relation or tail is missing or blank, or it has more fields than the header."""

TRIPLE_SCHEMA = dict.fromkeys(("head", "relation", "tail", "head_type", "tail_type"), pl.String)
REJECT_SCHEMA = dict.fromkeys(("place", "reason", "detail", "excerpt"), pl.String)

EXCERPT = 80
"""Characters of a rejected row that are shown."""


@dataclass(frozen=True)
class SourceTriples:
    """The rows of a source that make triples, and the others."""

    triples: pl.DataFrame
    """(head, relation, tail, head_type, tail_type), complete but for the types."""
    rejects: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=REJECT_SCHEMA))
    """(place, reason, detail, excerpt): place is file#row."""
    types: Mapping[str, str] = field(default_factory=dict)
    """Types by name; they go before those of the rows."""
    aliases: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Other names by name."""

    def graph(self, source: str) -> KnowledgeGraph:
        """The graph of the triples, said by `source`."""
        return KnowledgeGraph.from_frame(self.triples, source=source, types=self.types, aliases=self.aliases)


def checked(rows: pl.DataFrame, file: str) -> SourceTriples:
    """Part rows (head, relation, tail and perhaps types) into triples and rejects; row n is `file#n`.

    n counts from 1, or stands in a column `row`.
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
    """The triples with types by relation (`with_types`); names of which the table says nothing keep their own.

    Raises:
        UserError: as `with_types`.
    """
    told = with_types(found.triples, table).select(pl.col("head_type", "tail_type").fill_null(""))
    ends = {end: pl.DataFrame({"name": found.triples[end], "type": told[f"{end}_type"]}) for end in ("head", "tail")}
    typed = pl.concat(ends.values()).filter(pl.col("type") != "")["name"].unique()
    own = found.triples.with_columns(
        pl.when(pl.col(end).is_in(typed.implode()))
        .then(told[f"{end}_type"])
        .otherwise(f"{end}_type")
        .alias(f"{end}_type")
        for end in ends
    )
    of_names = set(typed)
    return replace(found, triples=own, types={name: kind for name, kind in found.types.items() if name not in of_names})


def with_types(rows: pl.DataFrame, table: Path) -> pl.DataFrame:
    """The rows with head_type and tail_type by relation, from a CSV (relation, head_type, tail_type) of the source.

    Raises:
        UserError: the table cannot be read, or a relation stands twice in it.
    """
    lines = pl.DataFrame(
        read_table(table, ("relation", "head_type", "tail_type")),
        schema=dict.fromkeys(("relation", "head_type", "tail_type"), pl.String),
    )
    twice = lines.filter(pl.col("relation").is_duplicated())["relation"]
    if len(twice):
        raise UserError(f"{table}: the relation {twice[0]} stands twice. Delete one of the rows.")
    kept = rows.select(pl.exclude("head_type", "tail_type"))
    return kept.join(lines, on="relation", how="left", maintain_order="left")
