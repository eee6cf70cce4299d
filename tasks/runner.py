"""Runs stages inside a flow: one Prefect task a stage, with its progress and its counters shown.

Stage functions know nothing of Prefect; this file is the only place where the two meet. Outside a flow run
(a test, a notebook) the same call does the same work without Prefect.
"""

from __future__ import annotations

import base64
import contextlib
import json
import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from prefect import get_run_logger, task
from prefect.artifacts import (
    create_image_artifact,
    create_link_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.cache_policies import NO_CACHE
from prefect.context import FlowRunContext

from infra import stage as stages
from infra.artifacts import Artifact, ArtifactStore
from infra.cluster.session import RayExecutor, executor_for
from infra.errors import UserError
from infra.only_shown import OnlyShown
from infra.progress import StageProgress
from infra.settings import Settings
from infra.stage import Stage, StageInput, StageParams, StageResult

SECONDS_BETWEEN_UPDATES = 2.0
"""A progress artifact is a request to the server; more often than this nobody looks."""


def _spare_the_traceback(record: logging.LogRecord) -> bool:
    """A mistake of the user is told in one line; where in our code it was noticed helps nobody."""
    if record.exc_info and isinstance(record.exc_info[1], UserError):
        record.msg, record.args, record.exc_info = "%s", (record.exc_info[1],), None
    return True


for _name in ("prefect.flow_runs", "prefect.task_runs"):
    logging.getLogger(_name).addFilter(_spare_the_traceback)


class StageRunner:
    """Runs stages against one store with one executor; made by `stage_runner`."""

    def __init__(self, store: ArtifactStore, executor: RayExecutor) -> None:
        self.store = store
        self._executor = executor

    def __call__(self, stage: Stage[Any], params: StageParams, **inputs: StageInput) -> Artifact:
        """Do a stage's work or find it done; returns its artifact."""
        if FlowRunContext.get() is None:
            return self._run(stage, params, inputs, StageProgress(stage.name, stage.unit)).artifact
        return self._run_as_task(stage, params, inputs)

    def _run_as_task(self, stage: Stage[Any], params: StageParams, inputs: dict[str, StageInput]) -> Artifact:
        # The artifact store decides what is reused; Prefect's cache would believe in deleted files.
        @task(name=stage.name, cache_policy=NO_CACHE, persist_result=False)
        def run_stage() -> Artifact:
            result = self._run(stage, params, inputs, _ProgressArtifact(stage.name, stage.unit))
            get_run_logger().info("%s", _sentence(result))
            with OnlyShown(f"What {stage.name} made"):
                _show_counters(result)
                _show_pictures(result.artifact)
                _show_tables(result.artifact)
            return result.artifact

        return run_stage()

    def _run(
        self,
        stage: Stage[Any],
        params: StageParams,
        inputs: dict[str, StageInput],
        progress: StageProgress,
    ) -> StageResult:
        with progress:
            result = stages.run(stage, self.store, params, inputs, executor=self._executor, on_progress=progress.update)
            if FlowRunContext.get() is None:  # a flow run logs the same sentence
                progress.finish(_sentence(result))
        return result


@contextlib.contextmanager
def stage_runner(settings: Settings | None = None) -> Iterator[StageRunner]:
    """A runner for the block, on the store and the workers that the environment names."""
    settings = settings or Settings.from_environment()
    with executor_for(settings) as executor:
        yield StageRunner(ArtifactStore(settings.home), executor)


class _ProgressArtifact(StageProgress):
    """Shows progress in the terminal and as a Prefect artifact."""

    def __init__(self, name: str, unit: str) -> None:
        super().__init__(name, unit)
        self._artifact: Any = None
        self._updated = -SECONDS_BETWEEN_UPDATES
        self._only_shown = OnlyShown(f"The progress of {name}")

    def update(self, name: str, done: int, total: int, note: str = "") -> None:
        super().update(name, done, total, note)
        if done != total and time.monotonic() - self._updated < SECONDS_BETWEEN_UPDATES:
            return
        share, text = 100.0 * done / total if total else 100.0, _progress_text(name, done, total, note)
        with self._only_shown:
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
    """Each picture that a stage made, as a Prefect artifact that holds it (the server need not see the store)."""
    for file in artifact.manifest.files:
        if file.path.endswith(".png"):
            picture = base64.b64encode(artifact.read_file(file.path)).decode()
            create_image_artifact(
                image_url=f"data:image/png;base64,{picture}",
                key=_key(artifact.stage, Path(file.path).stem),
                description=f"`{file.path}` in `{artifact.path}`",
            )


def _show_tables(artifact: Artifact) -> None:
    """A stage's `table.json` as a Prefect table, with a link to the page that it made."""
    names = {file.path for file in artifact.manifest.files}
    if "table.json" in names:
        table = json.loads(artifact.read_file("table.json"))
        create_table_artifact(key=_key(artifact.stage, "table"), table=table, description=f"`{artifact.path}`")
    if "report.html" in names:
        page = f"{artifact.path}/report.html"
        link = Path(page).as_uri() if isinstance(artifact.path, Path) else page
        create_link_artifact(key=_key(artifact.stage, "page"), link=link, link_text=page)


def _key(stage: str, what: str) -> str:
    return f"{stage}-{what}".replace("_", "-").lower()


def _sentence(result: StageResult) -> str:
    manifest = result.artifact.manifest
    tables = ", ".join(f"{table.rows:,} {name}" for name, table in manifest.tables.items())
    page = next((f"; {result.artifact.path}/{file.path}" for file in manifest.files if file.path == "report.html"), "")
    if result.reused:
        return f"{manifest.stage}: reused {manifest.fingerprint[:8]} ({tables or 'files only'}){page}"
    return (
        f"{manifest.stage}: {tables or f'{len(manifest.files)} files'} in {manifest.wall_seconds:.1f} s, "
        f"{manifest.peak_memory_bytes / 2**20:,.0f} MiB at most{page}"
    )


def _counter_table(result: StageResult) -> list[dict[str, Any]]:
    manifest = result.artifact.manifest
    rows = [{"what": f"rows in {name}", "count": table.rows} for name, table in manifest.tables.items()]
    rows += [{"what": name, "count": count} for name, count in manifest.counters.items()]
    return rows or [{"what": "files", "count": len(manifest.files)}]
