"""Page of the command line: the help of every command."""

from __future__ import annotations

import argparse

from docs.generate.markdown import fenced
from flows.cli.commands import _parser


def page() -> str:
    """Return the page."""
    parser = _parser()
    [commands] = [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
    parts = [
        "# Command line",
        "`.venv/bin/python -m flows` in a checkout, `yiwen` where the wheel is installed.",
        fenced(parser.format_help(), "text"),
    ]
    for name, command in commands.choices.items():
        parts.append(f"## {name}\n\n{fenced(command.format_help(), 'text')}")
    return "\n\n".join(parts) + "\n"
