"""Draws of replacements: synonyms, and others of the type by either rule."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.errors import UserError
from models.objectives.embert.surfaces import EntitySurfaces
from tests.support.training.entity_rows import random_surfaces, surfaces_of

#        0        1        2        3        4        5        6
SMALL = surfaces_of(
    [[30], [31], [32, 33], [34], [35], [36, 37], [38]],
    [[1], [1], [2], [1], [1], [2], [1]],
    groups=[0, 0, 0, 1, 1, -1, 2],
    pools=[5, 5, 5, 5, 5, -1, 5],
    frequencies=[6, 3, 1, 8, 2, 9, 4],
)
"""Groups {0, 1, 2} and {3, 4}; 5 has no group, and 6 is alone in its own."""


def test_only_surfaces_with_a_synonym_are_replaceable() -> None:
    assert SMALL.group.tolist() == [0, 0, 0, 1, 1, -1, -1]
    lonely = surfaces_of([[30], [31]], [[1], [1]], groups=[0, 0], pools=[0, 0])
    assert lonely.group.tolist() == [-1, -1], "no other entity of the type"


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 500), draws=st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=30))
def test_draws_are_of_the_right_group_and_pool(seed: int, draws: list[float]) -> None:
    surfaces = random_surfaces(seed % 7, groups=4 + seed % 9)
    able = np.flatnonzero(surfaces.group >= 0)
    old = np.random.default_rng(seed).choice(able, len(draws))
    same = surfaces.synonym(old, np.array(draws))
    assert (surfaces.group[same] == surfaces.group[old]).all()
    assert (same != old).all()
    for other in (surfaces.other(old, np.array(draws)), surfaces.other_as_frequent(old, np.array(draws))):
        assert (surfaces.group[other] != surfaces.group[old]).all()
        assert (surfaces.pool[surfaces.group[other]] == surfaces.pool[surfaces.group[old]]).all()
        assert (surfaces.unseen[other] == surfaces.unseen[old]).all()


def test_synonyms_are_equally_likely() -> None:
    uniforms = (np.arange(1000) + 0.5) / 1000
    found = np.bincount(SMALL.synonym(np.full(1000, 0), uniforms), minlength=7)
    assert found.tolist() == [0, 500, 500, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("old", "expected"),
    [(0, [0, 0, 0, 30, 30, 20, 20, 20]), (3, [20, 20, 20, 0, 0, 20, 20, 20]), (6, [20, 20, 20, 30, 30, 0, 0, 0])],
)
def test_other_entities_of_the_type_are_equally_likely(old: int, expected: list[int]) -> None:
    surfaces = surfaces_of(
        [[30 + number] for number in range(10)],
        [[1]] * 10,
        groups=[0, 0, 0, 1, 1, 2, 2, 2, 3, 3],
        pools=[4] * 8 + [5] * 2,
        frequencies=range(10),
    )
    uniforms = (np.arange(120) + 0.5) / 120
    found = np.bincount(surfaces.other(np.full(120, old), uniforms), minlength=10)
    assert found.tolist() == [*expected, 0, 0]


def test_surface_alone_does_not_give_the_label_away() -> None:
    """Over the corpus, a surface is drawn as often by `other_as_frequent` as by `synonym`, relative to its pool."""
    frequencies = np.array([6, 3, 1, 8, 2, 9, 4])
    weights = {
        s: sum(frequencies[o] for o in group if o != s) / (len(group) - 1)
        for group in ((0, 1, 2), (3, 4))
        for s in group
    }
    uniforms = (np.arange(20_000) + 0.5) / 20_000
    found = np.bincount(SMALL.other_as_frequent(np.full(20_000, 3), uniforms), minlength=7) / 20_000
    expected = np.array([weights[s] for s in (0, 1, 2)]) / sum(weights[s] for s in (0, 1, 2))
    np.testing.assert_allclose(found[:3], expected, atol=1e-3)
    assert found[3:].sum() == 0
    assert [weights[s] for s in (0, 1, 2)] == [2.0, 3.5, 4.5]


def test_pool_without_occurrences_is_drawn_from_uniformly() -> None:
    silent = surfaces_of([[30], [31], [32], [33]], [[1]] * 4, [0, 0, 1, 1], [0] * 4, frequencies=[0] * 4)
    uniforms = (np.arange(100) + 0.5) / 100
    assert np.bincount(silent.other_as_frequent(np.zeros(100, np.int64), uniforms), minlength=4).tolist() == [
        0,
        0,
        50,
        50,
    ]


def test_saved_surfaces_are_mapped_again(tmp_path: Path) -> None:
    made = random_surfaces()
    made.save(tmp_path)
    mapped = EntitySurfaces.open(tmp_path)
    assert isinstance(mapped.ids, np.memmap)
    for name in ("ids", "borders", "is_end", "adjective", "group", "weights", "joins"):
        np.testing.assert_array_equal(getattr(mapped, name), getattr(made, name))
    assert len(mapped) == len(made)
    (tmp_path / "weights.npy").write_bytes(b"damaged")
    with pytest.raises(UserError, match=r"weights\.npy cannot be read: .*Delete the artifact"):
        EntitySurfaces.open(tmp_path)
