"""The checkpoint of an unfinished trial: one file in its folder, replaced at the end of every epoch.

A kill during writing leaves the previous one. The file is five times the size of the model (models/finetuning.py).
"""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path

import fsspec
import torch

from infra.artifacts import make_folder
from models.finetuning import STATE_FORMAT, State

logger = logging.getLogger(__name__)

CHECKPOINT = "checkpoint.pt"


def save_checkpoint(folder: str, identity: str, state: State) -> None:
    """Write the state into a trial's folder (a path or URI), replacing the previous one."""
    filesystem, path = fsspec.core.url_to_fs(folder)
    make_folder(filesystem, path)
    with tempfile.TemporaryDirectory(prefix="yiwen-checkpoint-") as name:
        written = Path(name) / CHECKPOINT
        torch.save({"identity": identity, "state": dict(state)}, written)
        filesystem.put_file(str(written), f"{path}/{CHECKPOINT}.unfinished")
    filesystem.mv(f"{path}/{CHECKPOINT}.unfinished", f"{path}/{CHECKPOINT}")


def load_checkpoint(folder: str, identity: str) -> State | None:
    """Return the state that a killed trial left, on the CPU, or None if the trial has to start over.

    It does if there is no checkpoint, or one that is damaged or of another trial, which is logged.
    """
    filesystem, path = fsspec.core.url_to_fs(f"{folder}/{CHECKPOINT}")
    if not filesystem.exists(path):
        return None
    try:
        with tempfile.TemporaryDirectory(prefix="yiwen-checkpoint-") as name:
            filesystem.get_file(path, f"{name}/{CHECKPOINT}")
            found = torch.load(f"{name}/{CHECKPOINT}", map_location="cpu", weights_only=True)
        if found["identity"] != identity:
            raise ValueError("it belongs to another trial")
        state: State = found["state"]
        if state["format"] != STATE_FORMAT:
            raise ValueError("another version of this program wrote it")
    except Exception as error:  # torch.load does not document what it raises for a damaged file
        logger.warning("%s cannot be resumed from (%s); the trial starts over", path, error)
        return None
    logger.info("%s: resuming after %d steps", folder, state["done"])
    return state
