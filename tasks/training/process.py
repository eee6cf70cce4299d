"""One training process: builds the objective, reads its share of the examples, trains, checkpoints. No Ray in it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch

from infra.artifacts import Artifact, ArtifactStore, local_folder
from infra.disk.private_files import private_files
from infra.errors import UserError
from models import objectives
from models.continual import initialise_from
from models.distributed import global_sum, least_over_ranks
from models.training.allocator import keep_freed_memory
from models.training.budget import share_done
from models.training.config import COSTS
from models.training.loop import Report, TrainingConfig, Worker, train
from models.training.memory import choose_micro_batch, usable_memory
from models.training.reader import ExampleStream
from models.training.streams import stream_seed
from tasks.training.background import BackgroundWriter
from tasks.training.checkpoints import Checkpoints
from tasks.training.metrics_log import MetricsLog, TensorBoardLog
from tasks.training.notes import opening_notes, out_of_memory
from tasks.training.run_spec import RunResult, RunSpec
from tasks.training.sources import EXAMPLES, opened, source_of

Agree = Callable[[int], int]
"""Takes a number from every process, and returns that of the first to all of them."""


@private_files()
def train_process(spec: RunSpec, worker: Worker, agree: Agree = lambda number: number) -> None:
    """Do this process's share of a run from the newest checkpoint to the end; `spec` leaves nothing open.

    Raises:
        UserError: an input cannot be seen from here, the initial weights do not fit, a checkpoint could not be
            written, or the GPU's memory is too small for a micro-batch.
    """
    began = time.process_time()
    _make_deterministic(spec, worker)
    sources = opened(spec.sources, spec.store)
    objective = objectives.build(spec.objective, spec.model)
    for name, resource in opened(spec.resources, spec.store).items():
        objective.attach(name, local_folder(resource))
    step, state = _last_state(spec, worker, agree)
    if spec.init_from is not None and state is None:  # a resumed run has weights of its own
        initialise_from(objective, spec.init_from, _vocabulary(spec, sources[EXAMPLES]))
    config = resolve_micro_batch(objective, spec.config, worker)
    saver = Saver(spec, worker, config.micro_batch_size)
    if worker.rank == 0:
        print(*opening_notes(spec.objective, config, worker), sep="\n", flush=True)
    try:
        train(
            objective,
            *_streams(objective, sources, config.seed),
            config,
            worker=worker,
            state=state,
            report=_reporter(spec, step) if worker.rank == 0 else _ignore,
            save=saver,
        )
    except torch.cuda.OutOfMemoryError as error:
        cuts = objectives.cut_dependence(spec.objective, spec.model)
        raise UserError(out_of_memory(spec.config, config, worker, error, cuts)) from error
    spent = torch.tensor(time.process_time() - began, dtype=torch.float64, device=worker.device)
    saver.finish(float(global_sum(spent)))


def _streams(
    objective: Any, sources: Mapping[str, Artifact], seed: int
) -> tuple[dict[str, ExampleStream], dict[str, ExampleStream]]:
    """Return the streams of rows to train on and of held-out ones, by task."""
    rows, held_out = {}, {}
    for task in objective.tasks:
        source = source_of(task.table, sources, objective.name)
        order = stream_seed(seed, task, objective.tasks)
        rows[task.name] = ExampleStream(source.parts(task.table), order, task.columns)
        held_out[task.name] = ExampleStream(source.parts(task.held_out), order, task.columns)
    return rows, held_out


def resolve_micro_batch(objective: Any, config: TrainingConfig, worker: Worker) -> TrainingConfig:
    """Return the settings with a micro-batch that fits the smallest of the workers' GPUs, if they leave it open.

    On a CPU they are returned unchanged. Every worker must call it, since the workers compare their memory.
    """
    memory = usable_memory(worker.device)
    if config.micro_batch_size is not None or memory is None:
        return config
    least = least_over_ranks(memory, worker.device)
    return replace(config, micro_batch_size=choose_micro_batch(objective, config, worker.world_size, least))


class Saver:
    """Writes checkpoints while training continues, and the last one before it returns. Only the first worker writes."""

    def __init__(self, spec: RunSpec, worker: Worker, micro_batch_size: int | None = None) -> None:
        self._spec = spec
        self._micro_batch_size = micro_batch_size
        self._worker = worker
        self._checkpoints = Checkpoints(spec.storage, spec.name)
        self._writer = BackgroundWriter()

    def __call__(self, step: int, state: Mapping[str, Any] | None, figures: Mapping[str, float]) -> None:
        """Start writing a snapshot, None on other workers; `figures` are the newest on held-out text."""
        if state is not None:
            self._writer.start(self._write, step, state, figures)
            if self._share(step, state) >= 1.0:  # the process ends soon, and must not lose the last state
                self._writer.wait()

    def finish(self, cpu_seconds: float) -> None:
        """Wait for the last checkpoint, then write `result.json`: the run is done, at this cost of all processes."""
        self._writer.wait()
        if self._worker.rank == 0:
            result = RunResult(
                workers=self._worker.world_size,
                cpus_per_worker=self._spec.cpus_per_worker or 1,
                gpu=self._worker.device.type == "cuda",
                micro_batch_size=self._micro_batch_size,
                steps=self._checkpoints.at().step if self._spec.has_budget else None,
                cpu_seconds=round(cpu_seconds, 3),
            )
            self._spec.write_result(result.model_dump_json().encode())

    def _write(self, step: int, state: Mapping[str, Any], figures: Mapping[str, float]) -> None:
        cluster = self._spec.cluster
        self._checkpoints.write(step, state, figures, self._share(step, state))
        self._checkpoints.prune(
            cluster.keep_checkpoints, cluster.keep_best, cluster.best_by, self._spec.config.milestones
        )

    def _share(self, step: int, state: Mapping[str, Any]) -> float:
        """Return the share of the run that is done at a snapshot."""
        config = self._spec.config
        return share_done(step, config.steps, *((state[name], getattr(config, name)) for name in COSTS))


def _make_deterministic(spec: RunSpec, worker: Worker) -> None:
    torch.set_num_threads(spec.cpus_per_worker or 1)
    torch.manual_seed(spec.config.seed)
    on_cpu = worker.device.type == "cpu"
    wanted = on_cpu if spec.config.deterministic is None else spec.config.deterministic
    torch.use_deterministic_algorithms(wanted)
    # By default this also fills every new tensor with NaN: 6 to 9 % of a tiny step. Nothing here reads one unwritten.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    if wanted and not on_cpu:  # cuBLAS reads it later, at its first use; a user's own size is kept
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    if on_cpu:
        keep_freed_memory()


def _vocabulary(spec: RunSpec, examples: Artifact) -> list[str]:
    """Return the tokens that the examples were encoded with, by id."""
    given = examples.manifest.inputs["vocabulary"]
    vocabulary = ArtifactStore(spec.store).get(given.stage, given.fingerprint)
    if vocabulary is None:
        raise UserError(f"{spec.store} no longer holds the vocabulary of the examples. Run the flow again.")
    return vocabulary.read_file("vocab.txt").decode().removesuffix("\n").split("\n")


def _last_state(spec: RunSpec, worker: Worker, agree: Agree) -> tuple[int, dict[str, Any] | None]:
    """Return the newest state that the first worker can read, and its step.

    The others read the same one, even if they see a newer one.
    """
    checkpoints = Checkpoints(spec.storage, spec.name)
    found = None
    if worker.rank == 0:
        checkpoints.sweep()
        found = checkpoints.newest()
    step = agree(found[0].step if found else -1)
    if step < 0:
        return 0, None
    return step, found[1] if found else checkpoints.load(checkpoints.at(step))


def _reporter(spec: RunSpec, resumed_step: int) -> Report:
    logs: list[Report] = [MetricsLog(spec.metrics_path, resumed_step)]
    if spec.cluster.tensorboard:
        logs.append(TensorBoardLog(spec.storage, resumed_step))

    def report(step: int, split: str, figures: Mapping[str, float]) -> None:
        for log in logs:
            log(step, split, figures)

    return report


def _ignore(step: int, split: str, figures: Mapping[str, float]) -> None:
    """Only the first worker writes the curves."""
