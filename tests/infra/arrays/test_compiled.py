"""Compiled functions do what their source says, with a cache and without one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import pytest

from infra.arrays.code_points import code_points
from infra.arrays.compiled import compiled


def summed(values: np.ndarray) -> int:
    total = 0
    for value in values:
        total += value
    return total


def test_a_compiled_function_is_the_function() -> None:
    assert compiled(summed)(np.arange(5)) == summed(np.arange(5)) == 10


def test_no_folder_for_the_cache_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    real = numba.njit

    def refusing(function: Callable[..., Any], cache: bool = False, **settings: Any) -> Any:
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return real(function, **settings)

    monkeypatch.setattr(numba, "njit", refusing)
    assert compiled(summed)(np.arange(5)) == 10


def test_texts_lie_end_to_end_as_code_points() -> None:
    points, borders = code_points(["病a", "", "𠮷\ud800"])
    assert points.tolist() == [ord("病"), ord("a"), 0x20BB7, 0xD800]
    assert borders.tolist() == [0, 2, 2, 4]
    empty, only_border = code_points([])
    assert not len(empty) and only_border.tolist() == [0]
