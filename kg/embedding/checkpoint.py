"""Checkpoints of an embedding in training: one file, written atomically, on any filesystem."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import fsspec
import torch

from infra.artifacts import make_folder
from infra.builds import explained
from infra.errors import DamagedArtifactError


def save_state(state: Mapping[str, Any], path: str) -> None:
    """Write a state (tensors and plain values) to a path or URI; an older one stays there until it is replaced.

    Raises:
        StorageFullError, UserError: as `infra.builds.explained` does.
    """
    filesystem, place = fsspec.core.url_to_fs(path)
    with explained(path):
        make_folder(filesystem, filesystem._parent(place))
        with filesystem.open(f"{place}.new", "wb") as file:
            torch.save(dict(state), file)
    filesystem.mv(f"{place}.new", place)


def load_state(path: str) -> dict[str, Any] | None:
    """Return the state at a path or URI, on the CPU, or None if there is none. Only tensors and plain values are read.

    Raises:
        DamagedArtifactError: the file is not a checkpoint.
    """
    filesystem, place = fsspec.core.url_to_fs(path)
    if not filesystem.exists(place):
        return None
    try:
        with filesystem.open(place, "rb") as file:
            return torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:
        # torch's own message recommends weights_only=False, which would run code from the file.
        raise DamagedArtifactError(
            f"{path} is not a readable checkpoint. Delete it to restart this training."
        ) from error
