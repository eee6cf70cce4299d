"""An artifact of product records with given rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from infra.artifacts import Artifact, ArtifactStore
from infra.stage import Output, StageParams, run, stage

Row = tuple[str, str, tuple[str, ...], bool]
"""Title, attribute, values, and whether the title is held out."""


class RecordsParams(StageParams):
    rows: tuple[Row, ...]


@stage(name="product_records", version=1, params=RecordsParams, tables=("product_records",))
def _records(inputs: Mapping[str, Any], params: RecordsParams, out: Output) -> None:
    names = ("title", "attribute", "values", "held_out")
    with out.part() as part:
        part.write("product_records", [dict(zip(names, row, strict=True)) for row in params.rows])


def given_records(store: ArtifactStore, rows: Sequence[Row]) -> Artifact:
    """What the stage `product_records` makes of a table, without the table."""
    return run(_records, store, RecordsParams(rows=tuple(rows)), {}).artifact
