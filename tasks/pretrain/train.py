"""Stage `train`: encoded examples in, a trained checkpoint and its curves out.

The stage launches the training driver (tasks/training/launch), follows its metrics, and keeps the last checkpoint and
the best ones. The driver is a child process with a Ray of its own. If `RAY_ADDRESS` is a cluster's job endpoint
(http…), it is a job there. Checkpoints of an unfinished run are in the build's scratch folder under the run's
fingerprint: a killed flow, started again, resumes from the last one.

Time grows with steps × batch size × length. Memory grows with the model and one global batch, shared among the workers,
never with the corpus.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import Field, SerializerFunctionWrapHandler, field_validator, model_serializer

from infra.artifacts import Artifact
from infra.errors import UserError
from infra.stage import Output, StageParams, stage
from models import objectives
from models.continual import check_start
from models.training.config import SPEED_ONLY
from models.training.field_types import with_integers
from models.training.loop import TrainingConfig, training_config
from tasks.training.checkpoints import FOLDER, Checkpoints, score_of
from tasks.training.cluster import Cluster
from tasks.training.curves import curves_page, draw_curves
from tasks.training.launch import launch
from tasks.training.metrics_log import STEP, TensorBoardLog, read_metrics, read_steps
from tasks.training.run_spec import RunSpec

STEPS_AT_ONCE = 1_000
"""Steps whose figures are converted to rows at a time."""


class TrainParams(StageParams):
    """Objective, model and training.

    Settings that change speed and memory but not the results are in no fingerprint: `cluster` and the settings in
    `SPEED_ONLY`. Those change rounding and, if they cut the batch differently, what dropout and sampling draw on a GPU.
    So a run whose GPU was too small resumes with smaller micro-batches, or with recomputed activations. If the loss
    depends on how a batch is cut, their size and the number of workers decide it, and are in the fingerprint.
    """

    objective: str
    model: dict[str, Any] = Field(default_factory=dict)
    training: dict[str, Any]
    cluster: Cluster = Field(default_factory=Cluster, exclude=True)

    @field_validator("training")
    @classmethod
    def _with_integers(cls, training: dict[str, Any]) -> dict[str, Any]:
        return with_integers(TrainingConfig, training)  # 1e3 steps are the same work as 1000

    @property
    def cut_dependence(self) -> str | None:
        """Setting that makes the loss depend on how a batch is cut into micro-batches and shared among workers."""
        return objectives.cut_dependence(self.objective, self.model)

    @model_serializer(mode="wrap", when_used="json")
    def _what_decides_results(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        written: dict[str, Any] = write(self)
        of_model, of_training = objectives.speed_only(self.objective), SPEED_ONLY
        if self.cut_dependence is not None:
            of_training -= {"micro_batch_size"}
            written["workers"] = self.cluster.most_workers or 1
        for section, speed_only in (("model", of_model), ("training", of_training)):
            written[section] = {name: value for name, value in written[section].items() if name not in speed_only}
        return written


@stage(name="train", version=2, params=TrainParams, tables=("metrics",), unit="step")
def train(inputs: Mapping[str, Any], params: TrainParams, out: Output) -> None:
    """Train `params.objective` on `inputs["examples"]`; `inputs["vocabulary"]` sets the vocabulary size.

    If there is `inputs["init"]`, a `ModelFolder`, training begins with the weights of that BERT or ELECTRA.

    Raises:
        UserError: this cannot be trained, or not on this machine or cluster; the message has the remedy.
    """
    spec = resolve_run(inputs, params, out)
    check_examples(spec, inputs["examples"])
    launch(spec, out.on_progress)
    _keep_result(spec, out)


def check_training(
    params: TrainParams,
    vocabulary_size: int,
    init_from: Path | None = None,
    vocabulary: Sequence[str] | None = None,
) -> None:
    """Check a training before any work is done: build the model without memory, compare initial weights.

    Args:
        init_from: folder of the BERT or ELECTRA whose weights the run begins with, if any.
        vocabulary: tokens to train with, if known; they must be those of `init_from`.

    Raises:
        UserError: an unknown key, an impossible value, an unknown figure in cluster.best_by, or initial weights that do
            not fit; the message names it.
    """
    if "vocab_size" in params.model:
        raise UserError("model.vocab_size follows from the vocabulary. Set vocabulary.size instead.")
    try:
        training_config(params.training)
        objective = objectives.describe(params.objective, {**params.model, "vocab_size": vocabulary_size})
    except ValueError as error:
        raise UserError(f"This model cannot be trained: {error}") from error
    if params.cut_dependence is not None:
        _check_cuts(params)
    # An unknown cluster.best_by fails here, not hours later at the first checkpoint.
    score_of(dict.fromkeys(objective.held_out_figures, 0.0), params.cluster.best_by)
    if init_from is not None:
        check_start(init_from, objective, vocabulary)


def _check_cuts(params: TrainParams) -> None:
    """Require the settings that cut a batch, because the loss depends on them: they cannot be left to the hardware."""
    why = f"{params.cut_dependence} makes the loss depend on"
    if params.training.get("micro_batch_size") is None:
        raise UserError(f"{why} the number of rows that are compared at once. Set training.micro_batch_size.")
    workers = params.cluster.workers
    if not isinstance(workers, int):
        raise UserError(f"{why} the number of workers, but cluster.workers is {list(workers)}. Give one number.")


def check_examples(spec: RunSpec, examples: Artifact) -> None:
    """Fail early on anything that would stop every worker.

    The number of parts does not matter, since workers share rows.

    Raises:
        UserError: there are fewer examples than a batch holds, or more workers than rows to share.
    """
    workers = spec.resources.most_workers
    rows, held_out, batch = examples.rows("examples"), examples.rows("held_out"), spec.config.batch_size
    if batch is None:  # training.batch_tokens is set: any number of rows may make a batch
        batch = rows
    if batch > rows:
        raise UserError(
            f"training.batch_size is {batch}, but there are only {rows} examples, and a batch has no example twice. "
            "Give more text or reduce training.batch_size."
        )
    for what, count in (("sequences in a batch", batch), ("held-out examples", held_out)):
        if workers > count:
            raise UserError(
                f"cluster.workers is {workers}, more than the {what} ({count}), so some would have nothing to do. "
                "Reduce cluster.workers, or raise training.batch_size or encode.held_out_share."
            )


def resolve_run(inputs: Mapping[str, Any], params: TrainParams, out: Output) -> RunSpec:
    """Return the run, with sizes from the inputs. Cores and GPUs that are not set are left to the driver."""
    examples, vocabulary = inputs["examples"], inputs["vocabulary"]
    check_training(params, vocabulary.rows(), inputs["init"].path if "init" in inputs else None)
    cluster = params.cluster
    if cluster.tensorboard and not out.store.is_local:
        raise UserError(
            "cluster.tensorboard appends to files. Put YIWEN_HOME on a local or mounted disk, or turn it off."
        )
    return RunSpec(
        name=out.fingerprint,
        store=out.store.root,
        examples=examples.fingerprint,
        storage=out.scratch,
        objective=params.objective,
        model={**params.model, "vocab_size": vocabulary.rows()},
        training=params.training,
        workers=cluster.workers,
        cpus_per_worker=cluster.cpus_per_worker,
        gpu=cluster.gpu,
        init_from=str(inputs["init"].path) if "init" in inputs else None,
        cluster=cluster,
    )


def _keep_result(spec: RunSpec, out: Output) -> None:
    """Write the last checkpoint with the best ones beside it, the metrics, the curves, and the run as carried out."""
    result = spec.result()
    assert result is not None, "launch returns once it is there"
    entries = read_metrics(spec.metrics_path)
    with out.part() as part:
        part.write("metrics", [row for one in entries for row in _rows(one["step"], one["split"], one["figures"])])
        steps = read_steps(spec.metrics_path)
        # A long run has millions of single steps: their rows are never in memory together.
        while some := list(islice(steps, STEPS_AT_ONCE)):
            part.write("metrics", [row for step, figures in some for row in _rows(step, STEP, figures)])
    checkpoints = Checkpoints(spec.storage, spec.name)
    last = checkpoints.at(spec.config.steps)
    best = checkpoints.best(spec.cluster.keep_best, spec.cluster.best_by)
    ran = result.applied_to(spec)
    with tempfile.TemporaryDirectory(prefix="yiwen-result-") as name:
        folder = Path(name)
        checkpoints.copy(last, folder)
        for record in best:
            if record.step != last.step:
                checkpoints.copy(record, folder / FOLDER / f"step-{record.step:09d}")
        (folder / "run.json").write_text(ran.model_dump_json(indent=1), encoding="utf-8")
        draw_curves(entries, folder / "curves.png", spec.terms)
        (folder / "report.html").write_text(curves_page(ran, entries), encoding="utf-8")
        if spec.cluster.tensorboard:
            shutil.copytree(Path(spec.storage, TensorBoardLog.FOLDER), folder / TensorBoardLog.FOLDER)
        out.add_folder(folder)
    out.count("steps", spec.config.steps)
    out.count("workers", result.workers)


def _rows(step: int, split: str, figures: Mapping[str, float]) -> list[dict[str, Any]]:
    return [{"step": step, "split": split, "name": name, "value": value} for name, value in figures.items()]
