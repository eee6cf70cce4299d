"""Atomic output files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TextIO

from infra.errors import UserError


@contextmanager
def whole_file(
    target: Path, source: Path | None, encoding: str = "utf-8", newline: str | None = None
) -> Iterator[TextIO]:
    """Open a text file for writing that replaces `target` when the block succeeds.

    Until then, and if the block raises or is killed, `target` is unchanged. Devices and pipes (/dev/stdout) are
    written directly.

    Raises:
        UserError: the target is the `source` that the block reads, if it reads one, or it cannot be written.
    """
    with _replacing(target, source) as begun, begun.open("w", encoding=encoding, newline=newline) as file:
        yield file


@contextmanager
def whole_binary_file(target: Path, source: Path | None) -> Iterator[BinaryIO]:
    """Open a file of bytes for writing; see `whole_file`."""
    with _replacing(target, source) as begun, begun.open("wb") as file:
        yield file


@contextmanager
def _replacing(target: Path, source: Path | None) -> Iterator[Path]:
    """Yield the path of a file that replaces the target when the block succeeds; see `whole_file`."""
    if source is not None and target.resolve() == source.resolve():
        raise UserError(f"{target} is the input itself. Give another file with --output.")
    place = target.resolve()  # a link is kept, and the file it points to is replaced
    ordinary = place.is_file() or not place.exists()
    begun = place.with_name(f".{os.getpid()}.part") if ordinary else place
    with _explained(target):
        place.parent.mkdir(parents=True, exist_ok=True)
        if ordinary:
            begun.touch()
    try:
        yield begun
        if ordinary:
            with _explained(target):
                if place.exists():
                    shutil.copymode(place, begun)
                begun.replace(place)
    finally:
        if ordinary:
            begun.unlink(missing_ok=True)


@contextmanager
def _explained(target: Path) -> Iterator[None]:
    """Raise OSErrors of the block as UserErrors that name the file and the remedy."""
    try:
        yield
    except OSError as error:
        raise UserError(f"{target} cannot be written: {error.strerror}. Give another file with --output.") from error
