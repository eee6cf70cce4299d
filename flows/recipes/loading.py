"""Reading settings: TOML files and dotted overrides into a pydantic model, with one explanation of whatever is wrong.

Every flow reads its settings with `checked`, so that a mistake reads the same everywhere: the key, the value, where it
was given (the file, or the command line), and the nearest keys that exist.
"""

from __future__ import annotations

import copy
import difflib
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError

from flows.recipes.problems import in_words
from infra.errors import UserError

M = TypeVar("M", bound=BaseModel)

PRESETS = Path(__file__).parent.parent / "presets"

OVERRIDES = "--param or overrides"
"""Origin of overridden values: `--param a.b=1` on the command line becomes `overrides={"a.b": 1}` of the flow."""

MOST_SUGGESTIONS = 2


@dataclass(frozen=True)
class Values:
    """Nested values for a model, and where they were given."""

    nested: dict[str, Any]
    origin: str
    """Source of values that are not overridden, for messages: a file, or a parameter of the flow."""
    overridden: tuple[str, ...] = ()
    """Dotted keys of the overrides."""

    def origin_of(self, key: str) -> str:
        """Return where a dotted key was given; overrides of keys below it count, as a section is judged whole."""
        mine = any(one == key or one.startswith(f"{key}.") or key.startswith(f"{one}.") for one in self.overridden)
        return OVERRIDES if mine else self.origin

    def without(self, sections: Collection[str]) -> Values:
        """Return the values of all other sections."""
        kept = {name: value for name, value in self.nested.items() if name not in sections}
        return Values(kept, self.origin, tuple(key for key in self.overridden if section_of(key) not in sections))


def section_of(key: str) -> str:
    """Return the first part of a dotted key: `segment` of `segment.max_tokens`."""
    return key.partition(".")[0]


def preset_names() -> list[str]:
    """Return the names of the shipped presets, sorted."""
    return sorted(path.stem for path in PRESETS.glob("*.toml"))


def read_preset(name: str, overrides: Mapping[str, Any] | None = None) -> Values:
    """Read a preset's TOML file and apply overrides; nothing is checked yet.

    Args:
        name: name of a shipped preset, or a path that ends in .toml.
        overrides: dotted keys to values, such as `{"training.steps": 100}`.

    Raises:
        UserError: there is no such preset, it is not valid TOML, or an override treats a value as a section.
    """
    path = Path(name) if name.endswith(".toml") else PRESETS / f"{name}.toml"
    if not path.is_file():
        raise UserError(
            f"There is no preset {name!r}. Shipped ones: {', '.join(preset_names())}; or give a path to a .toml file."
        )
    try:
        nested = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not valid TOML: {error}") from error
    return overlaid(nested, str(path), overrides)


def overlaid(nested: Mapping[str, Any], origin: str, overrides: Mapping[str, Any] | None) -> Values:
    """Return nested values with dotted overrides on top.

    Raises:
        UserError: an override treats a value as a section.
    """
    merged = copy.deepcopy(dict(nested))
    for key, value in (overrides or {}).items():
        *sections, last = key.split(".")
        held = merged
        for section in sections:
            held = held.setdefault(section, {})
            if not isinstance(held, dict):
                raise UserError(f"unknown key {key!r} (from {OVERRIDES}): {section!r} is a value, not a section")
        held[last] = copy.deepcopy(value)
    return Values(merged, origin, tuple(overrides or {}))


def checked(
    model: type[M], values: Values, *, others: Collection[str] = (), free: Mapping[str, Collection[str]] | None = None
) -> M:
    """Return the values as a model.

    Args:
        model: the pydantic model; it forbids unknown keys.
        values: what the user gave.
        others: names of sections that exist but are not in the model, for suggestions.
        free: keys that are known in sections which the model declares as plain dictionaries.

    Raises:
        UserError: unknown keys or unusable values; the message explains each of them.
    """
    free = free or {}
    problems = [
        _unknown_key(f"{section}.{key}", model, values, others, free)
        for section, known in free.items()
        if isinstance(given := values.nested.get(section), dict)
        for key in given
        if key not in known
    ]
    found: M | None = None
    try:
        found = model.model_validate(values.nested)
    except ValidationError as error:
        problems = _explained(error, model, values, others, free) + problems
    if problems:
        raise UserError("\n".join(problems))
    assert found is not None
    return found


def _explained(
    error: ValidationError,
    model: type[BaseModel],
    values: Values,
    others: Collection[str],
    free: Mapping[str, Collection[str]],
) -> list[str]:
    """Return one sentence per key that pydantic objects to."""
    unknown: list[str] = []
    wrong: dict[str, tuple[Any, list[str]]] = {}
    for problem in error.errors():
        key = _key_of(problem["loc"], model)
        if problem["type"] == "extra_forbidden":
            unknown.append(_unknown_key(key, model, values, others, free))
        else:
            # A union reports one problem per member: `1.5` is neither a valid integer nor a valid list.
            wrong.setdefault(key, (problem["input"], []))[1].append(_complaint(key, problem, model))
    return unknown + [
        _wrong_value(key, given, complaints, values.origin_of(key)) for key, (given, complaints) in wrong.items()
    ]


