"""The training driver and its stage, on a real local Ray: worker counts, a kill, and failures that are told."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from infra.artifacts import Artifact, ArtifactStore
from infra.errors import UserError
from infra.settings import REPOSITORY
from infra.stage import run
from tasks.checkpoints import Checkpoints
from tasks.model_card import held_out_figures
from tasks.run_spec import Cluster, RunSpec
from tasks.train import TrainParams, check_training, train
from tests.synthetic import TINY_MODEL, VOCABULARY, make_inputs, training

pytestmark = pytest.mark.ray

DROPOUT_MODEL = {**TINY_MODEL, "hidden_dropout": 0.1, "attention_dropout": 0.1}


def params(workers: int = 1, **changes: Any) -> TrainParams:
    cluster = Cluster(workers=workers, cpus_per_worker=1, max_failures=0)
    return TrainParams(objective="ehealth", model=DROPOUT_MODEL, training=training(**changes), cluster=cluster)


def write_spec(folder: Path, inputs: dict[str, Artifact], store: ArtifactStore, name: str, **cluster: Any) -> RunSpec:
    spec = RunSpec(
        name=name,
        store=store.root,
        examples=inputs["examples"].fingerprint,
        storage=str(folder / name),
        objective="ehealth",
        model={**DROPOUT_MODEL, "vocab_size": VOCABULARY},
        training=training(),
        workers=1,
        cpus_per_worker=1,
        gpu=False,
        cluster=Cluster(max_failures=0, **cluster),
    )
    Path(spec.storage).mkdir()
    spec.write()
    return spec


def start_driver(spec: RunSpec, folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tasks.driver", spec.run_path, "--quiet", "--with-parent"],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=(folder / f"{spec.name}.log").open("ab"),
        stderr=subprocess.STDOUT,
    )


def reached(spec: RunSpec, step: int) -> bool:
    path = Path(spec.metrics_path)
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    return any(json.loads(line)["step"] >= step for line in lines)


def final_weights(spec: RunSpec) -> dict[str, torch.Tensor]:
    checkpoints = Checkpoints(spec.storage, spec.name)
    return checkpoints.load(checkpoints.at(spec.config.steps))["model"]


def test_one_and_two_workers_have_the_same_losses(store: ArtifactStore) -> None:
    inputs = make_inputs(store)
    one = run(train, store, params(workers=1), inputs)
    other = ArtifactStore(Path(store.root).parent / "other")
    two = run(train, other, params(workers=2), make_inputs(other))
    assert one.artifact.fingerprint == two.artifact.fingerprint
    curves = [
        {
            (row["step"], row["split"], row["name"]): row["value"]
            for row in result.artifact.to_table().to_pylist()
            # Accuracies count: where two scores all but tie, rounding decides, and one more or less counts.
            if row["name"] in ("loss", "mlm", "rtd", "mts", "csp", "gradient_norm") or row["name"].endswith("_loss")
        }
        for result in (one, two)
    ]
    assert curves[0].keys() == curves[1].keys()
    assert len(curves[0]) == 12 * 6 + 2 * 4
    for key, value in curves[0].items():
        assert curves[1][key] == pytest.approx(value, abs=1e-4, rel=1e-4, nan_ok=True), key
    assert one.artifact.manifest.counters == {"steps": 12, "workers": 1}
    assert two.artifact.manifest.counters == {"steps": 12, "workers": 2}
    assert 0 < held_out_figures(one.artifact)["csp_chance"] < 0.1
    assert {file.path for file in one.artifact.manifest.files} == {"curves.png", "run.json", "state.pt"}


def test_a_killed_driver_resumes_to_the_same_bits(store: ArtifactStore, tmp_path: Path) -> None:
    inputs = make_inputs(store)
    whole, killed = (write_spec(tmp_path, inputs, store, name) for name in ("whole", "killed"))
    assert start_driver(whole, tmp_path).wait(120) == 0
    driver = start_driver(killed, tmp_path)
    while not reached(killed, 9):  # a checkpoint was made at 4 and at 8
        assert driver.poll() is None, (tmp_path / "killed.log").read_text()
        time.sleep(0.05)
    os.kill(driver.pid, signal.SIGKILL)
    driver.wait()
    assert not Path(killed.result_path).exists()
    assert start_driver(killed, tmp_path).wait(120) == 0
    left, right = final_weights(whole), final_weights(killed)
    assert left.keys() == right.keys()
    assert all(torch.equal(left[name], right[name]) for name in left)
    steps = [json.loads(line)["step"] for line in Path(killed.metrics_path).read_text().splitlines()]
    assert steps == sorted(steps)


def test_a_driver_ends_with_its_parent(store: ArtifactStore, tmp_path: Path) -> None:
    spec = write_spec(tmp_path, make_inputs(store), store, "orphan")
    driver = start_driver(spec, tmp_path)
    assert driver.stdin is not None
    driver.stdin.close()
    assert driver.wait(60) == 1
    assert not Path(spec.result_path).exists()


def test_a_failing_run_shows_its_last_lines_and_can_go_on(store: ArtifactStore) -> None:
    inputs = make_inputs(store)
    broken = dict(inputs, examples=_with_ids_over_the_vocabulary(store))
    with pytest.raises(RuntimeError, match=r"(?s)exit code 1.*run again.*driver\.log.*vocab_size"):
        run(train, store, params(), broken)
    assert store.get("train", train.fingerprint(params(), broken)) is None


def _with_ids_over_the_vocabulary(store: ArtifactStore) -> Artifact:
    from tests.synthetic import SyntheticParams, synthetic_examples, write_part_beyond

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
def test_impossible_models_are_told_before_any_work(
    model: dict[str, Any], settings: dict[str, Any], message: str
) -> None:
    given = TrainParams(objective="ehealth", model={**TINY_MODEL, **model}, training=training(**settings))
    with pytest.raises(UserError, match=message):
        check_training(given, VOCABULARY)


def test_unknown_objective_is_told() -> None:
    with pytest.raises(UserError, match="unknown objective 'gpt'"):
        check_training(TrainParams(objective="gpt", training=training()), VOCABULARY)
