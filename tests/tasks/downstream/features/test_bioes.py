"""BIOES tags: encoded spans are read back, and broken sequences are read as by conlleval."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.downstream.features import bioes
from tasks.downstream.features.bioes import Span


def plain_reading(tags: list[int]) -> list[Span]:
    """Chunks as conlleval reads them, token by token."""
    spans: list[Span] = []
    open_: list[int] | None = None
    for place, tag in enumerate([*tags, 0]):
        type_, letter = divmod(tag - 1, 4) if tag else (None, None)
        continues = open_ is not None and type_ == open_[1] and letter in (1, 2)
        if open_ is not None and not continues:
            spans.append(Span(open_[0], place - 1, open_[1]))
            open_ = None
        if tag and not continues:
            open_ = [place, int(type_)]  # type: ignore[arg-type]
        if open_ is not None and letter in (2, 3):
            spans.append(Span(open_[0], place, open_[1]))
            open_ = None
    return spans


@st.composite
def separate_spans(draw: st.DrawFn) -> tuple[list[Span], int]:
    gaps = draw(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5), st.integers(0, 7)), max_size=6))
    spans, at = [], 0
    for gap, length, type_ in gaps:
        spans.append(Span(at + gap, at + gap + length - 1, type_))
        at += gap + length
    return spans, at + draw(st.integers(0, 3))


@given(separate_spans())
def test_encoded_spans_are_read_back(case: tuple[list[Span], int]) -> None:
    spans, length = case
    tags = bioes.encode(spans, length)
    assert tags.shape == (length,) and tags.dtype == np.int64
    assert bioes.decode(tags) == spans


@given(st.lists(st.integers(0, 12), max_size=25))
def test_any_tags_are_read_like_conlleval(tags: list[int]) -> None:
    assert bioes.decode(np.array(tags, dtype=np.int64)) == plain_reading(tags)


def test_numbers_and_names_of_tags() -> None:
    assert bioes.number_of_tags(1) == 5 and bioes.number_of_tags(8) == 33  # eHealth, appendix E
    assert bioes.tag_names(["sym"]) == ["O", "B-sym", "I-sym", "E-sym", "S-sym"]
    names = np.array(bioes.tag_names(["dis", "dru"]))
    tags = bioes.encode([Span(0, 0, 1), Span(2, 4, 0)], 6)
    assert names[tags].tolist() == ["S-dru", "O", "B-dis", "I-dis", "E-dis", "O"]


@given(st.lists(st.builds(Span, st.integers(0, 9), st.just(0), st.integers(0, 2)), max_size=8), st.data())
def test_longest_of_overlapping_spans_are_kept(drafts: list[Span], data: st.DataObject) -> None:
    spans = [span._replace(last=span.first + data.draw(st.integers(0, 4))) for span in drafts]
    kept = bioes.without_overlaps(spans)
    bioes.encode(kept, 14)  # raises where two overlap
    for span in set(spans) - set(kept):
        rivals = [other for other in kept if other.first <= span.last and span.first <= other.last]
        assert max(other.last - other.first for other in rivals) >= span.last - span.first


@pytest.mark.parametrize("spans", [[Span(0, 4, 0)], [Span(-1, 0, 0)], [Span(0, 1, 0), Span(1, 2, 1)]])
def test_overlapping_or_outlying_spans_are_refused(spans: list[Span]) -> None:
    with pytest.raises(ValueError, match=r"overlaps|is outside"):
        bioes.encode(spans, 4)
