"""Arrays for all workers of a stage: written once to the build's scratch folder, memory-mapped by each worker.

Time grows with the bytes, memory with the bytes that are used (if the folder is a URI, each worker has a copy on disk).
"""

from __future__ import annotations

import functools
import hashlib
import posixpath
import shutil
import tempfile
import uuid
from dataclasses import dataclass, field

import fsspec
import numpy as np

from infra.artifacts import open_for_writing
from infra.builds import explained


@dataclass(frozen=True)
class SharedArray:
    """An array in a file, identified by its content: an input of a stage and of its units of work."""

    path: str = field(compare=False)
    """File or URI with the bare values, in C order."""
    dtype: str
    shape: tuple[int, ...]
    fingerprint: str
    stage: str = "array"

    @classmethod
    def save(cls, array: np.ndarray, folder: str) -> SharedArray:
        """Write a non-empty array into a folder that all workers can read.

        Raises:
            StorageFullError, UserError: as `infra.builds.explained` does.
        """
        array = np.ascontiguousarray(array)
        # A new name in each run, because a worker that outlived a killed run may still read that run's file.
        path = posixpath.join(folder, f"array-{uuid.uuid4().hex}")
        with explained(path), open_for_writing(path) as file:
            file.write(array.data.cast("B"))
        named = hashlib.sha256(f"{array.dtype.str} {array.shape} ".encode())
        named.update(array.data)
        return cls(path, array.dtype.str, array.shape, named.hexdigest()[:32])

    def load(self) -> np.ndarray:
        """Return the array, read-only."""
        return _mapped(self)


@functools.lru_cache(maxsize=2)
def _mapped(array: SharedArray) -> np.ndarray:
    if "://" not in array.path:
        return np.memmap(array.path, dtype=array.dtype, mode="r", shape=array.shape)
    with tempfile.TemporaryFile() as copy:
        with fsspec.open(array.path, "rb") as file:
            shutil.copyfileobj(file, copy)
        copy.flush()
        return np.memmap(copy, dtype=array.dtype, mode="r", shape=array.shape)
