"""Knowledge: `knowledge.fuse`, which is the flow knowledge/fuse."""

from __future__ import annotations

from flows.api.calls import runs
from flows.api.results import Graph
from flows.knowledge import knowledge as flow


@runs(flow.fn)
def fuse(folder: str) -> Graph:
    """Fuse knowledge graphs, rank the neighbours of every entity, and link the graph to a corpus.

    Returns the fused graph, with its linker.
    """
    return Graph.at(folder)
