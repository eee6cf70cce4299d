"""The verb `submit`."""

from __future__ import annotations

from flows.catalogue import find
from flows.cli.parameters import fit_parameters, merge_parameters
from flows.cli.run import Name, Params
from flows.cli.running import load_quickly
from infra.console.printable import printable
from infra.errors import UserError
from infra.settings import prefect_server


def submit(name: Name, param: Params = None) -> None:
    """Have a worker of the Prefect server run a flow.

    It takes parameters as `run` does, dotted keys of the preset included, which `prefect deployment run` refuses. The
    deployment's own values stay where none is given.

    Examples:
      python -m flows submit pretrain/ehealth --param corpus=/data/texts --param training.steps=100000
    """
    entry = find(name)
    given = param or []
    parameters = merge_parameters(entry, given)
    if prefect_server() is None:
        raise UserError(
            "No Prefect server is configured. Set PREFECT_API_URL, register the flows with prefect deploy --all, and "
            f"start a worker; or run the flow here: python -m flows run {entry.name}"
        )
    from prefect.deployments import run_deployment
    from prefect.exceptions import ObjectNotFound

    fitted = fit_parameters(load_quickly(entry).fn, parameters, given)
    try:
        found = run_deployment(entry.name, parameters=fitted, timeout=0)
    except ObjectNotFound as error:
        raise UserError(
            f"The server has no deployment {entry.name}. Register the flows with prefect --no-prompt deploy --all."
        ) from error
    print(printable(str(getattr(found, "name", found))))
