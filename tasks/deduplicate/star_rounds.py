"""Connected components of a graph in partitions, by rounds: no process holds more than the edges of one partition.

The alternating algorithm of Kiveris, Lattanzi, Mirrokni, Rastogi and Vassilvitskii, "Connected Components in MapReduce
and Beyond" (SoCC 2014), section 3. A round is two steps. Large-star connects all larger neighbours of a node to the
smallest node that it knows, small-star all smaller ones and the node itself. Neither changes what is connected, or adds
edges. When a round moves no edge, every component is a star around its smallest node.

A node is an int64: its partition in the upper bits and its rank within the partition below. Each step is a map over
partitions, as units of the build; a killed build resumes after the last finished unit. The paper proves O(log² n)
rounds; what `contracted` joins beforehand within a partition takes none.

Time grows with edges times rounds. Memory: the edges of one partition (about 60 bytes each), but at least the largest
star, since all edges of a node meet in its partition. Disk: 32 bytes per edge and round until the build is finished.
"""

from __future__ import annotations

import itertools

import numpy as np
import polars as pl

from infra.builds import PartWriter
from infra.shuffle import Shuffle
from infra.stage import Output
from tasks.deduplicate.clusters import components

RANK_BITS = 40
"""Bits of a node that hold its rank within its partition; the partition is above them."""


def home(nodes: pl.Series) -> np.ndarray:
    """Return the partition of each node: int64 (N,)."""
    return nodes.to_numpy() >> RANK_BITS


def contracted(one: np.ndarray, other: np.ndarray) -> pl.DataFrame:
    """Return edges that connect the same nodes, each directly to the smallest of its component.

    Args:
        one, other: int64 (P,), the ends of the edges of one partition, in memory.

    Returns:
        Columns node and neighbour; the neighbour is the smaller one.
    """
    nodes, ends = np.unique(np.concatenate([one, other]), return_inverse=True)
    smallest = nodes[components(len(nodes), ends[: len(one)], ends[len(one) :])]
    moved = nodes != smallest
    return pl.DataFrame({"node": nodes[moved], "neighbour": smallest[moved]})


def large_star(edges: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """Connect the larger neighbours of each node to the smallest node among its neighbours and itself.

    Args:
        edges: columns node and neighbour, all neighbours of each node.

    Returns:
        Edges whose neighbour is the smaller one, and how many were moved.
    """
    low = pl.min_horizontal("node", pl.col("neighbour").min().over("node"))
    larger = edges.with_columns(low=low).filter(pl.col("neighbour") > pl.col("node"))
    moved = larger.filter(pl.col("low") != pl.col("node")).height
    return larger.select(node="neighbour", neighbour="low").unique(), moved


def small_star(edges: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """Connect the smaller neighbours of each node, and the node, to the smallest of them.

    Args:
        edges: columns node and neighbour, all smaller neighbours of each node.

    Returns:
        Edges whose neighbour is the smaller one, and how many were moved.
    """
    known = edges.unique().with_columns(low=pl.col("neighbour").min().over("node"))
    others = known.filter(pl.col("neighbour") != pl.col("low"))
    stars = [known.select("node", neighbour="low"), others.select(node="neighbour", neighbour="low")]
    return pl.concat(stars).unique(), len(others)


def send_both_ways(to: Shuffle, sender: int, edges: pl.DataFrame, note: int = 0) -> None:
    """Send each edge to the partitions of both of its ends, where it starts from the end that lives there."""
    turned = edges.select(node="neighbour", neighbour="node")
    both = pl.concat([edges, turned])
    to.send(sender, both, home(both["node"]), note)


def send_large_stars(writer: PartWriter, partition: int, edges: Shuffle, to: Shuffle) -> None:
    """Do large-star for the nodes of one partition."""
    stars, moved = large_star(edges.receive(partition))
    to.send(partition, stars, home(stars["node"]), moved)


def send_small_stars(writer: PartWriter, partition: int, edges: Shuffle, to: Shuffle) -> None:
    """Do small-star for the nodes of one partition."""
    send_both_ways(to, partition, *small_star(edges.receive(partition)))


def star_components(out: Output, edges: Shuffle) -> Shuffle:
    """Turn every component into a star around its smallest node, by rounds.

    Args:
        edges: columns node and neighbour, sent by `send_both_ways`.

    Returns:
        The edges of the stars, likewise. The only smaller neighbour of a node is the smallest of its component.
    """
    partitions = edges.receivers
    for turn in itertools.count():
        large = Shuffle(edges.scratch, f"large-stars-{turn:03d}", partitions, partitions)
        out.prepare(send_large_stars, range(partitions), edges, large)
        small = Shuffle(edges.scratch, f"small-stars-{turn:03d}", partitions, partitions)
        out.prepare(send_small_stars, range(partitions), large, small)
        if not sum(large.notes()) + sum(small.notes()):
            return small
        edges = small
    raise AssertionError("unreachable: the rounds end")


def smallest_of(stars: pl.DataFrame) -> pl.DataFrame:
    """Return the component of each node of one partition, named by its smallest node: columns node and component."""
    low = pl.min_horizontal(pl.col("neighbour").min(), pl.col("node").first())
    return stars.group_by("node").agg(component=low)
