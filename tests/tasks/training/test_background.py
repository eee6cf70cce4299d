"""Writing while training continues: one call at a time, failures raised."""

from __future__ import annotations

import threading

import pytest

from tasks.training.background import BackgroundWriter


def test_writer_runs_one_call_at_a_time_and_raises_failures_later() -> None:
    writer, gate, done = BackgroundWriter(), threading.Event(), []

    def slow(number: int) -> None:
        assert gate.wait(30)
        done.append(number)

    writer.start(slow, 1)
    assert done == []  # the caller did not wait
    gate.set()
    writer.start(slow, 2)
    writer.wait()
    assert done == [1, 2]
    writer.start(int, "no number")
    with pytest.raises(ValueError, match="no number"):
        writer.wait()
    writer.wait()  # raised only once
