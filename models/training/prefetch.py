"""Batches prepared in the background, so that the device does not wait for masking."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, Generic, TypeVar, cast

T = TypeVar("T")

_END: Any = object()


class Prefetcher(Generic[T]):
    """Iterator over the items of `source`, in order, with up to `ahead` items prepared by one thread.

    There is one thread because order matters and random numbers are functions of the step: nothing depends on timing.
    An exception in `source` is raised by `next` at the item's turn. Use it as a context manager: on leaving, also by an
    exception, no thread keeps running (one that reads a part finishes that item first). Memory holds `ahead` items.
    """

    def __init__(self, source: Iterator[T], ahead: int) -> None:
        self._source = source
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="prefetch")
        self._pending: deque[Future[T]] = deque(self._submit() for _ in range(ahead))
        self._waited_seconds = 0.0

    def __enter__(self) -> Prefetcher[T]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._executor.shutdown(wait=True, cancel_futures=True)

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        started = time.perf_counter()
        item = self._pending.popleft().result()
        self._waited_seconds += time.perf_counter() - started
        if item is _END:
            raise StopIteration
        self._pending.append(self._submit())
        return item

    def take_waited_seconds(self) -> float:
        """Return the seconds that `next` waited for items since the last call."""
        waited, self._waited_seconds = self._waited_seconds, 0.0
        return waited

    def _submit(self) -> Future[T]:
        return self._executor.submit(cast(Any, next), self._source, _END)
