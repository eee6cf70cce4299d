"""Fusion of several knowledge graphs into one: alignment, conflicts, provenance."""

from kg.fusion.fused_graph import fuse, fuse_with_evidence

__all__ = ["fuse", "fuse_with_evidence"]
