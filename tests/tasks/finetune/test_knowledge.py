"""Fine-tuning from the knowledge model: every kind of task takes it, and its models predict with what they saved."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoModelForSequenceClassification

from infra.artifacts import Artifact, ArtifactStore
from infra.errors import UserError
from infra.stage import run
from models.heads.encoders import open_encoder
from models.inference import predict
from tasks.downstream.catalogue import task
from tasks.downstream.records import Record
from tasks.finetune.inputs import ModelFolder, TaskFiles
from tasks.finetune.params import FinetuneParams, Resources
from tasks.finetune.predict import Predictor
from tasks.finetune.saved_model import load_task_model
from tasks.finetune.stage import finetune
from tests.support.graphs.knowledge_models import save_text_encoder
from tests.support.heads import toy_task as toy

torch.set_num_threads(1)

SETTINGS: dict[str, Any] = {
    "seeds": (1,),
    "batch_sizes": (8,),
    "learning_rates": (3e-3,),
    "epochs": (2,),
    "resources": Resources(trials_at_once=1),
}


class World:
    """A store with the knowledge model and its knowledge, and files of every kind of task."""

    def __init__(self, folder: Path) -> None:
        self.store = folder / "store"
        self.encoder = save_text_encoder(self.store)
        self.data = toy.save_other_kinds(folder / "data")
        for save, name in ((toy.save_cmeee, "cmeee"), (toy.save_cmeie, "cmeie"), (toy.save_cmedqq, "cmedqq")):
            save(self.data / name)
        self._done: dict[str, Artifact] = {}

    def tuned(self, name: str) -> Path:
        """The model of a task, fine-tuned once."""
        if name not in self._done:
            self._done[name] = self.tune(name, ModelFolder(self.encoder))
        return Path(f"{self._done[name].path}/model")

    def tune(self, name: str, model: ModelFolder, **change: Any) -> Artifact:
        params = FinetuneParams(task=name, **SETTINGS | change)
        given = {"model": model, "data": TaskFiles(task(name), self.data / name)}
        return run(finetune, ArtifactStore(self.store), params, given).artifact


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("world"))


RECORDS: dict[str, list[Any]] = {
    "cmedqq": [["患者高血压", "头痛"], ["发热咳嗽糖尿病", "有肺部感染"], ["是不是", "怎么办"]],
    "cmedic": ["有头痛", "咳嗽怎么办患者", "检查"],
    "disease-diagnosis": ["患者有高血压", "发热", "检查"],
    "webmedqa": [["头痛高血压", "发热"], ["糖尿病", "怎么办检查患者"]],
    "nlpec": [["检查" * 30 + "高血压", "头痛", *toy.DISEASES], ["糖尿病", "发热", "高血压", "肺部感染"]],
    "cmeee": ["患者高血压头痛" * 12, "糖尿病", "是不是"],
    "cmeie": ["高血压引起头痛", "肺部感染引起咳嗽患者有"],
}


@pytest.mark.parametrize("name", RECORDS)
def test_every_kind_of_task_takes_it_and_predicts_alike_in_any_batch(name: str, world: World) -> None:
    folder = world.tuned(name)
    records = RECORDS[name]
    together = Predictor(folder, "cpu").predict(records)
    alone = [Predictor(folder, "cpu", batch_tokens=1).predict([record])[0] for record in records]
    for one, other in zip(together, alone, strict=True):
        assert one.answer == other.answer
        np.testing.assert_allclose(one.scores or 0, other.scores or 0, rtol=1e-4, atol=1e-5)


def logits_of(folder: Path, texts: list[Any], **options: Any) -> np.ndarray:
    saved = load_task_model(folder, **options)
    records = [Record(str(number), tuple(one)) for number, one in enumerate(texts)]
    pieces = saved.shape.features(saved.tokenizer).encode(records)
    return np.stack(predict(saved.model, [piece.example for piece in pieces]))


def test_knowledge_reaches_the_answers_of_a_saved_model(world: World) -> None:
    folder, texts = world.tuned("cmedqq"), RECORDS["cmedqq"]
    without = np.abs(logits_of(folder, texts) - logits_of(folder, texts, knowledge=False)).max(1)
    assert without[:2].min() > 1e-4  # the last record names no entity
    assert without[2] < 1e-6


def test_predict_works_in_a_fresh_process(world: World, tmp_path: Path) -> None:
    folder = world.tuned("cmedqq")
    source, target = tmp_path / "new.jsonl", tmp_path / "answers.jsonl"
    rows = [{"text1": first, "text2": second} for first, second in RECORDS["cmedqq"]]
    source.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    command = [sys.executable, "-m", "flows", "predict", "--model", str(folder), "--input", str(source)]
    done = subprocess.run([*command, "--output", str(target), "--device", "cpu"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in target.read_text(encoding="utf-8").splitlines()]
    expected = Predictor(folder, "cpu").predict(RECORDS["cmedqq"])
    assert [row["answer"] for row in found] == [one.answer for one in expected]
    np.testing.assert_allclose(
        [list(row["probabilities"].values()) for row in found], [one.scores for one in expected], atol=2e-6
    )


def test_a_model_that_left_its_store_says_what_it_needs(world: World, tmp_path: Path) -> None:
    copied = shutil.copytree(world.tuned("cmedqq"), tmp_path / "copied")
    config = json.loads((copied / "encoder" / "config.json").read_text())
    config["knowledge_source"]["folder"] = "/gone"
    (copied / "encoder" / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match=r"reads the knowledge arrays knowledge_arrays/k1 .*--knowledge to predict"):
        Predictor(copied, "cpu")
    arrays = world.store / "knowledge_arrays" / "k1"
    given = Predictor(copied, "cpu", knowledge=arrays).predict(RECORDS["cmedqq"])
    assert given == Predictor(world.tuned("cmedqq"), "cpu").predict(RECORDS["cmedqq"])
    (copied / "names.parquet").unlink()
    with pytest.raises(UserError, match=r"copied has no names\.parquet"):
        Predictor(copied, "cpu", knowledge=arrays)


def test_tuning_a_model_without_its_knowledge_is_refused_before_any_work(world: World, tmp_path: Path) -> None:
    alone = shutil.copytree(world.encoder, tmp_path / "alone")
    config = json.loads((alone / "config.json").read_text())
    config["knowledge_source"]["folder"] = "knowledge"
    (alone / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match=r"--param knowledge=FOLDER"):
        world.tune("cmedic", ModelFolder(alone))
    arrays = world.store / "knowledge_arrays" / "k1"
    given = ModelFolder(alone, knowledge=arrays)
    before = given.fingerprint
    artifact = world.tune("cmedic", given)
    assert Predictor(f"{artifact.path}/model", "cpu").predict(RECORDS["cmedic"])
    (alone / "knowledge").mkdir()
    for file in arrays.iterdir():
        shutil.copyfile(file, alone / "knowledge" / file.name)
    beside = ModelFolder(alone)
    assert beside.fingerprint == before  # the same model, wherever its knowledge is
    assert world.tune("cmedic", beside).fingerprint == artifact.fingerprint


def test_knowledge_for_a_plain_model_is_refused(world: World, tmp_path: Path) -> None:
    plain = toy.save_toy_encoder(tmp_path / "plain")
    with pytest.raises(UserError, match="reads no knowledge: its model_type is 'electra'"):
        world.tune("cmedic", ModelFolder(plain, knowledge=world.store / "knowledge_arrays" / "k1"))


def test_transformers_refuses_the_head_and_loads_the_encoder(world: World) -> None:
    import models.smedbert

    folder = world.tuned("cmedqq")
    with pytest.raises(ValueError, match="yiwen-pair"):
        AutoModelForSequenceClassification.from_pretrained(folder)
    assert isinstance(AutoModel.from_pretrained(folder / "encoder"), models.smedbert.SMedBertModel)
    assert "--knowledge" in (folder / "README.md").read_text(encoding="utf-8")


def test_a_tuned_model_is_a_start_and_random_weights_keep_the_knowledge(world: World) -> None:
    again = world.tune("cmedic", ModelFolder(world.tuned("cmedqq")), epochs=(1,))
    assert open_encoder(f"{again.path}/model").graph is not None  # type: ignore[union-attr]
    fresh = world.tune("cmedic", ModelFolder(world.encoder), epochs=(1,), random_weights=True)
    assert open_encoder(f"{fresh.path}/model").graph is not None  # type: ignore[union-attr]