def _key_of(loc: tuple[int | str, ...], model: type[BaseModel]) -> str:
    """Return the dotted key of pydantic's location, without the names of types that it adds for unions.

    Example: `("cluster", "workers", "int")` is the key cluster.workers, `("clean", "profiles", "emr")` is itself.
    """
    parts: list[str] = []
    at: Any = model
    for part in loc:
        if isinstance(part, int) or _container(at) is not None:
            parts.append(str(part))
            at = _below(at, part)
    return ".".join(parts)


def _container(annotation: Any) -> Any:
    """Return the model or dictionary among the members of an annotation, which may be `Params | None`."""
    for one in (annotation, *get_args(annotation)):
        if _is_model(one) or get_origin(one) in (dict, Mapping):
            return one
    return None


def _below(annotation: Any, part: int | str) -> Any:
    """Return the annotation of a key or item inside a value; None where there is no such key."""
    if isinstance(part, int):
        items = [one for one in (annotation, *get_args(annotation)) if get_origin(one) in (list, tuple)]
        return get_args(items[0])[0] if items else None
    container = _container(annotation)
    if _is_model(container):
        field = container.model_fields.get(part)
        return None if field is None else field.annotation
    return None if container is None else get_args(container)[-1]


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


_JSON_FORMS = {"tuple_type": ("list", '["…"]'), "list_type": ("list", '["…"]'), "dict_type": ("object", '{"…": "…"}')}
"""By pydantic's type of problem: what JSON calls the value, and how it is written. A shell strips unquoted quotes."""


def _complaint(key: str, problem: Any, model: type[BaseModel]) -> str:
    if problem["type"] == "missing":
        return "is missing"
    if form := _JSON_FORMS.get(problem["type"]):
        return f"must be a JSON {form[0]}, in single quotes on a command line: --param '{key}={form[1]}'"
    if problem["type"] == "model_type":
        first = next(iter(_leaves(_model_at(model, key.split(".")))), "")
        return f"is a section; give its keys, such as {key}.{first}"
    return in_words(problem)


def _wrong_value(key: str, given: Any, complaints: list[str], origin: str) -> str:
    why = " or ".join(dict.fromkeys(complaints))
    if complaints == ["is missing"]:
        return f"{key} is missing (from {origin})"
    if not key:  # of several values together
        return why
    # A validator of a whole section is given all of it, which says less than its message.
    value = "" if isinstance(given, dict | BaseModel) else f" is {given!r}"
    return f"{key}{value} (from {origin}): {why}"


def _unknown_key(
    key: str,
    model: type[BaseModel],
    values: Values,
    others: Collection[str],
    free: Mapping[str, Collection[str]],
) -> str:
    """Explain an unknown key by the nearest known ones, or by all of its section where none is near."""
    parts = key.split(".")
    origin = values.origin_of(key)
    if len(parts) == 1:
        # Pydantic names the unknown section alone; the user typed segmnt.max_tokens.
        key = next((one for one in values.overridden if section_of(one) == key), key)
        known = sorted({*model.model_fields, *others})
        near = _suggested_sections(key, model, others, free)
    else:
        section = ".".join(parts[:-1])
        names = free[section] if section in free else list(_model_at(model, parts[:-1]).model_fields)
        known = [f"{section}.{name}" for name in sorted(names)]
        near = [f"{section}.{name}" for name in difflib.get_close_matches(parts[-1], names, n=MOST_SUGGESTIONS)]
    if near:
        return f"unknown key {key!r} (from {origin}); did you mean {' or '.join(map(repr, near))}?"
    return f"unknown key {key!r} (from {origin}); known keys: {', '.join(known)}"


def _suggested_sections(
    key: str, model: type[BaseModel], others: Collection[str], free: Mapping[str, Collection[str]]
) -> list[str]:
    """Return keys that a user may have meant who named no section of the model.

    Examples: segmnt.max_tokens means segment.max_tokens; training.epochs, where no section is called like training, may
    mean finetune.epochs.
    """
    section, _, rest = key.partition(".")
    leaves = [*_leaves(model), *(f"{name}.{known}" for name in free for known in free[name])]
    near = difflib.get_close_matches(section, {*model.model_fields, *others}, n=MOST_SUGGESTIONS)
    whole = [f"{one}.{rest}" for one in near if one in others or f"{one}.{rest}" in leaves] if rest else []
    moved = [leaf for leaf in leaves if leaf.rpartition(".")[2] == key.rpartition(".")[2]]
    return whole or moved[:MOST_SUGGESTIONS] or near


def _model_at(model: type[BaseModel], parts: Sequence[str]) -> type[BaseModel]:
    """Return the model of a section, which may be nested or optional; one without fields if it is not a section."""
    at: Any = model
    for part in parts:
        at = _below(at, part)
    found = _container(at)
    return found if _is_model(found) else BaseModel


def _leaves(model: type[BaseModel]) -> Iterator[str]:
    """Yield the dotted keys of a model's values, without its sections."""
    for name in model.model_fields:
        inner = _model_at(model, [name])
        if inner is BaseModel:
            yield name
        else:
            yield from (f"{name}.{leaf}" for leaf in _leaves(inner))
