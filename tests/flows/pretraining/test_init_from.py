"""`init_from` of the flow `pretrain`: a run that starts from the weights of another model."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModel, AutoTokenizer, BertConfig, BertForPreTraining, BertModel, BertTokenizer

from flows.cli import main
from flows.pretrain import pretrain
from infra.artifacts import ArtifactStore
from infra.errors import UserError
from models.tokenizer.normal_form import normalise
from models.training.loop import load_state
from tests.support.text.synthetic_text import synthetic_documents, write_corpus
from tests.support.training.tiny_flow import TWO_STEPS

pytestmark = pytest.mark.slow

STILL = TWO_STEPS | {"training.learning_rate": 1e-9, "training.seed": 7}
"""Another seed for other random weights, and a learning rate that hardly changes them."""
LEARNED = {"model.positions": "absolute"}
"""Positions as a BERT has them; those of the tiny presets are rotary."""


def weights(folder: str) -> dict[str, torch.Tensor]:
    return load_file(Path(folder) / "model.safetensors")


@pytest.fixture
def corpus(tmp_path: Path, work_here: None, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("YIWEN_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("YIWEN_WORKERS", "1")
    return str(write_corpus(tmp_path / "corpus"))


def test_a_run_starts_from_the_given_weights(corpus: str) -> None:
    first = pretrain.fn("ehealth-tiny", corpus, overrides=TWO_STEPS)
    resumed = weights(pretrain.fn("ehealth-tiny", corpus, init_from=first, overrides=STILL))
    fresh = weights(pretrain.fn("ehealth-tiny", corpus, vocabulary_file=f"{first}/vocab.txt", overrides=STILL))
    name = "encoder.layer.0.output.dense.weight"
    torch.testing.assert_close(resumed, weights(first), rtol=0, atol=1e-6)
    assert (fresh[name] - weights(first)[name]).abs().max() > 1e-3


@pytest.fixture
def bert(tmp_path: Path) -> Path:
    """A BERT as transformers saves it, with special tokens at the positions of Google's Chinese BERT."""
    text = "".join(document["title"] + document["text"] for document in synthetic_documents())
    characters = sorted({character for character in text.lower() + normalise(text) if not character.isspace()})
    special = ["[PAD]", *(f"[unused{number}]" for number in range(1, 100)), "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokens = [*special, *characters, *(f"##{character}" for character in characters)]
    torch.manual_seed(0)
    sizes = {"num_hidden_layers": 1, "num_attention_heads": 4, "hidden_size": 128, "intermediate_size": 512}
    folder = tmp_path / "chinese-bert"
    BertForPreTraining(BertConfig(vocab_size=len(tokens), max_position_embeddings=128, **sizes)).save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(tokens) + "\n", encoding="utf-8")
    return folder


def test_a_checkpoint_with_the_vocabulary_of_a_bert_is_exported(corpus: str, bert: Path, tmp_path: Path) -> None:
    whole = Path(pretrain.fn("ehealth-tiny", corpus, init_from=str(bert), overrides=STILL | LEARNED))
    run = ArtifactStore(tmp_path / "home").latest("train")
    assert run is not None
    folder = tmp_path / "exported"
    assert main(["export", "--run", str(run.path), "--output", str(folder)]) == 0
    for name in ("model.safetensors", "config.json", "vocab.txt", "tokenizer.json", "tokenizer_config.json"):
        assert (folder / name).read_bytes() == (whole / name).read_bytes(), name
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "from the weights of `chinese-bert`" in card and str(tmp_path) not in card
    # Hardly trained, it is still that BERT, although its tokens have other numbers.
    ours, theirs = AutoTokenizer.from_pretrained(folder), BertTokenizer.from_pretrained(bert)
    sentence = "糖尿病患者常出现乏力 HIV阴性"
    encoded, expected = (tokenizer(sentence, return_tensors="pt") for tokenizer in (ours, theirs))
    tokens = [
        tokenizer.convert_ids_to_tokens(ids["input_ids"][0]) for tokenizer, ids in ((ours, encoded), (theirs, expected))
    ]
    assert tokens[0] == tokens[1] and "[UNK]" not in tokens[0]
    with torch.no_grad():
        found = AutoModel.from_pretrained(folder).eval()(**encoded).last_hidden_state
        known = BertModel.from_pretrained(bert).eval()(**expected).last_hidden_state
    torch.testing.assert_close(found, known, rtol=1e-4, atol=1e-4)


