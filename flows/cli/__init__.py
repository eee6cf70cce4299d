"""The command line: `python -m flows COMMAND`. Imports nothing heavy before a command needs it."""

from flows.cli.commands import main

__all__ = ["main"]
