"""Known triples: membership and partners against a set."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kg.embedding.known import KnownTriples

ENTITIES, RELATIONS = 6, 3
triple_sets = st.sets(
    st.tuples(st.integers(0, ENTITIES - 1), st.integers(0, RELATIONS - 1), st.integers(0, ENTITIES - 1))
)


@given(triple_sets)
def test_known_triples_equal_a_set(triples: set[tuple[int, int, int]]) -> None:
    given_twice = np.array([*triples, *triples], dtype=np.int32).reshape(-1, 3)
    known = KnownTriples(*given_twice.T, ENTITIES, RELATIONS)
    assert len(known) == len(triples)
    heads, relations, tails = np.indices((ENTITIES, RELATIONS, ENTITIES))
    found = known.contains(heads, relations, tails)
    assert {tuple(place) for place in np.argwhere(found).tolist()} == triples
    for relation in range(RELATIONS):
        for entity in range(ENTITIES):
            assert known.tails(entity, relation).tolist() == sorted(
                t for h, r, t in triples if (h, r) == (entity, relation)
            )
            assert known.heads(relation, entity).tolist() == sorted(
                h for h, r, t in triples if (r, t) == (relation, entity)
            )


@pytest.mark.parametrize(
    ("triple", "sizes", "message"),
    [
        (([0, 1], [0], [1, 1]), (2, 1), "2 heads, 1 relations, 2 tails"),
        (([2], [0], [1]), (2, 1), r"head numbers run from 2 to 2.*\[0, 2\)"),
        (([0], [-1], [1]), (2, 1), "relation numbers run from -1"),
        (([0], [0], [5]), (2, 1), "tail numbers"),
        (([0], [0], [1]), (2**31, 4), "64-bit keys"),
    ],
)
def test_bad_input_is_rejected(
    triple: tuple[list[int], list[int], list[int]], sizes: tuple[int, int], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        KnownTriples(*(np.array(column) for column in triple), *sizes)
