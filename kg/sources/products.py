"""A relational table of products (title, attribute, value), as in ELECTRA+EM+PAP: one triple per value."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl

from kg.sources.delimited import Columns, read
from kg.sources.source_triples import SourceTriples

TABLE = Columns(head="title", relation="attribute", tail="value")


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
    if separators:
        whole = pl.col("tail").str.replace_many(list(separators), ["\0"] * len(separators))
        triples = triples.with_columns(tail=whole.str.split("\0")).explode("tail")
        triples = triples.with_columns(pl.col("tail").str.strip_chars()).filter(pl.col("tail") != "")
    return replace(found, triples=triples)
