"""The command line's own reading of arguments, without doing what they ask for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flows.cli.app import make_app


def parsed(arguments: Sequence[str]) -> dict[str, Any]:
    """Return the values of a verb's parameters. Raises as the program does for arguments that it does not take."""
    app = make_app()
    with app.make_context("yiwen", list(arguments)) as context:
        name, verb, rest = app.resolve_command(context, [*context._protected_args, *context.args])
        return dict(verb.make_context(name, rest, parent=context).params)
