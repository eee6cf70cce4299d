"""Page of the command line: the help of every verb."""

from __future__ import annotations

from docs.generate.markdown import fenced
from flows.cli.app import make_app


def page() -> str:
    """Return the page."""
    app = make_app()
    parts = [
        "# Command line",
        "`.venv/bin/yiwen` or `.venv/bin/python -m flows` in a checkout, `yiwen` where the wheel is installed.",
    ]
    with app.make_context("yiwen", [], resilient_parsing=True) as context:
        parts.append(fenced(app.get_help(context), "text"))
        for name, verb in app.commands.items():
            with verb.make_context(name, [], parent=context, resilient_parsing=True) as own:
                parts.append(f"## {name}\n\n{fenced(verb.get_help(own), 'text')}")
    return "\n\n".join(parts) + "\n"
