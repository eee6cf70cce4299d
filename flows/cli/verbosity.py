"""How much a verb says: `-q` and `-v`, before the verb."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

_verbosity: ContextVar[int] = ContextVar("verbosity", default=0)


def set_verbosity(level: int) -> None:
    """Set it for the verb: negative for warnings and results alone, positive for all that is logged."""
    _verbosity.set(level)


@contextlib.contextmanager
def as_verbosely_as_asked() -> Iterator[None]:
    """Show log and progress during the block as `-v` and `-q` ask."""
    from infra.console.progress import displayed, shown_log  # with the progress bars, which --help can do without

    level = _verbosity.get()
    with displayed("none" if level < 0 else "terminal"), shown_log("more" if level > 0 else "usual"):
        yield
