"""The queue before a worker: batches, turns, bounds, time-outs, lost workers; with workers made up by the tests."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from flows.service.engines import EngineSpec, Opened
from flows.service.lane import BusyError, Lane, TooSlowError
from flows.service.settings import Limits
from flows.service.worker import Failure, Outcome, ProcessWorker, Report, WorkerLostError
from infra.errors import UserError
from tests.support.service import engines


class Scripted:
    """A worker in this process. `hang` never ends, `die` ends the worker, `bad` fails; others answer themselves."""

    def __init__(self, one_by_one: bool = True, seconds: float = 0.0) -> None:
        self.one_by_one = one_by_one
        self.batches: list[list[str]] = []
        self.starts = 0
        self.is_alive = True
        self._seconds = seconds
        self._killed = asyncio.Event()

    async def start(self) -> Opened:
        self.starts += 1
        self.is_alive = True
        self._killed = asyncio.Event()
        return Opened("f")

    async def answers(self, items: Sequence[str], report: Report) -> None:
        self.batches.append(list(items))
        await asyncio.sleep(self._seconds)
        if not self.one_by_one and {"hang", "die"} & set(items):
            await self._fall(next(one for one in items if one in ("hang", "die")))
        for item in items:
            if item in ("hang", "die"):
                await self._fall(item)
            report(Failure(True, "bad") if item == "bad" else item.encode())

    async def _fall(self, item: str) -> None:
        if item == "hang":
            await self._killed.wait()
        raise WorkerLostError

    def kill(self) -> None:
        self._killed.set()

    def close(self) -> None:
        self.kill()


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    began = time.monotonic()
    asyncio.run(asyncio.wait_for(test(), 240))
    assert time.monotonic() - began < 220, "something waited until it was cancelled"


async def started(worker: Scripted, **limits: Any) -> Lane:
    lane = Lane("test", worker, Limits(**{"work_seconds": 0.2, **limits}))
    await lane.start()
    return lane


async def ask(lane: Lane, *items: str) -> list[Outcome]:
    return await lane.answers(items, [len(item) for item in items])


def test_what_waits_shares_batches_and_requests_take_turns() -> None:
    async def test() -> None:
        worker = Scripted(seconds=0.05)
        lane = await started(worker, batch_texts=4)
        first = asyncio.create_task(ask(lane, "a"))
        await asyncio.sleep(0.01)
        many, few = asyncio.create_task(ask(lane, *"bcdefgh")), asyncio.create_task(ask(lane, "x", "y"))
        assert [await one for one in (first, few, many)] == [[b"a"], [b"x", b"y"], [c.encode() for c in "bcdefgh"]]
        assert worker.batches == [["a"], ["b", "x", "c", "y"], ["d", "e", "f", "g"], ["h"]]
        assert lane.waiting_texts == lane.waiting_characters == 0
        await lane.stop()

    run(test)


def test_batches_are_bounded_by_characters() -> None:
    async def test() -> None:
        worker = Scripted(seconds=0.02)
        lane = await started(worker, batch_characters=5)
        await ask(lane, "aaaaaaaaa", "bb", "cc", "dd", "e")
        assert worker.batches == [["aaaaaaaaa"], ["bb", "cc"], ["dd", "e"]]
        await lane.stop()

    run(test)


def test_full_queue_refuses_with_the_time_to_wait() -> None:
    async def test() -> None:
        lane = await started(Scripted(seconds=0.1), queue_characters=10, batch_characters=5)
        first = asyncio.create_task(ask(lane, "aaaaa"))
        await asyncio.sleep(0.02)  # it is with the worker, no longer in the queue
        waiting = asyncio.create_task(ask(lane, "bbbbbbbbb"))
        await asyncio.sleep(0)
        with pytest.raises(BusyError) as refused:
            await ask(lane, "cc")
        assert refused.value.retry_after >= 1
        assert await waiting == [b"bbbbbbbbb"] and await first == [b"aaaaa"]
        assert await ask(lane, "c" * 50) == [b"c" * 50], "a request fits into an empty queue whatever its size"
        await lane.stop()

    run(test)


def test_request_that_nobody_wants_any_more_leaves_the_queue() -> None:
    async def test() -> None:
        worker = Scripted(seconds=0.05)
        lane = await started(worker)
        first = asyncio.create_task(ask(lane, "a"))
        await asyncio.sleep(0.01)
        gone = asyncio.create_task(ask(lane, "b", "c"))
        await asyncio.sleep(0.01)
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        assert lane.waiting_texts == lane.waiting_characters == 0
        assert await first == [b"a"] and await ask(lane, "d") == [b"d"]
        assert worker.batches == [["a"], ["d"]]
        await lane.stop()

    run(test)


class Unstartable(Scripted):
    """A worker that starts once, and after its death only when `room` is set: memory is short, say."""

    room = False

    async def start(self) -> Opened:
        if self.starts and not self.room:
            self.starts += 1
            raise OSError("Cannot allocate memory")
        return await super().start()


def test_a_lane_whose_worker_cannot_be_started_refuses_and_recovers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flows.service.lane.SECONDS_BETWEEN_STARTS", 0.01)

    async def test() -> None:
        worker = Unstartable()
        lane = await started(worker)
        with contextlib.suppress(BusyError):
            await ask(lane, "die")
        while worker.starts < 4:  # it goes on trying
            await asyncio.sleep(0.01)
        assert not lane.ready and lane.restarts == 1
        with pytest.raises(BusyError):
            await ask(lane, "a")
        worker.room = True
        while not lane.ready:
            await asyncio.sleep(0.01)
        assert await ask(lane, "b") == [b"b"] and lane.waiting_texts == 0
        await lane.stop()

    run(test)


def test_a_lane_that_never_comes_back_can_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flows.service.lane.SECONDS_BETWEEN_STARTS", 0.01)

    async def test() -> None:
        worker = Unstartable()
        lane = await started(worker, batch_texts=1)
        first, waiting = asyncio.create_task(ask(lane, "die")), asyncio.create_task(ask(lane, "a"))
        while worker.starts < 3:
            await asyncio.sleep(0.01)
        await lane.stop()
        found = await asyncio.gather(first, waiting, return_exceptions=True)
        assert isinstance(found[1], BusyError), "waiting requests get an answer and do not hang"

    run(test)


@pytest.mark.parametrize("one_by_one", [True, False])
def test_text_that_takes_too_long_fails_and_its_company_does_not(one_by_one: bool) -> None:
    async def test() -> None:
        worker = Scripted(one_by_one, seconds=0.01)
        lane = await started(worker)
        first = asyncio.create_task(ask(lane, "a"))
        await asyncio.sleep(0)
        asked = [asyncio.create_task(ask(lane, one)) for one in ("b", "hang", "c")]
        found = await asyncio.gather(first, *asked, return_exceptions=True)
        assert [one for one in found if isinstance(one, list)] == [[b"a"], [b"b"], [b"c"]]
        assert isinstance(found[2], TooSlowError)
        assert worker.starts == (2 if one_by_one else 3) and lane.restarts == worker.starts - 1
        assert await ask(lane, "d") == [b"d"] and lane.waiting_texts == 0
        await lane.stop()

    run(test)


@pytest.mark.parametrize("one_by_one", [True, False])
def test_text_that_ends_the_worker_fails_alone(one_by_one: bool) -> None:
    async def test() -> None:
        worker = Scripted(one_by_one)
        lane = await started(worker)
        found = await ask(lane, "a", "die", "bad", "b")
        assert found[0] == b"a" and found[3] == b"b" and found[2] == Failure(True, "bad")
        assert isinstance(found[1], Failure) and not found[1].is_users
        await lane.stop()

    run(test)


def test_empty_texts_fill_the_queue_too() -> None:
    async def test() -> None:
        lane = await started(Scripted(seconds=0.1), queue_texts=3, batch_texts=1)
        first = asyncio.create_task(ask(lane, "", ""))
        await asyncio.sleep(0.02)
        waiting = asyncio.create_task(ask(lane, "", ""))
        await asyncio.sleep(0)
        with pytest.raises(BusyError):
            await ask(lane, "")
        assert await first == await waiting == [b"", b""]
        await lane.stop()

    run(test)


def test_worker_that_ends_while_idle_is_started_again_before_it_is_asked() -> None:
    async def test() -> None:
        worker = Scripted()
        lane = await started(worker)
        worker.is_alive = False
        assert await ask(lane, "a") == [b"a"] and worker.starts == 2
        await lane.stop()

    run(test)


def test_lane_without_its_worker_refuses() -> None:
    async def test() -> None:
        lane = await started(Scripted())
        await lane.stop()
        with pytest.raises(BusyError):
            await ask(lane, "a")

    run(test)


def test_processes_are_killed_started_again_and_ended() -> None:
    async def test() -> None:
        worker = ProcessWorker(EngineSpec("made up", "made up"), engines.open_scripted)
        lane = Lane("made up", worker, Limits(work_seconds=1.0))
        await lane.start()
        first = worker.pid
        began = time.monotonic()
        with pytest.raises(TooSlowError):
            await ask(lane, "hang")
        assert time.monotonic() - began < 200, "it hung for ten minutes"
        with pytest.raises(BusyError):
            await ask(lane, "a")
        while not lane.ready:
            await asyncio.sleep(0.05)
        assert await ask(lane, "a", "raise", "die", "b") == [
            b'"a"',
            Failure(False, "the engine failed (RuntimeError)"),
            Failure(False, "the engine's process ended"),
            b'"b"',
        ]
        assert worker.pid not in (None, first) and lane.restarts == 2
        last = worker.pid
        await lane.stop()
        assert first is not None and last is not None
        assert not any(engines.is_running(pid) for pid in (first, last))

    run(test)


def test_engine_that_cannot_be_opened_says_why() -> None:
    async def test() -> None:
        for name, told in (("refused", "folder x is no folder"), ("dying", "ended while it opened")):
            worker = ProcessWorker(EngineSpec("made up", name), engines.open_scripted)
            with pytest.raises(UserError, match=told):
                await worker.start()
            worker.close()

    run(test)
