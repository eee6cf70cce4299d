"""What models read of a fused graph: neighbours, links to the corpus, vectors, and all of it as arrays."""

from __future__ import annotations

from collections.abc import Mapping

from flows.recipes.knowledge import KnowledgeRecipe
from flows.shared.graphs import deciding_frequencies
from infra.artifacts import Artifact
from tasks.knowledge.arrays import KnowledgeArraysParams, knowledge_arrays
from tasks.knowledge.link import EntityFrequenciesParams, entity_frequencies, link
from tasks.runner import StageRunner


def studied(
    run: StageRunner, recipe: KnowledgeRecipe, graph: Artifact, segments: Artifact, vectors: bool = True
) -> dict[str, Artifact]:
    """Rank the neighbours of every entity of a graph, link the graph to segments, and embed it.

    Returns:
        By name: neighbours, mentions, entity_frequencies and, if `vectors`, embeddings.
    """
    # Torch is imported here, so that mistakes are explained without it.
    from tasks.knowledge.embed import embed_graph
    from tasks.knowledge.neighbours import neighbours

    found = {"neighbours": run(neighbours, recipe.neighbours, graph=graph)}
    deciding = deciding_frequencies(run, segments, graph)
    found["mentions"] = run(link, recipe.link, segments=segments, entities=graph, **deciding)
    found["entity_frequencies"] = run(entity_frequencies, EntityFrequenciesParams(), links=found["mentions"])
    if vectors:
        found["embeddings"] = run(embed_graph, recipe.embed, graph=graph)
    return found


def arrays_of(run: StageRunner, graph: Artifact, found: Mapping[str, Artifact]) -> Artifact:
    """Return the arrays of a graph from what `studied` found of it, vectors included."""
    read = {name: found[name] for name in ("neighbours", "embeddings", "entity_frequencies")}
    return run(knowledge_arrays, KnowledgeArraysParams(), graph=graph, **read)
