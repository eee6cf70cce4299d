"""A table or view of a relational database, read by its connection URL through SQLAlchemy and polars.

A URL is SQLAlchemy's: `sqlite:////data/shop.db`, `postgresql+psycopg://reader@db.hospital/shop`. The driver behind the
`+` is installed by whoever uses it. The password comes from the environment only (`YIWEN_DATABASE_PASSWORD`): URLs are
written into manifests and shown in the server's pages, passwords must not be.

Time and memory grow with the columns that are read, which are read at once.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl
import sqlalchemy as sa
from sqlalchemy.engine import URL, make_url

from infra.errors import UserError
from infra.inputs import DescribedInput
from infra.uris import refuse_secrets

PASSWORD = "YIWEN_DATABASE_PASSWORD"
"""Password of the database that a URL names."""

_ASKS_FOR_PASSWORD = ("password", "authentication", "access denied", "login failed")
"""Words by which servers refuse a login: `fe_sendauth: no password supplied` (PostgreSQL), `Access denied for user`
(MySQL), `Login failed for user` (SQL Server).
"""


class DatabaseTable(DescribedInput):
    """Columns of a table or view as text; satisfies `infra.stage.StageInput`. Equal rows have equal fingerprints."""

    stage = "database"

    def __init__(self, url: str, table: str, columns: Sequence[str]) -> None:
        """`table` may name its schema, as in `shop.products`.

        Raises:
            UserError: the URL cannot be understood or contains a secret, or names an SQLite file that is not there.
        """
        self._url = _checked(url)
        self.shown = self._url.render_as_string(hide_password=True)
        self._schema, _, self._name = table.rpartition(".")
        self.table = table
        self.columns = tuple(columns)

    def describe(self) -> dict[str, Any]:
        """Return the URL, which has no password, the table and the columns."""
        table = f"{self._schema}.{self._name}" if self._schema else self._name
        return {"url": self.shown, "table": table, "columns": list(self.columns)}

    @cached_property
    def frame(self) -> pl.DataFrame:
        """The columns as text, null where the database has NULL, in ascending order of the rows.

        Raises:
            UserError: the database cannot be reached or asks for another password, its driver is not installed, or
                there is no such table or column; the message names it.
        """
        with self._connected() as connection:
            self._check_names(connection)
            schema = self._schema or None
            chosen = sa.table(self._name, *map(sa.column, self.columns), schema=schema)
            found = pl.read_database(sa.select(*chosen.columns), connection, infer_schema_length=None)
        # A database promises no order, and what is made of the rows must not depend on it.
        return found.select(pl.col(name).cast(pl.String) for name in self.columns).sort(self.columns)

    @cached_property
    def fingerprint(self) -> str:
        """32 hex digits: a hash of the columns' names and of all rows. Raises `UserError` as `frame` does."""
        digest = hashlib.sha256("\0".join(self.columns).encode())
        for column in self.frame.iter_columns():
            for value in column:
                # A length before each value: "ab", "c" must differ from "a", "bc", and NULL from an empty text.
                digest.update(b"-" if value is None else f"{len(value)}:{value}".encode("utf-8", "surrogatepass"))
        return digest.hexdigest()[:32]

    @contextmanager
    def _connected(self) -> Iterator[sa.Connection]:
        password = os.environ.get(PASSWORD) or None
        try:
            engine = sa.create_engine(self._url if password is None else self._url.set(password=password))
            with engine.connect() as connection:
                yield connection
            engine.dispose()
        except (sa.exc.NoSuchModuleError, ModuleNotFoundError) as error:
            raise UserError(
                f"{self.shown}: the driver {self._url.drivername} is not installed ({error}). Install it, as in "
                "pip install psycopg for postgresql+psycopg."
            ) from error
        except sa.exc.SQLAlchemyError as error:
            raise UserError(_explained(error, self.shown, password)) from error

    def _check_names(self, connection: sa.Connection) -> None:
        inspector = sa.inspect(connection)
        schema = self._schema or None
        known = sorted([*inspector.get_table_names(schema), *inspector.get_view_names(schema)])
        if self._name not in known:
            raise UserError(
                f"{self.shown} has no table {self.table}; it has {', '.join(known) or 'none'}. Give one of them."
            )
        held = [column["name"] for column in inspector.get_columns(self._name, schema)]
        missing = [name for name in self.columns if name not in held]
        if missing:
            raise UserError(
                f"{self.shown}: table {self.table} has no column {', '.join(missing)}; its columns are "
                f"{', '.join(held)}. Give the names of the columns."
            )


def _checked(url: str) -> URL:
    try:
        made = make_url(url)
    except sa.exc.ArgumentError as error:
        # The text may contain a password, so it is not repeated.
        raise UserError(
            "The URL of the database cannot be understood. Give it as in postgresql+psycopg://user@host/database or "
            "sqlite:////folder/file.db."
        ) from error
    if made.password is not None:
        raise UserError(
            f"{made.render_as_string(hide_password=True)}: the URL contains a password, which would be recorded with "
            f"the run. Remove it from the URL and set {PASSWORD} in the environment."
        )
    refuse_secrets(url)  # in a parameter: ?password=
    if made.get_backend_name() == "sqlite":
        if made.database in (None, "", ":memory:"):
            raise UserError(f"{url} names no file. Give one, as in sqlite:////folder/file.db.")
        if not Path(str(made.database)).is_file():  # SQLite would make an empty one
            raise UserError(f"There is no database {made.database}. Give the path of an SQLite file.")
    return made


def _explained(error: sa.exc.SQLAlchemyError, shown: str, password: str | None) -> str:
    origin: Any = getattr(error, "orig", None) or error
    why = " ".join(str(origin).split())
    if password is not None:
        why = why.replace(password, "***")
    if any(word in why.lower() for word in _ASKS_FOR_PASSWORD):
        remedy = f"Set {PASSWORD} in the environment of the worker"
        state = "asks for a password, and the environment has none" if password is None else "refuses the password"
        return f"{shown} {state} ({why}). {remedy}{'' if password is None else ', to the right one'}."
    return f"{shown} cannot be read: {why}. Check host, port, name and rights, and that the server runs."
