"""Page of the command line: the help of every verb."""

from __future__ import annotations

from typing import Any

from docs.generate.markdown import fenced
from flows.cli.app import make_app
from flows.cli.program import MODULE


def page() -> str:
    """Return the page."""
    group = make_app()
    parts = [
        "# Command line",
        "`.venv/bin/yiwen` or `.venv/bin/python -m flows` in a checkout, `yiwen` of the wheel. Status 2 "
        "is an error that you can fix, in a line that begins with `error: `.",
        fenced(_help(group, MODULE), "text"),
    ]
    parts += [_section(command, name) for name, command in group.commands.items()]
    return "\n\n".join(parts) + "\n"


def _section(command: Any, name: str) -> str:
    """Return the help of a verb, and that of the verbs below it."""
    below = getattr(command, "commands", {})
    own = f"## {name}\n\n{fenced(_help(command, f'{MODULE} {name}'), 'text')}"
    return "\n\n".join([own, *(_section(one, f"{name} {verb}") for verb, one in below.items())])


def _help(command: Any, name: str) -> str:
    context = command.context_class(command, info_name=name, terminal_width=100, max_content_width=100)
    return str(command.get_help(context))
