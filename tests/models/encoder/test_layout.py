"""The packed layout."""

import pytest
import torch

from models.encoder.layout import Layout, Run


def test_offsets_positions_and_runs() -> None:
    layout = Layout.from_lengths([2, 2, 3, 1])
    assert layout.offsets.tolist() == [0, 2, 4, 7, 8] and layout.offsets.dtype == torch.int32
    assert layout.positions.tolist() == [0, 1, 0, 1, 0, 1, 2, 0]
    assert layout.firsts.tolist() == [0, 2, 4, 7]
    assert layout.runs == (Run(0, 2, 2), Run(4, 1, 3), Run(7, 1, 1))
    assert layout.total == 8


def test_equal_lengths_that_stand_apart_are_two_runs() -> None:
    assert [run.tokens for run in Layout.from_lengths([4, 2, 4]).runs] == [slice(0, 4), slice(4, 6), slice(6, 10)]


@pytest.mark.parametrize("lengths", [[], [3, 0], [-1]])
def test_empty_sequences_are_refused(lengths: list[int]) -> None:
    with pytest.raises(ValueError, match="at least one sequence"):
        Layout.from_lengths(lengths)
