"""Flows: Prefect's where Prefect runs them, plain functions everywhere else.

Prefect takes a second to import, starts a server of its own for a run without one, and then records the run where
nobody looks. So a flow is Prefect's only if Prefect has been imported before the flow: by its worker, by `prefect
deploy`, by the command line when a server is configured, or by a script that begins with `import prefect`.
"""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import Callable
from typing import Generic, ParamSpec, TypeVar, cast

logger = logging.getLogger("flows")

P = ParamSpec("P")
R = TypeVar("R")


class LocalFlow(Generic[P, R]):
    """A flow that runs here and now. It has what `prefect.Flow` calls by the same names: `name` and `fn`."""

    def __init__(self, name: str, function: Callable[P, R]) -> None:
        self.name = name
        self.fn = function
        functools.update_wrapper(self, function)

    def __call__(self, *arguments: P.args, **options: P.kwargs) -> R:
        """Run the flow."""
        return self.fn(*arguments, **options)


def flow(*, name: str) -> Callable[[Callable[P, R]], LocalFlow[P, R]]:
    """Declare a flow: a `prefect.Flow` once Prefect is imported, a `LocalFlow` before."""

    def declare(function: Callable[P, R]) -> LocalFlow[P, R]:
        if "prefect" not in sys.modules:
            return LocalFlow(name, function)
        from tasks.runner.prefect_run import prefect_flow

        return cast("LocalFlow[P, R]", prefect_flow(name, function))

    return declare


def in_prefect_run() -> bool:
    """Return whether this code runs in a flow run of Prefect's."""
    if "prefect" not in sys.modules:
        return False
    from tasks.runner.prefect_run import is_flow_running

    return is_flow_running()


def info(text: str) -> None:
    """Log a line where the user looks for it, as `warn` does."""
    if in_prefect_run():
        from tasks.runner.prefect_run import get_run_logger

        get_run_logger().info(text)
    else:
        logger.info(text)


def warn(text: str) -> None:
    """Log a warning where the user looks for it: with the flow run on the server, or in the terminal."""
    if in_prefect_run():
        from tasks.runner.prefect_run import get_run_logger

        get_run_logger().warning(text)
    else:
        logger.warning(text)
