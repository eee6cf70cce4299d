"""All stages after one another on a small synthetic corpus, as the flow calls them: learn, export, load, reuse."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from flows.cli import main
from flows.pretrain import pretrain
from infra.artifacts import ArtifactStore
from infra.errors import UserError
from tests.support.text.synthetic_text import synthetic_documents, write_corpus

pytestmark = pytest.mark.ray

OVERRIDES = {
    "vocabulary.size": 2000,
    "segment.min_tokens": 8,
    "encode.held_out_share": 0.2,
    "training.steps": 6,
    "training.warmup_steps": 1,
    "training.batch_size": 8,
    "training.log_every": 2,
    "training.evaluate_every": 2,
    "training.checkpoint_every": 2,
    "training.held_out_batches": 2,
    "model.num_layers": 1,
    "cluster.keep_best": 2,
    "cluster.cpus_per_worker": 1,
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("texts") / "corpus")


@pytest.fixture
def environment(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("YIWEN_HOME", str(home))
    monkeypatch.setenv("YIWEN_WORKERS", "1")


@pytest.fixture
def model(environment: None, corpus: Path) -> Path:
    # Without Prefect's engine: the flow's own function, the stages in this process.
    return Path(pretrain.fn("ehealth-tiny", str(corpus), overrides=OVERRIDES))


def test_exported_folder_loads_without_remote_code(model: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(model)
    loaded, info = AutoModel.from_pretrained(model, output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"] and not info["mismatched_keys"]
    inputs = tokenizer(["糖尿病患者常出现乏力", "HIV阴性"], padding=True, return_tensors="pt")
    with torch.no_grad():
        hidden = loaded(**inputs).last_hidden_state
    assert hidden.shape == (*inputs["input_ids"].shape, 128)
    assert bool(hidden.isfinite().all())
    lines = (model / "vocab.txt").read_text(encoding="utf-8").splitlines()
    assert [tokenizer.convert_ids_to_tokens(i) for i in range(len(lines))] == lines
    assert lines[:5] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert loaded.config.vocab_size == len(lines)


def test_model_card_is_written_from_the_run(model: Path, home: Path) -> None:
    card = (model / "README.md").read_text(encoding="utf-8")
    store = ArtifactStore(home)
    checkpoint = store.latest("train")
    assert checkpoint is not None
    rows = checkpoint.to_table("metrics").to_pylist()
    csp = next(row["value"] for row in rows if row["name"] == "csp_accuracy" and row["step"] == 6)
    assert f"| csp accuracy | {csp:.4f} |" in card
    assert "6 steps of 8 sequences" in card
    assert "templated" not in card  # the text was the user's
    assert "| ingest | 100 documents" in card
    assert (model / "curves.png").stat().st_size > 1000


def test_a_checkpoint_of_a_run_can_be_exported(
    model: Path, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = ArtifactStore(home).latest("train")
    assert checkpoint is not None
    last, other = tmp_path / "last", tmp_path / "other"
    assert main(["export", "--run", str(checkpoint.path), "--output", str(last)]) == 0
    assert (last / "model.safetensors").read_bytes() == (model / "model.safetensors").read_bytes()
    assert (last / "vocab.txt").read_bytes() == (model / "vocab.txt").read_bytes()
    kept = sorted(int(folder.name.removeprefix("step-")) for folder in (checkpoint.path / "checkpoints").iterdir())
    assert kept and set(kept) <= {2, 4}  # one of the best two is not the last
    assert main(["export", "--run", str(checkpoint.path), "--output", str(other), "--step", str(kept[0])]) == 0
    assert f"{kept[0]} steps of 6, an intermediate state" in (other / "README.md").read_text(encoding="utf-8")
    assert AutoModel.from_pretrained(other).config.vocab_size == AutoModel.from_pretrained(model).config.vocab_size
    assert main(["export", "--run", str(checkpoint.path), "--output", str(other)]) == 2
    assert "not empty" in capsys.readouterr().err
    assert main(["export", "--run", str(checkpoint.path), "--output", str(tmp_path / "no"), "--step", "5"]) == 2
    assert (
        f"no checkpoint of step 5. Steps with a checkpoint: {', '.join(map(str, kept))}, 6" in capsys.readouterr().err
    )


def test_a_second_run_finds_everything_done(model: Path, home: Path, corpus: Path, environment: None) -> None:
    before = {(a.stage, a.fingerprint, a.manifest.created_at) for a in ArtifactStore(home).list()}
    assert Path(pretrain.fn("ehealth-tiny", str(corpus), overrides=OVERRIDES)) == model
    assert {(a.stage, a.fingerprint, a.manifest.created_at) for a in ArtifactStore(home).list()} == before


def test_examples_say_what_the_text_says(model: Path, home: Path) -> None:
    store = ArtifactStore(home)
    examples, segments, vocabulary = (store.latest(name) for name in ("encode", "segment", "vocabulary"))
    assert examples is not None and segments is not None and vocabulary is not None
    tokenizer = AutoTokenizer.from_pretrained(model)
    texts: dict[str, list[str]] = {}
    for row in segments.to_table().to_pylist():
        texts.setdefault(row["doc_id"], []).append(row["text"])
    for table in ("examples", "held_out"):
        for row in examples.to_table(table).to_pylist()[:50]:
            assert row["input_ids"] in tokenizer(texts[row["doc_id"]])["input_ids"]
            starts = np.array(row["word_starts"])
            assert (np.diff(starts) > 0).all() and starts[0] == 1 and starts[-1] < len(row["input_ids"]) - 1
    train, held_out = (set(examples.scan(t).collect()["doc_id"]) for t in ("examples", "held_out"))
    assert train and held_out and not train & held_out
    assert len(train | held_out) == len(synthetic_documents())


def test_too_little_text_is_told(environment: None, tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("糖尿病患者应控制血糖。" * 8, encoding="utf-8")
    with pytest.raises(UserError, match="Give more text"):
        pretrain.fn("ehealth-tiny", str(tmp_path / "one.txt"), overrides=OVERRIDES)


def test_missing_corpus_is_told(environment: None, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nowhere.*(Give|give)"):
        pretrain.fn("ehealth-tiny", str(tmp_path / "nowhere"), overrides=OVERRIDES)
