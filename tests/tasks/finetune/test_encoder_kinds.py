"""Fine-tuning from encoders of other kinds: from their folder to scores, predictions and a new start."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch

from infra.artifacts import Artifact, ArtifactStore
from infra.errors import UserError
from infra.stage import run
from models.encoder.network import Encoder
from models.heads.encoders import TaskEncoder
from tasks.downstream.catalogue import task
from tasks.finetune.inputs import ModelFolder, TaskFiles
from tasks.finetune.params import FinetuneParams, Resources
from tasks.finetune.predict import Predictor
from tasks.finetune.stage import finetune
from tests.support.heads import toy_task as toy
from tests.support.heads.other_encoders import MentionEncoder, VectorEncoder, register
from tests.support.text.tokenizers import VOCABULARY, save_ours

torch.set_num_threads(1)


def vectors() -> TaskEncoder:
    torch.manual_seed(0)
    return VectorEncoder(torch.randn(len(VOCABULARY), 24), 32)


def mentions() -> TaskEncoder:
    torch.manual_seed(0)
    names = [[VOCABULARY.index(character) for character in name] for name in (*toy.SYMPTOMS, *toy.DISEASES)]
    return MentionEncoder(Encoder(toy.encoder_config()), names)


ENCODERS: dict[str, Callable[[], TaskEncoder]] = {"vectors": vectors, "mentions": mentions}


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch)


def save(folder: Path, kind: str) -> Path:
    ENCODERS[kind]().save(folder)
    return save_ours(folder)


def tune(encoder: Path, folder: Path, **change: Any) -> Artifact:
    settings = {"seeds": (1,), "batch_sizes": (8,), "learning_rates": (1e-2,), "epochs": (8,)}
    params = FinetuneParams(task="cmedqq", resources=Resources(trials_at_once=1), **settings | change)
    data = TaskFiles(task("cmedqq"), toy.save_cmedqq(folder / "data"))
    return run(
        finetune, ArtifactStore(folder / "store"), params, {"model": ModelFolder(encoder), "data": data}
    ).artifact


@pytest.mark.parametrize("kind", ENCODERS)
def test_kind_is_tuned_scored_and_predicts(kind: str, tmp_path: Path) -> None:
    artifact = tune(save(tmp_path / "encoder", kind), tmp_path)
    best = (pl.col("of") == "best run") & pl.col("main") & (pl.col("split") == "test")
    assert artifact.scan("scores").filter(best).collect()["value"][0] > 0.9
    rows = artifact.scan("predictions").filter(pl.col("split") == "dev").collect().to_dicts()
    tuned = artifact.download(tmp_path / "tuned", "model")
    found = Predictor(tuned, device="cpu").predict([row["texts"] for row in rows])
    assert [json.dumps(one.answer) for one in found] == [row["answer"] for row in rows]
    assert "refuses the folder by its `model_type`" in (tuned / "README.md").read_text(encoding="utf-8")
    again = tune(tuned, tmp_path / "again", epochs=(1,))
    assert again.manifest.counters["trials"] == 1


def test_every_file_of_another_kind_counts(tmp_path: Path) -> None:
    folder = save(tmp_path / "encoder", "mentions")
    before = ModelFolder(folder).fingerprint
    (folder / "README.md").write_text("A card.")
    assert ModelFolder(folder).fingerprint == before
    (folder / "graph").mkdir()
    (folder / "graph" / "names.npy").write_bytes(b"1")
    with_graph = ModelFolder(folder).fingerprint
    (folder / "graph" / "names.npy").write_bytes(b"2")
    assert len({before, with_graph, ModelFolder(folder).fingerprint}) == 3


def test_random_weights_are_those_of_the_kind_or_refused(tmp_path: Path) -> None:
    artifact = tune(save(tmp_path / "mentions", "mentions"), tmp_path / "m", random_weights=True, epochs=(1,))
    assert artifact.manifest.counters["trials"] == 1
    with pytest.raises(UserError, match="cannot start from fresh weights"):
        tune(save(tmp_path / "vectors", "vectors"), tmp_path / "v", random_weights=True, epochs=(1,))
