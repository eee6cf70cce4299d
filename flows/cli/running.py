"""Running a flow from the command line: here and now, or recorded by a Prefect server where one is configured."""

from __future__ import annotations

import gc
import logging
import os
import socket
from typing import TYPE_CHECKING, Any

from flows.catalogue import Entry, Flow
from flows.cli.parameters import fit_parameters
from flows.cli.verbosity import as_verbosely_as_asked
from infra.errors import UserError, path_error
from infra.settings import prefect_server
from infra.uris import warn_of_plain_http

if TYPE_CHECKING:
    from infra.runs import Recorder

logger = logging.getLogger("flows")


def run_entry(entry: Entry, parameters: dict[str, Any], given: list[str]) -> Any:
    """Run a deployment's flow and return its result; the store keeps a record of the run.

    Args:
        parameters: the deployment's, with those of the command line.
        given: the parameters as the command line has them.

    Raises:
        UserError: a parameter, a setting, or what the flow was given cannot be used. A note says which stage failed
            and how the run is resumed, if some of its work is kept.
    """
    from infra.runs import recording

    with as_verbosely_as_asked(), recording(entry.name, given) as recorder:
        try:
            result = _call(entry, parameters, given)
        except BaseException as error:
            _record_failure(entry, given, recorder, error)
            raise
        _record_success(entry, recorder, result)
        return result


def _call(entry: Entry, parameters: dict[str, Any], given: list[str]) -> Any:
    server = prefect_server()
    if server is None:
        flow = load_quickly(entry)
        return flow.fn(**fit_parameters(flow.fn, parameters, given))
    if os.environ.get("PREFECT_API_AUTH_STRING") or os.environ.get("PREFECT_API_KEY"):
        warn_of_plain_http(server, "The password or key of the Prefect server")
    import prefect  # noqa: F401 - makes the flow one of Prefect's (tasks/runner/flow.py)

    flow = load_quickly(entry)
    return flow(**fit_parameters(flow.fn, parameters, given))


def _record_success(entry: Entry, recorder: Recorder, result: Any) -> None:
    from flows.cli.wording.ending import ending
    from infra.console.progress import BestEffort
    from infra.runs import Ended, now

    page, lines = "", list[str]()
    with BestEffort("The summary of the run"):
        page, lines = ending(entry, recorder, str(result))
    recorder.end(Ended(outcome="finished", ended=now(), result=str(result), page=page))
    for line in lines:
        logger.info("%s", line)
    logger.info("%s has finished. Its result:", entry.name)


def _record_failure(entry: Entry, given: list[str], recorder: Recorder, error: BaseException) -> None:
    from infra.runs import Ended, now

    if recorder.store is None:
        return  # a mistake that was found before any work
    if isinstance(error, KeyboardInterrupt | SystemExit):
        recorder.end(Ended(outcome="interrupted", ended=now()))
        return
    from flows.cli.wording.ending import resumption  # not while a run that is interrupted has to end soon

    recorder.end(Ended(outcome="failed", ended=now(), error=f"{error}" or type(error).__name__))
    is_users = isinstance(error, UserError) or path_error(error) is not None
    if note := resumption(entry, given, recorder, is_users):
        error.add_note(note)
    if prefect_server() is None:  # its flows tell by themselves
        from infra.notify import notify_failure

        notify_failure(entry.name, f"on {socket.gethostname()}", "failed")


def load_quickly(entry: Entry) -> Flow:
    """Import a flow without the garbage collector, which finds nothing in modules and takes a sixth of the time."""
    gc.disable()
    try:
        return entry.load_flow()
    finally:
        gc.freeze()
        gc.enable()
