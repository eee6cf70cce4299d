"""Fine-tuning networks: from tables and frozen encoders to answers in a fresh process. No text here is real."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import polars as pl
import pytest
import torch
from tokenizers import Tokenizer

from infra.artifacts import Artifact, ArtifactStore
from infra.errors import UserError
from infra.settings import REPOSITORY
from infra.stage import StageInput, run
from models.encoder.network import Encoder
from models.heads.embedding_table import load_table
from models.heads.frozen import FrozenStates
from models.word_vectors import WordVectors
from tasks.downstream.catalogue import task
from tasks.downstream.features.alignment import TextTokenizer
from tasks.finetune.inputs import ModelFolder, TaskFiles
from tasks.finetune.networks import networks
from tasks.finetune.params import FinetuneParams, NetworksParams, Resources
from tasks.finetune.saved_model import load_task_model
from tasks.finetune.sources import states as states_module
from tasks.finetune.sources.params import BareParams, StatesParams, VectorTableParams
from tasks.finetune.sources.states import encoder_states
from tasks.finetune.sources.tables import bare_embeddings, vector_table
from tasks.finetune.sources.tokenizer import word_tokenizer
from tasks.finetune.sources.vector_file import VectorFile
from tasks.finetune.stage import finetune
from tests.support.heads import toy_task as toy

torch.set_num_threads(1)

CLASSES, TAGS = "cmed-classification", "ccks2019-ner"


def classified(count: int, seed: int) -> str:
    draw = random.Random(seed)
    words = {"symptom": toy.SYMPTOMS, "cause": toy.DISEASES}
    labels = ["symptom", "cause"] * (count // 2)
    return "".join(f"{label}\t患者{draw.choice(words[label])}{draw.choice(toy.FILLERS)}\n" for label in labels)


def tagged(count: int, seed: int) -> str:
    rows = []
    for row in toy.tagged(count, seed):
        found = [e for e in row["entities"] if e["type"] == "dis"]
        entities = [{"start_pos": e["start_idx"], "end_pos": e["end_idx"] + 1, "label_type": "疾病"} for e in found]
        rows.append(json.dumps({"originalText": row["text"], "entities": entities}, ensure_ascii=False))
    return "\n".join(rows)


@dataclass(frozen=True)
class World:
    folder: Path
    store: ArtifactStore
    encoder: ModelFolder

    def data(self, name: str) -> TaskFiles:
        return TaskFiles(task(name), self.folder / name)

    def run(
        self, name: str, model: ModelFolder, network: str, states: Artifact | None = None, **change: Any
    ) -> Artifact:
        settings: dict[str, Any] = {"seeds": (1,), "batch_sizes": (16,), "learning_rates": (1e-2,), "epochs": (8,)}
        params = FinetuneParams(
            task=name, network=network, resources=Resources(trials_at_once=1), **(settings | change)
        )
        inputs: dict[str, StageInput] = {"model": model, "data": self.data(name)}
        return run(finetune, self.store, params, inputs | ({} if states is None else {"states": states})).artifact


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("world")
    for name, make, ending in ((CLASSES, classified, "tsv"), (TAGS, tagged, "json")):
        (folder / name).mkdir()
        for seed, (split, size) in enumerate((("train", 48), ("dev", 16), ("test", 12))):
            (folder / name / f"{split}.{ending}").write_text(make(size, seed), encoding="utf-8")
    return World(folder, ArtifactStore(folder / "store"), ModelFolder(toy.save_toy_encoder(folder / "encoder")))


def vectors(folder: Path, words: list[str], name: str = "vectors.txt") -> VectorFile:
    matrix = np.random.default_rng(0).normal(size=(len(words), 20)).astype(np.float32)
    WordVectors(words, matrix).write(folder / name)
    return VectorFile(folder / name)


@pytest.fixture(scope="module")
def by_word(world: World) -> ModelFolder:
    words = [*toy.SYMPTOMS, *toy.DISEASES, *"患者有的是不怎么办检查高血压糖尿病头痛"]
    given = {"vectors": vectors(world.folder, list(dict.fromkeys(words)))}
    return ModelFolder(run(vector_table, world.store, VectorTableParams(by_word=True), given).artifact.path / "model")


@pytest.fixture(scope="module")
def bare(world: World) -> ModelFolder:
    made = run(bare_embeddings, world.store, BareParams(task=CLASSES, width=16), {"data": world.data(CLASSES)})
    return ModelFolder(made.artifact.path / "model")


@pytest.fixture(scope="module")
def states(world: World) -> Artifact:
    inputs = {"model": world.encoder, "data": world.data(CLASSES)}
    return run(encoder_states, world.store, StatesParams(task=CLASSES), inputs).artifact


def main_score(artifact: Artifact, split: str = "test") -> float:
    best = (pl.col("of") == "best run") & pl.col("main") & (pl.col("split") == split)
    return float(artifact.scan("scores").filter(best).collect()["value"][0])


def test_bare_embeddings_learn_and_answer_in_a_fresh_process(world: World, bare: ModelFolder, tmp_path: Path) -> None:
    artifact = world.run(CLASSES, bare, "cnn")
    assert main_score(artifact) > 0.9
    rows = artifact.scan("predictions").filter(pl.col("split") == "test").collect().to_dicts()
    tuned = artifact.download(tmp_path / "tuned", "model")
    program = (
        "import json, sys; from tasks.finetune.predict import Predictor; import torch; torch.set_num_threads(1)\n"
        "texts = json.load(sys.stdin); found = Predictor(sys.argv[1], device='cpu').predict(texts)\n"
        "print(json.dumps([one.answer for one in found]))"
    )
    asked = json.dumps([row["texts"][0] for row in rows])
    done = subprocess.run(
        [sys.executable, "-c", program, str(tuned)], input=asked, capture_output=True, text=True, cwd=REPOSITORY
    )
    assert done.returncode == 0, done.stderr
    assert [json.dumps(answer) for answer in json.loads(done.stdout)] == [row["answer"] for row in rows]
    assert {path.suffix for path in tuned.rglob("*") if path.is_file()} == {".safetensors", ".json", ".md"}


def test_words_vectors_tag_each_character(world: World, by_word: ModelFolder, tmp_path: Path) -> None:
    artifact = world.run(TAGS, by_word, "bilstm_crf", epochs=(4,))
    assert main_score(artifact) > 0.8
    saved = load_task_model(artifact.download(tmp_path / "tuned", "model"))
    (tokens,) = saved.tokenizer.characters(["有高血压 头痛"])
    assert len(set(tokens.ids[1:4])) == 1 == len(set(tokens.ids[4:6]))
    assert tokens.starts.tolist() == [0, 1, 2, 3, 5, 6] and tokens.ends.tolist() == [1, 2, 3, 4, 6, 7]


def test_frozen_states_are_computed_once_and_change_no_answer(
    world: World, states: Artifact, caplog: pytest.LogCaptureFixture
) -> None:
    inputs = {"model": world.encoder, "data": world.data(CLASSES)}
    assert run(encoder_states, world.store, StatesParams(task=CLASSES), inputs).reused
    with patch.object(Encoder, "states", side_effect=AssertionError("computed again")):
        cached = world.run(CLASSES, world.encoder, "cnn", states)
    assert main_score(cached) > 0.9
    without = world.run(CLASSES, world.encoder, "cnn")
    assert "dropout" not in caplog.text  # nothing is trained in the encoder that could overfit
    answers = [one.scan("predictions").select("answer", "scores").collect() for one in (cached, without)]
    assert answers[0]["answer"].equals(answers[1]["answer"])
    scores = [np.array(one["scores"].to_list()) for one in answers]
    np.testing.assert_allclose(scores[0], scores[1], atol=1e-3)


def test_killed_states_resume_after_the_last_batch(world: World, states: Artifact, tmp_path: Path) -> None:
    inputs = {"model": world.encoder, "data": world.data(CLASSES)}
    store, batches = ArtifactStore(tmp_path / "store"), []
    whole = FrozenStates.states

    def killed(self: FrozenStates, batch: Any, noise: Any) -> torch.Tensor:
        batches.append(batch)
        if len(batches) == 3:
            raise KeyboardInterrupt
        return whole(self, batch, noise)

    with patch.dict(states_module.BATCH_TOKENS, {"cpu": 80}), patch.object(FrozenStates, "states", killed):
        with pytest.raises(KeyboardInterrupt):
            run(encoder_states, store, StatesParams(task=CLASSES), inputs)
        done = run(encoder_states, store, StatesParams(task=CLASSES), inputs).artifact
    found, wanted = (np.load(one.path / "states.npy").astype(np.float32) for one in (done, states))
    np.testing.assert_allclose(found, wanted, atol=2e-2)
    assert len({id(batch) for batch in batches}) == len(batches)
    assert done.manifest.counters == states.manifest.counters


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"network": "cn"}, "no network 'cn' of kind 'classify'; did you mean cnn"),
        ({"network": "bilstm_crf"}, "no network 'bilstm_crf' of kind 'classify'"),
        ({"network": "cnn", "crf": True}, "Networks have a CRF of their own"),
        ({"network": "cnn", "random_weights": True, "states": True}, "Only a network over a frozen encoder"),
    ],
)
def test_impossible_settings_are_explained(
    world: World, states: Artifact, change: dict[str, Any], message: str
) -> None:
    given = states if change.pop("states", False) else None
    with pytest.raises(UserError, match=message):
        world.run(CLASSES, world.encoder, states=given, **change)


def test_a_table_without_a_network_is_refused(world: World, bare: ModelFolder) -> None:
    inputs = {"model": bare, "data": world.data(CLASSES)}
    with pytest.raises(UserError, match="vectors of tokens know no context; give a network"):
        run(finetune, world.store, FinetuneParams(task=CLASSES), inputs)


def test_the_grid_of_networks_is_the_paper_s() -> None:
    params = FinetuneParams(task=CLASSES, network="cnn")
    runs = params.runs(task(CLASSES))
    assert [(one["batch_size"], one["epochs"], one["options"]["patience"]) for one in runs] == [(64, 100, 10)] * 3
    assert FinetuneParams(task=CLASSES, network="cnn", patience=3).runs(task(CLASSES))[0]["options"]["patience"] == 3
    assert FinetuneParams(task=CLASSES).runs(task(CLASSES))[0]["options"]["patience"] is None


def test_params_without_a_network_keep_their_fingerprint() -> None:
    assert "network" not in FinetuneParams(task=CLASSES).model_dump(mode="json")
    assert FinetuneParams(task=CLASSES, network="cnn").model_dump(mode="json")["network"] == "cnn"


def tokens_of(tokenizer: Tokenizer, text: str) -> list[str]:
    return [text[slice(*span)] for span in tokenizer.encode(text, add_special_tokens=False).offsets]


def test_texts_are_cut_into_the_most_probable_words() -> None:
    tokenizer = word_tokenizer(["的", "高血压", "病史", "高", "血压", "ct"])
    assert tokens_of(tokenizer, "高血压病史 的CT㏄高") == ["高血压", "病史", "的", "CT", "㏄", "高"]
    cased = word_tokenizer(["CT", "㏄", "高"])
    assert [tokenizer.token_to_id("高"), cased.token_to_id("CT")] == [8, 5]
    assert [cased.encode(text, add_special_tokens=False).ids for text in ("ct", "㏄")] == [[1], [6]]


def test_words_without_vectors_get_the_mean_one(world: World, by_word: ModelFolder) -> None:
    tokenizer = TextTokenizer.from_folder(by_word.path)
    (tokens,) = tokenizer.words(["龘齉"])
    assert set(tokens.ids.tolist()) == {1}
    table = load_table_of(by_word)
    torch.testing.assert_close(table[1], table[5:].mean(0))
    assert not table[[0, 2, 3, 4]].any()


def test_a_capital_without_a_vector_is_read_as_its_small_letter() -> None:
    # CT makes the table cased, and a has a vector where A has none.
    (tokens,) = TextTokenizer(word_tokenizer(["CT", "a", "的"])).characters(["A的B"])
    assert tokens.ids.tolist() == [6, 7, 1]


def test_tokens_without_a_vector_are_counted_by_split(world: World, tmp_path: Path) -> None:
    texts = {"train": ("甲乙丙", "乙乙"), "dev": ("甲丁",), "test": ("丁丁 甲戊戊",)}
    for split, own in texts.items():
        lines = "".join(f"{number}\t{text}\n" for number, text in enumerate(own))
        (tmp_path / f"{split}.tsv").write_text(lines, encoding="utf-8")
    data = TaskFiles(task(CLASSES), tmp_path)

    def counted(words: list[str]) -> dict[str, int]:
        given = {"vectors": vectors(tmp_path, words)}
        table = run(vector_table, world.store, VectorTableParams(by_word=False), given).artifact
        params = NetworksParams(
            task=CLASSES, networks=("cnn",), seeds=(1,), epochs=(1,), resources=Resources(trials_at_once=1)
        )
        inputs: dict[str, StageInput] = {"model": ModelFolder(table.path / "model"), "data": data}
        counters = run(networks, world.store, params, inputs).artifact.manifest.counters
        return {name: count for name, count in counters.items() if name.startswith("tokens")}

    assert counted(["甲", "乙"]) == {
        "tokens_train": 5,
        "tokens_without_vector_train": 1,
        "tokens_dev": 2,
        "tokens_without_vector_dev": 1,
        "tokens_test": 3,  # neighbours without a vector are one token: 丁丁 甲 戊戊
        "tokens_without_vector_test": 2,
    }
    with pytest.raises(UserError, match=r"model: 2 of the 2 tokens of .* have no vector\. Give vectors that"):
        counted(["the", "of"])


def load_table_of(model: ModelFolder) -> torch.Tensor:
    return load_table(model.path).table


def test_unusable_vectors_are_explained(world: World, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"There are no word vectors in .*Give a file in word2vec"):
        VectorFile(tmp_path / "none.txt")
    empty = {"vectors": vectors(tmp_path, ["[CLS]"])}
    with pytest.raises(UserError, match=r"vectors\.txt has no words"):
        run(vector_table, world.store, VectorTableParams(by_word=True), empty)


def test_only_the_most_frequent_words_are_kept(world: World, tmp_path: Path) -> None:
    given = {"vectors": vectors(tmp_path, ["高", "血压", "病史"])}
    made = run(vector_table, world.store, VectorTableParams(by_word=False, words=2), given).artifact
    assert made.manifest.counters["words"] == 2 and len(load_table_of(ModelFolder(made.path / "model"))) == 7


def test_a_class_with_one_example_is_learnt_with_the_others(world: World, bare: ModelFolder, tmp_path: Path) -> None:
    for name in ("train", "dev", "test"):
        text = (world.folder / CLASSES / f"{name}.tsv").read_text(encoding="utf-8")
        (tmp_path / f"{name}.tsv").write_text(text + ("rare\t检\n" if name == "train" else ""), encoding="utf-8")
    data = TaskFiles(task(CLASSES), tmp_path)
    params = FinetuneParams(
        task=CLASSES, network="avcnn", seeds=(1,), epochs=(2,), resources=Resources(trials_at_once=1)
    )
    artifact = run(finetune, world.store, params, {"model": bare, "data": data}).artifact
    assert load_task_model(artifact.path / "model").shape.labels == ("cause", "rare", "symptom")
