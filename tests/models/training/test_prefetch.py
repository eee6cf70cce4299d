"""Batches from the background: in order, with their errors, and without leftover threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from models.training.prefetch import Prefetcher


def test_items_are_in_order_and_end() -> None:
    for ahead in (1, 3, 50):
        with Prefetcher(iter(range(20)), ahead) as items:
            assert list(items) == list(range(20))


def test_no_more_than_the_given_number_is_prepared_ahead() -> None:
    made = []

    def source() -> Iterator[int]:
        for number in range(100):
            made.append(number)
            yield number

    with Prefetcher(source(), 3) as items:
        assert next(items) == 0
    assert 1 <= len(made) <= 4


def test_error_is_raised_at_its_turn_with_its_message() -> None:
    def source() -> Iterator[int]:
        yield 1
        raise ValueError("part-00007.parquet has vanished")

    with Prefetcher(source(), 4) as items:
        assert next(items) == 1
        with pytest.raises(ValueError, match=r"part-00007\.parquet has vanished"):
            next(items)


def test_nothing_is_left_running_after_an_exception() -> None:
    before = threading.active_count()
    with pytest.raises(RuntimeError, match="the step failed"), Prefetcher(iter(range(1000)), 2) as items:
        next(items)
        raise RuntimeError("the step failed")
    assert threading.active_count() == before


def test_waiting_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a clock that moves only while an item is made."""
    now, armed, asked = [0.0], threading.Event(), threading.Event()

    def clock() -> float:
        if armed.is_set():
            asked.set()
        return now[0]

    def source() -> Iterator[int]:
        yield 0
        asked.wait()
        now[0] += 5.0
        yield 1
        yield 2

    monkeypatch.setattr("models.training.prefetch.time.perf_counter", clock)
    with Prefetcher(source(), 2) as items:
        assert next(items) == 0 and items.take_waited_seconds() == 0.0
        armed.set()
        assert next(items) == 1 and items.take_waited_seconds() == 5.0
        assert next(items) == 2 and items.take_waited_seconds() == 0.0
