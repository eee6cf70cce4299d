"""Names of columns, made distinct where several are equal: a mapping would keep only the last of these."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence


class RepeatedColumn(str):
    """A numbered name, `text (2)`, for a column that repeats the name of an earlier one."""

    column: str
    """The column's name in the table."""


def distinct_columns(names: Sequence[str]) -> Sequence[str]:
    """Return the names, with repeated ones as `RepeatedColumn`."""
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
        while f"{name} ({number})" in taken:  # the table has a column of that very name
            number += 1
        repeated = RepeatedColumn(f"{name} ({number})")
        repeated.column = name
        taken.add(repeated)
        distinct.append(repeated)
    return distinct


def repeated_columns(names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return, for each name that several columns have, the columns after the first."""
    found: dict[str, list[str]] = {}
    for name in names:
        if isinstance(name, RepeatedColumn):
            found.setdefault(name.column, []).append(name)
    return {name: tuple(others) for name, others in found.items()}
