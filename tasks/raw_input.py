"""Raw input of a stage: a file or a folder that names itself by its content.

The fingerprint is a hash over relative names and content, so the same files give the same artifact wherever
they lie. Names that begin with a dot are left out: they belong to tools, not to the corpus.

Time grows with the bytes (SHA-256, about 1 GB/s), memory is one block.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from infra.errors import UserError


@dataclass(frozen=True)
class RawFile:
    """One file of a raw input."""

    path: Path
    name: str
    """Its place below the folder, with slashes; the file's own name where the input is a single file."""
    sha256: str


class RawInput:
    """A file or folder given to a stage, read-only; satisfies `infra.stage.StageInput`."""

    stage = "raw"

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).expanduser().resolve()

    @cached_property
    def files(self) -> tuple[RawFile, ...]:
        """All files, ordered by name, hashed on first use.

        Raises:
            UserError: nothing is there, or something cannot be read; the message names it.
        """
        if not self.path.exists():
            raise UserError(f"There is no {self.path}. Give an existing file or folder, as in --param corpus=PATH.")
        root = self.path if self.path.is_dir() else self.path.parent
        paths = sorted(self._walk(), key=lambda path: path.relative_to(root).as_posix())
        if not paths:
            raise UserError(f"The folder {self.path} holds no file. Put the corpus there, or give another.")
        return tuple(RawFile(path, path.relative_to(root).as_posix(), _hash(path)) for path in paths)

    @cached_property
    def fingerprint(self) -> str:
        """32 hex digits over the sorted names and the SHA-256 of every file."""
        digest = hashlib.sha256()
        for file in self.files:
            digest.update(f"{file.name}\0{file.sha256}\n".encode("utf-8", "surrogateescape"))
        return digest.hexdigest()[:32]

    def _walk(self) -> list[Path]:
        if self.path.is_file():
            return [self.path]
        return [
            path
            for path in self.path.rglob("*")
            if path.is_file() and not any(p.startswith(".") for p in path.relative_to(self.path).parts)
        ]


def _hash(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UserError(
            f"{path} cannot be read: {error.strerror}. Give it read permission or take it out of the corpus."
        ) from error
