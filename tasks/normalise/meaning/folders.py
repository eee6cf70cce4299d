"""What meaning has on disk: `pooling.json` beside an encoder, and the folder `meaning/` of an index. Needs no torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal, get_args

from infra.errors import UserError
from infra.limits import small_text

POOLING_FILE = "pooling.json"
"""File beside an encoder: how the states of a name became one vector in training."""
MEANING = "meaning"
"""Subfolder of an index with the files of the stage `name_vectors`."""
VECTORS_FILE, ABOUT_FILE, ENCODER = "vectors.npy", "meaning.json", "encoder"
"""Files of the stage: the vectors, of which names and of which encoder they are, and a copy of the encoder's folder."""

Pooling = Literal["mean", "cls"]


def read_pooling(folder: Path) -> Pooling:
    """Return the pooling that a folder's encoder was trained with; the mean if it does not say.

    Raises:
        UserError: the file is damaged.
    """
    path = folder / POOLING_FILE
    if not path.is_file():
        return "mean"
    try:
        pooling: Pooling = json.loads(small_text(path))["pooling"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is damaged ({error}). Train the encoder again, or delete the file.") from error
    if pooling not in get_args(Pooling):
        raise UserError(f"{path} names the pooling {pooling!r}. Use {' or '.join(get_args(Pooling))}.")
    return pooling


def write_pooling(folder: Path, pooling: str) -> None:
    """Write `pooling.json`."""
    (folder / POOLING_FILE).write_text(json.dumps({"pooling": pooling}) + "\n", encoding="utf-8")


def has_vectors(index: Path) -> bool:
    """Return True if the folder of an index has vectors of its names."""
    return (index / MEANING / ABOUT_FILE).is_file()
