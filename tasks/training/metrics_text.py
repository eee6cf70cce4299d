"""The text of a metrics file, on any filesystem: one process appends to it, others read it while it grows.

Whatever moment the writer is killed at, or runs out of room, what was written before is still there. A local file is
appended to, and cut in place. Object stores know no append: there the text lies in parts beside each other,
metrics.jsonl, metrics-000001.jsonl, …, of which the last is written whole again for every line, at once or not at all,
until it is long enough.
"""

from __future__ import annotations

import os
import posixpath
import re
from typing import NamedTuple

import fsspec
from fsspec.implementations.local import LocalFileSystem

from infra.builds import explained

PART_BYTES = 1 << 18
"""Text after which a part is left as it is: what a line costs to write, against the number of parts to read."""


class _Part(NamedTuple):
    number: int
    name: str
    size: int


class MetricsText:
    """Bytes in the order in which they were appended. Memory grows with what is read, or with one part."""

    def __init__(self, path: str) -> None:
        """`path`: a local path or a URI, of the file or of its first part."""
        self._filesystem, self._path = fsspec.core.url_to_fs(path)
        self._is_local = isinstance(self._filesystem, LocalFileSystem)
        self._folder, name = posixpath.split(self._path)
        self._stem, self._suffix = posixpath.splitext(name)
        self._growing = (0, b"")
        """Number and text of the last part, of a store without append."""

    def read(self, start: int = 0) -> bytes:
        """From byte `start` to the end; nothing where there is no such byte, or no file."""
        pieces = []
        for part in self._parts():
            if start < part.size:
                pieces.append(self._filesystem.cat_file(part.name, start=start))
            start = max(0, start - part.size)
        return b"".join(pieces)

    def cut(self, length: int) -> None:
        """Keep the first `length` bytes; what is appended comes after them.

        Raises:
            StorageFullError, UserError: as `infra.builds.explained` says.
        """
        with explained(self._path):
            self._filesystem.makedirs(self._folder, exist_ok=True)
            parts = self._parts()
            while parts and sum(part.size for part in parts) > length:
                self._shorten(parts.pop(), length - sum(part.size for part in parts))  # the last first: no gap is left
        self._growing = (max((part.number + 1 for part in self._parts()), default=0), b"")

    def append(self, line: bytes) -> None:
        """Add `line` at the end, after `cut`. Raises as `cut` does."""
        number, text = self._growing
        with explained(self._path):
            if self._is_local:
                with open(self._path, "ab") as file:
                    file.write(line)
                return
            text += line
            self._filesystem.pipe_file(self._name(number), text)
        self._growing = (number, text) if len(text) < PART_BYTES else (number + 1, b"")

    def _shorten(self, part: _Part, length: int) -> None:
        if self._is_local:
            os.truncate(part.name, max(0, length))
        elif length > 0:
            self._filesystem.pipe_file(part.name, self._filesystem.cat_file(part.name, end=length))
        else:
            self._filesystem.rm_file(part.name)

    def _parts(self) -> list[_Part]:
        if not self._is_local:
            self._filesystem.invalidate_cache(self._folder)
        try:
            found = self._filesystem.ls(self._path if self._is_local else self._folder, detail=True)
        except FileNotFoundError:
            return []
        later = re.compile(rf"{re.escape(self._stem)}(?:-(\d+))?{re.escape(self._suffix)}")
        matches = [(later.fullmatch(posixpath.basename(one["name"])), one) for one in found]
        return sorted(_Part(int(match[1] or 0), one["name"], one["size"]) for match, one in matches if match)

    def _name(self, number: int) -> str:
        return posixpath.join(self._folder, f"{self._stem}-{number:06d}{self._suffix}") if number else self._path
