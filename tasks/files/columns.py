"""Columns of tables by name, also where several have the same: a mapping would keep the last of them alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence


class RepeatedColumn(str):
    """The name of a column behind others of its name, with its number: `text (2)`."""

    column: str
    """The name that the table gives it."""


def distinct_columns(names: Sequence[str]) -> Sequence[str]:
    """The names, each that stood before as a `RepeatedColumn`."""
    if len(set(names)) == len(names):
        return names
    taken, seen = set(names), Counter[str]()
    distinct: list[str] = []
    for name in names:
        seen[name] += 1
        number = seen[name]
        if number == 1:
            distinct.append(name)
            continue
        while f"{name} ({number})" in taken:
            number += 1
        repeated = RepeatedColumn(f"{name} ({number})")
        repeated.column = name
        taken.add(repeated)
        distinct.append(repeated)
    return distinct


def repeated_columns(names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Of each name that several columns have, those behind the first."""
    found: dict[str, list[str]] = {}
    for name in names:
        if isinstance(name, RepeatedColumn):
            found.setdefault(name.column, []).append(name)
    return {name: tuple(others) for name, others in found.items()}
