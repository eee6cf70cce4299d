"""Windows over long texts: one window answers for each token, the one where it is farthest from an edge."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.downstream.features.windows import Window, cut_windows


@given(st.integers(0, 300), st.integers(1, 60), st.data())
def test_windows_cover_the_text_and_share_the_work(length: int, size: int, data: st.DataObject) -> None:
    overlap = data.draw(st.integers(0, size // 2))
    windows = cut_windows(length, size, overlap)
    assert all(window.end - window.start == min(size, length) for window in windows)
    assert all(one.end - other.start >= overlap for one, other in pairwise(windows))
    kept = [token for window in windows for token in range(window.kept_start, window.kept_end)]
    assert kept == list(range(length))
    for token in range(length):
        margins = [min(token - w.start, w.end - 1 - token) if w.start <= token < w.end else -1 for w in windows]
        # the ends of the text are not edges of windows, but only one window reaches them
        owner = next(n for n, w in enumerate(windows) if w.kept_start <= token < w.kept_end)
        assert owner == margins.index(max(margins))


def test_short_text_is_one_window() -> None:
    assert cut_windows(7, 10, 5) == [Window(0, 7, 0, 7)]
    assert cut_windows(0, 10, 5) == [Window(0, 0, 0, 0)]
    assert cut_windows(12, 10, 4) == [Window(0, 10, 0, 6), Window(2, 12, 6, 12)]


@pytest.mark.parametrize(("size", "overlap"), [(0, 0), (10, 6), (10, -1)])
def test_impossible_windows_are_refused(size: int, overlap: int) -> None:
    with pytest.raises(ValueError, match="cannot overlap"):
        cut_windows(30, size, overlap)
