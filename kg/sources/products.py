"""Relational tables of products, as in ELECTRA+EM+PAP: one triple (title, attribute, value) per value.

A table is long, with columns for title, attribute and value, or wide, with a column for each attribute.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl

from kg.sources.delimited import Columns, read
from kg.sources.source_triples import SourceTriples

TABLE = Columns(head="title", relation="attribute", tail="value")

LISTED = "\x1f"
"""Separator of the values of a cell that is a list; ASCII's unit separator, which stands in no text."""


def read_products(
    path: str | Path,
    columns: Columns = TABLE,
    separators: str = "",
    title_type: str = "Drug",
    types: Path | None = None,
) -> SourceTriples:
    """Return triples (title, attribute, value); titles without a type in the table `types` get `title_type`.

    A cell with several values is split at any character of `separators`; by default it is not split.

    Raises:
        UserError: as `delimited.read`.
    """
    found = read(path, columns, types)
    typed = (pl.col("head_type") != "").any().over("head")
    triples = found.triples.with_columns(head_type=pl.when(typed).then("head_type").otherwise(pl.lit(title_type)))
    return replace(found, triples=divided(triples, separators))


def divided(triples: pl.DataFrame, separators: str) -> pl.DataFrame:
    """Return the triples with each value cut at any character of `separators`: 头痛；发热 at ； gives two."""
    if not separators:
        return triples
    whole = pl.col("tail").str.replace_many(list(separators), ["\0"] * len(separators))
    triples = triples.with_columns(tail=whole.str.split("\0")).explode("tail")
    return triples.with_columns(pl.col("tail").str.strip_chars()).filter(pl.col("tail") != "")


def of_wide_rows(rows: pl.DataFrame, title: str, attributes: Sequence[str]) -> pl.DataFrame:
    """Return (head, relation, tail) of rows with a column of titles and one for each attribute.

    An empty cell is an attribute that the title lacks; a cell may also be a list of values. A title without any keeps
    one row without relation and tail.
    """
    text = rows.select(_cell(rows, name) for name in dict.fromkeys((title, *attributes)))
    empty = pl.all_horizontal(pl.col(name).is_null() for name in attributes)
    names = {title: "head", "variable": "relation", "value": "tail"}
    long = text.filter(~empty).unpivot(list(attributes), index=title).drop_nulls("value").rename(names)
    bare = text.filter(empty).select(
        pl.col(title).alias("head"), relation=pl.lit(None, pl.String), tail=pl.lit(None, pl.String)
    )
    return pl.concat([divided(long, LISTED), bare])


def _cell(rows: pl.DataFrame, name: str) -> pl.Expr:
    """Return a column as text, blank cells as null and lists joined by `LISTED`."""
    listed = isinstance(rows.schema[name], pl.List)
    text = pl.col(name).cast(pl.List(pl.String)).list.join(LISTED) if listed else pl.col(name).cast(pl.String)
    return text.str.strip_chars().replace("", None)
