"""Access to a private Ray: who can reach it runs code as its user, and other users of the machine can try.

Its token is random, differs from run to run, and is in the environment of its processes only, which other users cannot
read. Its sockets and logs are below a folder that only its user can enter: the folder that Ray is given becomes open to
everybody (mode 777), as Ray's own, /tmp/ray, is.
`LOCAL_RAY_DEFAULTS` keeps its ports on loopback. Ports that answer without the token give figures of processor and
memory: those of Prometheus, of the dashboard and of the autoscaler.
"""

from __future__ import annotations

import importlib
import os
import secrets
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from infra.errors import UserError

LONGEST_FOLDER = 36
"""Characters of the folder, so that the paths of Ray's Unix sockets below it keep to the 107 that Linux allows."""

LONGEST_PARENT = LONGEST_FOLDER - len("/yw01234567/r")
"""Characters of the folder that it may be made in."""

_folders: list[tempfile.TemporaryDirectory[str]] = []
"""The folder of the private Ray of this process, if one was started."""


def access_variables(beside_endpoint: bool) -> Mapping[str, str]:
    """Return the variables by which a private Ray asks for a token: the user's, or a new random one.

    Args:
        beside_endpoint: `RAY_AUTH_MODE` is about the job endpoint of a cluster, not about the private Ray.
    """
    mode = {"RAY_AUTH_MODE": "token"} if beside_endpoint else {}
    if os.environ.get("RAY_AUTH_TOKEN") or os.environ.get("RAY_AUTH_TOKEN_PATH"):
        return mode
    return mode | {"RAY_AUTH_TOKEN": secrets.token_hex(32)}


def read_access_again() -> None:
    """Let Ray read its variables of access from the environment, which it otherwise does once, on import."""
    raylet: Any = importlib.import_module("ray._raylet")
    raylet.Config.initialize("")
    raylet.AuthenticationTokenLoader.instance().reset_cache()


def make_folder() -> str:
    """Make a folder for the sockets and logs of a private Ray, within one that only this user can enter.

    That one is in `RAY_TMPDIR` or the folder for temporary files, or in /tmp where the path of that is too long.

    Raises:
        UserError: no file can be written there.
    """
    remove_folder()
    wanted = os.environ.get("RAY_TMPDIR") or tempfile.gettempdir()
    parent = Path(wanted if len(wanted) <= LONGEST_PARENT else "/tmp")
    try:
        made = tempfile.TemporaryDirectory(prefix="yw", dir=parent, ignore_cleanup_errors=True)
        inner = Path(made.name, "r")
        inner.mkdir()
    except OSError as error:
        raise UserError(
            f"Ray needs a folder for its sockets, and {parent} takes none: {error.strerror}. Set RAY_TMPDIR to a "
            f"folder of at most {LONGEST_PARENT} characters that can be written to, or unset YIWEN_EXECUTOR."
        ) from error
    _folders.append(made)
    return str(inner)


def remove_folder() -> None:
    """Remove the folder of this process's private Ray, if there is one."""
    while _folders:
        _folders.pop().cleanup()
