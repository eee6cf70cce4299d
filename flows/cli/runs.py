"""The verb `runs`."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from infra.runs import RunRecord


def runs(
    number: Annotated[int, typer.Option("-n", "--number", min=1, help="Runs to show, the newest.")] = 20,
    flow: Annotated[
        str | None, typer.Option(metavar="FLOW", help="Runs of this flow or flow/deployment alone.", show_default=False)
    ] = None,
) -> None:
    """List the runs of the store, and how they ended.

    Each has its time, result and page; the newest comes last. Runs that the command line started are recorded, in
    YIWEN_HOME/.runs; those that a worker of a Prefect server carried out are on the server.
    """
    from flows.cli.stored.find import existing_store
    from infra.console.printable import printable
    from infra.runs import read_runs

    store = existing_store()
    found = [one for one in read_runs(store) if flow is None or flow in (one.begun.flow, one.begun.flow.split("/")[0])]
    if not found:
        print(f"{store.root} has no record of a run{'' if flow is None else f' of {flow}'}.")
    for one in found[-number:]:
        print(printable("\n".join(_lines(one))))
    if len(found) > number:
        print(f"{len(found) - number:,} older runs are not shown; --number shows more.")


def _lines(run: RunRecord) -> list[str]:
    began = datetime.fromisoformat(run.begun.began)
    top = [one for one in run.stages if not one.within]
    reused = sum(one.reused for one in top)
    lines = [
        f"{began:%Y-%m-%d %H:%M:%S} UTC  {run.begun.flow}  {_ended(run, began)}; {len(top)} stages, {reused} reused"
    ]
    lines += [f"  with    {' '.join(run.begun.given)}"] if run.begun.given else []
    if run.ended is not None:
        lines += [f"  result  {run.ended.result}"] if run.ended.result else []
        lines += [f"  page    {run.ended.page}"] if run.ended.page else []
        lines += [f"  error   {run.ended.error.splitlines()[0][:200]}"] if run.ended.error else []
    return lines


def _ended(run: RunRecord, began: datetime) -> str:
    from flows.cli.wording.figures import duration

    if run.ended is not None:
        taken = datetime.fromisoformat(run.ended.ended) - began
        return f"{run.state} after {duration(max(0.0, taken.total_seconds()))}"
    if run.state == "running":
        return f"running, process {run.begun.process} of {run.begun.host}"
    return {"killed": "killed", "unfinished": "without an end: it still runs, or was killed"}[run.state]
