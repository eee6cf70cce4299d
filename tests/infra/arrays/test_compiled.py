"""Compiled functions behave like their source, with a cache and without."""

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


def test_compiled_function_equals_its_source() -> None:
    assert compiled(summed)(np.arange(5)) == summed(np.arange(5)) == 10


def test_function_compiles_without_a_cache_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    real = numba.njit

    def refusing(function: Callable[..., Any], cache: bool = False, **settings: Any) -> Any:
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return real(function, **settings)

    monkeypatch.setattr(numba, "njit", refusing)
    assert compiled(summed)(np.arange(5)) == 10


def test_code_points_of_texts_are_end_to_end() -> None:
    points, borders = code_points(["病a", "", "𠮷\ud800"])
    assert points.tolist() == [ord("病"), ord("a"), 0x20BB7, 0xD800]
    assert borders.tolist() == [0, 2, 2, 4]
    empty, only_border = code_points([])
    assert not len(empty) and only_border.tolist() == [0]
