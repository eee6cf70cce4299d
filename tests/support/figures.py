"""Figures in pages, and whether one stands on another page."""

from __future__ import annotations

import re

NUMBER = re.compile(r"(?<![\w.])(?:\d[\d,]*(?:\.\d+)?|\.\d+)")
"""`2,420`, `0.54` or `.878`, but not the digits of `bf16`."""
ADDRESS = re.compile(r"\]\([^)]*\)")
"""`](docs/speed.md)`: numbers of a file's name are no figures."""


def numbers(text: str) -> list[str]:
    return [number.rstrip(",").replace(",", "") for number in NUMBER.findall(ADDRESS.sub("]", text))]


def stands_in(figure: str, page: set[str]) -> bool:
    """Whether a page has a number that is the figure, or is the figure when rounded to its decimals."""
    decimals = len(figure.partition(".")[2])
    return any(
        len(one.partition(".")[2]) >= decimals and f"{float(one):.{decimals}f}" == f"{float(figure):.{decimals}f}"
        for one in page
    )
