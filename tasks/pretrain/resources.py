"""Artifacts that an objective reads beside its rows: chosen among the inputs of `train`, and checked.

An objective's settings name them (`resources` of its config); each worker gives them to the objective with `attach`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from infra.artifacts import Artifact, InputRecord
from infra.errors import UserError
from models import objectives
from models.training.columns import MENTIONS
from tasks.pretrain.linked import linked_entities
from tasks.training.run_spec import RunSpec
from tasks.training.sources import source_of

STAGES = {"entity_surfaces": "entity_surfaces", "knowledge": "knowledge_arrays", "products": "products"}
"""By the name of a resource, the stage that makes it."""
_FROM_GRAPHS = "makes it from knowledge graphs: give --param mentions=true, and your own with --param graphs=…"
REMEDIES = {
    "entity_surfaces": _FROM_GRAPHS,
    "knowledge": _FROM_GRAPHS,
    "products": "makes it from CMeKG's drugs, or from your table with --param product_records.source=…",
}
"""How the flow pretrain makes each."""


def resource_artifacts(objective: str, model: Mapping[str, Any], inputs: Mapping[str, Any]) -> dict[str, Artifact]:
    """Return the inputs that an objective with these settings reads beside its rows.

    Raises:
        UserError: one is missing, or is an artifact of another stage than makes it.
    """
    found = {}
    for name in objectives.resources(objective, model):
        given = inputs.get(name)
        stage = STAGES.get(name)
        if given is None or (stage is not None and given.stage != stage):
            there = "none was given" if given is None else f"{given.path} is one of the stage {given.stage}"
            raise UserError(
                f"Objective {objective} reads {name}, an artifact of the stage {stage or name}, but {there}. The flow "
                f"pretrain {REMEDIES.get(name, 'makes it')}"
            )
        found[name] = given
    return found


def check_resources(spec: RunSpec, rows: Mapping[str, Artifact], resources: Mapping[str, Artifact]) -> None:
    """Check that the entities of the resources are those that the rows mention.

    Args:
        rows: inputs with tables of rows, by name.
        resources: those of `resource_artifacts`. One that is of a graph has it as its input `graph`.

    Raises:
        UserError: a resource is of another graph than the mentions, or is not the one that the rows were made with; the
            message names both.
    """
    for task in objectives.describe(spec.objective, spec.model).tasks:
        source = source_of(task.table, rows, spec.objective)
        for name, resource in resources.items():
            made_with = source.manifest.inputs.get(name)
            if made_with is not None and made_with.fingerprint != resource.fingerprint:
                raise UserError(
                    f"{source.path} was made with the {name} {_address(made_with)}, and not with {resource.path}: the "
                    "same numbers would mean other entities. Give the one that it was made with."
                )
        if MENTIONS not in task.columns:
            continue
        linked = linked_entities(source)
        for name, resource in resources.items():
            graph = resource.manifest.inputs.get("graph")
            if graph is not None and graph != linked:
                raise UserError(
                    f"The {name} {resource.path} is of the graph {_address(graph)}, but the mentions of {source.path} "
                    f"are rows of {_address(linked)}: the same numbers would mean other entities. Make both from one "
                    "graph, as the flow pretrain does."
                )


def _address(record: InputRecord | None) -> str:
    return "no graph" if record is None else f"{record.stage}/{record.fingerprint}"
