"""Where this code is: a checkout, or the package `yiwen` of a wheel (setup.py).

A checkout's folders are imported by their own names (`tasks.training`), a wheel's below one name
(`yiwen.tasks.training`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent.parent
"""The folder that contains flows, tasks, models, kg and infra."""

PREFIX = __name__.removesuffix("infra.place")
"""What stands before the names of modules: nothing, or `yiwen.`."""

INSTALLED = bool(PREFIX)

IMPORTED_FROM = FOLDER.parent if INSTALLED else FOLDER
"""The search path by which child processes import the same code."""


def module_name(file: str) -> str:
    """Return the name by which a file below the folder is imported: `flows/corpus.py` is `flows.corpus`."""
    return PREFIX + file.removesuffix(".py").replace("/", ".")


def uploaded_code(excluded: Sequence[str]) -> dict[str, Any]:
    """Return the part of Ray's runtime environment that brings this code to nodes that lack it."""
    if INSTALLED:
        return {"py_modules": [str(FOLDER)]}
    return {"working_dir": str(FOLDER), "excludes": list(excluded)}
