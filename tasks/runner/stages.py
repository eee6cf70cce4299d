"""Running stages one after the other on one store, with progress and a line for each; inside Prefect one task each."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

from infra import stage as stages
from infra.artifacts import Artifact, ArtifactStore
from infra.cluster.executor import executor_for
from infra.cluster.jobs import JobSite, job_site, run_as_job
from infra.console.progress import StageProgress
from infra.run_metrics import FlowMetrics, metrics_folder
from infra.runs import begin_record, noted, recorded, recorded_flow
from infra.settings import Settings, is_job_endpoint
from infra.stage import Executor, ProgressListener, Stage, StageInput, StageParams, StageResult
from tasks.runner.flow import in_prefect_run
from tasks.runner.planning import PlanningRunner, current_plan
from tasks.runner.sentence import sentence

logger = logging.getLogger("flows")


class StageRunner:
    """Runs stages against one store: heavy ones as jobs where there is a site for them, the others here.

    Made by `stage_runner`.
    """

    def __init__(
        self,
        store: ArtifactStore,
        executor: Executor,
        site: JobSite | None = None,
        metrics: FlowMetrics | None = None,
    ) -> None:
        self.store = store
        self._metrics = metrics
        self._executor = executor
        self._site = site
        self._began = time.monotonic()
        self._results: list[StageResult] = []

    def __call__(self, stage: Stage[Any], params: StageParams, **inputs: StageInput) -> Artifact:
        """Do a stage's work, or find it done; returns its artifact."""
        if in_prefect_run():
            from tasks.runner.prefect_run import run_as_task

            return run_as_task(
                stage,
                stage.unit_of(params),
                lambda progress: self._run(stage, params, inputs, progress),
                _about(params),
            )
        progress = StageProgress(stage.name, stage.unit_of(params))
        result = self._run(stage, params, inputs, progress)
        progress.finish(sentence(result))
        self._results.append(result)
        return result.artifact

    def nodes(self) -> Sequence[Mapping[str, float]] | None:
        """Return the resources of the nodes that heavy stages run on, by Ray's names; None if they are not known yet.

        They are this machine's, or come with the job.
        """
        return None if self._site is None else self._site.nodes()

    def checks(self) -> contextlib.AbstractContextManager[None]:
        """Return a context for checks of what stages have made; a plan leaves out those of what is not there yet."""
        return contextlib.nullcontext()

    def effect(self, function: Callable[..., object], *arguments: Any) -> None:
        """Call a function that changes something beside the artifacts of stages; a plan leaves it out."""
        function(*arguments)

    def log_summary(self) -> None:
        """Log how many stages had to be computed, and how long all of them took."""
        if self._results:
            reused = sum(result.reused for result in self._results)
            logger.info(
                "%d stages, %d of them reused, in %.1f s",
                len(self._results),
                reused,
                time.monotonic() - self._began,
            )

    def _run(
        self, stage: Stage[Any], params: StageParams, inputs: dict[str, StageInput], progress: StageProgress
    ) -> StageResult:
        metrics = self._metrics
        if metrics is None:
            return self._run_shown(stage, params, inputs, progress, progress.update)

        def update(name: str, done: int, total: int, note: str = "") -> None:
            progress.update(name, done, total, note)
            metrics.progress(name, done, total)

        metrics.begin(stage.name)
        try:
            result = self._run_shown(stage, params, inputs, progress, update)
        except BaseException:
            metrics.fail(stage.name)
            raise
        metrics.end(stage.name, result.artifact.manifest, result.reused)
        return result

    def _run_shown(
        self,
        stage: Stage[Any],
        params: StageParams,
        inputs: dict[str, StageInput],
        progress: StageProgress,
        on_progress: ProgressListener,
    ) -> StageResult:
        with progress:
            if self._site is not None and stage.heavy:
                with noted(stage.name, stage.fingerprint(params, inputs), "") as reused:
                    result = run_as_job(stage, self.store, params, inputs, site=self._site, on_progress=on_progress)
                    reused[0] = result.reused
                return result
            return stages.run(stage, self.store, params, inputs, executor=self._executor, on_progress=on_progress)


def _about(params: StageParams) -> str:
    """Return what distinguishes a run of a stage from others: the downstream task, or the objective."""
    return next((str(getattr(params, name)) for name in ("task", "objective") if getattr(params, name, None)), "")


def _named() -> tuple[str, list[str]]:
    """Return the name and parameters of a run that its caller does not record: a worker's, or a script's."""
    if in_prefect_run():
        from tasks.runner.prefect_run import named_run

        return named_run()
    return "python", []


@contextlib.contextmanager
def stage_runner(settings: Settings | None = None) -> Iterator[StageRunner]:
    """Yield a runner on the store, the workers and the place of jobs that the environment names.

    Raises:
        UserError: this worker runs another version than the deployment's, or RAY_ADDRESS names a place of jobs that
            does not answer or does not accept our token.
    """
    settings = settings or Settings.from_environment()
    plan = current_plan()
    if plan is not None:
        yield cast("StageRunner", PlanningRunner(ArtifactStore(settings.home), plan))
        return
    if in_prefect_run():
        from tasks.runner.prefect_run import refuse_other_version, registered_version

        refuse_other_version(registered_version())
    site = None
    if settings.ray_address is not None and is_job_endpoint(settings.ray_address):
        site = job_site(settings.ray_address)
        logger.info("Heavy stages are jobs at %s; artifacts are stored in %s", site.address, settings.home)
    elif not in_prefect_run():
        # A flow asks for a runner once its parameters are checked: an error before that stands alone.
        logger.info("Running on this machine, without a server; artifacts are stored in %s", settings.home)
    store = ArtifactStore(settings.home)
    with recorded(*_named()), executor_for(settings) as executor:
        begin_record(store)
        folder = metrics_folder()
        metrics = None if folder is None else FlowMetrics(folder, recorded_flow() or "python")
        runner = StageRunner(store, executor, site, metrics)
        yield runner
        runner.log_summary()
