"""Knowledge as an input of training: attached by every worker, kept in checkpoints, refused where it does not fit."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest
import torch

from flows.pretrain import pretrain
from infra.artifacts import Artifact, ArtifactStore, InputRecord
from infra.errors import UserError
from models import objectives
from models.training.checkpoint import check_identity
from models.training.loop import Worker, load_state
from tasks.pretrain.train import TrainParams, train
from tasks.training.cluster import Cluster
from tasks.training.metrics_log import read_metrics
from tasks.training.process import train_process
from tasks.training.run_spec import RunSpec
from tasks.training.sources import recorded
from tests.support.text.stages import do
from tests.support.training.groups import Groups
from tests.support.training.knowing import KnowingConfig, register
from tests.support.training.knowing_inputs import graph_inputs, knowing_inputs
from tests.support.training.synthetic_examples import VOCABULARY, make_inputs, training

MODEL = {"vocab_size": VOCABULARY}
PARAMS = TrainParams(
    objective="knowing", model={}, training=training(steps=40, learning_rate=0.05), cluster=Cluster(workers=0)
)


@pytest.fixture(autouse=True)
def knowing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objectives, "_OBJECTIVES", dict(objectives._OBJECTIVES))
    register()


def address(artifact: Artifact) -> str:
    return f"{artifact.stage}/{artifact.fingerprint}"


def test_training_reads_knowledge_and_keeps_its_address(store: ArtifactStore, work_here: None, tmp_path: Path) -> None:
    inputs = knowing_inputs(store)
    trained = do(store, train, PARAMS, **inputs)
    held_out = {
        row["name"]: row["value"]
        for row in trained.to_table("metrics").to_pylist()
        if row["split"] == "held_out" and row["step"] == 40
    }
    # The tokens of a mention say nothing of its type; its neighbours' vectors do.
    assert held_out["type_accuracy"] == 1.0 and held_out["type_chance"] == 0.5
    spec = RunSpec.model_validate_json(trained.read_file("run.json"))
    assert spec.resources == recorded({"knowledge": inputs["knowledge"]})
    assert spec.sources == recorded({"examples": inputs["examples"]})
    (tmp_path / "state.pt").write_bytes(trained.read_file("state.pt"))
    assert load_state(tmp_path)["identity"]["resources"] == {"knowledge": address(inputs["knowledge"])}


def test_run_without_resources_is_read_as_before() -> None:
    given = {"name": "old", "store": "s", "examples": "f", "storage": "t", "objective": "bert", "model": {}}
    text = json.dumps({**given, "training": {}, "workers": 1, "cpus_per_worker": None, "gpu": None})
    assert RunSpec.model_validate_json(text).resources == {}
    assert "resources" not in objectives.describe("bert", {"vocab_size": 30}).identity()


def test_checkpoint_of_other_knowledge_is_refused(store: ArtifactStore) -> None:
    artifacts = [knowing_inputs(store, relation)["knowledge"] for relation in ("相关", "并发")]
    one, other = (objectives.build("knowing", MODEL) for _ in artifacts)
    for objective, artifact in zip((one, other), artifacts, strict=True):
        objective.attach("knowledge", Path(artifact.path))
    check_identity(one, one.identity())
    with pytest.raises(ValueError, match=r"resources is .*knowledge_arrays/.* there and .*knowledge_arrays/.* here"):
        check_identity(other, one.identity())


def test_objective_takes_only_what_its_settings_name(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="knowing takes no 'pairs'; it takes knowledge"):
        objectives.build("knowing", MODEL).attach("pairs", tmp_path)
    with pytest.raises(ValueError, match="bert takes no 'knowledge'; it takes none"):
        objectives.describe("bert", {"vocab_size": 30}).attach("knowledge", tmp_path)
    assert KnowingConfig(vocab_size=9).resources() == ("knowledge",)


def refused(store: ArtifactStore, monkeypatch: pytest.MonkeyPatch, **inputs: Artifact) -> str:
    """The message with which `train` refuses these inputs before it starts anything."""

    def started(*_: Any) -> None:
        raise AssertionError("training was started")

    monkeypatch.setattr("tasks.training.launch.run_child", started)
    with pytest.raises(UserError) as error:
        do(store, train, PARAMS, **inputs)
    return str(error.value)


def test_knowledge_of_another_graph_is_refused(store: ArtifactStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has as many entities; only their graph is another."""
    inputs, others = knowing_inputs(store), knowing_inputs(store, "并发")
    message = refused(store, monkeypatch, **{**inputs, "knowledge": others["knowledge"]})
    graphs = [graph_inputs(store, relation)["graph"] for relation in ("相关", "并发")]
    assert all(address(graph) in message for graph in graphs)
    assert str(others["knowledge"].path) in message and str(inputs["examples"].path) in message


