"""A lane: the queue before one worker. Texts of concurrent requests share batches.

A free worker gets what waits at once, and while it computes the next batch gathers. So nobody waits for company, and
batches grow with the load. Requests take turns, a text each, so that one of two hundred texts does not keep the others
waiting. The queue is bounded: what does not fit is refused with the time after which to try again.

A worker that computes a batch for longer than `work_seconds`, or that ends by itself, is started again. The text that
it was at fails, and those behind it are tried again, each alone. Where that text is not known, all of the batch are.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from flows.service.engines import Opened
from flows.service.settings import Limits
from flows.service.worker import Failure, Outcome, Worker, WorkerLostError
from infra.errors import UserError

logger = logging.getLogger("yiwen.service")

LONGEST_RETRY = 60
"""Longest Retry-After, in seconds."""
SECONDS_BETWEEN_STARTS = 1.0
"""Wait after a start that failed."""

SECONDS_BETWEEN_LOOKS = 1.0
"""Time after which an idle lane looks whether its worker is still there."""


class BusyError(Exception):
    """The queue is full, or the worker is being started."""

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"try again in {retry_after} s")
        self.retry_after = retry_after


class TooSlowError(Exception):
    """A text took longer than the limit."""


@dataclass(eq=False)
class _Request:
    """Items of one request, and what became of them."""

    done: asyncio.Future[list[Outcome]]
    waiting: deque[tuple[int, Any, int]]
    """Place, item and size of those that wait."""
    outcomes: list[Outcome | None]
    left: int


@dataclass(eq=False)
class _Batch:
    """Items that are with the worker."""

    entries: list[tuple[_Request, int, Any, int]]
    settled: int = 0
    """Number of its items that were answered; the worker is at the next one."""
    began: float = field(default_factory=time.monotonic)


@dataclass
class LaneEvents:
    """What a lane reports; metrics listen."""

    batch: Callable[[int, int, float], None] = lambda texts, characters, seconds: None
    restart: Callable[[], None] = lambda: None


class Lane:
    """The queue before a worker, and the task that feeds it."""

    def __init__(self, name: str, worker: Worker, limits: Limits, events: LaneEvents | None = None) -> None:
        self.name = name
        self.opened: Opened | None = None
        """What the engine says of itself; None before the first start."""
        self.ready = False
        self.restarts = 0
        self.waiting_characters = self.waiting_texts = 0
        self._worker = worker
        self._limits = limits
        self._events = events or LaneEvents()
        self._requests: deque[_Request] = deque()
        self._again: deque[tuple[_Request, int, Any, int]] = deque()
        """Items whose batch was lost; each is tried alone."""
        self._wake = asyncio.Event()
        self._rate = 0.0
        """Characters per second, of recent batches."""
        self._feeding: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Open the engine and begin to answer. Raises `UserError` if it cannot be opened."""
        self.opened = await self._worker.start()
        self.ready = True
        self._feeding = asyncio.create_task(self._feed(), name=f"lane {self.name}")

    async def stop(self) -> None:
        """End the worker; what waits fails."""
        self.ready = False
        if self._feeding is not None:
            self._feeding.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._feeding
        self._worker.close()
        for request in [*self._requests, *(entry[0] for entry in self._again)]:
            if not request.done.done():
                request.done.set_exception(BusyError(1))

    async def answers(self, items: Sequence[Any], sizes: Sequence[int]) -> list[Outcome]:
        """Return the outcome of each item, in order. When the caller is cancelled, what still waits is dropped.

        Args:
            sizes: characters of each item.

        Raises:
            BusyError: the queue is full, or the worker is being started again.
            TooSlowError: an item takes too long.
        """
        if not items:
            return []
        total = sum(sizes)
        is_full = self.waiting_texts and (
            self.waiting_characters + total > self._limits.queue_characters
            or self.waiting_texts + len(items) > self._limits.queue_texts
        )
        if is_full or not self.ready:
            raise BusyError(self._retry_after(total))
        done: asyncio.Future[list[Outcome]] = asyncio.get_running_loop().create_future()
        waiting = deque((place, item, size) for place, (item, size) in enumerate(zip(items, sizes, strict=True)))
        request = _Request(done, waiting, [None] * len(items), len(items))
        self._requests.append(request)
        self._count(total, len(items))
        self._wake.set()
        try:
            return await done
        finally:
            self._drop(request)

    def _drop(self, request: _Request) -> None:
        if request.waiting:
            self._count(-sum(size for _, _, size in request.waiting), -len(request.waiting))
            request.waiting.clear()
        kept = deque(entry for entry in self._again if entry[0] is not request)
        if len(kept) != len(self._again):
            gone = [entry for entry in self._again if entry[0] is request]
            self._count(-sum(size for *_, size in gone), -len(gone))
            self._again = kept

    def _count(self, characters: int, texts: int) -> None:
        self.waiting_characters += characters
        self.waiting_texts += texts

    def _retry_after(self, characters: int) -> int:
        if not self._rate:
            return 1
        return max(1, min(LONGEST_RETRY, math.ceil((self.waiting_characters + characters) / self._rate)))

    async def _feed(self) -> None:
        while True:
            if not self._worker.is_alive:  # the system may have ended it, for its memory
                logger.error("the process of %s has ended", self.name)
                await self._restart()
            batch = self._next()
            if batch is None:
                self._wake.clear()
                # Not wait_for, which loses a cancellation that comes as its wait ends.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(SECONDS_BETWEEN_LOOKS):
                        await self._wake.wait()
                continue
            try:
                await self._answer(batch)
            except WorkerLostError:
                self._retry(batch, Failure(False, "the engine's process ended"))
                await self._restart()
            except TimeoutError:
                logger.error("%s took longer than %g s for a batch and was ended", self.name, self._limits.work_seconds)
                self._retry(batch, TooSlowError())
                await self._restart()

    def _next(self) -> _Batch | None:
        """Take the next batch from the queue; None if nothing waits."""
        if self._again:
            entry = self._again.popleft()
            self._count(-entry[3], -1)
            return _Batch([entry])
        entries: list[tuple[_Request, int, Any, int]] = []
        characters = 0
        while self._requests and len(entries) < self._limits.batch_texts:
            request = self._requests[0]
            if not request.waiting:
                self._requests.popleft()
                continue
            place, item, size = request.waiting[0]
            if entries and characters + size > self._limits.batch_characters:
                break
            request.waiting.popleft()
            self._requests.rotate(-1)  # the next text is another request's
            entries.append((request, place, item, size))
            characters += size
        self._count(-characters, -len(entries))
        return _Batch(entries) if entries else None

    async def _answer(self, batch: _Batch) -> None:
        characters = sum(size for *_, size in batch.entries)
        items = [item for _, _, item, _ in batch.entries]
        asked = asyncio.ensure_future(self._worker.answers(items, functools.partial(self._report, batch)))
        try:
            async with asyncio.timeout(self._limits.work_seconds):
                await asyncio.shield(asked)
        except TimeoutError:
            self.ready = False
            self._worker.kill()  # which ends the wait for its answers
            with contextlib.suppress(WorkerLostError):
                await asked
            raise
        except asyncio.CancelledError:
            asked.cancel()
            raise
        seconds = max(time.monotonic() - batch.began, 1e-4)
        rate = characters / seconds
        self._rate = 0.7 * self._rate + 0.3 * rate if self._rate else rate
        self._events.batch(len(items), characters, seconds)

    def _report(self, batch: _Batch, outcome: Outcome) -> None:
        request, place, _, _ = batch.entries[batch.settled]
        batch.settled += 1
        self._settle(request, place, outcome)

    def _settle(self, request: _Request, place: int, outcome: Outcome) -> None:
        request.outcomes[place] = outcome
        request.left -= 1
        if not request.left and not request.done.done():
            request.done.set_result([one for one in request.outcomes if one is not None])

    def _retry(self, batch: _Batch, fault: Failure | TooSlowError) -> None:
        """Fail the item that a lost worker was at, and try those behind it again, alone; all if it is not known."""
        left = batch.entries[batch.settled :]
        if left and (len(left) == 1 or self._worker.one_by_one):
            request, place, _, _ = left.pop(0)
            if isinstance(fault, Failure):
                self._settle(request, place, fault)
            elif not request.done.done():
                request.done.set_exception(fault)
        again = [entry for entry in left if not entry[0].done.done()]
        self._again.extend(again)
        self._count(sum(size for *_, size in again), len(again))

    async def _restart(self) -> None:
        self.ready = False
        self.restarts += 1
        self._events.restart()
        while not self.ready:
            try:
                self.opened = await self._worker.start()
                self.ready = True
            except (UserError, OSError) as error:  # its folder may be being replaced, or memory be short
                logger.error("%s cannot be started again: %s", self.name, error)
                await asyncio.sleep(SECONDS_BETWEEN_STARTS)
