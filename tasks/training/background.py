"""Writing while training continues."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any


class BackgroundWriter:
    """Runs one call at a time while training continues; a failure is raised by the next method called.

    A second call waits for the first. If writing takes longer than the steps between two checkpoints, two snapshots are
    in memory beside the model: the one being written, and the next.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="checkpoint")
        self._pending: Future[None] | None = None

    def start(self, work: Callable[..., None], *arguments: Any) -> None:
        """Start a call once the previous one has returned. Raises what that one raised."""
        self.wait()
        self._pending = self._pool.submit(work, *arguments)

    def wait(self) -> None:
        """Wait for the call under way. Raises what it raised."""
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()
