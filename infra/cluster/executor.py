"""Choice of the executor of map-like stages: worker processes of this machine, or Ray."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from infra.cluster.processes import ProcessExecutor
from infra.settings import Settings
from infra.stage import Executor


@contextlib.contextmanager
def executor_for(settings: Settings) -> Iterator[Executor]:
    """Yield the executor that the settings name. Workers, and any Ray of this process, end with the block."""
    with contextlib.ExitStack() as block:
        block.callback(_stop_any_ray)  # stages that train start Ray beside worker processes too
        if settings.executor == "ray":
            from infra.cluster.session import RayExecutor  # needs polars, whose import takes a tenth of a second

            yield RayExecutor(settings.workers, settings.ray_address)
        else:
            processes = ProcessExecutor(settings.workers)
            block.callback(processes.close)
            yield processes


def _stop_any_ray() -> None:
    if "ray" in sys.modules:
        from infra.cluster.session import stop_ray

        stop_ray()
