"""The catalogue of deployments: `prefect.yaml`, read as Prefect reads it, but without forgiving typos."""

from __future__ import annotations

import difflib
import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from infra.errors import UserError
from infra.settings import REPOSITORY

if TYPE_CHECKING:
    from prefect import Flow

PREFECT_YAML = REPOSITORY / "prefect.yaml"


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

    def load_flow(self) -> Flow[..., Any]:
        """Import the flow."""
        found: Flow[..., Any] = getattr(importlib.import_module(self.module), self.function)
        return found


def load_catalogue(path: Path = PREFECT_YAML) -> list[Entry]:
    """All deployments of a `prefect.yaml`, in its order."""
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    return [_entry(deployment) for deployment in content["deployments"]]


def find(name: str) -> Entry:
    """The deployment called flow/deployment; raises `UserError` with the closest names where there is none."""
    entries = {entry.name: entry for entry in load_catalogue()}
    if name in entries:
        return entries[name]
    close = difflib.get_close_matches(name, entries, n=1)
    hint = f"Did you mean {close[0]}?" if close else f"There are: {', '.join(entries)}."
    raise UserError(f"There is no {name!r}. {hint}")


def _entry(deployment: dict[str, Any]) -> Entry:
    file, _, function = deployment["entrypoint"].partition(":")
    # A flow is named after its function: a test holds the two together, so that listing needs no import.
    return Entry(
        name=f"{function}/{deployment['name']}",
        description=deployment["description"],
        module=file.removesuffix(".py").replace("/", "."),
        function=function,
        parameters=deployment.get("parameters", {}),
        schedule=", ".join(f"{s['cron']} {s['timezone']}" for s in deployment.get("schedules", [])),
    )
