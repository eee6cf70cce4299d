"""CMed-BERT from raw text to a folder: pairs are made and trained on, and transformers reads the heads too."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModel, BertForPreTraining

from flows.pretrain import pretrain
from infra.artifacts import ArtifactStore
from infra.errors import UserError
from models import objectives
from models.export import save_pretrained
from models.training.columns import read_rows
from models.training.loop import CHECKPOINT_FILE, load_state
from tasks.training.run_spec import RunSpec
from tests.support.newest import latest
from tests.support.text.synthetic_text import write_corpus

pytestmark = pytest.mark.slow

OVERRIDES: dict[str, Any] = {
    "vocabulary.size": 2000,
    "encode.held_out_share": 0.2,
    "model.num_layers": 1,
    "training.steps": 4,
    "training.warmup_steps": 1,
    "training.batch_size": 8,
    "cluster.cpus_per_worker": 1,
    "cluster.workers": 0,
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_corpus(tmp_path_factory.mktemp("texts") / "corpus"))


@pytest.fixture
def store(tmp_path: Path, work_here: None, monkeypatch: pytest.MonkeyPatch) -> ArtifactStore:
    monkeypatch.setenv("YIWEN_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("YIWEN_WORKERS", "1")
    return ArtifactStore(tmp_path / "home")


def trained(store: ArtifactStore) -> Any:
    """The objective with its weights at the end of the run."""
    run = latest(store, "train")
    spec = RunSpec.model_validate_json(run.read_file("run.json"))
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / CHECKPOINT_FILE).write_bytes(run.read_file(CHECKPOINT_FILE))
        state = load_state(Path(folder))
    objective = objectives.build(spec.objective, spec.model)
    objective.load_state_dict(state["model"])
    return objective.eval()


def test_tiny_is_trained_on_pairs(store: ArtifactStore, corpus: str) -> None:
    folder = pretrain.fn("cmed-bert-tiny", corpus, overrides=OVERRIDES)
    AutoModel.from_pretrained(folder)
    made, run = latest(store, "pairs"), latest(store, "train")
    assert run.manifest.inputs["pairs"].fingerprint == made.fingerprint
    rows = made.to_table("pairs").to_pylist()
    assert max(len(row["input_ids"]) for row in rows) <= 128
    assert np.mean([row["is_random"] for row in rows]) == pytest.approx(0.5, abs=0.15)
    figures = {row["name"]: row["value"] for row in run.to_table("metrics").to_pylist() if row["split"] == "held_out"}
    assert {"mlm_loss", "mlm_accuracy", "nsp_loss", "nsp_accuracy"} <= figures.keys()


def test_transformers_gives_the_outputs_of_both_heads(store: ArtifactStore, corpus: str, tmp_path: Path) -> None:
    """With the paper's positions: RoFormer, the layout of rotary ones, has no such class."""
    folder = pretrain.fn("cmed-bert-tiny", corpus, overrides=OVERRIDES | {"model.positions": "absolute"})
    objective = trained(store)
    rows = read_rows(latest(store, "pairs").to_table("held_out_pairs"), objective.columns)[:1]
    batch = objective.collate(rows, seed=1, step=0)
    save_pretrained(objective, tmp_path / "whole", "pre_training")
    theirs = BertForPreTraining.from_pretrained(tmp_path / "whole").eval()
    with torch.no_grad():
        found = theirs(batch.input_ids[None], token_type_ids=batch.type_ids[None])
        ours = objective(batch)
        states = AutoModel.from_pretrained(folder).eval()(batch.input_ids[None], token_type_ids=batch.type_ids[None])
        expected = objective.encoder(batch.input_ids, batch.layout, batch.type_ids)
    restored = torch.nn.functional.cross_entropy(found.prediction_logits[0, batch.selected], batch.original)
    judged = torch.nn.functional.cross_entropy(found.seq_relationship_logits, batch.extras["pair_labels"])
    torch.testing.assert_close((ours["mlm"], ours["nsp"]), (restored, judged), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(states.last_hidden_state[0], expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(states.pooler_output, torch.tanh(objective.pooler(expected[:1])), rtol=1e-5, atol=1e-5)


def test_documents_of_one_short_segment_are_refused_before_training(store: ArtifactStore, tmp_path: Path) -> None:
    texts = [f"患者{number}号出现头痛{number}天。" for number in range(200)]
    notes = tmp_path / "notes.jsonl"
    notes.write_text("\n".join(json.dumps({"text": text}) for text in texts), encoding="utf-8")
    given = OVERRIDES | {"segment.min_tokens": 5, "deduplicate.threshold": None, "vocabulary.min_frequency": 1}
    with pytest.raises(UserError, match=r"no sentence pairs to train on\..* Give longer documents, lower segment"):
        pretrain.fn("cmed-bert-tiny", str(notes), overrides=given)
    assert store.latest("encode") is not None and store.latest("train") is None


def test_sentence_order_needs_no_random_pairs(store: ArtifactStore, corpus: str) -> None:
    pretrain.fn("cmed-bert-tiny", corpus, overrides=OVERRIDES | {"model.pair_task": "sop"})
    assert not any(latest(store, "pairs").to_table("pairs")["is_random"].to_pylist())


def test_without_a_pair_task_no_pairs_are_made(store: ArtifactStore, corpus: str) -> None:
    pretrain.fn("cmed-bert-tiny", corpus, overrides=OVERRIDES | {"model.pair_task": "none"})
    assert store.latest("pairs") is None
