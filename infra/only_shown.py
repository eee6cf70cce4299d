"""Blocks that only show how work goes: no failure in them may stop it."""

from __future__ import annotations

import logging
from types import TracebackType

logger = logging.getLogger(__name__)


class OnlyShown:
    """A context manager, to be entered any number of times, that passes over whatever goes wrong in its block: a server
    that restarts, a file that cannot be read just now. The first failure of a streak is told in the log.

    What stops work on purpose still passes: Ctrl-C and Prefect's cancellation are no `Exception`.
    """

    def __init__(self, what: str) -> None:
        """`what` names in the log what is shown."""
        self._what = what
        self._failing = False

    def __enter__(self) -> None:
        """Nothing is needed to begin."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is not None and not isinstance(error, Exception):
            return False
        if error is not None and not self._failing:
            logger.warning("%s cannot be shown (%s: %s); the work goes on", self._what, type(error).__name__, error)
        self._failing = error is not None
        return True
