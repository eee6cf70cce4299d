"""Output files that are there whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from infra.errors import UserError


@contextmanager
def whole_file(target: Path, source: Path, encoding: str = "utf-8", newline: str | None = None) -> Iterator[TextIO]:
    """A text file to write, which takes the place of `target` when the block ends well.

    Until then, and where the block raises or is killed, `target` stays what it was. What is no ordinary file
    (/dev/stdout, a pipe) is written as it comes.

    Raises:
        UserError: the target is the `source` that the block reads, or cannot be written.
    """
    if target.resolve() == source.resolve():
        raise UserError(f"{target} is the input itself. Give another file with --output.")
    place = target.resolve()  # a link stays one
    ordinary = place.is_file() or not place.exists()
    begun = place.with_name(f".{os.getpid()}.part") if ordinary else place
    with _told(target):
        place.parent.mkdir(parents=True, exist_ok=True)
        file = begun.open("w", encoding=encoding, newline=newline)
    try:
        with file:
            yield file
        if ordinary:
            with _told(target):
                if place.exists():
                    shutil.copymode(place, begun)
                begun.replace(place)
    finally:
        if ordinary:
            begun.unlink(missing_ok=True)


@contextmanager
def _told(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError(f"{target} cannot be written: {error.strerror}. Give another file with --output.") from error
