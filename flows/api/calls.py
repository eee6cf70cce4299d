"""Calling a flow from Python: keywords that are checked, a log and bars where the caller looks, errors in plain words.

A flow's own function says which parameters there are; nothing here repeats them.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

from flows.api.configuration import current_display
from infra.disk.private_files import private_files
from infra.errors import UserError
from infra.extras import explained
from infra.keywords import check_keywords

# matches: the line end before "\n        corpus: files or folders of text"; not the one before a continuation
_PARAMETER = re.compile(r"(?=\n {8}\w+: )")
"""Where the description of a parameter begins in a docstring."""

# matches: "--param " of "Give its folder, as in --param model=FOLDER."; not that of "(from --param or overrides)"
_ON_COMMAND_LINE = re.compile(r"--param (?='?[\w.]+=)")

P = ParamSpec("P")
R = TypeVar("R")


def runs(flow: Callable[P, str]) -> Callable[[Callable[[str], R]], Callable[P, R]]:
    """Make an entry point of a flow: a function that takes the flow's parameters and returns its result as an object.

    The decorated function makes the object of the folder that the flow returns. Its docstring says what the flow does;
    that of the flow, which describes the parameters, is put behind it.
    """

    return runs_with(flow)


def runs_with(flow: Callable[..., str], **fixed: Any) -> Callable[[Callable[[str], R]], Callable[..., R]]:
    """As `runs`, with some of the flow's parameters fixed, as those of a deployment are."""

    def entry_point(made: Callable[[str], R]) -> Callable[..., R]:
        signature = inspect.signature(flow)
        free = [one for name, one in signature.parameters.items() if name not in fixed]
        signature = signature.replace(parameters=free, return_annotation=inspect.signature(made).return_annotation)

        @functools.wraps(made)
        def call(*arguments: object, **given: object) -> R:
            from infra.console.progress import displayed, shown_log
            from infra.runs import recorded

            with explained_errors():
                bound = bind(signature, made.__name__, arguments, given)
                parameters = fitted(flow, bound)
                shown = [f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in parameters.items()]
                with private_files(), displayed(current_display()), shown_log(), recorded(_name(made), shown) as run:
                    run.result = flow(**parameters, **fixed)
                    return made(run.result)

        call.__signature__ = signature  # type: ignore[attr-defined]
        call.__doc__ = f"{made.__doc__}\n    {_parameters_of(flow, fixed)}"
        return call

    return entry_point


def _name(entry_point: Callable[..., object]) -> str:
    """Return an entry point's name for users: `yiwen.corpus.refresh` or `yiwen.pretrain`."""
    from flows.api import __all__ as names

    room = entry_point.__module__.rpartition(".")[2]
    return ".".join(["yiwen", *([room] if room in names else []), entry_point.__name__])


def bind(
    signature: inspect.Signature, name: str, arguments: tuple[object, ...], given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return all arguments of a call by keyword.

    Raises:
        UserError: a keyword that the function does not have, with the nearest one that it has, or one that is missing.
    """
    check_keywords(name, given, signature.parameters)
    try:
        return dict(signature.bind(*arguments, **given).arguments)
    except TypeError as error:  # "missing a required argument: 'tasks'"
        raise UserError(f"{name}: {error}. Its parameters are {', '.join(signature.parameters)}.") from error


def checked_texts(name: str, texts: Sequence[object]) -> None:
    """Raise `UserError` for a text where a list of texts is wanted, whose letters would be taken for texts."""
    if isinstance(texts, str):
        raise UserError(f"{name} takes a list of texts, and was given one text. Give it as [{texts[:20]!r}].")


def fitted(flow: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters as the flow wants them: paths and results as text, numbers as the types that it names.

    Raises:
        UserError: a value that the flow does not accept.
    """
    from flows.cli.parameters import fit_parameters

    return fit_parameters(flow, {name: _without_paths(value) for name, value in given.items()}, [])


def _without_paths(value: Any) -> Any:
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return {name: _without_paths(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_without_paths(one) for one in value]
    return value


@contextlib.contextmanager
def explained_errors() -> Iterator[None]:
    """Raise errors in the words of a Python call: `corpus=FOLDER`, not `--param corpus=FOLDER`.

    Raises:
        UserError: also for a missing package, with the extra that brings it.
    """
    try:
        yield
    except UserError as error:
        said = _ON_COMMAND_LINE.sub("", str(error)).replace("--param or overrides", "overrides")
        if said == str(error):
            raise
        raise type(error)(said) from error
    except ModuleNotFoundError as error:
        missing = explained(error)
        if missing is None:
            raise
        raise missing from error


def _parameters_of(flow: Callable[..., Any], fixed: Mapping[str, Any]) -> str:
    """Return the part of a flow's docstring that describes its parameters, without those that are fixed."""
    _, found, rest = (flow.__doc__ or "").partition("Args:")
    described = _PARAMETER.split(rest.partition("Returns:")[0].rstrip())
    return found + "".join(one for one in described if one.strip().partition(":")[0] not in fixed)
