"""Markdown that generated pages are made of."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; cells may hold Markdown, and `|` and line breaks in them are escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in line)} |" for line in lines) + "\n"


def code(text: str) -> str:
    """Return text as inline code; empty for empty text."""
    if not text:
        return ""
    fence = "``" if "`" in text else "`"
    return f"{fence} {text} {fence}" if fence == "``" else f"{fence}{text}{fence}"


def prose(docstring: str) -> str:
    """Return the text of a docstring as Markdown: angle brackets are text, not HTML."""
    parts = re.split(r"(`[^`]+`)", " ".join(docstring.split()))
    return "".join(part if part.startswith("`") else html.escape(part, quote=False) for part in parts)


def fenced(text: str, language: str) -> str:
    """Return a block of code; its fence is longer than any in the text."""
    longest = max((len(found) for found in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").strip()
