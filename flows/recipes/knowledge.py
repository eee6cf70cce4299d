"""Sections of a preset about data and the knowledge graph: what the flow `knowledge` runs with."""

from __future__ import annotations

from pydantic import Field

from flows.recipes.data import Recipe
from tasks.knowledge.params import EmbedParams, NeighbourParams


class KnowledgeRecipe(Recipe):
    """Parameters of every stage that works on data or on the fused graph."""

    neighbours: NeighbourParams = Field(default_factory=NeighbourParams)
    embed: EmbedParams = Field(default_factory=EmbedParams)
