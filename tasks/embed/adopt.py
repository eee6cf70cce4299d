"""Stage `adopt_vectors`: finished vectors of a file, such as those of a general corpus, as an artifact.

Time grows with the file, memory with its vectors: 4 bytes per word and dimension.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from infra.artifacts import MANIFEST, Artifact
from infra.errors import UserError
from infra.inputs import DescribedInput
from infra.stage import Output, StageParams, stage
from models.word_vectors import MATRIX, WORDS, WordVectors
from tasks.embed.publish import publish_folder
from tasks.files.access import hash_file

NAME = "name.txt"
"""File of the artifact with the name of what was adopted, for people."""


class VectorsFile(DescribedInput):
    """A file or folder of word vectors; satisfies `infra.stage.StageInput`."""

    stage = "vectors_file"

    def __init__(self, path: str | Path, parameter: str = "vectors") -> None:
        """`parameter`: name of the users' parameter, for messages.

        Raises:
            UserError: there is no such file or folder, or its first line shows that it cannot be read.
        """
        self._parameter = parameter
        self.path = Path(path).expanduser().resolve()
        if not self.path.exists():
            raise UserError(
                f"{parameter}: {self.path} does not exist. Give a file in word2vec's text or binary format, or a "
                "folder that the flow embed printed."
            )
        try:
            WordVectors.check(self.path)
        except UserError as error:
            raise UserError(f"{parameter}: {error}") from None

    def describe(self) -> dict[str, Any]:
        """Return the path."""
        return {"path": str(self.path), "parameter": self._parameter}

    @cached_property
    def fingerprint(self) -> str:
        """32 hex digits over the content of the file, or of the two files that `WordVectors.open` reads."""
        inside = [self.path / name for name in (WORDS, MATRIX)] if self.path.is_dir() else [self.path]
        try:
            hashes = [hash_file(str(file)) for file in inside]
        except OSError as error:
            raise UserError(f"{self.path} cannot be read: {error}. It is not a folder of word vectors.") from error
        return hashlib.sha256("\n".join(hashes).encode()).hexdigest()[:32]


class AdoptVectorsParams(StageParams):
    """No parameters: the vectors stay as they are."""


@stage(name="adopt_vectors", version=1, params=AdoptVectorsParams, tables=("word_vectors",))
def adopt_vectors(inputs: Mapping[str, VectorsFile], params: AdoptVectorsParams, out: Output) -> None:
    """Adopt the vectors of `inputs["file"]`. Raises `UserError` as `WordVectors.read` does."""
    given = inputs["file"]
    publish_folder(out, WordVectors.read(given.path))
    # A folder that the flow printed is called by a fingerprint: glove/ba0c… becomes `glove ba0c6d41`.
    is_artifact = (given.path / MANIFEST).is_file()
    name = f"{given.path.parent.name} {given.path.name[:8]}" if is_artifact else given.path.name
    out.add_bytes(NAME, name.encode("utf-8", "replace"))


def open_vectors(given: Artifact) -> WordVectors:
    """Open the vectors of an artifact: mapped where the store is local, from copies of their files elsewhere."""
    if isinstance(given.path, Path):
        return WordVectors.open(given.path)
    with tempfile.TemporaryDirectory(prefix="yiwen-vectors-") as name:
        for file in (WORDS, MATRIX):
            Path(name, file).write_bytes(given.read_file(file))
        # A mapped file that is deleted stays readable until the mapping ends.
        return WordVectors.open(name)


def name_of(given: Artifact) -> str:
    """Return a short name of an artifact's vectors for people: that of the adopted file, or stage and fingerprint."""
    if given.stage == adopt_vectors.name:
        return given.read_file(NAME).decode()
    return f"{given.stage} {given.fingerprint[:8]}"
