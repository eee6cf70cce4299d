"""The command line, `python -m flows VERB` or `yiwen VERB`. Imports nothing heavy before a verb needs it."""

from flows.cli.app import main

__all__ = ["main"]
