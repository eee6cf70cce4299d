"""CSV dumps of Neo4j: files of nodes and of relationships, as `neo4j-admin database import` reads them
(:ID, :LABEL; :START_ID, :END_ID, :TYPE) or as `apoc.export.csv` writes them (_id, _labels; _start, _end, _type).

Id spaces, as in :ID(Drug) and :START_ID(Drug), separate equal ids of different nodes. The type of a node is its first
label.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from infra.errors import UserError
from kg.sources.source_triples import REJECT_SCHEMA, SourceTriples, checked

_ROLES = {
    "id": (":ID", "_id"),
    "label": (":LABEL", "_labels"),
    "start": (":START_ID", "_start"),
    "end": (":END_ID", "_end"),
    "type": (":TYPE", "_type"),
}
_NODE_SCHEMA = dict.fromkeys(("key", "name", "type"), pl.String)


def read_neo4j(paths: Sequence[str | Path], name: str = "name") -> SourceTriples:
    """Read the CSV files of a dump, in any order; `name` is the property with a node's name.

    A relationship to a node that is in no file, or that has no name, is rejected because of its missing end.

    Raises:
        UserError: a file cannot be read, contains neither nodes nor relationships, or has nodes without `name`.
    """
    nodes, edges = [pl.DataFrame(schema=_NODE_SCHEMA)], []
    for path in map(Path, paths):
        frame, columns = _read(path)
        if "id" in columns:
            nodes.append(_nodes(path, frame, columns, name))
        if {"start", "end", "type"} <= columns.keys():
            edges.append((path, _edges(frame, columns)))
        elif "id" not in columns:
            raise UserError(f"{path} has neither :ID nor :START_ID, :END_ID and :TYPE. Use the files of one dump.")
    by_key = pl.concat(nodes).unique("key", keep="first", maintain_order=True)
    triples, rejects = [], [pl.DataFrame(schema=REJECT_SCHEMA)]
    for path, frame in edges:
        for end in ("head", "tail"):
            known = by_key.select(
                pl.col("key").alias(f"{end}_key"), pl.col("name").alias(end), pl.col("type").alias(f"{end}_type")
            )
            frame = frame.join(known, on=f"{end}_key", how="left", maintain_order="left")
        found = checked(frame, path.name)
        triples.append(found.triples)
        rejects.append(found.rejects)
    if not triples:
        raise UserError("The Neo4j dump has no relationships. Add its file with :START_ID, :END_ID and :TYPE.")
    return SourceTriples(pl.concat(triples), pl.concat(rejects))


def _read(path: Path) -> tuple[pl.DataFrame, dict[str, str]]:
    """Return the file, and its columns by role."""
    try:
        frame = pl.read_csv(path, infer_schema=False, truncate_ragged_lines=True)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise UserError(f"{path} cannot be read as CSV in UTF-8: {error}.") from error
    columns = {}
    for column in frame.columns:
        plain = re.sub(r"\(.*\)|\{.*\}", "", column)  # drugId:ID(Drug) becomes drugId:ID
        for role, (marker, plain_name) in _ROLES.items():
            if plain == plain_name or plain.endswith(marker):
                columns[role] = column
    return frame, columns


def _keys(column: str) -> pl.Expr:
    """Return an expression for ids with their id space."""
    space = re.search(r"\((.*)\)", column)  # Drug of :ID(Drug); none in :ID
    return pl.format("{}\0{}", pl.lit(space[1] if space else ""), pl.col(column).str.strip_chars())


def _nodes(path: Path, frame: pl.DataFrame, columns: dict[str, str], name: str) -> pl.DataFrame:
    named = next((column for column in frame.columns if column.partition(":")[0] == name), None)
    if named is None:
        raise UserError(
            f"{path} has no property {name!r}; its columns are {', '.join(frame.columns)}. Name the one to use."
        )
    label = (
        pl.col(columns["label"]).str.strip_chars(":; ").str.extract(r"^([^:;]+)") if "label" in columns else pl.lit("")
    )
    rows = frame.filter(pl.col(columns["id"]).is_not_null())
    return rows.select(_keys(columns["id"]).alias("key"), pl.col(named).alias("name"), label.alias("type"))


def _edges(frame: pl.DataFrame, columns: dict[str, str]) -> pl.DataFrame:
    if "id" in columns:  # apoc writes nodes and relationships into one file
        frame = frame.filter(pl.col(columns["id"]).is_null())
    return frame.select(
        _keys(columns["start"]).alias("head_key"),
        pl.col(columns["type"]).alias("relation"),
        _keys(columns["end"]).alias("tail_key"),
    )
