"""Progress of a stage in the terminal: a bar where there is one to look at it, a line now and then where not."""

from __future__ import annotations

import sys
import time

from tqdm import tqdm

SECONDS_BETWEEN_LINES = 30.0


class StageProgress:
    """Counts units of work (parts, training steps); use as a context manager around the stage."""

    def __init__(self, name: str, unit: str = "part") -> None:
        self._name = name
        self._unit = unit
        self._bar: tqdm | None = None
        self._printed = time.monotonic()

    def __enter__(self) -> StageProgress:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def update(self, name: str, done: int, total: int, note: str = "") -> None:
        """Show `done` of `total` units and a note such as the current losses."""
        if self._bar is None:
            # disable=None: no bar where standard error is not a terminal (a log, a Prefect worker).
            self._bar = tqdm(total=total, desc=name, unit=self._unit, leave=False, disable=None)
            self._bar.initial = done
            self._bar.n = done
        if not self._bar.disable:
            self._bar.set_postfix_str(note, refresh=False)
            self._bar.update(done - self._bar.n)
        elif time.monotonic() - self._printed > SECONDS_BETWEEN_LINES:
            self._printed = time.monotonic()
            print(
                f"{name}: {done:,} of {total:,} {self._unit}s{note and ', '}{note}",
                file=sys.stderr,
                flush=True,
            )

    def finish(self, sentence: str) -> None:
        """Replace the bar by one line that says what the stage did."""
        if self._bar is not None:
            self._bar.close()
        print(sentence, file=sys.stderr, flush=True)
