"""Keywords of functions that users call by hand: one that a function does not have is an error in plain words."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable
from typing import ParamSpec, TypeVar

from infra.errors import UserError

P = ParamSpec("P")
R = TypeVar("R")


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a suggestion such as ` (did you mean 'corpus'?)`; nothing if no name is near."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def check_keywords(name: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raise `UserError` for a keyword that a function does not have, with the nearest one that it has."""
    has = [one for one in known if one != "self"]
    for keyword in given:
        if keyword not in has:
            raise UserError(f"{name} has no parameter {keyword!r}{nearest(keyword, has)}; it has {', '.join(has)}.")


def explained_keywords(function: Callable[P, R]) -> Callable[P, R]:
    """Make a call with a keyword that the function does not have a `UserError`; a class is named for its `__init__`."""
    known = inspect.signature(function).parameters
    name = function.__qualname__.removesuffix(".__init__")

    @functools.wraps(function)
    def call(*arguments: P.args, **given: P.kwargs) -> R:
        check_keywords(name, given, known)
        return function(*arguments, **given)

    return call