def test_cmed_bert_starts_with_the_weights_and_heads_of_a_bert(corpus: str, bert: Path, tmp_path: Path) -> None:
    """The paper's recipe at the size of that BERT; its position table of 128 rows is as long as the pairs here."""
    sizes = {"hidden_size": 128, "num_layers": 1, "num_heads": 4, "intermediate_size": 512, "max_positions": 128}
    small = {f"model.{key}": size for key, size in sizes.items()} | {"pairs.copies": 1, "segment.max_tokens": 41}
    folder = pretrain.fn("cmed-bert", corpus, init_from=str(bert), overrides=STILL | small)
    run = ArtifactStore(tmp_path / "home").latest("train")
    assert run is not None
    state = load_state(run.path)["model"]
    theirs = BertForPreTraining.from_pretrained(bert).state_dict()
    for ours, name in (
        ("pooler.weight", "bert.pooler.dense.weight"),
        ("pair_output.weight", "cls.seq_relationship.weight"),
        ("head.transform.weight", "cls.predictions.transform.dense.weight"),
    ):
        torch.testing.assert_close(state[ours], theirs[name], rtol=0, atol=1e-6)
    exported = BertModel.from_pretrained(folder).eval()
    sentence = AutoTokenizer.from_pretrained(folder)("糖尿病患者", "常出现乏力", return_tensors="pt")
    known = BertTokenizer.from_pretrained(bert)("糖尿病患者", "常出现乏力", return_tensors="pt")
    with torch.no_grad():
        found, expected = exported(**sentence), BertModel.from_pretrained(bert).eval()(**known)
    torch.testing.assert_close(found.pooler_output, expected.pooler_output, rtol=1e-4, atol=1e-4)


def test_missing_model_or_vocabulary_is_reported_before_any_work(corpus: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"There is no folder .*--param init_from=FOLDER"):
        pretrain.fn("ehealth-tiny", corpus, init_from=str(tmp_path / "absent"), overrides=TWO_STEPS)
    with pytest.raises(UserError, match=r"has no config\.json"):
        pretrain.fn("ehealth-tiny", corpus, init_from=str(tmp_path), overrides=TWO_STEPS)
    (tmp_path / "config.json").write_text('{"model_type": "bert"}', encoding="utf-8")
    missing = rf"init_from: {re.escape(str(tmp_path))} has no vocab\.txt.*--param vocabulary_file=FILE"
    with pytest.raises(UserError, match=missing):
        pretrain.fn("ehealth-tiny", corpus, init_from=str(tmp_path), overrides=TWO_STEPS)
    assert not (tmp_path / "home").exists()


def test_unfitting_weights_are_reported_before_any_work(corpus: str, bert: Path, tmp_path: Path) -> None:
    """A worker would fail only after hours of encoding."""
    fitting = TWO_STEPS | LEARNED
    with pytest.raises(UserError, match=r"other sizes than the model to be trained\. Set model\.num_layers = 1"):
        pretrain.fn("ehealth-tiny", corpus, init_from=str(bert), overrides=fitting | {"model.num_layers": 2})
    with pytest.raises(
        UserError, match=r"other sizes than the model to be trained\. Set model\.positions = 'absolute'"
    ):
        pretrain.fn("ehealth-tiny", corpus, init_from=str(bert), overrides=TWO_STEPS)
    other = tmp_path / "vocab.txt"
    other.write_text((bert / "vocab.txt").read_text(encoding="utf-8") + "肺炎\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"not the vocabulary in use: 1 \('肺炎'\) only in use"):
        pretrain.fn("ehealth-tiny", corpus, init_from=str(bert), vocabulary_file=str(other), overrides=fitting)
    (bert / "model.safetensors").unlink()
    with pytest.raises(UserError, match=r"has neither model\.safetensors nor pytorch_model\.bin"):
        pretrain.fn("ehealth-tiny", corpus, init_from=str(bert), overrides=fitting)
    assert not (tmp_path / "home").exists()
