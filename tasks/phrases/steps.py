"""Progress of phrase mining, which is counted in steps and not in parts."""

from __future__ import annotations

from infra.stage import Output


class Steps:
    """Reports the progress of a stage in steps."""

    def __init__(self, out: Output, total: int) -> None:
        self._out, self._total, self._done = out, total, 0
        out.on_progress("phrases", 0, total)

    def advance(self, note: str = "") -> None:
        """Count one step as done; `note` describes the next one."""
        self._done += 1
        self._show(note)

    def show_inner(self, name: str, done: int, total: int, note: str = "") -> None:
        """Show the progress of an inner stage (a listener for `Output.run`) as a note on the current step."""
        self._show(f"{name}: {done:,} of {total:,}")

    def _show(self, note: str) -> None:
        # The estimate of the total may be too low: the bar must not run past its end.
        self._out.on_progress("phrases", min(self._done, self._total), self._total, note)
