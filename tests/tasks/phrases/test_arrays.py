"""Arrays shared by workers: read as written, from a folder and from a URI, identified only by their content."""

from __future__ import annotations

import uuid
from pathlib import Path

import numpy as np
import pytest

from tasks.phrases.arrays import SharedArray

ARRAYS = [
    np.arange(7, dtype=np.int32),
    np.arange(12, dtype=np.float32).reshape(3, 4),
    np.array([[1], [-1]], dtype=np.int8),
]


@pytest.mark.parametrize("array", ARRAYS)
@pytest.mark.parametrize("root", ["folder", "memory://"])
def test_array_is_read_as_written(tmp_path: Path, root: str, array: np.ndarray) -> None:
    folder = str(tmp_path) if root == "folder" else f"{root}{uuid.uuid4().hex}"
    shared = SharedArray.save(array, folder)
    read = shared.load()
    assert read.dtype == array.dtype and np.array_equal(read, array)
    with pytest.raises(ValueError, match="read-only"):
        read[0] = 1


def test_equal_arrays_are_equal_inputs_in_any_folder(tmp_path: Path) -> None:
    one, same = (SharedArray.save(np.arange(6, dtype=np.int32)[::step], str(tmp_path)) for step in (2, 2))
    assert one == same and one.path != same.path and one.load().tolist() == [0, 2, 4]
    others = [np.array([0, 2, 5], np.int32), np.array([0, 2, 4], np.int64), np.array([[0, 2, 4]], np.int32)]
    assert len({one.fingerprint, *(SharedArray.save(other, str(tmp_path)).fingerprint for other in others)}) == 4
