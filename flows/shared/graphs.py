"""Knowledge graphs of a run: what users ask for is checked first, then read and fused."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from flows.recipes.data import Recipe
from flows.recipes.loading import Values, checked
from flows.shared.documents import found
from infra.artifacts import Artifact
from infra.errors import UserError
from kg.fusion import vocabularies
from kg.sources import cmekg, icd10
from tasks.evaluate.similarity.pairs import similarity_pairs
from tasks.files.raw_input import RawInput
from tasks.knowledge.fuse import HELD_OUT, fuse_graphs
from tasks.knowledge.link import (
    EntityFrequenciesParams,
    UnambiguousCountsParams,
    entity_frequencies,
    unambiguous_counts,
)
from tasks.knowledge.read import ReadGraphParams, read_graph
from tasks.runner import StageRunner, UnmadeError, warn

logger = logging.getLogger(__name__)

Graphs = Annotated[Mapping[str, Mapping[str, Any]], Field(examples=[{"dxy": {"path": "dxy.tsv", "format": "triples"}}])]
"""By the name of the source: `path`, a table `types`, and the parameters of the stage `read_graph`."""

_INSTALLED: dict[str, Callable[[], Path | list[Path]]] = {"cmekg": cmekg.locate, "icd10": icd10.locate}
"""Formats whose files come with a package, for users who give no path."""

_TYPES = {"cmekg": cmekg.TYPES, "icd10": icd10.CHAPTERS}
"""Formats with a shipped table of types, for users who give none."""


class GraphSource(NamedTuple):
    """Parameters and inputs of the stage `read_graph` for one graph."""

    params: ReadGraphParams
    inputs: dict[str, RawInput]


class _GraphRequest(ReadGraphParams):
    """One graph as a user asks for it."""

    path: str | Path | list[str | Path] | None = None
    types: str | Path | None = None


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid")

    graphs: dict[str, _GraphRequest]


def graphs_to_link(graphs: Graphs | None, mentions: bool) -> dict[str, GraphSource]:
    """Return the graphs whose entities the examples of a run are to mention; none without `mentions`.

    Raises:
        UserError: graphs are given and not linked, or `requested_graphs` refuses them.
    """
    if mentions:
        return requested_graphs(graphs)
    if graphs is not None:
        raise UserError(
            "The parameter graphs is given, but nothing of them would be read. Give --param mentions=true to link the "
            "text to them, or leave graphs out."
        )
    return {}


def requested_graphs(graphs: Graphs | None) -> dict[str, GraphSource]:
    """Check a request for graphs before any work is done.

    Args:
        graphs: see `Graphs`; None requests CMeKG, and ICD-10 if its package is installed.

    Raises:
        UserError: a graph has an unknown key or an unusable value, has no path, or is not there.
    """
    wanted = _installed() if graphs is None else graphs
    # A graph without a source is called by its name; anything but a mapping is left for pydantic to explain.
    named = {name: {"source": name, **one} if isinstance(one, Mapping) else one for name, one in wanted.items()}
    request = checked(_Request, Values({"graphs": named}, "the parameter graphs"))
    return {name: _source(name, one) for name, one in request.graphs.items()}


def fusion_tables(types: str | None = None, relations: str | None = None) -> dict[str, RawInput]:
    """Return the tables that map types and relations to those of the fused graph, the shipped ones by default.

    Raises:
        UserError: a table is not there or has a fault.
    """
    for table in (types, relations):
        found(table)
    vocabularies.Vocabulary.read(*(None if table is None else Path(table) for table in (types, relations)))
    return {
        "types": RawInput(types or vocabularies.TYPES),
        "relations": RawInput(relations or vocabularies.RELATIONS),
    }


def fused(
    run: StageRunner,
    recipe: Recipe,
    graphs: Mapping[str, GraphSource],
    tables: Mapping[str, RawInput] | None = None,
) -> Artifact:
    """Read all graphs and fuse them; `tables` are those of `fusion_tables`, the shipped ones by default.

    If the recipe holds pairs of names out, they are drawn from the graph, and it is fused again without them.
    """
    read = sources(run, graphs, tables)
    graph = run(fuse_graphs, recipe.fuse, **read)
    if not recipe.similarity_pairs.hold_out:
        return graph
    return run(fuse_graphs, recipe.fuse, **read, **{HELD_OUT: equal_names(run, recipe, graph, read)})


def sources(
    run: StageRunner, graphs: Mapping[str, GraphSource], tables: Mapping[str, RawInput] | None = None
) -> dict[str, Any]:
    """Read all graphs; return them and the tables of the vocabulary as the inputs of `fuse_graphs`."""
    read: dict[str, Any] = {}
    for name, one in sorted(graphs.items()):
        read[f"graph_{name}"] = graph = run(read_graph, one.params, **one.inputs)
        if one.params.format not in _INSTALLED:
            run.effect(_warn_of_rejects, graph)
    return {**read, **(fusion_tables() if tables is None else tables)}


def _warn_of_rejects(graph: Artifact) -> None:
    """Say where the rows are that gave no triple. Those of a shipped graph are nothing that a user could correct."""
    if not (rejected := graph.rows("rejects")):
        return
    found = graph.manifest.counters.items()
    reasons = ", ".join(f"{key.removeprefix('rejected_')} {n:,}" for key, n in found if key.startswith("rejected_"))
    warn(
        f"{graph.manifest.params['source']}: {rejected:,} rows gave no triple ({reasons}). The table rejects in "
        f"{graph.path} has each with its place and reason."
    )


def equal_names(run: StageRunner, recipe: Recipe, graph: Artifact, read: Mapping[str, Any]) -> Artifact:
    """Return the pairs of equal names of a graph that was fused, with all pairs, from what `sources` returned."""
    return run(similarity_pairs, recipe.similarity_pairs.pairs, fused=graph, **read)


def deciding_frequencies(run: StageRunner, segments: Artifact, entities: Artifact) -> dict[str, Artifact]:
    """Count how often each entity occurs by names of its own, to decide on names that entities share.

    Returns:
        The artifact as the input `entity_frequencies`; nothing if no name is shared.
    """
    counted = run(unambiguous_counts, UnambiguousCountsParams(), segments=segments, entities=entities)
    try:
        if not counted.manifest.counters.get("ambiguous_surfaces"):
            return {}
    except UnmadeError as error:  # a plan cannot know what will be counted
        return {"entity_frequencies": error.undecided}
    return {"entity_frequencies": run(entity_frequencies, EntityFrequenciesParams(), links=counted)}


def _installed() -> dict[str, dict[str, Any]]:
    graphs: dict[str, dict[str, Any]] = {"cmekg": {"format": "cmekg"}}
    try:
        icd10.locate()
    except UserError:
        logger.info("ICD-10 is not installed and is left out; infra/fetch_icd10.sh installs it")
        return graphs
    return {**graphs, "icd10": {"format": "icd10"}}


def _source(name: str, request: _GraphRequest) -> GraphSource:
    if request.path is not None:
        inputs = {"graph": RawInput(request.path)}
    elif request.format in _INSTALLED:
        inputs = {"graph": RawInput(_INSTALLED[request.format]())}
    else:
        raise UserError(f"graphs.{name} has no path. Give the file or folder of the graph as its path.")
    types = _TYPES.get(request.format) if request.types is None else request.types
    if types is not None:
        inputs["types"] = RawInput(types)
    for raw in inputs.values():
        raw.places()
    return GraphSource(ReadGraphParams(**request.model_dump(exclude={"path", "types"})), inputs)
