"""The app: every verb of the command line.

To add a verb, write `flows/cli/NAME.py` with a function whose docstring is its help, and add the function to `VERBS`.
Options are its parameters, as typer reads them. The function imports what it needs when it is called: `--help`, and
the answer to a mistyped verb, must not wait for torch. It returns None, or an exit status. What the user can fix is
raised as `UserError`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.main import get_command

from flows.cli.compare import compare
from flows.cli.deidentify import deidentify
from flows.cli.export import export
from flows.cli.gc import collect
from flows.cli.lineage import lineage
from flows.cli.list import list_flows
from flows.cli.normalise import normalise
from flows.cli.plan import plan
from flows.cli.predict import predict
from flows.cli.run import run
from flows.cli.runs import runs
from flows.cli.serve import serve
from flows.cli.show import show
from flows.cli.submit import submit
from flows.cli.verbosity import set_verbosity
from flows.cli.verify import verify
from infra.console.json_log import VARIABLE, json_line
from infra.console.printable import indented, printable
from infra.disk.private_files import private_files
from infra.errors import UserError, output_error, path_error
from infra.extras import explained
from infra.program import COMMAND, as_called, program
from infra.settings import store_root
from infra.version import VERSION

VERBS: dict[str, Callable[..., int | None]] = {
    "list": list_flows,
    "plan": plan,
    "run": run,
    "submit": submit,
    "runs": runs,
    "show": show,
    "lineage": lineage,
    "verify": verify,
    "gc": collect,
    "export": export,
    "predict": predict,
    "compare": compare,
    "normalise": normalise,
    "deidentify": deidentify,
    "serve": serve,
}
"""The verbs, in the order of `--help`."""


def make_app() -> Any:
    """Return the command with all verbs, whose help names the program as it was called."""
    app = typer.Typer(
        name=program(),
        help="Run Yiwen's flows on this machine, and use the models they trained.",
        epilog=f"{program()} COMMAND --help shows the options of a command.",
        add_completion=program() == COMMAND,  # shells complete programs, not modules run by Python
        rich_markup_mode=None,  # plain text: it is as fast as it is readable in a log
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    )
    app.callback()(_everywhere)
    for name, function in VERBS.items():
        text, _, examples = (function.__doc__ or "").partition("Examples:\n")
        app.command(name, help=as_called(text), epilog=as_called(_kept(examples)) or None)(function)
    group: Any = get_command(app)
    for verb in group.commands.values():
        for parameter in verb.params:
            parameter.help = as_called(parameter.help or "")
    return group


def _kept(examples: str) -> str:
    """Return examples as an epilog whose lines are not joined."""
    lines = [f"  {line.strip()}" for line in examples.splitlines() if line.strip()]
    return "\n".join(["\b", "Examples:", *lines]) if lines else ""


def _print_version(asked: bool) -> None:
    if asked:
        print(f"yiwen {VERSION}")
        raise typer.Exit


def _everywhere(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log everything that our code logs.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print warnings, errors and results only.")] = False,
) -> None:
    """Options before the verb."""
    set_verbosity(verbose - quiet)


@private_files()
def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit status (2 for an error the user can fix).

    Raises:
        SystemExit: a shell asked for completions, or whoever reads the output has gone.
    """
    try:
        given = (sys.argv[1:] if arguments is None else arguments) or ["--help"]
        return make_app().main(given, prog_name=program(), standalone_mode=False) or 0
    except typer.TyperException as error:
        return _misused(error)
    except UserError as error:
        return _failed(error, error)
    except ModuleNotFoundError as error:
        missing = explained(error)
        if missing is None:
            raise
        return _failed(missing, error)
    except Exception as error:
        lost = _of_the_store(error) or path_error(error) or output_error(error)
        if lost is None:
            raise
        return _failed(lost, error)


def _of_the_store(error: Exception) -> UserError | None:
    """Return the error for users where another one is about the object store that YIWEN_HOME names."""
    if "://" not in store_root():
        return None
    from infra.artifacts import store_error  # imports polars, which a healthy command may do without

    return store_error(store_root(), error)


def _failed(what: UserError, raised: Exception) -> int:
    """Print an error, and below it the notes that were added to it on the way, such as how to resume."""
    lines = [f"error: {what}", *getattr(raised, "__notes__", ())]
    if os.environ.get(VARIABLE) == "json":
        print(json_line("error", "flows", as_called("\n".join(lines).removeprefix("error: "))), file=sys.stderr)
        return 2
    lines[0] = indented(lines[0])  # a name in it may contain a line feed
    print(as_called(printable("\n".join(lines))), file=sys.stderr)
    return 2


def _misused(error: typer.TyperException) -> int:
    """Explain arguments that are not those of the program."""
    context = getattr(error, "ctx", None)
    if context is not None:
        print(printable(f"{context.get_usage()}\n{context.command_path} --help shows the options."), file=sys.stderr)
    # Of pydantic's own: "Value error, 'tset' is not one of 'dev', 'test'."
    message = error.format_message().replace("Value error, ", "")
    takes_parameters = context is not None and any(one.name == "param" for one in context.command.params)
    if takes_parameters and "unexpected extra argument" in message:
        message += ". Parameters are given as --param KEY=VALUE, such as --param corpus=my_texts/"
    print(printable(indented(f"error: {message}")), file=sys.stderr)
    return error.exit_code
