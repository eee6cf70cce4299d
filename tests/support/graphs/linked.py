"""Artifacts with a table of entities, for tests of stages that link."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from infra import schemas
from infra.artifacts import Artifact, ArtifactStore
from infra.stage import Output, StageParams, run, stage


class RowsParams(StageParams):
    table: str
    rows: list[dict[str, Any]]


def entities_artifact(store: ArtifactStore, rows: Sequence[Mapping[str, Any]], table: str = "kg_entities") -> Artifact:
    """An artifact of entities; what a row does not say is empty."""
    schema = schemas.TABLES[table]
    empty = {field.name: _empty(field.type) for field in schema}

    @stage(name=f"given_{table}", version=1, params=RowsParams, tables=(table,))
    def given(inputs: Mapping[str, Any], params: RowsParams, out: Output) -> None:
        with out.part() as part:
            part.write(table, [{**empty, **row} for row in params.rows])

    return run(given, store, RowsParams(table=table, rows=[dict(row) for row in rows]), {}).artifact


def _empty(kind: pa.DataType) -> Any:
    if pa.types.is_list(kind):
        return []
    if pa.types.is_string(kind):
        return ""
    return False if pa.types.is_boolean(kind) else 0
