"""Page of all deployments, from prefect.yaml and the flows' docstrings."""

from __future__ import annotations

import inspect
import itertools

from docs.generate.markdown import code, prose, table
from flows.catalogue import Entry, load_catalogue
from flows.recipes.meanings import as_json, of_function


def page() -> str:
    """Return the page."""
    head = [
        "# Flows",
        "Every deployment of `prefect.yaml`. `python -m flows run FLOW/DEPLOYMENT --param KEY=VALUE` runs "
        "one; a key with a dot belongs to a preset or a stage (see the settings of stages and of models).",
    ]
    entries = load_catalogue()
    groups = itertools.groupby(entries, key=lambda entry: (entry.module, entry.function))
    return "\n\n".join(head + [_section(list(group)) for _, group in groups]) + "\n"


def _section(entries: list[Entry]) -> str:
    """Return the deployments of one flow, with the parameters that they share."""
    flow = entries[0].load_flow()
    summary = prose((inspect.getdoc(flow.fn) or "").partition("\n\n")[0])
    deployments = table(
        ("deployment", "does", "differs by", "schedule"),
        [(code(entry.name), entry.description, _own(entry, flow.fn), code(entry.schedule)) for entry in entries],
    )
    parameters = table(
        ("parameter", "type", "default", "meaning"),
        [(code(one.key), one.type, code(one.default), prose(one.meaning)) for one in of_function(flow.fn)],
    )
    title = entries[0].name.partition("/")[0]
    where = "" if len(entries) > 1 else f"/{entries[0].name.partition('/')[2]}"
    return f"## {title}{where}\n\n{summary}\n\n{deployments}\n{parameters}"


def _own(entry: Entry, function: object) -> str:
    """Return the parameters that a deployment sets to other values than the flow's defaults."""
    defaults = {one.key: one.default for one in of_function(function)}  # type: ignore[arg-type]
    given = {name: as_json(value) for name, value in entry.parameters.items()}
    same = {("null", "{}")}  # no overrides
    return ", ".join(
        code(f"{name}={value}")
        for name, value in given.items()
        if defaults.get(name) != value and (defaults.get(name), value) not in same
    )
