"""Running a flow from the command line: here and now, or recorded by a Prefect server where one is configured."""

from __future__ import annotations

import gc
import logging
import os
from typing import Any

from flows.catalogue import Entry, Flow
from flows.cli.parameters import fit_parameters
from infra.settings import prefect_server
from infra.uris import warn_of_plain_http

logger = logging.getLogger("flows")


def run_entry(entry: Entry, parameters: dict[str, Any], given: list[str]) -> Any:
    """Run a deployment's flow and return its result.

    Args:
        parameters: the deployment's, with those of the command line.
        given: the parameters as the command line has them.

    Raises:
        UserError: a parameter, a setting, or what the flow was given cannot be used.
    """
    server = prefect_server()
    if server is None:
        return _run_here(entry, parameters, given)
    if os.environ.get("PREFECT_API_AUTH_STRING") or os.environ.get("PREFECT_API_KEY"):
        warn_of_plain_http(server, "The password or key of the Prefect server")
    import prefect  # noqa: F401 - makes the flow one of Prefect's (tasks/runner/flow.py)

    flow = _load(entry)
    return flow(**fit_parameters(flow.fn, parameters, given))


def _run_here(entry: Entry, parameters: dict[str, Any], given: list[str]) -> Any:
    from infra.progress import shown_log  # with the progress bars, which --help can do without

    with shown_log():
        flow = _load(entry)
        result = flow.fn(**fit_parameters(flow.fn, parameters, given))
        logger.info("%s has finished. Its result:", entry.name)
        return result


def _load(entry: Entry) -> Flow:
    """Import a flow without the garbage collector, which finds nothing in modules and takes a sixth of the time."""
    gc.disable()
    try:
        return entry.load_flow()
    finally:
        gc.freeze()
        gc.enable()
