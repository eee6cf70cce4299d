"""Confidence that an answer needs, as the user sets it: when the index is built, or when a normaliser is opened."""

from __future__ import annotations

import json
from pathlib import Path

from infra.errors import UserError

THRESHOLD = 0.5
"""Default threshold without a ranker: below it an answer is more likely wrong than right."""

THRESHOLD_FILE = "threshold.json"


def checked_threshold(given: float) -> float:
    """Return a threshold.

    Raises:
        UserError: it is not a number from 0 to 1.
    """
    if not 0 <= given <= 1:  # NaN is refused too
        raise UserError(f"{given:g} is not a valid threshold; give a number from 0 (code all) to 1.")
    return given


def save_threshold(threshold: float, folder: Path) -> None:
    """Write `threshold.json` in the folder of an index."""
    (folder / THRESHOLD_FILE).write_text(json.dumps({"threshold": threshold}) + "\n", encoding="utf-8")


def load_threshold(folder: Path) -> float | None:
    """Return the threshold of a folder, or None if it has none.

    Raises:
        UserError: the file is damaged.
    """
    path = folder / THRESHOLD_FILE
    if not path.is_file():
        return None
    try:
        return checked_threshold(float(json.loads(path.read_text(encoding="utf-8"))["threshold"]))
    except (ValueError, KeyError, TypeError, UserError) as error:
        raise UserError(f"{path} is damaged ({error}). Build the index again.") from error
