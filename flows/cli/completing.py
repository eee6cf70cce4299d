"""What a shell completes: names of flows, their parameters and keys, stages of the store.

Completion is best-effort: it never fails or waits, and without an answer it offers nothing.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable
from typing import Any


def flow_names(incomplete: str) -> list[tuple[str, str]]:
    """Return the flows that begin so, with their descriptions."""
    from flows.catalogue import load_catalogue

    return [(entry.name, entry.description) for entry in load_catalogue() if entry.name.startswith(incomplete)]


def parameter_names(incomplete: str) -> list[str]:
    """Return the parameters and keys of the flow on the command line that begin so, each with `=`."""
    with contextlib.suppress(Exception):
        return [f"{key}=" for key in _keys(_typed_flow()) if key.startswith(incomplete)]
    return []


def artifact_names(incomplete: str) -> list[str]:
    """Return the stages of the store that begin so, or after `stage/` its fingerprints."""
    with contextlib.suppress(Exception):
        from flows.cli.stored.find import existing_store

        store = existing_store()
        stage, slash, prefix = incomplete.partition("/")
        if slash:
            return [f"{stage}/{one}" for one in store.fingerprints(stage) if one.startswith(prefix)]
        return [one for one in store.stages() if one.startswith(stage)]
    return []


def _typed_flow() -> str:
    """Return the flow on the command line; a context has none while the value of an option is still missing."""
    from flows.catalogue import load_catalogue

    # Bash gives its words by the first of these, other shells by the second.
    typed = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")
    words = typed.split()
    return next(entry.name for entry in load_catalogue() if entry.name in words)


def _keys(name: str) -> Iterable[str]:
    from flows.catalogue import find
    from flows.cli.list import settings_of

    entry = find(name)
    yield from (parameter for parameter in entry.parameters if parameter != "overrides")
    if "overrides" in entry.parameters:
        entry.load_flow()
        module: Any = sys.modules[entry.module]
        settings = settings_of(
            getattr(module, "SETTINGS", ()), entry.parameters.get("preset"), getattr(module, "USED", None)
        )
        yield from (one.key for one in settings)
