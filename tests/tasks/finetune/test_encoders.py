"""Published encoders are fine-tuned and the result is loaded again; folders without an encoder are rejected."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
from transformers import BertConfig, BertForMaskedLM, BertModel, ErnieConfig, ErnieModel, PreTrainedModel

from infra.artifacts import Artifact, ArtifactStore
from infra.errors import UserError
from infra.stage import run
from tasks.downstream.catalogue import task
from tasks.finetune.inputs import ModelFolder, TaskFiles
from tasks.finetune.params import FinetuneParams, Resources
from tasks.finetune.predict import Predictor
from tasks.finetune.stage import finetune
from tests.support.heads import toy_task as toy
from tests.support.text.tokenizers import VOCABULARY, save_ours, save_vocab_txt

torch.set_num_threads(1)

SIZES: dict[str, Any] = {
    "vocab_size": len(VOCABULARY),
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 48,
}


def tune(encoder: Path, folder: Path) -> Artifact:
    params = FinetuneParams(
        task="cmedqq", seeds=(1,), batch_sizes=(8,), learning_rates=(5e-3,), epochs=(1,), resources=Resources()
    )
    data = TaskFiles(task("cmedqq"), toy.save_cmedqq(folder / "data", (16, 8, 8)))
    store = ArtifactStore(folder / "store")
    return run(finetune, store, params, {"model": ModelFolder(encoder), "data": data}).artifact


def save_safetensors(model: PreTrainedModel, folder: Path) -> None:
    model.save_pretrained(folder)


def save_pickle(model: PreTrainedModel, folder: Path) -> None:
    model.config.save_pretrained(folder)
    torch.save(model.state_dict(), folder / "pytorch_model.bin")


def save_old_pickle(model: PreTrainedModel, folder: Path) -> None:
    """Save weights as torch did up to 1.6, when RoBERTa-wwm, MacBERT and MC-BERT were published."""
    model.config.save_pretrained(folder)
    torch.save(model.state_dict(), folder / "pytorch_model.bin", _use_new_zipfile_serialization=False)


def save_tokenizer_json(folder: Path) -> None:
    (save_ours(folder.parent / "tokenizer") / "tokenizer.json").rename(folder / "tokenizer.json")


@pytest.mark.parametrize(
    ("make", "save_weights", "save_tokenizer"),
    [
        (
            lambda: ErnieModel(ErnieConfig(**SIZES, use_task_id=True, type_vocab_size=4)),
            save_safetensors,
            save_vocab_txt,
        ),
        (lambda: BertForMaskedLM(BertConfig(**SIZES)), save_old_pickle, save_vocab_txt),
        (lambda: BertModel(BertConfig(**SIZES)), save_pickle, save_tokenizer_json),
    ],
    ids=["ernie-vocab.txt", "bert-old-pickle-vocab.txt", "bert-pickle-tokenizer.json"],
)
def test_published_encoder_is_tuned_and_the_result_predicts(
    make: Callable[[], PreTrainedModel],
    save_weights: Callable[[PreTrainedModel, Path], None],
    save_tokenizer: Callable[[Path], Any],
    tmp_path: Path,
) -> None:
    encoder = tmp_path / "encoder"
    save_weights(make(), encoder)
    save_tokenizer(encoder)
    artifact = tune(encoder, tmp_path)
    rows = artifact.scan("predictions").filter(pl.col("split") == "dev").collect().to_dicts()
    tuned = artifact.download(tmp_path / "tuned", "model")
    found = Predictor(tuned, device="cpu").predict([row["texts"] for row in rows])
    assert [json.dumps(one.answer) for one in found] == [row["answer"] for row in rows]
    for one, row in zip(found, rows, strict=True):
        assert one.scores == pytest.approx(row["scores"], abs=1e-5)
    again = tune(tuned, tmp_path / "again")  # the export is an encoder itself
    assert again.manifest.counters["trials"] == 1


def without_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.txt").unlink()


def with_vocab(content: bytes) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        without_tokenizer(folder)
        (folder / "vocab.txt").write_bytes(content)

    return damage


def cut(name: str, kept: int) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        (folder / name).write_bytes((folder / name).read_bytes()[:kept])

    return damage


TOKENS = "\n".join(VOCABULARY)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (without_tokenizer, r"neither tokenizer\.json nor vocab\.txt\. Give the folder"),
        (with_vocab(TOKENS.encode("gb18030")), r"vocab\.txt is not in UTF-8: .*Restore the original file"),
        (with_vocab(b""), r"vocab\.txt has no \[UNK\]\. Use BERT's file"),
        (with_vocab(TOKENS.replace("[CLS]", "cls").encode()), r"has no \[CLS\]"),
        (
            with_vocab((TOKENS + "\n龘\n龖\n").encode()),
            "71 tokens and the encoder embeddings for 69. Put the tokeniser",
        ),
        (cut("tokenizer.json", 200), r"tokenizer\.json cannot be read: .*Restore the original file"),
        (
            cut("tokenizer_config.json", 5),
            r"tokenizer_config\.json cannot be read: .*Restore the original file",
        ),
        (cut("config.json", 50), r"config\.json is not JSON: .*Download the model again"),
        (
            cut("model.safetensors", -50),
            r"model\.safetensors is not a readable file of weights: .*Download the model again",
        ),
    ],
)
def test_broken_encoder_is_rejected_before_anything_is_trained(
    damage: Callable[[Path], None], message: str, tmp_path: Path
) -> None:
    encoder = toy.save_toy_encoder(tmp_path / "encoder")
    damage(encoder)
    with pytest.raises(UserError, match=message) as caught:
        tune(encoder, tmp_path)
    assert str(caught.value).startswith(str(encoder))
    assert not list(tmp_path.rglob("result.json"))


def test_error_for_the_folder_around_the_model_suggests_the_model(tmp_path: Path) -> None:
    encoder = toy.save_toy_encoder(tmp_path / "run" / "model")
    with pytest.raises(UserError, match=rf"has no config\.json\. .* Did you mean {encoder}\?"):
        ModelFolder(tmp_path / "run")
