"""The verb `plan`."""

from __future__ import annotations

import contextlib
import io
import shlex
from typing import TYPE_CHECKING

from flows.catalogue import find
from flows.cli.parameters import fit_parameters, merge_parameters
from flows.cli.run import Name, Params
from flows.cli.running import load_quickly
from flows.cli.verbosity import as_verbosely_as_asked
from flows.cli.wording.figures import duration, megabytes
from flows.cli.wording.text_table import text_table
from infra.console.printable import printable
from infra.counted import counted
from infra.program import program

if TYPE_CHECKING:
    from tasks.runner.planning import Plan, PlannedStage

EFFECTS = {
    "discard": "delete the content of ingest and clean, which holds the original text",
    "publish_terms": "put the list on the server of ELASTICSEARCH_URL, if that is set",
}
"""What a run changes beside its artifacts, by the function that does it; others only warn of what was found."""


def plan(name: Name, param: Params = None) -> None:
    """Show which stages a run would run, resume or reuse.

    Nothing is started and nothing written. Stages are looked up by the fingerprints that the run would have. One that
    depends on the content of an artifact that is not there yet has none, and is said to be unknown. Time and disk are
    estimated from earlier runs of the same stage, in proportion to the size of the input (the time of a training: to
    its steps or its budget); with a stage of other parameters they may be far off. Where parts of earlier artifacts can
    be reused a run is faster.

    Examples:
      python -m flows plan corpus/refresh --param corpus=my_texts/
    """
    from tasks.runner.planning import plan_of

    entry = find(name)
    given = param or []
    parameters = merge_parameters(entry, given)
    with as_verbosely_as_asked():
        flow = load_quickly(entry)
        fitted = fit_parameters(flow.fn, parameters, given)
        with contextlib.redirect_stdout(io.StringIO()):  # a flow may print what it does next
            found = plan_of(lambda: flow.fn(**fitted))
    command = shlex.join(["run", name, *(part for one in given for part in ("--param", one))])
    print(printable(f"{name}, with the artifacts of {found.home}\n"))
    print(printable("\n".join([*_lines(found), "", f"To run it: {program()} {command}"])))


def _lines(plan: Plan) -> list[str]:
    rows = [
        {
            "stage": one.stage,
            "state": one.state,
            "artifact": one.fingerprint[:8] if one.fingerprint else "?",
            "time": _time(one),
            "disk": "" if one.state == "reused" else _unknown(None if one.estimate is None else one.estimate.bytes),
            "why": _why(one),
        }
        for one in plan.stages
    ]
    lines = text_table(rows)
    if plan.open_after:
        lines.append(f"If anything follows, it depends on what {plan.open_after} makes. Plan again when it is there.")
    lines += [f"The run would also {EFFECTS[one]}." for one in dict.fromkeys(plan.effects) if one in EFFECTS]
    return [*lines, "", _total(plan)]


def _total(plan: Plan) -> str:
    work = [one for one in plan.stages if one.state != "reused"]
    if not work and not plan.open_after:
        return "Every stage is reused: a run takes seconds."
    known = [one.estimate for one in work if one.estimate is not None]
    unknown = [one.stage for one in work if one.estimate is None]
    said = f"Reused: {len(plan.stages) - len(work)} stages; to be done: {len(work)}"
    if not known:
        return f"{said}, at an unknown cost: none of them was done here before."
    cost = f"{duration(sum(one.seconds for one in known))} and {megabytes(sum(one.bytes for one in known))}"
    more = f", and what is unknown of {', '.join(dict.fromkeys(unknown))}" if unknown else ""
    return f"{said}, in about {cost}{more}."


def _time(one: PlannedStage) -> str:
    return "" if one.state == "reused" else "unknown" if one.estimate is None else f"~{duration(one.estimate.seconds)}"


def _unknown(size: int | None) -> str:
    return "unknown" if size is None else f"~{megabytes(size)}"


def _why(one: PlannedStage) -> str:
    said = [one.why] if one.why else []
    if one.state == "resumed":
        said.insert(0, f"{counted(one.finished_parts, 'parts')} finished" if one.finished_parts else "was begun")
    if one.estimate is not None and not one.estimate.same_params:
        by = f", in proportion to {one.estimate.by}" if one.estimate.by else ""
        said.append(f"estimate of other parameters{by}")
    if one.estimate is not None and not one.estimate.scaled:
        said.append("estimate not scaled: the size of the input is unknown")
    return "; ".join(said)