def test_missing_knowledge_is_named_with_its_parameters(store: ArtifactStore, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = knowing_inputs(store)
    knowledge = inputs.pop("knowledge")
    message = refused(store, monkeypatch, **inputs)
    assert "knowing reads knowledge, an artifact of the stage knowledge_arrays" in message
    assert "--param mentions=true" in message and "--param graphs=" in message
    wrong = {**inputs, "knowledge": inputs["vocabulary"]}
    assert "is one of the stage vocabulary" in refused(store, monkeypatch, **wrong)
    assert knowledge.stage == "knowledge_arrays"


def test_flow_names_the_parameter_before_it_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("YIWEN_HOME", str(tmp_path / "home"))
    (tmp_path / "text.txt").write_text("糖尿病患者出现多饮。", encoding="utf-8")
    settings = [f"{name} = {value}" for name, value in training().items()]
    lines = ['description = "toy"', 'objective = "knowing"', "[encode]", "max_length = 64", "[training]", *settings]
    (tmp_path / "knowing.toml").write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(UserError, match=r"knowing reads knowledge .* --param mentions=true"):
        pretrain.fn(preset=str(tmp_path / "knowing.toml"), corpus=str(tmp_path / "text.txt"))
    assert not (tmp_path / "home").exists()


def test_examples_without_mentions_are_named_with_the_parameter(
    store: ArtifactStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = {**knowing_inputs(store), "examples": make_inputs(store)["examples"]}
    message = refused(store, monkeypatch, **plain)
    assert str(plain["examples"].path) in message and "--param mentions=true" in message


def spec_of(folder: Path, name: str, inputs: dict[str, Artifact], store: ArtifactStore) -> RunSpec:
    storage = folder / name
    storage.mkdir()
    spec = RunSpec(
        name="run",
        store=store.root,
        sources={"examples": record_of(inputs["examples"])},
        resources={"knowledge": record_of(inputs["knowledge"])},
        storage=str(storage),
        objective="knowing",
        model=MODEL,
        training=training(),
        workers=(1, 2),
        cpus_per_worker=1,
        gpu=False,
    )
    spec.write()
    return spec


def record_of(artifact: Artifact) -> InputRecord:
    return InputRecord(stage=artifact.stage, fingerprint=artifact.fingerprint)


def losses(spec: RunSpec) -> dict[tuple[int, str, str], float]:
    return {
        (entry["step"], entry["split"], name): value
        for entry in read_metrics(spec.metrics_path)
        for name, value in entry["figures"].items()
        if name in ("loss", "type", "type_loss", "type_accuracy")
    }


@pytest.fixture
def one_process() -> Any:
    yield lambda spec: train_process(spec, Worker())
    torch.use_deterministic_algorithms(False)


@pytest.mark.slow
def test_two_processes_have_the_losses_of_one(store: ArtifactStore, tmp_path: Path, one_process: Any) -> None:
    inputs = knowing_inputs(store)
    one, two = (spec_of(tmp_path, name, inputs, store) for name in ("one", "two"))
    one_process(one)
    with Groups("tests.support.training.knowing_member") as groups:
        assert groups.run(two, 2) == [0, 0], Path(two.storage, "0.log").read_text()
    result = two.result()
    assert result is not None and result.workers == 2
    assert {step for step, _, _ in losses(one)} == set(range(1, 13))
    assert losses(two) == pytest.approx(losses(one), rel=1e-4, abs=1e-5)


def test_knowledge_behind_a_uri_is_fetched(tmp_path: Path, one_process: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    store = ArtifactStore(f"memory://{uuid.uuid4().hex}")
    inputs = knowing_inputs(store)
    spec = spec_of(tmp_path, "run", inputs, store)
    one_process(spec)
    assert spec.result() is not None
    (fetched,) = tmp_path.glob(f"yiwen-*/{address(inputs['knowledge'])}/knowledge.json")
    assert fetched.is_file()
