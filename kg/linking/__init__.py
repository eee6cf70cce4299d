"""Entity linking: names of a graph found in text."""

from kg.linking.linker import EntityLinker

__all__ = ["EntityLinker"]
