"""Check of a settings dataclass against its annotations: presets and command lines may hold anything."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Collection, Mapping
from dataclasses import fields
from types import NoneType
from typing import Any, get_args, get_type_hints

_WORDS: dict[Any, tuple[str, ...]] = {
    int: ("an integer",),
    float: ("a finite number",),
    bool: ("true", "false"),
    str: ("text",),
    NoneType: ("left out",),
}
"""Supported annotations, and words for their values in messages."""


def check_types(settings: Any, where: str = "", but: Collection[str] = ()) -> None:
    """Check every field of a dataclass, `but` some, whose fields are int, float, bool or str, or one of them or None.

    Numbers are converted to the annotated type: 1e3 becomes the integer 1000, and 1 the number 1.0. It is meant for
    `__post_init__`, also of frozen dataclasses.
    Raises:
        ValueError: a value is none of these; the message names the field after `where`, the value and what it must be.
    """
    hints = get_type_hints(type(settings))
    for name in (one.name for one in fields(settings) if one.name not in but):  # not every hint: no ClassVar
        value, kinds = getattr(settings, name), get_args(hints[name]) or (hints[name],)
        taken = _converted(value, kinds)
        if not _is_one_of(taken, kinds):
            *first, last = [word for kind in kinds for word in _WORDS[kind]]
            needed = f"{', '.join(first)} or {last}" if first else last
            raise ValueError(f"{where}{name} is {value!r}; it must be {needed}")
        object.__setattr__(settings, name, taken)


def with_integers(kind: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values given for a dataclass's fields, with integers where it has integers (1e3 becomes 1000).

    All other values are returned as they are, whether right or wrong.
    """
    hints = get_type_hints(kind)
    return {
        name: _converted(value, get_args(hints[name]) or (hints[name],))
        if name in hints and isinstance(value, float)
        else value
        for name, value in given.items()
    }


def _converted(value: Any, kinds: tuple[type, ...]) -> Any:
    """Number as the annotated type where it is one; anything else unchanged."""
    if isinstance(value, float) and int in kinds:
        return int(value) if value.is_integer() else value
    if isinstance(value, int) and not isinstance(value, bool) and float in kinds:
        with contextlib.suppress(OverflowError):
            return float(value)
    return value


def _is_one_of(value: Any, kinds: tuple[type, ...]) -> bool:
    if isinstance(value, bool):  # an int to Python
        return bool in kinds
    return isinstance(value, kinds) and not (isinstance(value, float) and not math.isfinite(value))
