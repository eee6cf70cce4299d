"""Catalogue of deployments: `prefect.yaml`, read as Prefect reads it, except that typos are errors."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import yaml

from infra.errors import UserError
from infra.place import FOLDER, module_name

PREFECT_YAML = FOLDER / "prefect.yaml"


class Flow(Protocol):
    """A flow, Prefect's or a local one: its name, its plain function, and a call that runs it."""

    name: str
    fn: Callable[..., Any]

    def __call__(self, *arguments: Any, **options: Any) -> Any: ...


@dataclass(frozen=True)
class Entry:
    """One deployment."""

    name: str
    """flow/deployment"""
    description: str
    module: str
    function: str
    parameters: dict[str, Any]
    schedule: str

    def load_flow(self) -> Flow:
        """Import the flow."""
        found: Flow = getattr(importlib.import_module(self.module), self.function)
        return found


def load_catalogue(path: Path = PREFECT_YAML) -> list[Entry]:
    """Read all deployments of a `prefect.yaml`, in its order."""
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    return [_entry(deployment) for deployment in content["deployments"]]


def find(name: str) -> Entry:
    """Return the deployment called flow/deployment; raises `UserError` with the closest name if it does not exist."""
    entries = {entry.name: entry for entry in load_catalogue()}
    if name in entries:
        return entries[name]
    close = difflib.get_close_matches(name, entries, n=1)
    hint = f"Did you mean {close[0]}?" if close else f"There are {', '.join(entries)}."
    raise UserError(f"There is no flow {name!r}. {hint}")


def _entry(deployment: dict[str, Any]) -> Entry:
    file, _, function = deployment["entrypoint"].partition(":")
    # A flow is named after its function, so that listing needs no import. A test compares the two.
    return Entry(
        name=f"{function}/{deployment['name']}",
        description=deployment["description"],
        module=module_name(file),
        function=function,
        parameters=deployment.get("parameters", {}),
        schedule=", ".join(f"{s['cron']} {s['timezone']}" for s in deployment.get("schedules", [])),
    )
