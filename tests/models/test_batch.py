"""Packing rows into a batch."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from models.batch import MaskedBatch, Masking, collate_masked


def collate(rows: list[Any], **options: Any) -> MaskedBatch:
    given: dict[str, Any] = {"seed": 1, "step": 2, "row_indices": None, "views": 2, "vocab_size": 300}
    return collate_masked(rows, **given | {"max_positions": 64, "masking": Masking(probability=0.15)} | options)


def test_rows_are_sorted_by_length_with_their_views_together(make_rows: Callable[..., list[Any]]) -> None:
    batch = collate(make_rows([9, 5, 9, 12]), row_indices=[40, 10, 30, 20])
    assert batch.layout.lengths == (5, 5, 9, 9, 9, 9, 12, 12)
    assert batch.rows.tolist() == [10, 10, 30, 30, 40, 40, 20, 20]
    assert batch.views.tolist() == [0, 1] * 4
    assert len(batch.layout.runs) == 3 and batch.tokens == 70


def test_original_text_can_be_restored(make_rows: Callable[..., list[Any]]) -> None:
    rows = make_rows([9, 5, 12])
    batch = collate(rows)
    restored = batch.input_ids.index_copy(0, batch.selected, batch.original)
    expected = np.concatenate([rows[i]["input_ids"] for i in (1, 1, 0, 0, 2, 2)])
    assert restored.tolist() == expected.tolist()
    assert sum(batch.selected_counts) == len(batch.selected)
    ends = np.cumsum(batch.selected_counts)
    owner = np.searchsorted(ends, np.arange(len(batch.selected)), side="right")
    assert (np.searchsorted(batch.layout.offsets.numpy()[1:], batch.selected.numpy(), side="right") == owner).all()


def test_order_and_other_rows_change_nothing(make_rows: Callable[..., list[Any]]) -> None:
    rows = make_rows([9, 9, 9, 7])
    one, other = collate(rows), collate(rows[::-1], row_indices=[3, 2, 1, 0])
    assert one.input_ids.tolist() == other.input_ids.tolist()
    alone = collate(rows[2:3], row_indices=[2])
    assert alone.input_ids.tolist() == one.input_ids[14 + 36 :].tolist()


def test_tokens_are_masked_together_or_each_by_itself() -> None:
    rows = [{"input_ids": [2, *range(10, 70), 3], "word_starts": list(range(1, 61, 3))}] * 40

    def cut_words(whole_words: bool) -> int:
        batch = collate(rows, views=1, masking=Masking(probability=0.15, whole_words=whole_words))
        assert abs(len(batch.selected) / (60 * 40) - 0.15) < 0.03
        place = batch.selected.numpy() % 62 - 1  # within its row; words are of three tokens
        _, counts = np.unique(batch.selected.numpy() // 62 * 100 + place // 3, return_counts=True)
        return int((counts < 3).sum())

    assert cut_words(True) == 0 < cut_words(False)


def test_rows_may_be_objects(make_rows: Callable[..., list[Any]]) -> None:
    rows = make_rows([6, 8])
    objects = [SimpleNamespace(**row) for row in rows]
    assert collate(objects).input_ids.tolist() == collate(rows).input_ids.tolist()


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([2, 300, 3], "row 7 has id 300, but vocab_size is 300; encode with"),
        ([2, -1, 3], "row 7 has id -1"),
        ([5, 6, 3], r"row 7: input_ids must begin with \[CLS\]"),
        ([2, 6, 6], r"end with \[SEP\]"),
        ([2, *[9] * 63, 3], "row 7 has 65 tokens, max_positions is 64; split it"),
    ],
)
def test_bad_rows_are_named(ids: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        collate([{"input_ids": np.array(ids), "word_starts": np.array([1])}], row_indices=[7])


def test_empty_batch_is_an_error(make_rows: Callable[..., list[Any]]) -> None:
    with pytest.raises(ValueError, match="got 0 rows"):
        collate([])
    with pytest.raises(ValueError, match="got 2 rows and 1 row_indices"):
        collate(make_rows([5, 6]), row_indices=[1])


def test_row_with_nothing_to_mask_does_not_change() -> None:
    batch = collate([{"input_ids": np.array([2, 1, 1, 3]), "word_starts": np.array([1])}])
    assert batch.input_ids.tolist() == [2, 1, 1, 3] * 2 and batch.selected_counts == (0, 0)
