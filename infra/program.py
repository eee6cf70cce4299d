"""The name of this program, as the user called it: what commands that we print begin with."""

from __future__ import annotations

import sys
from pathlib import Path

MODULE = "python -m flows"
"""The name in a checkout, which texts of ours use; setup.py replaces it in the wheel, whose program is `yiwen`."""

COMMAND = "yiwen"
"""Name of the installed program, and of the one that `make setup` puts into `.venv/bin`."""


def program() -> str:
    """Return the name to show in help and examples: `yiwen` if it was called so, else `python -m flows`."""
    return COMMAND if Path(sys.argv[0]).name == COMMAND else MODULE


def as_called(text: str) -> str:
    """Return a text with the name by which the program was called in place of `python -m flows`."""
    return text.replace(MODULE, program())
