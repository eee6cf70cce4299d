"""The server that Prefect starts for a flow that is called from a script while no server is configured.

It listens on loopback, where every user of the machine can ask it, and it outlives a script that is killed. So it gets
a random password, which is in the environment of its processes only, and a guard that ends it. Its database, which
Prefect leaves readable to all, is closed to other users.
"""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
from pathlib import Path

from prefect.context import refresh_global_settings_context
from prefect.settings import get_current_settings

from infra.console.interruption import outlived_by_none

PASSWORDS = ("PREFECT_SERVER_API_AUTH_STRING", "PREFECT_API_AUTH_STRING")
"""Variables with the server's and its clients' password, as in name:password."""

MARK = "PREFECT__SERVER_EPHEMERAL=1"
"""Variable that Prefect sets for its temporary server."""


DATABASE = "prefect.db"
"""File in Prefect's home in which its server keeps names, parameters and logs of runs."""


@functools.cache
def secure_temporary_server() -> None:
    """Prepare this process for a temporary server, unless a server or a password is configured. Call it before one."""
    settings = get_current_settings()
    if settings.api.url is not None:
        return
    outlived_by_none(MARK)
    _close_database(settings.home / DATABASE)
    if settings.api.auth_string is None and settings.server.api.auth_string is None:
        password = f"yiwen:{secrets.token_hex(32)}"
        os.environ.update(dict.fromkeys(PASSWORDS, password))
        refresh_global_settings_context()


def _close_database(file: Path) -> None:
    """Close the database to other users, even one to be made; SQLite gives its other files that mode."""
    with contextlib.suppress(OSError):  # another user's, or no folder for files: the server says so by itself
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch(mode=0o600)
        file.chmod(0o600)
