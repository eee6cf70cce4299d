"""A dialect of SQLAlchemy that asks for a password as servers do, and reads an SQLite file given the right one."""

from __future__ import annotations

import sqlite3
from typing import Any

from sqlalchemy.dialects import registry
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite

SECRET = "open-sesame"


class GuardedDialect(SQLiteDialect_pysqlite):
    """`guarded://user@server/FILE`: the user's password is `SECRET`; a server called `down` does not answer."""

    name = "guarded"
    supports_statement_cache = True

    def create_connect_args(self, url: Any) -> tuple[list[Any], dict[str, Any]]:
        return [url], {}

    def connect(self, url: Any, *arguments: Any, **options: Any) -> Any:
        if url.host == "down":
            raise sqlite3.OperationalError("connection refused: is the server running?")
        if url.password is None:
            raise sqlite3.OperationalError("fe_sendauth: no password supplied")
        if url.password != SECRET:
            raise sqlite3.OperationalError(f"password authentication failed for {url.username} with {url.password}")
        return sqlite3.connect(f"/{url.database}")


registry.register("guarded", __name__, "GuardedDialect")
