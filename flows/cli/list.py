"""The verb `list`."""

from __future__ import annotations

import itertools
import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.catalogue import Entry, find, load_catalogue
from flows.cli.completing import flow_names
from infra.program import as_called

if TYPE_CHECKING:
    from flows.recipes.meanings import Setting

WIDEST = 110


def list_flows(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="FLOW/DEPLOYMENT",
            help="Describe this one: every parameter and every key.",
            show_default=False,
            autocompletion=flow_names,
        ),
    ] = None,
) -> None:
    """List the flows, or all that one of them takes.

    Flows are the deployments of prefect.yaml. A flow that is named is shown with its parameters and with every key of
    its preset or of its stages: type, default, and meaning. All of them are given with --param KEY=VALUE.

    Examples:
      python -m flows list
      python -m flows list pretrain/ehealth-tiny
    """
    print(as_called("\n".join(_short() if name is None else _whole(find(name)))))


def _short() -> Iterator[str]:
    """Yield a line for each flow, by kind."""
    entries = load_catalogue()
    width = max(len(entry.name) for entry in entries)
    kinds: dict[str, list[Entry]] = {}
    for entry in entries:
        kinds.setdefault(entry.name.partition("/")[0], []).append(entry)
    for kind, own in kinds.items():
        yield kind
        for entry in own:
            yield f"  {entry.name:{width}}  {entry.description}{entry.schedule and f'  [{entry.schedule}]'}"


def _whole(entry: Entry) -> Iterator[str]:
    """Yield a flow with its parameters and keys."""
    from flows.cli.running import load_quickly

    flow = load_quickly(entry)
    module: Any = sys.modules[entry.module]
    yield f"{entry.name}: {entry.description}"
    yield from [f"schedule: {entry.schedule}"] if entry.schedule else []
    yield from ["", "Parameters, --param NAME=VALUE:"]
    for one in parameters_of(entry, flow.fn):
        yield from _described(one)
    models = getattr(module, "SETTINGS", ())
    if not models:
        return
    preset = entry.parameters.get("preset")
    of_preset = f" of the preset {preset}, or of another" if preset else ""
    yield from ["", f"Keys{of_preset}, --param SECTION.KEY=VALUE:"]
    settings = settings_of(models, preset, getattr(module, "USED", None))
    # A key without a section is a parameter above, or the preset's description: nothing that --param sets by a key.
    sections = [one for one in settings if "." in one.key]
    for section, own in itertools.groupby(sections, key=lambda one: one.key.rpartition(".")[0]):
        yield from ["", f"  {section}"]
        for one in own:
            yield from _described(one)


def parameters_of(entry: Entry, function: Any) -> list[Setting]:
    """Return the parameters of a flow with the deployment's values as defaults."""
    from typing import get_type_hints

    from flows.recipes.meanings import as_json, of_function, type_name

    types = get_type_hints(function)
    return [
        one._replace(type=type_name(types[one.key]), default=as_json(entry.parameters[one.key]))
        for one in of_function(function)
        if one.key != "overrides"  # the keys below are what it holds
    ]


def settings_of(models: Sequence[Any], preset: str | None, used: frozenset[str] | None) -> list[Setting]:
    """Return every key of some models, with the preset's values as defaults."""
    from flows.recipes.loading import read_preset, section_of
    from flows.recipes.meanings import as_json, of_dataclass, of_model

    values = {} if preset is None else read_preset(preset).nested
    found: list[Setting] = []
    for one in models:
        for setting in of_model(one):
            if setting.key == "model":
                found += of_dataclass(_objective(values), "model.")
            elif setting.key == "training":
                found += of_dataclass(_training(), "training.")
            elif used is None or section_of(setting.key) in used:
                found.append(setting)
    return [
        one if (value := _at(values, one.key)) is None else one._replace(default=f"{as_json(value)} in {preset}")
        for one in found
    ]


def _objective(values: Mapping[str, Any]) -> type[Any]:
    """Return the settings of a preset's objective; without a preset, what all objectives have."""
    from models import objectives
    from models.objectives.config import EncoderObjectiveConfig

    return objectives.settings_class(values["objective"]) if "objective" in values else EncoderObjectiveConfig


def _training() -> type[Any]:
    from models.training.config import TrainingConfig

    return TrainingConfig


def _at(values: Mapping[str, Any], key: str) -> Any:
    """Return the value at a dotted key of nested values, or None for a missing key."""
    held: Any = values
    for part in key.split("."):
        held = held.get(part) if isinstance(held, Mapping) else None
    return held


def _described(one: Setting) -> Iterator[str]:
    from flows.recipes.meanings import REQUIRED

    default = one.default if one.default == REQUIRED else f"default {one.default}"
    wide = min(WIDEST, shutil.get_terminal_size((WIDEST, 24)).columns)
    yield from textwrap.wrap(
        f"{one.key}  ({one.type}, {default})", wide, initial_indent="  ", subsequent_indent=" " * 8
    )
    meaning = " ".join(one.meaning.split()).replace("`", "")
    yield from textwrap.wrap(meaning, wide, initial_indent=" " * 6, subsequent_indent=" " * 6)
