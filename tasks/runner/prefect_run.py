"""Stages as tasks of a Prefect flow run, with progress, counters, pictures and pages as its artifacts.

Stage functions know nothing of Prefect; this file is the only place where the two meet.
"""

from __future__ import annotations

import base64
import json
import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from prefect import Flow, get_run_logger, task
from prefect.artifacts import (
    create_image_artifact,
    create_link_artifact,
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import FlowRun, State
from prefect.context import FlowRunContext
from prefect.runtime import deployment
from prefect.runtime import flow_run as current_run

from infra.artifacts import Artifact
from infra.console.json_log import JsonFormatter, is_json
from infra.console.progress import BestEffort, StageProgress
from infra.errors import UserError
from infra.notify import notify_failure
from infra.stage import Stage, StageResult
from infra.version import VERSION
from tasks.runner.sentence import sentence
from tasks.runner.temporary_server import secure_temporary_server

ROWS_SHOWN = 50
"""Rows of a stage's main table that its page on the server shows; the HTML page has all."""

OVERRIDES = "overrides"
"""Parameter of a flow with dotted keys of its preset."""

SECONDS_BETWEEN_UPDATES = 2.0
"""Time between two updates of a progress artifact, each of which is a request to the server."""


def _spare_the_traceback(record: logging.LogRecord) -> bool:
    """Log a user's error in one line; where in our code it was noticed helps nobody."""
    if record.exc_info and isinstance(record.exc_info[1], UserError):
        record.msg, record.args, record.exc_info = "%s", (record.exc_info[1],), None
    return True


for _name in ("prefect.flow_runs", "prefect.task_runs"):
    logging.getLogger(_name).addFilter(_spare_the_traceback)


if is_json():  # on its server lines have their run anyway
    for _handler in logging.getLogger().handlers:
        _handler.setFormatter(JsonFormatter())


def prefect_flow(name: str, function: Callable[..., Any]) -> Flow[..., Any]:
    """Return a function as a flow of Prefect's, which tells the webhook of the environment where it fails."""
    secure_temporary_server()
    return DottedFlow(function, name=name, on_failure=[_tell], on_crashed=[_tell])


def registered_version() -> str | None:
    """Return the version that registered the deployment of this flow run; None for a run without a deployment."""
    return deployment.version if deployment.id else None


def named_run() -> tuple[str, list[str]]:
    """Return FLOW/DEPLOYMENT of this flow run, and its parameters as the command line has them."""
    name = "/".join(one for one in (current_run.flow_name, deployment.name) if one)
    given = folded(current_run.parameters or {})
    return name, [f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in given.items() if value is not None]


def refuse_other_version(registered: str | None) -> None:
    """Raise `UserError` if a deployment was registered by another version of the code than this worker runs."""
    if registered is not None and registered != VERSION:
        raise UserError(
            f"The deployment was registered by version {registered} of Yiwen, and this worker runs version {VERSION}: "
            "their parameters and results may differ. Update the older of the two, register the deployments again by "
            "`prefect deploy --all`, and restart the worker."
        )


def _tell(flow: Flow[..., Any], flow_run: FlowRun, state: State[Any]) -> None:
    """Tell the webhook, if there is one, that a flow run failed or was lost."""
    notify_failure(flow.name, flow_run.name, state.type.value.lower())


class DottedFlow(Flow[Any, Any]):
    """A flow whose runs on a server may have parameters such as `training.steps`, as the command line has them."""

    def validate_parameters(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """Return the parameters as the function wants them, dotted ones within `overrides`; raises as Prefect does."""
        return super().validate_parameters(folded(parameters))


def folded(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a run with dotted ones merged into `overrides`, over those of the deployment."""
    dotted = {key: value for key, value in parameters.items() if "." in key}
    if not dotted:
        return dict(parameters)
    plain = {key: value for key, value in parameters.items() if "." not in key}
    return {**plain, OVERRIDES: {**(plain.get(OVERRIDES) or {}), **dotted}}


def is_flow_running() -> bool:
    """Return whether this code runs in a flow run."""
    return FlowRunContext.get() is not None


def run_as_task(
    stage: Stage[Any], unit: str, work: Callable[[StageProgress], StageResult], about: str = ""
) -> Artifact:
    """Run a stage as a task of the current flow run, and show on the server what it made.

    Args:
        stage: the stage.
        unit: what its progress counts.
        work: runs the stage, and reports its progress to what it is given.
        about: what distinguishes it from other runs of the stage, such as the task that a model is fine-tuned for.
    """

    # The artifact store decides what is reused; Prefect's cache would believe in deleted files.
    run_name = f"{stage.name} {about}".strip().replace("{", "(").replace("}", ")")  # braces are templates of Prefect's

    @task(name=stage.name, task_run_name=run_name, cache_policy=NO_CACHE, persist_result=False)
    def run_stage() -> Artifact:
        result = work(_ProgressArtifact(stage.name, unit))
        get_run_logger().info("%s", sentence(result))
        with BestEffort(f"The result of {stage.name}"):
            _show_counters(result)
            _show_pictures(result.artifact)
            _show_tables(result.artifact)
        return result.artifact

    return run_stage()


class _ProgressArtifact(StageProgress):
    """Shows progress in the terminal and as a Prefect artifact."""

    def __init__(self, name: str, unit: str) -> None:
        super().__init__(name, unit)
        self._artifact: Any = None
        self._updated = -SECONDS_BETWEEN_UPDATES
        self._best_effort = BestEffort(f"The progress of {name}")

    def update(self, name: str, done: int, total: int, note: str = "") -> None:
        super().update(name, done, total, note)
        if done != total and time.monotonic() - self._updated < SECONDS_BETWEEN_UPDATES:
            return
        share, text = 100.0 * done / total if total else 100.0, _progress_text(name, done, total, note)
        with self._best_effort:
            if self._artifact is None:
                self._artifact = create_progress_artifact(progress=share, key=_key(name, "progress"), description=text)
            else:
                update_progress_artifact(artifact_id=self._artifact, progress=share, description=text)
        self._updated = time.monotonic()


def _progress_text(name: str, done: int, total: int, note: str) -> str:
    return f"{name}: {done:,} of {total:,}{note and ', '}{note}"


def _show_counters(result: StageResult) -> None:
    create_table_artifact(
        key=_key(result.artifact.stage, "counters"),
        table=_counter_table(result),
        description=f"`{result.artifact.path}`",
    )


def _show_pictures(artifact: Artifact) -> None:
    """Show each picture that a stage made. The artifact holds the picture, as the server may not see the store."""
    for file in artifact.manifest.files:
        if file.path.endswith(".png"):
            picture = base64.b64encode(artifact.read_file(file.path)).decode()
            create_image_artifact(
                image_url=f"data:image/png;base64,{picture}",
                key=_key(artifact.stage, Path(file.path).stem),
                description=f"`{file.path}` in `{artifact.path}`",
            )


def _show_tables(artifact: Artifact) -> None:
    """Show a stage's `table.json` as a Prefect table, with a link to its page."""
    names = {file.path for file in artifact.manifest.files}
    if "table.json" in names:
        table = json.loads(artifact.read_file("table.json"))
        create_table_artifact(key=_key(artifact.stage, "table"), table=table, description=f"`{artifact.path}`")
    if "report.html" in names:
        page = f"{artifact.path}/report.html"
        link = Path(page).as_uri() if isinstance(artifact.path, Path) else page
        create_link_artifact(key=_key(artifact.stage, "page"), link=link, link_text=page)
        rows = json.loads(artifact.read_file("table.json")) if "table.json" in names else []
        create_markdown_artifact(
            key=_key(artifact.stage, "report"),
            markdown=result_markdown(artifact.stage, rows, page, link),
            description=f"What {artifact.stage} found",
        )


def result_markdown(stage: str, rows: Sequence[Mapping[str, Any]], page: str, link: str) -> str:
    """Return a stage's main table and a link to its page, for the server's pages."""
    lines = [f"## {stage.replace('_', ' ')}", ""]
    if rows:
        columns = list(rows[0])
        lines += [_markdown_row(columns), _markdown_row(["---"] * len(columns))]
        lines += [_markdown_row([row.get(name) for name in columns]) for row in rows[:ROWS_SHOWN]]
        lines += [""]
    if len(rows) > ROWS_SHOWN:
        lines += [f"{len(rows) - ROWS_SHOWN:,} more rows are on the page.", ""]
    # Browsers do not follow a link from a server to a file of this machine: the path can be copied.
    return "\n".join([*lines, f"[Page with everything]({link.replace(' ', '%20')}): `{page}`", ""])


def _markdown_row(cells: Sequence[Any]) -> str:
    return f"| {' | '.join(map(_markdown_cell, cells))} |"


def _markdown_cell(value: Any) -> str:
    """Return a value as a cell of Markdown, in which nothing ends the cell, begins markup or is hidden."""
    if value is None:
        return ""
    text = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
    return _MARKUP.sub(r"\\\g<0>", " ".join(text.split())).replace("<", "&lt;")


_MARKUP = re.compile(r"[|*`\[\]\\]")
"""A sign that Markdown reads: the | of `a|b`."""


def _key(stage: str, what: str) -> str:
    return f"{stage}-{what}".replace("_", "-").lower()


def _counter_table(result: StageResult) -> list[dict[str, Any]]:
    manifest = result.artifact.manifest
    rows = [{"what": f"rows in {name}", "count": table.rows} for name, table in manifest.tables.items()]
    rows += [{"what": name, "count": count} for name, count in manifest.counters.items()]
    return rows or [{"what": "files", "count": len(manifest.files)}]
