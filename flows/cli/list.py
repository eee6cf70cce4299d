"""The verb `list`."""

from __future__ import annotations

import json

from flows.catalogue import load_catalogue


def list_flows() -> None:
    """List every flow with its parameters.

    They are the deployments of prefect.yaml, each with its schedule, its parameters and their defaults.
    """
    entries = load_catalogue()
    width = max(len(entry.name) for entry in entries)
    for entry in entries:
        print(f"{entry.name:{width}}  {entry.description}{entry.schedule and f'  [{entry.schedule}]'}")
        shown = ", ".join(f"{key}={json.dumps(value)}" for key, value in entry.parameters.items())
        print(f"{'':{width}}  parameters: {shown}")
