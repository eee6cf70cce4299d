"""`--param KEY=VALUE`: merged with the deployment's parameters, and checked against the flow's function."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

from flows.catalogue import Entry
from infra.errors import UserError


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
            hint = " Give a key of the preset with its section, such as training.steps=100."
            raise UserError(
                f"{entry.name} has no parameter {key!r}; it has {', '.join(entry.parameters)}."
                f"{hint if 'overrides' in parameters else ''}"
            )
    if "overrides" in parameters:
        whole = parameters["overrides"] if parameters["overrides"] is not None else {}
        if not isinstance(whole, dict):
            raise UserError(f"--param overrides={whole} is not an object of dotted keys and values.")
        parameters["overrides"] = {**whole, **dotted}
    return parameters


def fit_parameters(function: Callable[..., Any], parameters: Mapping[str, Any], given: list[str]) -> dict[str, Any]:
    """Return the parameters as the types of the flow's function want them.

    Where the function wants text, what looks like a number stays text: `corpus=2024` is the folder of that name.

    Raises:
        UserError: a value that the function does not accept.
    """
    from pydantic import TypeAdapter, ValidationError  # not needed for --help or the list

    texts = {key: text for key, _, text in (item.partition("=") for item in given)}
    hints = get_type_hints(function)
    fitted = {}
    for name, value in parameters.items():
        wanted: TypeAdapter[Any] = TypeAdapter(hints[name])
        try:
            fitted[name] = wanted.validate_python(value)
        except ValidationError:
            try:
                fitted[name] = wanted.validate_python(texts.get(name, value))
            except ValidationError as error:
                why = " or ".join(dict.fromkeys(problem["msg"] for problem in error.errors()))
                raise UserError(f"--param {name}={texts.get(name, value)} cannot be used: {why}.") from error
    return fitted


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
