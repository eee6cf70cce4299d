"""Numbered names to align, with the statements of all graphs about each name."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import polars as pl

from kg.columns import at
from kg.fusion.components import Indices


@dataclass(frozen=True)
class Nodes:
    """Names to align; a node is an index in `forms`."""

    forms: pl.Series
    """Comparable names, sorted and distinct."""
    presence: pl.DataFrame
    """(node, graph): the graphs in which it is a name, distinct."""
    types: pl.DataFrame
    """(node, type, source): its type in each source, distinct, known types only."""
    surfaces: pl.DataFrame
    """(node, value, is_name): every comparable name and alias of a node, distinct."""
    codes: pl.DataFrame
    """(node, value): its codes, distinct."""
    edges: pl.DataFrame
    """(head, tail): its neighbours."""
    apart: Indices = field(default_factory=lambda: np.zeros(0, np.int64))
    """Nodes that are never aligned. None of their aliases and codes, and no alias equal to one of them, is above."""

    @property
    def count(self) -> int:
        return len(self.forms)


def with_cluster(frame: pl.DataFrame, labels: Indices) -> pl.DataFrame:
    """Return the frame with a column `cluster`, the label of its column `node`."""
    return frame.with_columns(cluster=at(labels, "node"))
