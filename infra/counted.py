"""Numbers with what they count, for people."""

from __future__ import annotations


def counted(number: int, name: str) -> str:
    """Return a number with what it counts: `27,403 documents`, `1 document`, `1 kg_entity`."""
    if number == 1 and name.endswith("ies"):
        name = f"{name[:-3]}y"
    elif number == 1:
        name = name.removesuffix("s")
    return f"{number:,} {name}"
