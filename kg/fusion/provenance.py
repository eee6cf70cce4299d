"""Sets of sources as numbers: most rows share one of a few sets, so strings are processed once per set."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

SourceSet = tuple[str, ...]


def common_sets(tables: Iterable[Sequence[SourceSet]]) -> tuple[list[SourceSet], list[npt.NDArray[np.int32]]]:
    """Return all sets of several tables, sorted, and for each table the places of its sets among them."""
    tables = [list(table) for table in tables]
    sets = sorted({names for table in tables for names in table})
    place = {names: number for number, names in enumerate(sets)}
    return sets, [np.array([place[names] for names in table], np.int32) for table in tables]


def merge_sets(rows: pl.DataFrame, sets: Sequence[SourceSet]) -> tuple[pl.DataFrame, list[SourceSet]]:
    """Merge rows that differ only in their column `set` into one row with the union of their sets.

    Returns:
        The rows, distinct and sorted by the other columns, and the sets that their column `set` now refers to.
    """
    keys = [column for column in rows.columns if column != "set"]
    rows = rows.unique().sort([*keys, "set"])
    first = rows.select(pl.struct(keys).ne(pl.struct(keys).shift()).fill_null(True)).to_series()
    if first.all():
        return rows, list(sets)
    # Equal rows are adjacent now. Only groups with several sets need a union, and few distinct combinations of sets
    # occur, so unions are made once per combination.
    starts = first.arg_true()
    merged = rows.filter(first)
    lengths = np.diff(np.append(starts.to_numpy(), rows.height))
    several = np.flatnonzero(lengths > 1)
    group = np.repeat(np.arange(len(lengths)), lengths)
    combined = (
        pl.DataFrame({"group": group, "set": rows["set"]})
        .filter(pl.Series(lengths[group] > 1))
        .group_by("group", maintain_order=True)
        .agg("set")
    )
    kinds = combined["set"].unique().to_list()
    unions = {tuple(kind): tuple(sorted({name for part in kind for name in sets[part]})) for kind in kinds}
    all_sets = sorted({*sets, *unions.values()})
    place = {names: number for number, names in enumerate(all_sets)}
    # Sets got new numbers, because unions were sorted in among them: renumber all rows, then correct the merged ones.
    codes = np.array([place[names] for names in sets], np.int32)[merged["set"].to_numpy()]
    lookup = pl.DataFrame(
        {"set": [list(kind) for kind in unions], "code": [place[names] for names in unions.values()]},
        schema={"set": combined.schema["set"], "code": pl.Int32},
    )
    codes[several] = combined.join(lookup, on="set", how="left", maintain_order="left")["code"].to_numpy()
    return merged.with_columns(set=pl.Series(codes)), all_sets


def sources_of(rows: pl.DataFrame, sets: Sequence[SourceSet]) -> pl.DataFrame:
    """Return the rows with `source` instead of `set`: one row per source; for the empty set the source is empty."""
    pairs = [(number, name) for number, names in enumerate(sets) for name in names or ("",)]
    table = pl.DataFrame(pairs, schema={"set": pl.Int32, "source": pl.String}, orient="row")
    return rows.join(table, on="set").drop("set")
