"""Inputs of a training run: recorded by name where it begins, and opened by each worker.

Each task of an objective reads one table (models/training/tasks.py). The table belongs to exactly one of the inputs.
"""

from __future__ import annotations

from collections.abc import Mapping

from infra.artifacts import Artifact, ArtifactStore, InputRecord
from infra.errors import UserError

EXAMPLES = "examples"
"""Name of the input that every run has, an artifact of the stage `encode`; it also leads to the vocabulary."""

TABLE_REMEDIES: dict[str, str] = {
    "pairs": "The flow pretrain makes it with the stage `pairs`; the preset's section [pairs] sets it.",
    "products": "The flow pretrain makes it with the stage `products`; set model.pap_share to 0 to train without.",
}
"""By the name of a table, how a run gets it or does without it, for messages."""


def recorded(artifacts: Mapping[str, Artifact]) -> dict[str, InputRecord]:
    """Return the addresses of artifacts, by the names of the inputs."""
    return {name: InputRecord(stage=one.stage, fingerprint=one.fingerprint) for name, one in artifacts.items()}


def opened(records: Mapping[str, InputRecord], root: str) -> dict[str, Artifact]:
    """Return the artifacts at these addresses in the store at `root`, by the names of the inputs.

    Raises:
        UserError: the store lacks one; the message names it.
    """
    store = ArtifactStore(root)
    return {name: _opened(name, record, store) for name, record in records.items()}


def source_of(table: str, artifacts: Mapping[str, Artifact], objective: str) -> Artifact:
    """Return the input that has a table which a task of the objective reads.

    Raises:
        UserError: none has it, or several have; the message names them.
    """
    found = {name: one for name, one in artifacts.items() if table in one.manifest.tables}
    if not found:
        remedy = TABLE_REMEDIES.get(table, f"Give `train` an artifact of the stage that writes {table}.")
        raise UserError(
            f"Objective {objective} reads the table {table} with these settings, and none of its inputs "
            f"({', '.join(artifacts)}) has it. {remedy}"
        )
    if len(found) > 1:
        raise UserError(
            f"Objective {objective} reads the table {table}, and several of its inputs have one: {', '.join(found)}. "
            "Give one of them."
        )
    (source,) = found.values()
    return source


def _opened(name: str, record: InputRecord, store: ArtifactStore) -> Artifact:
    found = store.get(record.stage, record.fingerprint)
    if found is None:
        raise UserError(
            f"{store.root} has no {name} {record.fingerprint} (stage {record.stage}). On a cluster every node must see "
            "YIWEN_HOME: a shared file system, or a URI such as s3://…."
        )
    return found
