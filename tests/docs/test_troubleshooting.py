"""The page of symptoms quotes messages that the code still has."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

from infra.settings import REPOSITORY

PAGE = REPOSITORY / "docs" / "guides" / "troubleshooting.md"
GAP = "\0"
"""Stands for a value that is filled in."""
ROW = re.compile(r"^\| `(?P<message>[^`]+)` \|", re.MULTILINE)
"""`| `There is no flow …` | a mistyped name | …`"""


def messages() -> list[str]:
    return ROW.findall(PAGE.read_text(encoding="utf-8"))


def text_of(node: ast.expr) -> str:
    """Return a string of the code, with `GAP` for what is filled in."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else GAP
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part) for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return text_of(node.left) + text_of(node.right)
    if isinstance(node, ast.IfExp):
        return text_of(node.body)
    return GAP


def strings_in(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".sh":
        return [text]
    # `%s` of a log message is a gap too.
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant | ast.JoinedStr | ast.BinOp)]
    return [re.sub(r"%[.\d]*[sdf]", GAP, text_of(node)) for node in nodes]


@functools.cache
def strings() -> tuple[str, ...]:
    folders = ("infra", "kg", "models", "tasks", "flows")
    files = [path for folder in folders for path in (REPOSITORY / folder).rglob("*") if path.suffix in (".py", ".sh")]
    return tuple(dict.fromkeys(string for path in files for string in strings_in(path) if len(string) > 10))


def occurs(message: str, known: tuple[str, ...]) -> bool:
    """Whether one string has all pieces of a message between its …, in their order, or is pieces around gaps."""
    pieces = [re.escape(piece) for piece in message.split("…") if piece.strip()]
    pattern = re.compile(".*?".join(pieces), re.DOTALL)
    return any(pattern.search(string) for string in known)


@pytest.mark.parametrize("message", messages())
def test_a_quoted_message_is_still_in_the_code(message: str) -> None:
    assert occurs(message, strings())


def test_the_page_quotes_messages_of_every_kind() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert len(messages()) > 60
    assert len(re.findall(r"^## ", page, re.MULTILINE)) >= 10
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    assert [row for row in rows if not all(cell.strip() for cell in row.replace("\\|", "").split("|")[1:4])] == []


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("There is no file …. Give one.", True),
        ("There is no file … Give two.", False),
        ("Give one. There is no file", False),
        ("… is no file", True),
    ],
)
def test_pieces_are_looked_for_in_order_in_one_string(message: str, expected: bool) -> None:
    assert occurs(message, (f"There is no file {GAP}. Give one.", "Give two.")) == expected


def test_strings_are_read_with_their_gaps() -> None:
    [found] = {text_of(node) for node in ast.walk(ast.parse("f'a {x} b' 'c'")) if isinstance(node, ast.JoinedStr)}
    assert found == f"a {GAP} bc"
