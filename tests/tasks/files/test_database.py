"""Tables of databases: rows as text, fingerprints of their content, and what a user is told who cannot read one."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from infra.errors import UserError
from tasks.files.database import PASSWORD, DatabaseTable
from tests.support.processes.guarded_database import SECRET

COLUMNS = ("title", "attribute", "value")
ROWS = [("感冒灵颗粒", "适应症", "感冒"), ("感冒灵颗粒", "适应症", "头痛"), ("头孢克肟片", "适应症", None)]


@pytest.fixture(autouse=True)
def no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PASSWORD, raising=False)


def shop(folder: Path, rows: list[tuple[str, str, str | None]] = ROWS, name: str = "shop.db") -> Path:
    file = folder / name
    with sqlite3.connect(file) as connection:
        connection.execute("create table products (title text, attribute text, value text, price real)")
        connection.executemany("insert into products values (?, ?, ?, 9.5)", rows)
        connection.execute("create view cheap as select title, price from products")
    connection.close()
    return file


def test_rows_are_read_as_text_in_an_order_of_their_own(tmp_path: Path) -> None:
    table = DatabaseTable(f"sqlite:///{shop(tmp_path)}", "products", COLUMNS)
    assert table.frame.rows() == sorted(ROWS, key=lambda row: (row[0], row[1], row[2] or ""))
    assert DatabaseTable(f"sqlite:///{tmp_path}/shop.db", "cheap", ("price",)).frame.rows() == [("9.5",)] * 3


def test_equal_rows_have_equal_fingerprints_wherever_they_are(tmp_path: Path) -> None:
    first = DatabaseTable(f"sqlite:///{shop(tmp_path)}", "products", COLUMNS)
    again = DatabaseTable(f"sqlite:///{shop(tmp_path, ROWS[::-1], 'again.db')}", "products", COLUMNS)
    moved = [(ROWS[0][0] + "适", "应症", "感冒"), *ROWS[1:]]
    changed = DatabaseTable(f"sqlite:///{shop(tmp_path, moved, 'changed.db')}", "products", COLUMNS)
    empty = DatabaseTable(
        f"sqlite:///{shop(tmp_path, [*ROWS[:2], (*ROWS[2][:2], '')], 'empty.db')}", "products", COLUMNS
    )
    assert first.fingerprint == again.fingerprint
    assert len({first.fingerprint, changed.fingerprint, empty.fingerprint}) == 3


def test_a_password_comes_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"guarded://reader@server{shop(tmp_path)}"
    monkeypatch.setenv(PASSWORD, SECRET)
    table = DatabaseTable(url, "products", COLUMNS)
    assert table.frame.height == 3
    assert SECRET not in table.shown


@pytest.mark.parametrize(
    ("password", "host", "message"),
    [
        (None, "server", f"asks for a password, and the environment has none.*Set {PASSWORD} in the environment"),
        ("wrong-one", "server", rf"refuses the password \(password authentication failed.*Set {PASSWORD}"),
        (SECRET, "down", "connection refused.*Check host, port"),
    ],
)
def test_a_login_that_fails_is_explained_without_the_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, password: str | None, host: str, message: str
) -> None:
    if password is not None:
        monkeypatch.setenv(PASSWORD, password)
    table = DatabaseTable(f"guarded://reader@{host}{shop(tmp_path)}", "products", COLUMNS)
    with pytest.raises(UserError, match=message) as caught:
        _ = table.frame
    assert password is None or password not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("postgresql://reader:secret@db/shop", rf"contains a password.*set {PASSWORD}"),
        ("sqlite:////nowhere/shop.db", "There is no database /nowhere/shop.db"),
        ("sqlite://", "names no file"),
        ("shop.db", "cannot be understood"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_at_once(url: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        DatabaseTable(url, "products", COLUMNS)
    assert "secret" not in str(caught.value)


def test_a_password_among_the_parameters_is_refused() -> None:
    with pytest.raises(UserError, match=rf"password=\*\*\* contains a secret.*set {PASSWORD}") as caught:
        DatabaseTable("postgresql://reader@db/shop?password=geheim", "products", COLUMNS)
    assert "geheim" not in str(caught.value)


def test_a_driver_that_is_not_installed_is_named() -> None:
    with pytest.raises(UserError, match=r"driver nosuchdb is not installed.*pip install"):
        _ = DatabaseTable("nosuchdb://reader@db/shop", "products", COLUMNS).frame


def test_tables_and_columns_that_are_not_there_are_named(tmp_path: Path) -> None:
    url = f"sqlite:///{shop(tmp_path)}"
    with pytest.raises(UserError, match=r"has no table drugs; it has cheap, products"):
        _ = DatabaseTable(url, "drugs", COLUMNS).frame
    with pytest.raises(UserError, match=r"has no column names; its columns are title, attribute, value, price"):
        _ = DatabaseTable(url, "products", ("title", "names")).frame


def test_a_file_that_is_no_database_is_explained(tmp_path: Path) -> None:
    (tmp_path / "shop.db").write_bytes(b"title,attribute,value\n" * 100)
    with pytest.raises(UserError, match=r"shop.db cannot be read: file is not a database"):
        _ = DatabaseTable(f"sqlite:///{tmp_path}/shop.db", "products", COLUMNS).frame
