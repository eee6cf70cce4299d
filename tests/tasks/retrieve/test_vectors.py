"""Exact search of vectors, and fusion of rankings, beside plain implementations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.retrieve import vectors as searching
from tasks.retrieve.candidates import Candidate
from tasks.retrieve.fusion import FusedIndex, fuse
from tasks.retrieve.vectors import VectorIndex

WIDTH = 4


def vector_of(text: str) -> np.ndarray:
    """A unit vector of few values, so that many are equal; zeros for a blank text."""
    if not text.strip():
        return np.zeros(WIDTH, np.float32)
    drawn = np.random.default_rng(sum(map(ord, text))).integers(-1, 2, WIDTH).astype(np.float32)
    return drawn / max(1.0, float(np.linalg.norm(drawn)))


def encode(texts: Sequence[str]) -> np.ndarray:
    return np.stack([vector_of(text) for text in texts])


def index_of(names: Sequence[Sequence[str]], dtype: str = "float32") -> VectorIndex:
    firsts = np.cumsum([0, *map(len, names)])
    matrix = encode([name for own in names for name in own]).astype(dtype)
    return VectorIndex([f"C{at}" for at in range(len(names))], ["病"] * len(names), firsts, matrix, encode)


@given(
    st.lists(st.lists(st.text("甲乙丙丁 ", min_size=1, max_size=3), min_size=1, max_size=4), min_size=1, max_size=12),
    st.lists(st.text("甲乙丙丁 ", max_size=3), max_size=5),
    st.integers(1, 6),
    st.sampled_from([1, 3, 8_192]),
)
def test_search_is_that_of_a_loop_over_names(names: list[list[str]], queries: list[str], k: int, at_once: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(searching, "NAMES_AT_ONCE", at_once)
        found = index_of(names).search(queries, k)
    for query, own in zip(queries, found, strict=True):
        asked, scored = vector_of(query), []
        for place, called in enumerate(names):
            cosines = [float(np.round(vector_of(name) @ asked, 5)) for name in called if vector_of(name).any()]
            if cosines and asked.any():
                scored.append((-max(cosines), place))
        expected = [(f"C{place}", -score) for score, place in sorted(scored)[:k]]
        assert [one.code for one in own] == [code for code, _ in expected]
        assert [one.score for one in own] == pytest.approx([score for _, score in expected], abs=1e-5)


def test_rows_do_not_depend_on_the_batch() -> None:
    names = [[f"{at}号病", f"第{at}种"] for at in range(50)]
    queries = [f"{at}号" for at in range(20)]
    index = index_of(names, "float16")
    assert index.search(queries, 7) == [index.search([query], 7)[0] for query in queries]


def test_nearest_name_is_the_one_that_found_the_entry() -> None:
    names = [["甲", "乙丙"], ["丁甲", "丙丙", "乙"]]
    index = index_of(names)
    for query in ("甲", "乙", "丙丙"):
        for found in index.search([query], 2)[0]:
            place, cosine = index.nearest_name(query, found)
            called = [name for own in names for name in own][place]
            assert called in names[int(found.code[1:])]
            assert cosine == pytest.approx(found.score)
            assert cosine == pytest.approx(float(vector_of(called) @ vector_of(query)), abs=1e-5)


def test_vectors_of_another_number_of_names_are_refused() -> None:
    with pytest.raises(ValueError, match="3 names and 2 vectors"):
        VectorIndex(["A"], ["病"], np.array([0, 3]), np.zeros((2, WIDTH)), encode)


CODES = st.lists(st.sampled_from("ABCDEFGH"), unique=True, max_size=8)


@given(CODES, CODES, st.integers(1, 10), st.sampled_from([0.25, 1.0, 3.0]))
def test_fusion_is_the_sum_of_reciprocal_ranks(one: list[str], other: list[str], k: int, weight: float) -> None:
    first = [Candidate(code, "病", 10.0 - place) for place, code in enumerate(one)]
    second = [Candidate(code, "病", 0.9) for code in other]
    worth = {
        code: (1 / (61 + one.index(code)) if code in one else 0)
        + (weight / (61 + other.index(code)) if code in other else 0)
        for code in {*one, *other}
    }
    fused = fuse(first, second, k, weight)
    assert [round(worth[each.code], 12) for each in fused] == sorted(
        (round(value, 12) for value in worth.values()), reverse=True
    )[:k]
    scores = [each.score for each in fused]
    assert scores == sorted(scores, reverse=True)
    kept = {each.code: each.score for each in first}
    assert all(each.score >= kept.get(each.code, 0.0) for each in fused)
    assert set(scores) <= {*kept.values(), 0.0}


def test_fusion_leaves_a_ranking_with_its_scores_where_the_other_agrees() -> None:
    first = [Candidate("A", "病", 5.0), Candidate("B", "病", 3.0), Candidate("C", "病", 1.0)]
    assert fuse(first, first, 3) == first
    assert fuse(first, [], 3) == first
    assert fuse([], first, 2) == [Candidate("A", "病", 0.0), Candidate("B", "病", 0.0)]
    # Found by meaning alone, D comes first with a large weight; its score is that of the best behind it.
    assert fuse(first, [Candidate("D", "病", 0.7)], 2, weight=2.0) == [Candidate("D", "病", 5.0), first[0]]


def test_ranks_count_from_one() -> None:
    """A is worth 1/1, B 1/2 + 0.4/1; with ranks from 0 or 2 another order would come out."""
    first = [Candidate("A", "病", 5.0), Candidate("B", "病", 3.0)]
    assert [one.code for one in fuse(first, first[1:], 2, weight=0.4, constant=0)] == ["A", "B"]
    assert [one.code for one in fuse(first, first[1:], 2, weight=0.6, constant=0)] == ["B", "A"]


class Fixed:
    """An index that finds the same for every text."""

    def __init__(self, *codes: str) -> None:
        self.codes = codes

    def search(self, terms: Sequence[str], k: int) -> list[list[Candidate]]:
        return [[Candidate(code, "病", 1.0) for code in self.codes[:k]] for _ in terms]


def test_fused_index_knows_what_characters_put_first() -> None:
    index = FusedIndex(Fixed("A", "B"), Fixed("B", "C"))
    (found,) = index.search(["x"], 3)
    assert [one.code for one in found] == ["B", "A", "C"]
    assert index.agrees("x", Candidate("A", "病", 0.0))
    assert not index.agrees("x", found[0])
    assert index.agrees("never searched", Candidate("A", "病", 0.0))
    assert not FusedIndex(Fixed(), Fixed("B")).agrees("x", Candidate("B", "病", 0.0))


def test_fused_index_remembers_only_so_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.retrieve.fusion._REMEMBERED", 2)
    asked: list[str] = []

    class Counted(Fixed):
        def search(self, terms: Sequence[str], k: int) -> list[list[Candidate]]:
            asked.extend(terms)
            return super().search(terms, k)

    index = FusedIndex(Counted("A"), Fixed("A"))
    index.search(["x", "y", "z"], 1)
    assert index.agrees("x", Candidate("A", "病", 0.0)) and asked == ["x", "y", "z"]
    index.search(["u"], 1)  # more than two are remembered: they are forgotten
    assert index.agrees("x", Candidate("A", "病", 0.0)) and asked == ["x", "y", "z", "u", "x"]
