"""Stage `train`: encoded examples in, a trained checkpoint and its curves out.

The stage launches the training driver (tasks/training/launch), follows its metrics, and keeps the last checkpoint and
the best ones. The driver is a child process, with a Ray of its own unless this is a job on a cluster. Checkpoints of an
unfinished run are in the build's scratch folder under the run's fingerprint: a killed flow, started again, resumes from
the last one.

Time grows with steps × batch size × length. Memory grows with the model and one global batch, shared among the workers,
never with the corpus.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from infra.artifacts import Artifact
from infra.errors import UserError
from infra.stage import Output, stage
from models import objectives
from tasks.pretrain.check import check_training
from tasks.pretrain.params import TrainParams
from tasks.pretrain.resources import check_resources, resource_artifacts
from tasks.pretrain.tables import check_examples
from tasks.training.checkpoints import Checkpoints, step_folder
from tasks.training.curves import curves_page, draw_curves
from tasks.training.launch import launch
from tasks.training.metrics_log import STEP, TensorBoardLog, read_metrics, read_steps
from tasks.training.run_spec import RunSpec, unit_of
from tasks.training.sources import EXAMPLES, recorded

WITHOUT_ROWS = frozenset({"vocabulary", "init"})
"""Inputs that no task reads rows from."""
STEPS_AT_ONCE = 1_000
"""Steps whose figures are converted to rows at a time."""


def _unit(params: TrainParams) -> str:
    return unit_of(params.training)


@stage(name="train", version=2, params=TrainParams, tables=("metrics",), unit=_unit, heavy=True)
def train(inputs: Mapping[str, Any], params: TrainParams, out: Output) -> None:
    """Train `params.objective` on `inputs["examples"]`; `inputs["vocabulary"]` sets the vocabulary size.

    If there is `inputs["init"]`, a `ModelFolder`, training begins with the weights of that BERT or ELECTRA; if it is
    a run, an artifact of this stage, with all weights of its last checkpoint that this objective has too. Any other
    input is an artifact with tables for tasks of the objective, such as `pairs`, or one that the objective's settings
    name as a resource, such as `knowledge`.

    Raises:
        UserError: this cannot be trained, or not on this machine or cluster; the message has the remedy.
    """
    spec = resolve_run(inputs, params, out)
    rows, resources = ({name: inputs[name] for name in names} for names in (spec.sources, spec.resources))
    check_examples(spec, rows)
    check_resources(spec, rows, resources)
    earlier = Checkpoints(spec.storage, spec.name).records()
    if earlier:
        out.log_resumption(f"from its checkpoint after step {earlier[-1].step:,}")
    launch(spec, out.on_progress)
    _keep_result(spec, out)


def resolve_run(inputs: Mapping[str, Any], params: TrainParams, out: Output) -> RunSpec:
    """Return the run, with sizes from the inputs. Cores and GPUs that are not set are left to the driver."""
    vocabulary = inputs["vocabulary"]
    check_training(params, vocabulary.rows(), inputs["init"].path if "init" in inputs else None)
    if isinstance(inputs.get("init"), Artifact):
        _check_vocabulary(inputs["init"], vocabulary, out)
    cluster = params.cluster
    if cluster.tensorboard and not out.store.is_local:
        raise UserError(
            "cluster.tensorboard appends to files. Put YIWEN_HOME on a local or mounted disk, or turn it off."
        )
    model = {**params.model, "vocab_size": vocabulary.rows()}
    resources = resource_artifacts(params.objective, model, inputs)
    # Products are both: their rows are read, and their values attached.
    without_rows = WITHOUT_ROWS | (resources.keys() - set(objectives.data(params.objective, model)))
    rows = {name: given for name, given in inputs.items() if name not in without_rows}
    return RunSpec(
        name=out.fingerprint,
        store=out.store.root,
        sources=recorded(rows),
        resources=recorded(resources),
        storage=out.scratch,
        objective=params.objective,
        model=model,
        training=params.training,
        workers=cluster.workers,
        cpus_per_worker=cluster.cpus_per_worker,
        gpu=cluster.gpu,
        init_from=str(inputs["init"].path) if "init" in inputs else None,
        cluster=cluster,
    )


def _check_vocabulary(init: Artifact, vocabulary: Artifact, out: Output) -> None:
    """Raise `UserError` if a run to start from has learnt other tokens than those of the vocabulary."""
    sources = RunSpec.model_validate_json(init.read_file("run.json")).sources
    examples = out.store.get(sources[EXAMPLES].stage, sources[EXAMPLES].fingerprint)
    learnt = None if examples is None else examples.manifest.inputs["vocabulary"].fingerprint
    if learnt != vocabulary.fingerprint:
        raise UserError(
            f"The run to start from, {init.path}, was trained with another vocabulary, or its examples are no longer "
            "in the store. Train with its own vocabulary."
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
    last = checkpoints.at(spec.config.steps if result.steps is None else result.steps)
    kept = [
        *checkpoints.best(spec.cluster.keep_best, spec.cluster.best_by),
        *checkpoints.milestones(spec.config.milestones).values(),
    ]
    ran = result.applied_to(spec)
    with tempfile.TemporaryDirectory(prefix="yiwen-result-") as name:
        folder = Path(name)
        checkpoints.copy(last, folder)
        for record in {one.step: one for one in kept}.values():
            if record.step != last.step:
                checkpoints.copy(record, folder / step_folder(record.step))
        (folder / "run.json").write_text(ran.model_dump_json(indent=1), encoding="utf-8")
        draw_curves(entries, folder / "curves.png", spec.terms)
        (folder / "report.html").write_text(curves_page(ran, entries), encoding="utf-8")
        if spec.cluster.tensorboard:
            shutil.copytree(Path(spec.storage, TensorBoardLog.FOLDER), folder / TensorBoardLog.FOLDER)
        out.add_folder(folder)
    out.count("steps", last.step)
    out.count("workers", result.workers)
    out.add_cpu_seconds(result.cpu_seconds or 0.0)


def _rows(step: int, split: str, figures: Mapping[str, float]) -> list[dict[str, Any]]:
    return [{"step": step, "split": split, "name": name, "value": value} for name, value in figures.items()]
