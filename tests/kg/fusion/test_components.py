"""Connected components, against networkx."""

from __future__ import annotations

import networkx as nx
from hypothesis import given, settings
from hypothesis import strategies as st

from kg.fusion.components import connected_components


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 30).flatmap(lambda n: st.tuples(st.just(n), st.lists(st.tuples(*[st.integers(0, n - 1)] * 2)))))
def test_labels_are_the_smallest_members_of_networkx_components(drawn: tuple[int, list[tuple[int, int]]]) -> None:
    count, pairs = drawn
    peer = nx.Graph(pairs)
    peer.add_nodes_from(range(count))
    expected = {node: min(component) for component in nx.connected_components(peer) for node in component}
    labels = connected_components(count, [one for one, _ in pairs], [other for _, other in pairs])
    assert labels.tolist() == [expected[node] for node in range(count)]


def test_long_chain_is_one_component() -> None:
    count = 20_000
    assert set(connected_components(count, range(count - 1), range(1, count))) == {0}
