"""The name of this program, as the user called it: what commands that we print begin with."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

MODULE = "python -m flows"
"""The name in a checkout, which texts of ours use; setup.py replaces it in the wheel, whose program is `yiwen`."""

COMMAND = "yiwen"
"""Name of the installed program, and of the one that `make setup` puts into `.venv/bin`."""

_MODULE = re.compile(rf"(?<![\w/]){re.escape(MODULE)}")
"""The name in a text, unless it has a folder before it, as `.venv/bin/python -m flows` has."""


def program() -> str:
    """Return the name to show in help and examples: `yiwen` if it was called so, else `python -m flows`.

    The interpreter has the folder that was typed, such as `.venv/bin/`: without it a shell may find another Python.
    """
    if Path(sys.argv[0]).name == COMMAND:
        return COMMAND
    interpreter, *following = sys.orig_argv
    if following[:2] == MODULE.split()[1:] and Path(interpreter).name == "python" and "/" in interpreter:
        return f"{shlex.quote(interpreter)} -m flows"
    return MODULE


def as_called(text: str) -> str:
    """Return a text with the name by which the program was called in place of `python -m flows`."""
    return _MODULE.sub(lambda _: program(), text)
