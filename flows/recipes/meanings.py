"""Types, defaults and meanings of settings, read from the classes and functions that define them."""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import itertools
import json
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePath
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from infra.place import PREFIX

REQUIRED = "required"


class Setting(NamedTuple):
    """One thing that a user can set."""

    key: str
    type: str
    default: str
    """As JSON; `REQUIRED` if there is none."""
    meaning: str


def of_model(model: type[BaseModel], prefix: str = "") -> Iterator[Setting]:
    """Yield the keys of a pydantic model with those of the models below it, dotted."""
    written = attribute_docstrings(model)
    for name, field in model.model_fields.items():
        inner = _model_in(field.annotation)
        if inner is None or set(get_args(field.annotation)) - {inner, type(None)}:  # `str | CleanProfile` is both
            meaning = field.description or written.get(name, "")
            yield Setting(f"{prefix}{name}", _with_limits(field), _default(field.get_default, field), meaning)
        if inner is not None:
            yield from of_model(inner, f"{prefix}{name}.")


def of_dataclass(settings: type[Any], prefix: str = "") -> Iterator[Setting]:
    """Yield the fields of a dataclass."""
    written = attribute_docstrings(settings)
    for field in dataclasses.fields(settings):
        if field.default is not dataclasses.MISSING:
            default = as_json(field.default)
        elif field.default_factory is not dataclasses.MISSING:
            default = as_json(field.default_factory())
        else:
            default = REQUIRED
        yield Setting(f"{prefix}{field.name}", type_name(field.type), default, written.get(field.name, ""))


def of_function(function: Callable[..., Any]) -> Iterator[Setting]:
    """Yield the parameters of a function, with the meanings of its docstring's Args."""
    meanings = argument_meanings(inspect.getdoc(function) or "")
    for name, parameter in inspect.signature(function).parameters.items():
        default = REQUIRED if parameter.default is inspect.Parameter.empty else as_json(parameter.default)
        yield Setting(name, type_name(parameter.annotation), default, meanings.get(name, ""))


def argument_meanings(docstring: str) -> dict[str, str]:
    """Return the descriptions under `Args:` of a docstring in Google's style, by parameter."""
    found: dict[str, str] = {}
    _, _, rest = docstring.partition("\nArgs:\n")
    names: list[str] = []
    for line in rest.splitlines():
        if line and not line.startswith(" "):
            break  # Returns:
        if argument := _ARGUMENT.fullmatch(line):
            names = [name.strip() for name in argument["names"].split(",")]
            found |= dict.fromkeys(names, argument["meaning"])
        elif line.strip():
            found |= {name: f"{found[name]} {line.strip()}" for name in names}
    return found


_ARGUMENT = re.compile(r"    (?P<names>\w+(?:, \w+)*): (?P<meaning>.*)")
"""`    corpus, graphs: as in the flow pretrain`; not the line below it, which is indented further."""


def attribute_docstrings(owner: type[Any]) -> Mapping[str, str]:
    """Return the strings that stand below the attributes of a class and of its bases, by attribute."""
    found: dict[str, str] = {}
    for one in reversed(owner.__mro__):
        if one.__module__.removeprefix(PREFIX).partition(".")[0] in ("flows", "tasks", "models", "kg", "infra"):
            found |= _own_docstrings(one)
    return found


@functools.cache  # Python parses the whole file to find a class, and most settings are those of many flows
def _own_docstrings(owner: type[Any]) -> Mapping[str, str]:
    [body] = ast.parse(textwrap.dedent(inspect.getsource(owner))).body
    assert isinstance(body, ast.ClassDef)
    return strings_below(body.body)


def strings_below(body: list[ast.stmt]) -> dict[str, str]:
    """Return the strings that stand directly below assignments, by the assigned name."""
    found = {}
    for one, following in itertools.pairwise(body):
        target = (
            one.target if isinstance(one, ast.AnnAssign) else one.targets[0] if isinstance(one, ast.Assign) else None
        )
        if isinstance(target, ast.Name) and isinstance(following, ast.Expr):
            value = following.value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                found[target.id] = inspect.cleandoc(value.value)
    return found


def type_name(annotation: Any) -> str:
    """Return a type as a user reads it: `whole number`, `text`, `"a" | "b"`, `list of text`, or the code's own name."""
    if isinstance(annotation, str):
        return _DOTTED.sub(r"\1", annotation)
    if annotation in _WORDS:
        return _WORDS[annotation]
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "section"
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return type_name(arguments[0])
    if origin is Literal:
        return " | ".join(json.dumps(one) for one in arguments)
    if origin in (Union, UnionType):
        return " | ".join(type_name(one) for one in arguments)
    if origin in (list, tuple, set, frozenset) or getattr(origin, "__name__", "") == "Sequence":
        return f"list of {' | '.join(dict.fromkeys(type_name(one) for one in arguments if one is not ...))}"
    if origin is not None and arguments:
        return f"{type_name(arguments[0])} → {type_name(arguments[-1])}"
    return _DOTTED.sub(r"\1", getattr(annotation, "__name__", str(annotation)))


_DOTTED = re.compile(r"\b(?:[a-z_]\w*\.)+(\w+)")
"""`typing.Any`"""
_WORDS = {
    int: "whole number",
    float: "number",
    str: "text",
    bool: "true | false",
    type(None): "null",
    dict: "object",
    Any: "any",
}


def as_json(value: Any) -> str:
    """Return a default as it is written in `--param`: JSON, with text unquoted where that reads the same."""
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(value)
    if isinstance(value, set | frozenset):
        value = sorted(value)
    if isinstance(value, PurePath):
        value = str(value)
    return json.dumps(value, ensure_ascii=False, default=str)


def _default(get_default: Callable[..., Any], field: FieldInfo) -> str:
    return REQUIRED if field.is_required() else as_json(get_default(call_default_factory=True))


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """Return the model of a section, from an annotation such as `Params` or `Params | None`."""
    for one in (annotation, *(get_args(annotation) if get_origin(annotation) in (Union, UnionType) else ())):
        if isinstance(one, type) and issubclass(one, BaseModel):
            return one
    return None


def _with_limits(field: FieldInfo) -> str:
    """Return the type of a field with its limits: `whole number ≥ 1`."""
    signs = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
    limits = [
        f"{sign} {getattr(one, name):g}"
        for one in field.metadata
        for name, sign in signs.items()
        if isinstance(getattr(one, name, None), int | float)
    ]
    return ", ".join([type_name(field.annotation), *limits]) if limits else type_name(field.annotation)
