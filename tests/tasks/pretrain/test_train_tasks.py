"""The stage `train` for an objective of several tasks: which input each reads, and what is wrong with them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from infra import schemas
from infra.artifacts import Artifact, ArtifactStore
from infra.errors import UserError
from infra.stage import run
from models import objectives
from models.training.loop import Worker
from tasks.pretrain.check import check_training
from tasks.pretrain.params import TrainParams
from tasks.pretrain.train import train
from tasks.training.cluster import Cluster
from tasks.training.process import train_process
from tasks.training.run_spec import RunSpec
from tasks.training.sources import recorded
from tests.support.training import two_tasks
from tests.support.training.synthetic_examples import VOCABULARY, make_inputs, training
from tests.support.training.two_tasks import SIZES, make_classes


@pytest.fixture(autouse=True)
def _known(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(objectives, "_OBJECTIVES", dict(objectives._OBJECTIVES))
    monkeypatch.setattr(schemas, "TABLES", dict(schemas.TABLES))
    two_tasks.register()
    yield


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The stage trains in this process."""
    threads = torch.get_num_threads()
    monkeypatch.setattr("tasks.pretrain.train.launch", lambda spec, on_progress: train_process(spec, Worker()))
    yield
    torch.use_deterministic_algorithms(False)
    torch.set_num_threads(threads)


def params(model: dict[str, Any] | None = None, workers: Any = 0, **changes: Any) -> TrainParams:
    cluster = Cluster(workers=workers, cpus_per_worker=1)
    return TrainParams(
        objective="two_tasks", model=SIZES | (model or {}), training=training(steps=6, **changes), cluster=cluster
    )


def inputs(store: ArtifactStore, **classes: int) -> dict[str, Artifact]:
    return {**make_inputs(store), "classes": make_classes(store, **classes)}


@pytest.mark.usefixtures("here")
def test_every_task_finds_its_table_in_the_inputs(store: ArtifactStore) -> None:
    given = inputs(store)
    own = {"classify": {"batch_size": 4}}
    artifact = run(train, store, params(tasks=own), given).artifact
    spec = RunSpec.model_validate_json(artifact.read_file("run.json"))
    assert {name: (one.stage, one.fingerprint) for name, one in spec.sources.items()} == {
        name: (given[name].stage, given[name].fingerprint) for name in ("examples", "classes")
    }
    assert spec.batch == "8 sequences (classify: 4 sequences)"
    rows = artifact.to_table("metrics").to_pylist()
    names = {row["name"] for row in rows if row["split"] == "held_out"}
    assert names == set(objectives.describe("two_tasks", {**SIZES, "vocab_size": VOCABULARY}).held_out_figures)
    steps = [row for row in rows if row["split"] == "step" and row["name"] in ("loss_detect", "loss_classify")]
    assert sorted(row["step"] for row in steps) == list(range(1, 7))  # one of them for each step
    assert "Loss (classify)" in artifact.read_file("report.html").decode()


def test_manifest_has_the_cpu_seconds_of_the_processes_that_trained(
    here: None, store: ArtifactStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def launch(spec: RunSpec, on_progress: Any) -> None:
        train_process(spec, Worker())
        result = spec.result()
        assert result is not None
        spec.write_result(result.model_copy(update={"cpu_seconds": 1_000.0}).model_dump_json().encode())

    monkeypatch.setattr("tasks.pretrain.train.launch", launch)
    manifest = run(train, store, params(), inputs(store)).artifact.manifest
    assert 1_000.0 <= manifest.cpu_seconds < 1_000.0 + time.process_time()


def test_table_that_no_input_has_is_named(store: ArtifactStore) -> None:
    with pytest.raises(UserError, match=r"two_tasks reads the table classes .* none of its inputs \(examples\) has it"):
        run(train, store, params(), make_inputs(store))


def test_table_that_two_inputs_have_is_named(store: ArtifactStore) -> None:
    given = {**inputs(store), "more": make_classes(store, rows=30)}
    with pytest.raises(UserError, match=r"table classes, and several of its inputs have one: classes, more"):
        run(train, store, params(), given)


def test_stream_without_rows_is_named(store: ArtifactStore) -> None:
    for rows in (0, 2):  # of 2 rows to train on, none is held out
        with pytest.raises(UserError, match=r"Task classify of objective two_tasks .* (held_out_)?classes .* no rows"):
            run(train, store, params(), inputs(store, rows=rows, parts=1))


def test_column_that_a_table_lacks_is_named(store: ArtifactStore, monkeypatch: pytest.MonkeyPatch) -> None:
    given = inputs(store)
    lacking = schemas.TABLES["classes"].remove(1)
    monkeypatch.setitem(schemas.TABLES, "classes", lacking)
    with pytest.raises(UserError, match=r"reads the columns label .* the table classes lacks them. It has input_ids"):
        run(train, store, params(), given)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"tasks": {"classify": {"batch_size": 181}}},
            r"training\.tasks\.classify\.batch_size is 181, .* only 180 clas",
        ),
        ({"workers": 5, "tasks": {"classify": {"batch_size": 4}}}, r"cluster\.workers is 5, more than the sequences"),
        ({"tasks": {"clasify": {"batch_size": 4}}}, r"training\.tasks\.clasify: .* no such task; .* detect, classify"),
        ({"model": {"classify_share": 0.4}}, r"must add up to 1, but detect 0\.7 \+ classify 0\.4 is 1\.1"),
        ({"tasks": {"classify": {"batch": 4}}}, r"unknown key 'batch' in training\.tasks\.classify"),
    ],
)
def test_impossible_settings_are_named(changes: dict[str, Any], message: str, store: ArtifactStore) -> None:
    with pytest.raises(UserError, match=message):
        run(train, store, params(**changes), inputs(store))


def test_one_task_may_be_called_by_the_objectives_name() -> None:
    given = {"num_layers": 1, "hidden_size": 24, "num_heads": 2, "intermediate_size": 24}
    own = {"bert": {"batch_size": 4}}
    check_training(TrainParams(objective="bert", model=given, training=training(tasks=own)), VOCABULARY)
    with pytest.raises(UserError, match=r"training\.tasks\.nsp: the objective has no such task; its tasks: bert"):
        check_training(TrainParams(objective="bert", model=given, training=training(tasks={"nsp": {}})), VOCABULARY)


def test_settings_of_tasks_decide_the_run_and_1e1_is_10() -> None:
    names = [
        train.fingerprint(params(tasks=own), {})
        for own in ({"classify": {"batch_size": 10}}, {"classify": {"batch_size": 1e1}}, {"classify": {"longest": 9}})
    ]
    assert names[0] == names[1] != names[2] and train.fingerprint(params(), {}) not in names


@pytest.mark.usefixtures("here")
def test_resuming_on_other_rows_is_refused_by_name(store: ArtifactStore, tmp_path: Path) -> None:
    given = inputs(store)
    spec = RunSpec(
        name="run",
        store=store.root,
        sources=recorded({name: given[name] for name in ("examples", "classes")}),
        storage=str(tmp_path),
        objective="two_tasks",
        model={**SIZES, "vocab_size": VOCABULARY},
        training=training(steps=6),
        workers=0,
        cpus_per_worker=1,
        gpu=False,
    )
    train_process(spec, Worker())
    Path(spec.result_path).unlink()
    changed = {"examples": given["examples"], "classes": make_classes(store, rows=30)}
    with pytest.raises(ValueError, match=r"the rows of task classify is 180 there and 90 here"):
        train_process(spec.model_copy(update={"sources": recorded(changed)}), Worker())
