"""The knowledge graphs that a run is given, read and fused: what the flows over knowledge begin with."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from flows.recipe import Recipe
from infra.artifacts import Artifact
from infra.errors import UserError
from kg.fusion import vocabularies
from kg.sources import cmekg, icd10
from tasks.files.raw_input import RawInput
from tasks.knowledge.fuse import fuse_graphs
from tasks.knowledge.link import (
    EntityFrequenciesParams,
    UnambiguousCountsParams,
    entity_frequencies,
    unambiguous_counts,
)
from tasks.knowledge.read import ReadGraphParams, read_graph
from tasks.runner import StageRunner

logger = logging.getLogger(__name__)

Graphs = Mapping[str, Mapping[str, Any]]
"""By the name of the source: `path`, a table `types`, and the parameters of the stage `read_graph`."""

_INSTALLED = {"cmekg": cmekg.locate, "icd10": icd10.locate}
"""Formats whose files a package brings, for those who name no path."""

_TYPES = {"cmekg": cmekg.TYPES, "icd10": icd10.CHAPTERS}
"""Formats that come with a table of types, for those who name none."""


def read_request(graphs: Graphs | None) -> dict[str, tuple[ReadGraphParams, dict[str, RawInput]]]:
    """Parameters and inputs of each graph's reading, checked before any work is done.

    Args:
        graphs: see `Graphs`; None stands for CMeKG, and ICD-10 where its package is installed.

    Raises:
        UserError: a graph has an unknown key or a value that cannot be, names no path, or is not there.
    """
    return {name: _request(name, dict(given)) for name, given in (_installed() if graphs is None else graphs).items()}


def check_tables(types: str | None, relations: str | None) -> None:
    """Read the tables of types and relations before any work is done; raises `UserError` where one has a fault."""
    vocabularies.Vocabulary.read(*(None if table is None else Path(table) for table in (types, relations)))


def fused(
    run: StageRunner,
    recipe: Recipe,
    graphs: Mapping[str, tuple[ReadGraphParams, dict[str, RawInput]]],
    types: str | None = None,
    relations: str | None = None,
) -> Artifact:
    """One graph of all: the artifact with kg_entities and kg_triples."""
    read = {name: run(read_graph, params, **inputs) for name, (params, inputs) in sorted(graphs.items())}
    tables = {
        "types": RawInput(types or vocabularies.TYPES),
        "relations": RawInput(relations or vocabularies.RELATIONS),
    }
    return run(fuse_graphs, recipe.fuse, **{f"graph_{name}": artifact for name, artifact in read.items()}, **tables)


def deciding_frequencies(run: StageRunner, segments: Artifact, entities: Artifact) -> dict[str, Artifact]:
    """What decides on a name that entities share: `entity_frequencies`, how often each occurs by names of its own.

    Nothing where no name is shared.
    """
    counted = run(unambiguous_counts, UnambiguousCountsParams(), segments=segments, entities=entities)
    if not counted.manifest.counters.get("ambiguous_surfaces"):
        return {}
    return {"entity_frequencies": run(entity_frequencies, EntityFrequenciesParams(), links=counted)}


def _installed() -> dict[str, dict[str, Any]]:
    graphs: dict[str, dict[str, Any]] = {"cmekg": {"format": "cmekg"}}
    try:
        icd10.locate()
    except UserError:
        logger.info("ICD-10 is not installed and left out; infra/fetch_icd10.sh brings it")
        return graphs
    return {**graphs, "icd10": {"format": "icd10"}}


def _request(name: str, given: dict[str, Any]) -> tuple[ReadGraphParams, dict[str, RawInput]]:
    path, types = given.pop("path", None), given.pop("types", None)
    try:
        params = ReadGraphParams(**{"source": name, **given})
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(map(str, problem["loc"]))
        known = ", ".join(("path", "types", *ReadGraphParams.model_fields))
        raise UserError(f"graphs.{name}.{where}: {problem['msg']}. Known keys: {known}.") from error
    if path is None:
        if params.format not in _INSTALLED:
            raise UserError(f"graphs.{name} names no path. Give the file or folder of the graph as its path.")
        path = _INSTALLED[params.format]()
    types = _TYPES.get(params.format) if types is None else types
    inputs = {"graph": RawInput(path)} | ({} if types is None else {"types": RawInput(types)})
    for raw in inputs.values():
        raw.places()
    return params, inputs
