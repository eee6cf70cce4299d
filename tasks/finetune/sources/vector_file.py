"""A file of word vectors as the input of a stage; torch is not needed."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

from infra.errors import UserError
from infra.inputs import DescribedInput
from models.word_vectors import MATRIX, WORDS, WordVectors
from tasks.files.access import hash_file


class VectorFile(DescribedInput):
    """Word vectors in a file or a folder that `WordVectors.read` takes; it satisfies `infra.stage.StageInput`."""

    stage = "vectors"

    def __init__(self, path: str | Path) -> None:
        """Raise `UserError` if there is no such file or folder, or its first line shows that it cannot be read."""
        self.path = Path(path).expanduser().resolve()
        self._files = [self.path / WORDS, self.path / MATRIX] if self.path.is_dir() else [self.path]
        if not all(file.is_file() for file in self._files):
            raise UserError(
                f"There are no word vectors in {self.path}. Give a file in word2vec's text or binary format, or the "
                "folder that a flow embed/… printed."
            )
        WordVectors.check(self.path)

    def describe(self) -> dict[str, Any]:
        """Return the path."""
        return {"path": str(self.path)}

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the content."""
        return "-".join(hash_file(str(file)) for file in self._files)
