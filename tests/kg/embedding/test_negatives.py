"""Negatives: probabilities against counts, uniform draws, and no true ones if filtered."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.errors import UserError
from kg.embedding.known import KnownTriples
from kg.embedding.negatives import BernoulliNegatives, head_probabilities

ENTITIES, RELATIONS = 7, 3
triple_sets = st.sets(
    st.tuples(st.integers(0, ENTITIES - 1), st.integers(0, RELATIONS - 1), st.integers(0, ENTITIES - 1)), min_size=1
)


def columns(triples: object) -> np.ndarray:
    """int64 (3, T)."""
    return np.array(sorted(triples), dtype=np.int64).reshape(-1, 3).T  # type: ignore[call-overload]


@given(triple_sets)
def test_head_probabilities_equal_those_from_counts(triples: set[tuple[int, int, int]]) -> None:
    found = head_probabilities(*columns(triples), RELATIONS + 1)
    for relation in range(RELATIONS + 1):
        tails_of, heads_of = defaultdict(set), defaultdict(set)
        for head, of, tail in triples:
            if of == relation:
                tails_of[head].add(tail)
                heads_of[tail].add(head)
        if not tails_of:
            assert found[relation] == 0.5
            continue
        tph = sum(map(len, tails_of.values())) / len(tails_of)
        hpt = sum(map(len, heads_of.values())) / len(heads_of)
        assert found[relation] == pytest.approx(tph / (tph + hpt))


def test_one_to_many_relation_replaces_mostly_the_one() -> None:
    """One head with 9 tails: 9 tails per head, 1 head per tail."""
    triples = columns({(0, 0, tail) for tail in range(1, 10)})
    assert head_probabilities(*triples, 1).tolist() == [0.9]


@settings(max_examples=50)
@given(triple_sets, st.integers(0, 5), st.booleans())
def test_negatives_replace_one_end(triples: set[tuple[int, int, int]], seed: int, filtered: bool) -> None:
    heads, relations, tails = columns(triples)
    sampler = BernoulliNegatives(heads, relations, tails, ENTITIES, RELATIONS, filtered=filtered)
    drawn = sampler.sample(heads, relations, tails, 4, np.random.default_rng(seed))
    again = sampler.sample(heads, relations, tails, 4, np.random.default_rng(seed))
    assert np.array_equal(drawn.entities, again.entities)
    assert np.array_equal(drawn.of_head, again.of_head)
    assert drawn.entities.shape == drawn.of_head.shape == (len(heads), 4)
    assert ((drawn.entities >= 0) & (drawn.entities < ENTITIES)).all()
    replaced = np.where(drawn.of_head, heads[:, None], tails[:, None])
    assert (drawn.entities != replaced).all()
    if filtered:
        negatives = {
            (int(e), int(r), int(t)) if of_head else (int(h), int(r), int(e))
            for h, r, t, entities, sides in zip(heads, relations, tails, drawn.entities, drawn.of_head, strict=True)
            for e, of_head in zip(entities, sides, strict=True)
        }
        assert not negatives & triples


def test_draws_are_uniform_and_sides_have_the_given_probability() -> None:
    heads, relations, tails = columns({(0, 0, tail) for tail in (1, 2, 3)})  # probability 3 / 4
    sampler = BernoulliNegatives(heads, relations, tails, 5, 1)
    drawn = sampler.sample(heads[:1], relations[:1], tails[:1], 40_000, np.random.default_rng(0))
    assert drawn.of_head.mean() == pytest.approx(0.75, abs=0.01)
    shares = np.bincount(drawn.entities[drawn.of_head], minlength=5) / drawn.of_head.sum()
    assert shares == pytest.approx([0, 0.25, 0.25, 0.25, 0.25], abs=0.015)


def test_rare_false_replacement_is_found() -> None:
    """Head 0 has every tail except 299: draws miss it, the list does not."""
    size = 300
    heads, relations, tails = columns({(0, 0, tail) for tail in range(size - 1)} | {(h, 0, 5) for h in range(size)})
    sampler = BernoulliNegatives(heads, relations, tails, size, 1, filtered=True)
    wanted = np.array([5])
    drawn = sampler.sample(np.array([0]), np.array([0]), wanted, 50, np.random.default_rng(1))
    # All heads of tail 5 are true, so only the tail can be replaced, and only by the last entity.
    assert (drawn.entities == size - 1).all()
    assert not drawn.of_head.any()


def test_few_true_replacements_are_drawn_again_and_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list costs as much as there are entities; a draw costs a look-up."""
    size = 100
    heads, relations, tails = columns({(0, 0, tail) for tail in range(1, size // 2)})
    sampler = BernoulliNegatives(heads, relations, tails, size, 1, filtered=True)
    listed = []
    monkeypatch.setattr(KnownTriples, "tails", lambda *given: listed.append(given) or tails)
    drawn = sampler.sample(heads, relations, tails, 200, np.random.default_rng(0))
    of_tail = ~drawn.of_head
    assert (of_tail & (drawn.entities >= size // 2)).sum() > 50
    assert len(listed) < of_tail.sum() / 100


def test_error_when_every_replacement_is_true_names_the_triple() -> None:
    heads, relations, tails = columns({(h, 0, t) for h in range(3) for t in range(3)})
    sampler = BernoulliNegatives(heads, relations, tails, 3, 1, filtered=True)
    with pytest.raises(UserError, match=r"triple \(0, 0, 0\).*has no filtered negatives.*filtered_negatives = false"):
        sampler.sample(heads, relations, tails, 1, np.random.default_rng(0))


def test_single_entity_has_no_negatives() -> None:
    one = np.zeros(1, np.int64)
    with pytest.raises(ValueError, match="1 entities"):
        BernoulliNegatives(one, one, one, 1, 1)
