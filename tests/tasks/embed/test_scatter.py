"""The scatter picture: types apart on the plane, labels that have glyphs and cover no other, the same bytes again."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from tasks.embed.scatter import _with_room, draw_scatter, on_a_plane


@pytest.fixture(scope="module")
def vectors() -> np.ndarray:
    random = np.random.default_rng(0)
    centres = 4 * random.normal(size=(3, 16))
    return (centres[np.arange(90) % 3] + random.normal(size=(90, 16))).astype(np.float32)


@pytest.fixture(scope="module")
def places(vectors: np.ndarray) -> np.ndarray:
    return on_a_plane(vectors, seed=1)


def test_a_type_is_a_cluster_on_the_plane(places: np.ndarray) -> None:
    distances = np.linalg.norm(places[:, None] - places[None], axis=2)
    np.fill_diagonal(distances, np.inf)
    assert (distances.argmin(axis=1) % 3 == np.arange(90) % 3).mean() > 0.95


def test_the_plane_is_the_same_for_a_seed(vectors: np.ndarray, places: np.ndarray) -> None:
    assert np.array_equal(on_a_plane(vectors, seed=1), places)


def test_the_picture_has_glyphs_for_chinese_and_is_always_the_same(places: np.ndarray) -> None:
    labels = [f"再生障碍性贫血$5$_{number}" for number in range(90)]
    types = ["疾病", "药物", ""] * 30
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # matplotlib warns of each character that its font lacks
        one, other = (draw_scatter(places, labels, types, 20, "医文的词向量") for _ in range(2))
    assert one == other and one.startswith(b"\x89PNG")


def test_many_types_share_grey(places: np.ndarray) -> None:
    types = [f"类{number % 15}" for number in range(90)]
    assert draw_scatter(places, ["病"] * 90, types, 0, "").startswith(b"\x89PNG")


def test_labels_that_would_cover_an_earlier_one_are_left_out() -> None:
    pixels = np.array([[0.0, 0.0], [10.0, 2.0], [200.0, 0.0], [0.0, 40.0], [500.0, 500.0]])
    assert _with_room(pixels, ["头痛"] * 5, 10.0, 9) == [0, 2, 3, 4]
    assert _with_room(pixels, ["头痛"] * 5, 10.0, 2) == [0, 2]
