"""The training driver and its stage, on a real local Ray: worker counts, kills, and failures with their messages."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from infra.artifacts import Artifact, ArtifactStore
from infra.errors import UserError
from infra.settings import REPOSITORY
from infra.stage import run
from tasks.pretrain.model_card import held_out_figures
from tasks.pretrain.train import TrainParams, check_training, train
from tasks.training import driver
from tasks.training.checkpoints import Checkpoints
from tasks.training.cluster import Cluster
from tasks.training.metrics_log import read_metrics
from tasks.training.run_spec import RunResult, RunSpec
from tasks.training.sources import recorded
from tests.support.training.synthetic_examples import TINY_MODEL, VOCABULARY, make_inputs, training

pytestmark = pytest.mark.ray

DROPOUT_MODEL = {**TINY_MODEL, "hidden_dropout": 0.1, "attention_dropout": 0.1}


def params(workers: int = 1, **changes: Any) -> TrainParams:
    cluster = Cluster(workers=workers, cpus_per_worker=1, max_failures=0, tensorboard=True)
    return TrainParams(objective="ehealth", model=DROPOUT_MODEL, training=training(**changes), cluster=cluster)


def write_spec(
    folder: Path, store: ArtifactStore, name: str, workers: int = 1, steps: int = 12, **cluster: Any
) -> RunSpec:
    spec = RunSpec(
        name=name,
        store=store.root,
        sources=recorded({"examples": make_inputs(store)["examples"]}),
        storage=str(folder / name),
        objective="ehealth",
        model={**DROPOUT_MODEL, "vocab_size": VOCABULARY},
        training=training(steps=steps),
        workers=workers,
        cpus_per_worker=1,
        gpu=False,
        cluster=Cluster(**cluster),
    )
    Path(spec.storage).mkdir()
    spec.write()
    return spec


def start_driver(spec: RunSpec) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tasks.training.driver", spec.run_path, "--quiet", "--with-parent"],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=Path(spec.storage, "driver.log").open("ab"),
        stderr=subprocess.STDOUT,
    )


def wait_for_step(spec: RunSpec, step: int, process: subprocess.Popen[bytes]) -> None:
    while all(entry["step"] < step for entry in read_metrics(spec.metrics_path)):
        assert process.poll() is None, Path(spec.storage, "driver.log").read_text()
        time.sleep(0.02)


def final_weights(spec: RunSpec) -> dict[str, torch.Tensor]:
    checkpoints = Checkpoints(spec.storage, spec.name)
    return checkpoints.load(checkpoints.at(spec.config.steps))["model"]


def losses(rows: Iterable[tuple[int, str, str, float]]) -> dict[tuple[int, str, str], float]:
    # Accuracies count: where two scores all but tie, rounding decides, and one more or less counts.
    return {
        (step, split, name): value
        for step, split, name, value in rows
        if split != "step" and (name in ("loss", "mlm", "rtd", "mts", "csp", "gradient_norm") or name.endswith("_loss"))
    }


def losses_of_table(artifact: Artifact) -> dict[tuple[int, str, str], float]:
    rows = artifact.to_table().to_pylist()
    return losses((row["step"], row["split"], row["name"], row["value"]) for row in rows)


def losses_of_file(spec: RunSpec) -> dict[tuple[int, str, str], float]:
    entries = read_metrics(spec.metrics_path)
    return losses((e["step"], e["split"], name, value) for e in entries for name, value in e["figures"].items())


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """A run of one process, without Ray."""
    store = ArtifactStore(tmp_path_factory.mktemp("trained"))
    return run(train, store, params(workers=0), make_inputs(store)).artifact


def test_two_workers_have_the_losses_of_one_and_one_resumes_in_micro_batches_where_two_stopped(
    trained: Artifact, store: ArtifactStore, tmp_path: Path
) -> None:
    inputs = make_inputs(store)
    assert train.fingerprint(params(workers=0), inputs) == train.fingerprint(params(workers=2), inputs)
    assert train.fingerprint(params(), inputs) == train.fingerprint(params(micro_batch_size=3), inputs)
    apart = [params(micro_batch_size=size) for size in (3, 4)]
    for one in apart:
        one.model["csp_across_micro_batches"] = False
    assert train.fingerprint(apart[0], inputs) != train.fingerprint(apart[1], inputs)
    expected = losses_of_table(trained)
    assert len(expected) == 12 * 6 + 2 * 5  # held out: the loss and its four terms
    spec = write_spec(tmp_path, store, "shared", workers=2, keep_checkpoints=9)
    assert start_driver(spec).wait(300) == 0
    assert but_cost(spec) == RunResult(workers=2, cpus_per_worker=1, gpu=False)
    assert losses_of_file(spec) == pytest.approx(expected, abs=1e-4, rel=1e-4, nan_ok=True)
    forget_after(4, spec)
    spec.model_copy(update={"workers": 0, "training": training(micro_batch_size=3)}).write()
    assert start_driver(spec).wait(300) == 0
    assert but_cost(spec) == RunResult(workers=1, cpus_per_worker=1, gpu=False, micro_batch_size=3)
    assert losses_of_file(spec) == pytest.approx(expected, rel=1e-6, abs=1e-6, nan_ok=True)


def but_cost(spec: RunSpec) -> RunResult:
    result = spec.result()
    assert result is not None and result.cpu_seconds is not None and result.cpu_seconds > 0
    return result.model_copy(update={"cpu_seconds": None})


def test_files_of_a_finished_run(trained: Artifact) -> None:
    artifact = trained
    assert artifact.manifest.counters == {"steps": 12, "workers": 1}
    assert 0 < held_out_figures(artifact)["csp_chance"] < 0.1
    files = {file.path for file in artifact.manifest.files}
    assert files >= {"checkpoint.json", "curves.png", "report.html", "run.json", "state.pt"}
    assert any(file.startswith("tensorboard/events") for file in files)
    # Evaluations are at 6 and 12, so the best checkpoint is that of 8 or the last.
    best = {file for file in files if file.startswith("checkpoints/")}
    assert best <= {"checkpoints/step-000000008/checkpoint.json", "checkpoints/step-000000008/state.pt"}
    spec = RunSpec.model_validate_json(artifact.read_file("run.json"))
    assert (spec.workers, spec.gpu) == (1, False)
    checkpoints = Checkpoints(str(artifact.path), spec.name)
    assert checkpoints.load(checkpoints.at())["step"] == 12


def forget_after(step: int, spec: RunSpec) -> None:
    """Leave of a finished run what there would be if all its processes had been killed after a step."""
    Path(spec.result_path).unlink()
    for record in Checkpoints(spec.storage, spec.name).records():
        if record.step > step:
            shutil.rmtree(Checkpoints(spec.storage, spec.name).path(record.step))


def test_a_killed_worker_and_a_killed_driver_resume_to_the_same_bits(store: ArtifactStore, tmp_path: Path) -> None:
    whole = write_spec(tmp_path, store, "whole", steps=120, workers=0)  # without Ray: the same bits even so
    killed = write_spec(tmp_path, store, "killed", steps=120, max_failures=1)
    try:
        driver.run(whole)
    finally:
        torch.use_deterministic_algorithms(False)
    process = start_driver(killed)
    wait_for_step(killed, 10, process)
    children = psutil.Process(process.pid).children(recursive=True)
    (worker,) = [one for one in children if "RayTrainWorker" in one.name()]
    assert not any("PreemptionWatcher" in one.name() for one in children)  # no cloud takes this machine away
    worker.kill()
    wait_for_step(killed, 60, process)  # Ray Train has put another in its place
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert killed.result() is None
    killed.model_copy(update={"workers": 0}).write()  # what was begun on Ray is ended without it
    assert start_driver(killed).wait(300) == 0
    left, right = final_weights(whole), final_weights(killed)
    assert left.keys() == right.keys()
    assert all(torch.equal(left[name], right[name]) for name in left)
    steps = [entry["step"] for entry in read_metrics(killed.metrics_path) if entry["split"] == "train"]
    assert steps == list(range(1, 121))


def test_a_driver_ends_with_its_parent(store: ArtifactStore, tmp_path: Path) -> None:
    spec = write_spec(tmp_path, store, "orphan")
    process = start_driver(spec)
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(120) == 1
    assert spec.result() is None


def test_failing_run_shows_its_last_lines_and_can_resume(store: ArtifactStore) -> None:
    broken = dict(make_inputs(store), examples=_with_ids_over_the_vocabulary(store))
    with pytest.raises(RuntimeError, match=r"(?s)exit status 1.*Run the same command again.*driver\.log.*vocab_size"):
        run(train, store, params(workers=0), broken)
    assert store.get("train", train.fingerprint(params(workers=0), broken)) is None


def test_missing_part_ends_the_run_at_once_and_is_named(store: ArtifactStore) -> None:
    inputs = make_inputs(store)
    part = next(iter(Path(inputs["examples"].path, "examples").iterdir()))
    part.unlink()
    cluster = Cluster(workers=1, cpus_per_worker=1, max_failures=1_000)
    given = params().model_copy(update={"cluster": cluster})
    with pytest.raises(UserError, match=rf"{part.name}.*the file is missing"):
        run(train, store, given, inputs)


def test_infinite_loss_error_is_one_line(
    store: ArtifactStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def diverge(spec: RunSpec) -> None:
        raise FloatingPointError("step 3: lower training.learning_rate")

    monkeypatch.setattr(driver, "_train_here", diverge)
    assert driver.main([write_spec(tmp_path, store, "steep", workers=0).run_path, "--quiet"]) == 2
    assert capsys.readouterr().err == "error: step 3: lower training.learning_rate\n"


def test_missing_run_file_error_names_the_remedy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert driver.main([str(tmp_path / "elsewhere" / "run.json"), "--quiet"]) == 2
    assert re.search(
        r"^error: .*run\.json does not exist on this machine.*every node must see", capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("cluster", "settings", "message"),
    [
        ({"workers": 9}, {}, r"cluster\.workers is 9, more than .*sequences in a batch \(8\)"),
        ({"workers": [1, 70]}, {"batch_size": 80}, r"cluster\.workers is 70, more than .*held-out examples \(60\)"),
        ({}, {"batch_size": 181}, r"batch_size is 181, but there are only 180 examples"),
        ({"gpu": True}, {}, r"No room for 1 workers of \d+ CPU, 1 GPU each: the nodes have \d+ CPU, 0 GPU"),
    ],
)
def test_impossible_sharing_is_rejected(
    cluster: dict[str, Any], settings: dict[str, Any], message: str, store: ArtifactStore
) -> None:
    if cluster.get("gpu") and torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    given = TrainParams(
        objective="ehealth", model=TINY_MODEL, training=training(**settings), cluster=Cluster(**cluster)
    )
    with pytest.raises(UserError, match=message):
        run(train, store, given, make_inputs(store))


def _with_ids_over_the_vocabulary(store: ArtifactStore) -> Artifact:
    from tests.support.training.synthetic_examples import SyntheticParams, synthetic_examples, write_part_beyond

    damaged = type(synthetic_examples)(
        name="encode",
        version=99,
        params=SyntheticParams,
        tables=("examples", "held_out"),
        function=lambda inputs, given, out: out.map(write_part_beyond, range(given.parts), given),
    )
    return run(damaged, store, SyntheticParams(), {}).artifact


@pytest.mark.parametrize(
    ("model", "settings", "message"),
    [
        ({"num_heads": 5}, {}, r"num_heads.*hidden_size|hidden_size.*num_heads"),
        ({"hidden_sise": 24}, {}, r"hidden_sise.*hidden_size"),
        ({}, {"steps": 0}, r"training\.steps is 0"),
        ({}, {"stepps": 3}, r"stepps.*steps"),
        ({"generator_divisor": 7}, {}, "generator_divisor"),
    ],
)
def test_impossible_models_are_rejected_before_any_work(
    model: dict[str, Any], settings: dict[str, Any], message: str
) -> None:
    given = TrainParams(objective="ehealth", model={**TINY_MODEL, **model}, training=training(**settings))
    with pytest.raises(UserError, match=message):
        check_training(given, VOCABULARY)


def test_unknown_objective_is_rejected() -> None:
    with pytest.raises(UserError, match="unknown objective 'gpt'"):
        check_training(TrainParams(objective="gpt", training=training()), VOCABULARY)
