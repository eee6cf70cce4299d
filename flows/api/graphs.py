"""Knowledge graphs and the linking of their names: `KnowledgeGraph` and `EntityLinker`."""

from kg.graph import KnowledgeGraph
from kg.linking import EntityLinker

__all__ = ["EntityLinker", "KnowledgeGraph"]
