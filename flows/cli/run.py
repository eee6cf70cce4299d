"""The verb `run`."""

from __future__ import annotations

from typing import Annotated

import typer

from flows.catalogue import find
from flows.cli.completing import flow_names, parameter_names
from flows.cli.parameters import merge_parameters
from flows.cli.running import run_entry
from infra.console.printable import printable

Name = Annotated[
    str,
    typer.Argument(metavar="FLOW/DEPLOYMENT", help="A name from `python -m flows list`.", autocompletion=flow_names),
]

Params = Annotated[
    list[str] | None,
    typer.Option(
        "--param",
        metavar="KEY=VALUE",
        autocompletion=parameter_names,
        help="A parameter of the flow, or a dotted key of its preset (training.steps=100); values are JSON, or text.",
    ),
]


def run(name: Name, param: Params = None) -> None:
    """Run a flow, and print the folder of its result.

    Flows are the deployments of prefect.yaml; they run on this machine. Finished stages are reused, interrupted ones
    resume. With PREFECT_API_URL set (or an active Prefect profile that sets it), that server records the run.

    Examples:
      python -m flows run pretrain/ehealth-tiny
      python -m flows run pretrain/ehealth-tiny --param corpus=my_texts/ --param training.steps=1000
      YIWEN_HOME=/data/yiwen python -m flows run corpus/refresh --param corpus=records.jsonl.gz
    """
    entry = find(name)
    given = param or []
    print(printable(run_entry(entry, merge_parameters(entry, given), given)))
