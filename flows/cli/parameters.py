"""`--param KEY=VALUE`: merged with the deployment's parameters, and checked against the flow's function."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, get_args, get_type_hints

from flows.catalogue import Entry
from flows.recipes.problems import in_words
from infra.errors import UserError
from infra.program import program
from infra.uris import refuse_secrets_within


def merge_parameters(entry: Entry, given: list[str]) -> dict[str, Any]:
    """Return the deployment's parameters with the given ones on top; dotted keys are merged into `overrides`.

    Raises:
        UserError: a parameter without `=`, one that the flow does not have, or `overrides` that are not an object.
    """
    parameters = dict(entry.parameters)
    dotted: dict[str, Any] = {}
    for item in given:
        key, equals, text = item.partition("=")
        if not equals:
            raise UserError(f"--param {item!r} is not of the form KEY=VALUE.")
        if "." in key and "overrides" in parameters:
            dotted[key] = _value(text)
        elif key in entry.parameters:
            parameters[key] = _value(text)
        else:
            raise UserError(f"{entry.name} has no parameter {key!r}. {_those_of(entry, key)}")
    if "overrides" in parameters:
        whole = parameters["overrides"] if parameters["overrides"] is not None else {}
        if not isinstance(whole, dict):
            raise UserError(
                f"--param overrides={whole} is not an object of dotted keys and values. Give each key by itself, such "
                "as --param training.steps=100, or all as JSON, in single quotes on a command line: --param "
                "'overrides={\"training.steps\": 100}'."
            )
        parameters["overrides"] = {**whole, **dotted}
    return parameters


def _those_of(entry: Entry, key: str) -> str:
    """Return the parameter that was meant, or all that a deployment has."""
    where = f"{program()} list {entry.name}"
    if near := difflib.get_close_matches(key, entry.parameters, n=1):
        return f"Did you mean {near[0]}? {where} explains them all."
    hint = f" Keys of stages have a section and a dot; {where} shows them." if "overrides" in entry.parameters else ""
    return f"It has {', '.join(entry.parameters)}.{hint}"


def fit_parameters(function: Callable[..., Any], parameters: Mapping[str, Any], given: list[str]) -> dict[str, Any]:
    """Return the parameters as the types of the flow's function want them.

    Where the function wants text, what looks like a number stays text: `corpus=2024` is the folder of that name.

    Raises:
        UserError: a URI with a secret, which would be recorded with the run and printed with the next command; or a
            value that the function does not accept. The message shows the first of the type's examples; every
            type of objects that a flow takes has some, as in `Annotated[dict[str, str], Field(examples=[…])]`.
    """
    from pydantic import TypeAdapter, ValidationError  # not needed for --help or the list

    texts = {key: text for key, _, text in (item.partition("=") for item in given)}
    hints = get_type_hints(function, include_extras=True)
    # Before any other mistake, whose message would repeat the value.
    refuse_secrets_within(parameters)
    fitted = {}
    for name, value in parameters.items():
        wanted: TypeAdapter[Any] = TypeAdapter(hints[name])
        try:
            fitted[name] = wanted.validate_python(value)
        except ValidationError as error:
            text = texts.get(name, value)
            try:
                fitted[name] = wanted.validate_python(text)
            except ValidationError:
                # The complaint is about the value as it was read: of {"a": 3} the 3 is wrong, not that it is text.
                why = _complaint(value, error.errors())
                raise UserError(f"--param {name}={text} cannot be used: {why}.{_form(name, hints[name])}") from error
    return fitted


def _complaint(value: Any, problems: Sequence[Any]) -> str:
    """Return what pydantic objects to, with the key of the value where that is in an object."""
    found: dict[str, list[str]] = {}
    for problem in problems:
        inside = isinstance(value, dict) and problem["loc"][:1] and problem["loc"][0] in value
        found.setdefault(f"{problem['loc'][0]}: " if inside else "", []).append(in_words(problem))
    return "; ".join(key + " or ".join(dict.fromkeys(messages)) for key, messages in found.items())


def _form(name: str, hint: Any) -> str:
    """Return how a value of a type with examples is given; "" for one without."""
    for example in _examples(hint):
        return f" Give JSON, in single quotes on a command line: --param '{name}={json.dumps(example)}'."
    return ""


def _examples(hint: Any) -> Iterator[Any]:
    """Yield the examples of a type, which may be one of a union: `Annotated[…, Field(examples=[…])] | None`."""
    for extra in getattr(hint, "__metadata__", ()):
        yield from getattr(extra, "examples", None) or ()
    for member in get_args(hint):
        yield from _examples(member)


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
