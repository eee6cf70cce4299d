"""Copy of another process's output in a log file of bounded size."""

from __future__ import annotations

import logging
from collections import deque
from logging.handlers import RotatingFileHandler
from pathlib import Path

logger = logging.getLogger(__name__)

LOG_BYTES = 16 * 2**20
"""Size at which a log file is moved aside; one older file is kept."""
LINES_SHOWN = 30
NOISE = ("Failed to query Ray Train Controller actor state",)
"""Lines that are not copied. Ray Train asks the dashboard every second, and a private Ray has none."""


class CopiedLog:
    """Copy of another process's output in a file of bounded size, and its last lines."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.characters = 0
        """Number of characters copied so far."""
        self._lines: deque[str] = deque(maxlen=LINES_SHOWN)
        self._open_line = ""
        self._file = RotatingFileHandler(path, maxBytes=LOG_BYTES, backupCount=1, encoding="utf-8", delay=True)

    def write(self, text: str) -> None:
        """Append text; a line is written once it is complete."""
        self.characters += len(text)
        *lines, self._open_line = (self._open_line + text).split("\n")
        for line in lines:
            if not any(noise in line for noise in NOISE):
                self._lines.append(line)
                self._file.emit(logging.makeLogRecord({"msg": line}))
                logger.info("%s", line)

    def last_lines(self) -> list[str]:
        """Return the last lines, an unfinished one included."""
        return [*self._lines, *([self._open_line] if self._open_line else [])]

    def close(self) -> None:
        """Close the file."""
        self._file.close()
