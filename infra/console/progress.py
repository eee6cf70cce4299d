"""Progress of a stage in the terminal, the console log of a run, and best-effort reporting."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import sys
import time
import warnings
from collections.abc import Iterator
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Literal

from tqdm import tqdm

from infra.console.json_log import JsonFormatter, is_json, json_line
from infra.console.printable import indented, one_line, printable
from infra.place import PREFIX
from infra.program import as_called

logger = logging.getLogger(__name__)

WITHOUT_REMAINING = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}, {rate_fmt}{postfix}]"
"""Format of a bar whose note has the time left. That of tqdm is from the last steps, and would contradict it."""

_TIME_LEFT = re.compile(r"\d (?:s|min|h) left\b")  # 7 min left, 6 d 4 h left; not "2 files left"

SECONDS_BETWEEN_LINES = 30.0
"""Time between two progress lines where standard error is not a terminal."""

TALKATIVE = ("flows", *(PREFIX + name for name in ("infra.stage", "infra.builds", "infra.cluster.jobs")))
"""Loggers whose INFO lines the console shows; the others start at WARNING. What a training process prints, for example,
is in its own log file."""


OURS = ("flows", *(PREFIX + name for name in ("flows", "infra", "kg", "models", "tasks")))
"""Loggers of all our modules; that of runs is `flows` in a wheel too."""

Detail = Literal["usual", "more"]

Display = Literal["terminal", "notebook", "none"]
"""Where a run shows how far it is: on standard error; in a cell's output, as widgets where there are some; nowhere, but
for warnings."""

_display: ContextVar[Display] = ContextVar("display", default="terminal")


@contextlib.contextmanager
def displayed(display: Display) -> Iterator[None]:
    """Show progress in another place during the block."""
    token = _display.set(display)
    try:
        yield
    finally:
        _display.reset(token)


def new_bar(**options: Any) -> tqdm:
    """Return a progress bar for where progress is shown; `options` are those of `tqdm`."""
    display = _display.get()
    if display == "notebook":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # without ipywidgets the bar is one of text, which will do
            from tqdm.auto import tqdm as notebook_bar
        # A notebook paints what comes through standard error red.
        return notebook_bar(disable=False, file=sys.stdout, **options)
    # disable=None: no bar where standard error is not a terminal (a log file, a Prefect worker).
    is_shown = display == "terminal" and not is_json() and _has_width()
    return tqdm(disable=None if is_shown else True, **options)


def _has_width() -> bool:
    """Whether standard error has room for a bar. In a terminal of no columns, as `script`, `docker run -t` and the logs
    of CI open it, tqdm would draw nothing at all."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns > 0
    except (AttributeError, OSError, ValueError):  # no terminal, or no file: tqdm knows that by itself
        return True


class StageProgress:
    """A bar in a terminal or notebook, a line now and then elsewhere; use as a context manager around the stage."""

    def __init__(self, name: str, unit: str = "part") -> None:
        self._name = name
        self._display = _display.get()
        self._unit = unit
        self._bar: tqdm | None = None
        self._shown = "", 0
        self._printed = time.monotonic()

    def __enter__(self) -> StageProgress:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def update(self, name: str, done: int, total: int, note: str = "") -> None:
        """Show `done` of `total` units and a note such as the current losses."""
        if self._bar is not None and (name, total) != self._shown:
            self._bar.close()  # a stage within this one begins: sketches, candidates and pairs of deduplicate
            self._bar = None
        if self._bar is None:
            self._shown = name, total
            self._bar = new_bar(total=total, desc=name, unit=self._unit, leave=False)
            # Units that an earlier run finished must not count as the speed of this one.
            self._bar.initial = done
            self._bar.n = done
        if not self._bar.disable:
            if _TIME_LEFT.search(note):
                self._bar.bar_format = WITHOUT_REMAINING
            self._bar.set_postfix_str(printable(note), refresh=False)
            self._bar.update(done - self._bar.n)
        elif self._display == "terminal" and time.monotonic() - self._printed > SECONDS_BETWEEN_LINES:
            self._printed = time.monotonic()
            text = f"{name}: {done:,} of {total:,} {self._unit}s{note and ', '}{note}"
            _say(text, sys.stderr, stage=name, done=done, total=total)

    def finish(self, sentence: str) -> None:
        """Replace the bar by one line that says what the stage did."""
        if self._bar is not None:
            self._bar.close()
        if self._display != "none":
            _say(sentence, _output(self._display), stage=self._name)


def _say(text: str, file: Any, **fields: Any) -> None:
    """Print a line about progress: as it is, or as JSON with the fields."""
    print(json_line("info", "flows", text, **fields) if is_json() else printable(text), file=file, flush=True)


class BestEffort:
    """Best-effort reporting: a context manager whose block may fail. Failures are logged, never raised.

    Use it for a progress report to a server that may restart, or a metrics file that may be half written. It can be
    entered any number of times; only the first failure of a streak is logged. Ctrl-C and Prefect's cancellation still
    pass, because they are not an `Exception`.
    """

    def __init__(self, what: str) -> None:
        """`what` names the report in the log, such as "The progress of train"."""
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
            logger.warning("%s cannot be shown (%s: %s); the work continues", self._what, type(error).__name__, error)
        self._failing = error is not None
        return True


class ConsoleFormatter(logging.Formatter):
    """Formats a message so that no name in it can begin another line of the log; a traceback keeps its lines."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        message = super().formatMessage(record)
        # Libraries write warnings of several lines on purpose, which nobody could read on one.
        return one_line(message) if record.name.startswith(OURS) else indented(message)


class ConsoleHandler(logging.Handler):
    """Log lines on standard error that leave progress bars intact. A repeated warning is shown once."""

    def __init__(self) -> None:
        super().__init__()
        self._warned: set[str] = set()
        self._display = _display.get()

    def emit(self, record: logging.LogRecord) -> None:
        if isinstance(self.formatter, JsonFormatter):
            if record.levelno >= logging.WARNING or self._display != "none":
                print(self.format(record), file=sys.stderr, flush=True)
            return
        text = as_called(printable(self.format(record)))
        if record.levelno >= logging.WARNING:
            # Each of several stages may find the same thing wrong: corpus/refresh asks twice for YIWEN_CORPUS.
            if text in self._warned:
                return
            self._warned.add(text)
            text = f"{record.levelname.lower()}: {text}"
            tqdm.write(text, file=sys.stderr)
        elif self._display != "none":
            tqdm.write(text, file=_output(self._display))


def _output(display: Display) -> Any:
    return sys.stdout if display == "notebook" else sys.stderr


@contextlib.contextmanager
def shown_log(detail: Detail = "usual") -> Iterator[None]:
    """Show warnings of all libraries and the INFO lines of `TALKATIVE` on standard error during the block.

    Args:
        detail: "more" to show what all of our modules log, down to DEBUG.
    """
    root, handler = logging.getLogger(), ConsoleHandler()
    handler.setFormatter(JsonFormatter() if is_json() else ConsoleFormatter())
    wanted = dict.fromkeys(TALKATIVE, logging.INFO) if detail == "usual" else dict.fromkeys(OURS, logging.DEBUG)
    levels = {name: logging.getLogger(name).level for name in wanted}
    root.addHandler(handler)
    for name, level in wanted.items():
        logging.getLogger(name).setLevel(level)
    try:
        yield
    finally:
        root.removeHandler(handler)
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
