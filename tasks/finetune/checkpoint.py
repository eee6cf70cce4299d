"""The checkpoint of a trial that is under way: one file in its folder, replaced at the end of every epoch.

A kill while it is written leaves the one before. The file is five times the model's size (models/finetuning.py).
"""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path

import fsspec
import torch

from models.finetuning import STATE_FORMAT, State

logger = logging.getLogger(__name__)

CHECKPOINT = "checkpoint.pt"


def save_checkpoint(folder: str, identity: str, state: State) -> None:
    """Write the state into a trial's folder (a path or URI), in the place of the one before."""
    filesystem, path = fsspec.core.url_to_fs(folder)
    filesystem.makedirs(path, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="yiwen-checkpoint-") as name:
        written = Path(name) / CHECKPOINT
        torch.save({"identity": identity, "state": dict(state)}, written)
        filesystem.put_file(str(written), f"{path}/{CHECKPOINT}.unfinished")
    filesystem.mv(f"{path}/{CHECKPOINT}.unfinished", f"{path}/{CHECKPOINT}")


def load_checkpoint(folder: str, identity: str) -> State | None:
    """The state that a killed trial left, on the CPU. None where there is none, or one that cannot be read or is of
    another trial: then the trial begins anew, and the log says why.
    """
    filesystem, path = fsspec.core.url_to_fs(f"{folder}/{CHECKPOINT}")
    if not filesystem.exists(path):
        return None
    try:
        with tempfile.TemporaryDirectory(prefix="yiwen-checkpoint-") as name:
            filesystem.get_file(path, f"{name}/{CHECKPOINT}")
            found = torch.load(f"{name}/{CHECKPOINT}", map_location="cpu", weights_only=True)
        if found["identity"] != identity:
            raise ValueError("it is of another trial")
        state: State = found["state"]
        if state["format"] != STATE_FORMAT:
            raise ValueError("another version of this program wrote it")
    except Exception as error:  # what torch.load raises for a damaged file is not told
        logger.warning("%s: this checkpoint cannot be gone on from (%s); the trial begins anew", path, error)
        return None
    logger.info("%s: going on after %d steps", folder, state["done"])
    return state
