"""Page of `import yiwen`: functions as they are called, with the parameters of the flows behind them, and classes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import yiwen
from docs.generate.markdown import code, fenced, prose, table
from docs.generate.python import PAGES
from flows.recipes.meanings import of_function


def page() -> str:
    """Return the page; mkdocstrings fills in the classes."""
    parts = [
        "# Python: notebooks",
        "The names of `import yiwen`. Examples of each are on the page about Python and notebooks.",
    ]
    return "\n\n".join([*parts, *(_section(name, found) for name, found in names())]) + "\n"


def names() -> Iterator[tuple[str, Any]]:
    """Yield the functions and classes of `yiwen`, those of its modules too, by the names that users write."""
    for name in yiwen.__all__:
        found = getattr(yiwen, name)
        if inspect.ismodule(found):
            for below, one in vars(found).items():
                if inspect.isfunction(one) and one.__module__ == found.__name__:
                    yield f"yiwen.{name}.{below}", one
        elif callable(found):
            yield f"yiwen.{name}", found


def _section(name: str, found: Any) -> str:
    place = f"{found.__module__}.{found.__qualname__}"
    if any(place in one.names for one in PAGES.values()):
        return f"## {name}\n\nThe same as [`{place}`][{place}]."
    if inspect.isclass(found):
        options = "    options:\n      heading: " + name
        return f"::: {place}\n{options}"
    return _function(name, found)


def _function(name: str, function: Callable[..., Any]) -> str:
    text = (inspect.getdoc(function) or "").partition("\nArgs:")[0]
    settings = [one for one in of_function(function) if one.meaning]
    rows = [(code(one.key), code(one.type), code(one.default), prose(one.meaning)) for one in settings]
    given = ", ".join(name for name in inspect.signature(function).parameters)
    about = "\n\n".join(prose(paragraph) for paragraph in text.split("\n\n"))
    parts = [f"## {name}", fenced(f"{name}({given})", "python"), about]
    return "\n\n".join([*parts, table(("parameter", "type", "default", "meaning"), rows)])
