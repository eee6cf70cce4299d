"""Components by rounds over partitions are those of a plain union-find."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from infra.artifacts import ArtifactStore
from infra.shuffle import Shuffle
from infra.stage import Output, SerialExecutor, StageParams, run, stage
from tasks.deduplicate.star_rounds import (
    RANK_BITS,
    contracted,
    large_star,
    send_both_ways,
    small_star,
    smallest_of,
    star_components,
)

Edges = Sequence[tuple[int, int]]
CHAIN: Edges = [(node, node + 1) for node in range(200)]
CHAIN_AT_RANDOM: Edges = list(itertools.pairwise(np.random.default_rng(1).permutation(200).tolist()))
STAR: Edges = [(7, node) for node in range(100) if node != 7]
EDGES = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)).filter(lambda edge: edge[0] != edge[1]), max_size=40)


def by_union_find(edges: Edges) -> dict[int, int]:
    """The smallest node of the component of each node that has an edge."""
    parent = {node: node for edge in edges for node in edge}

    def root(node: int) -> int:
        while parent[node] != node:
            node = parent[node]
        return node

    for one, other in edges:
        low, high = sorted((root(one), root(other)))
        parent[high] = low
    return {node: root(node) for node in parent}


def frame(edges: Edges) -> pl.DataFrame:
    """Edges whose neighbour is the smaller end."""
    rows = [(max(edge), min(edge)) for edge in edges]
    return pl.DataFrame(rows, schema={"node": pl.Int64, "neighbour": pl.Int64}, orient="row")


def both_ways(edges: pl.DataFrame) -> pl.DataFrame:
    return pl.concat([edges, edges.select(node="neighbour", neighbour="node")])


def rounds_of(edges: Edges) -> tuple[dict[int, int], int]:
    """The components by rounds over one partition, and how many rounds moved an edge."""
    stars, rounds = frame(edges), 0
    while True:
        large, moved = large_star(both_ways(stars))
        stars, moved_too = small_star(large)
        if not moved + moved_too:
            return dict(smallest_of(both_ways(stars)).rows()), rounds
        rounds += 1


@settings(max_examples=60, deadline=None)
@given(edges=EDGES)
@example(edges=CHAIN)
@example(edges=CHAIN_AT_RANDOM)
@example(edges=STAR)
@example(edges=[*STAR, *((node + 300, node + 301) for node in range(50)), (300, 99)])
def test_rounds_end_with_the_components_of_union_find(edges: Edges) -> None:
    assert rounds_of(edges)[0] == by_union_find(edges)


@pytest.mark.parametrize("edges", [CHAIN, CHAIN_AT_RANDOM])
def test_a_long_chain_takes_few_rounds(edges: Edges) -> None:
    assert 1 < rounds_of(edges)[1] <= 9  # one round joins at least every second star: log2(200) is below 8


@settings(max_examples=60, deadline=None)
@given(edges=EDGES)
def test_contracted_edges_connect_the_same_nodes(edges: Edges) -> None:
    one, other = (np.array([edge[side] for edge in edges], dtype=np.int64) for side in (0, 1))
    assert dict(contracted(one, other).rows()) == {
        node: low for node, low in by_union_find(edges).items() if node != low
    }


class StarParams(StageParams):
    edges: tuple[tuple[int, int], ...]
    partitions: int


def node_of(name: int, partitions: int) -> int:
    """Return a node for each number. Nodes are in another order than the numbers, and spread over all partitions."""
    return (name % partitions << RANK_BITS) + name


@stage(name="stars", version=1, params=StarParams, tables=("metrics",))
def stars(inputs: Mapping[str, Any], params: StarParams, out: Output) -> None:
    """Count the nodes of each component; the figures are named by the smallest nodes."""
    edges = Shuffle(out.scratch, "edges", params.partitions, params.partitions)
    nodes = [(node_of(one, params.partitions), node_of(other, params.partitions)) for one, other in params.edges]
    for sender in range(params.partitions):
        send_both_ways(edges, sender, frame(nodes[sender :: params.partitions]))
    found = star_components(out, edges)
    with out.part() as part:
        for partition in range(params.partitions):
            for node, low in sorted(smallest_of(found.receive(partition)).rows()):
                assert node >> RANK_BITS == partition
                part.write("metrics", [{"step": node, "split": "train", "name": str(low), "value": 1.0}])


def components_of(store: ArtifactStore, edges: Edges, partitions: int, executor: Any = None) -> dict[int, int]:
    given_params = StarParams(edges=tuple(edges), partitions=partitions)
    made = run(stars, store, given_params, {}, executor=executor or SerialExecutor()).artifact
    return {row["step"]: int(row["name"]) for row in made.to_table("metrics").to_pylist()}


def expected(edges: Edges, partitions: int) -> dict[int, int]:
    return by_union_find([(node_of(one, partitions), node_of(other, partitions)) for one, other in edges])


@settings(max_examples=6, deadline=None)
@given(edges=EDGES, partitions=st.integers(1, 4))
@example(edges=CHAIN_AT_RANDOM[:40], partitions=3)
def test_partitions_change_nothing(edges: Edges, partitions: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        assert components_of(ArtifactStore(Path(folder)), edges, partitions) == expected(edges, partitions)


class KilledError(Exception):
    """Ends a build after some units."""


class MortalExecutor(SerialExecutor):
    """Does so many units, then dies before it reports the next, which it has done."""

    def __init__(self, units: int) -> None:
        self.left = units
        self.done: list[int] = []

    def run(self, place: Any, function: Any, units: Any) -> Any:
        for record in super().run(place, function, units):
            self.done.append(record.index)
            if not self.left:
                raise KilledError
            self.left -= 1
            yield record


def test_a_build_killed_between_rounds_resumes_there(store: ArtifactStore) -> None:
    edges, partitions = CHAIN_AT_RANDOM[:30], 2
    for units in (3, 4, 5):
        with pytest.raises(KilledError):
            components_of(store, edges, partitions, MortalExecutor(units))
    rest = MortalExecutor(10_000)
    assert components_of(store, edges, partitions, rest) == expected(edges, partitions)
    # Each kill loses nothing: 3 + 1, 4 + 1 and 5 + 1 units were finished before.
    assert min(rest.done) == 1_000_000 + 15
