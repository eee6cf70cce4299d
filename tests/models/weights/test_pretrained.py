"""Folders by transformers, and others written by hand, become our encoder; unsuitable ones are refused by name."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import (
    AutoModel,
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    BertModel,
    ElectraConfig,
    ElectraForMaskedLM,
    ElectraForPreTraining,
    ElectraModel,
    ErnieConfig,
    ErnieForMaskedLM,
    ErnieModel,
)

from infra.errors import UserError
from models.encoder.config import EncoderConfig
from models.encoder.layout import Layout
from models.weights.pretrained import load_encoder, random_encoder, save_encoder

BERT: dict[str, Any] = {
    "vocab_size": 50,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 20,
}
ELECTRA = BERT | {"embedding_size": 8}
ERNIE = BERT | {"use_task_id": True, "type_vocab_size": 4}
IDS = torch.tensor([2, 7, 9, 30, 3])


def output_of(folder: Path) -> Tensor:
    encoder = load_encoder(folder).eval()
    return encoder(IDS, Layout.from_lengths([5]), torch.tensor([0, 0, 0, 1, 1]))


def expected_of(model: Any) -> Tensor:
    body = model.eval().base_model
    return body(input_ids=IDS[None], token_type_ids=torch.tensor([[0, 0, 0, 1, 1]]))[0][0]


@pytest.mark.parametrize(
    "make",
    [
        lambda: BertModel(BertConfig(**BERT)),
        lambda: BertForSequenceClassification(BertConfig(**BERT)),
        lambda: BertForMaskedLM(BertConfig(**BERT)),
        lambda: ElectraModel(ElectraConfig(**ELECTRA)),
        lambda: ElectraForPreTraining(ElectraConfig(**ELECTRA)),
        lambda: ErnieModel(ErnieConfig(**BERT)),
        lambda: ErnieForMaskedLM(ErnieConfig(**ERNIE)),
    ],
)
def test_transformers_folder_gives_the_same_numbers(make: Callable, tmp_path: Path) -> None:
    model = make()
    model.save_pretrained(tmp_path)
    torch.testing.assert_close(output_of(tmp_path), expected_of(model), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("use_task_id", [False, True])
def test_ernie_gives_the_same_numbers_in_a_padded_batch(use_task_id: bool, tmp_path: Path) -> None:
    torch.manual_seed(1)
    model = ErnieModel(ErnieConfig(**ERNIE | {"use_task_id": use_task_id, "initializer_range": 0.5})).eval()
    model.save_pretrained(tmp_path)
    batch, lengths = torch.randint(5, 50, (3, 9)), [9, 4, 7]
    types = torch.randint(0, 4, (3, 9))
    real = torch.arange(9) < torch.tensor(lengths)[:, None]
    expected = model(input_ids=batch, token_type_ids=types, attention_mask=real.long()).last_hidden_state[real]
    found = load_encoder(tmp_path).eval()(batch[real], Layout.from_lengths(lengths), types[real])
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_unused_task_table_of_ernie_is_ignored(tmp_path: Path) -> None:
    model = ErnieModel(ErnieConfig(**ERNIE))
    model.save_pretrained(tmp_path)
    changed_config(tmp_path, use_task_id=False)
    expected = ErnieModel.from_pretrained(tmp_path)
    torch.testing.assert_close(output_of(tmp_path), expected_of(expected), rtol=1e-5, atol=1e-5)


def renamed(state: dict[str, Tensor], rename: Callable[[str], str]) -> dict[str, Tensor]:
    return {rename(name): tensor.clone() for name, tensor in state.items()}


@pytest.mark.parametrize(
    "rename",
    [
        lambda name: f"discriminator.electra.{name}",
        lambda name: f"discriminator.{name}",
        lambda name: f"electra.{name}".replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ),
    ],
)
def test_other_prefixes_and_old_names_are_known_also_in_a_pickle(rename: Callable, tmp_path: Path) -> None:
    model = ElectraModel(ElectraConfig(**ELECTRA))
    model.config.save_pretrained(tmp_path)
    state = renamed(model.state_dict(), rename)
    state |= {"generator.electra.embeddings.word_embeddings.weight": torch.zeros(50, 8)}  # both lie in one file
    torch.save(state, tmp_path / "pytorch_model.bin")
    torch.testing.assert_close(output_of(tmp_path), expected_of(model), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("positions", "model_type"), [("absolute", "electra"), ("rotary", "roformer")])
def test_saved_encoder_loads_here_and_in_transformers(positions: str, model_type: str, tmp_path: Path) -> None:
    config = EncoderConfig(
        vocab_size=50,
        hidden_size=16,
        num_layers=2,
        num_heads=2,
        intermediate_size=24,
        embedding_size=8,
        max_positions=20,
        positions=positions,
    )
    encoder = random_encoder(config, seed=3).eval()
    save_encoder(encoder, tmp_path)
    theirs, report = AutoModel.from_pretrained(tmp_path, output_loading_info=True)
    assert theirs.config.model_type == model_type
    assert not report["missing_keys"] and not report["unexpected_keys"]
    again = load_encoder(tmp_path)
    assert again.config == config
    assert all(torch.equal(a, b) for a, b in zip(encoder.parameters(), again.parameters(), strict=True))
    torch.testing.assert_close(
        output_of(tmp_path), expected_of(AutoModel.from_pretrained(tmp_path)), rtol=1e-5, atol=1e-5
    )


def test_half_precision_becomes_float32(tmp_path: Path) -> None:
    BertModel(BertConfig(**BERT)).half().save_pretrained(tmp_path)
    assert {parameter.dtype for parameter in load_encoder(tmp_path).parameters()} == {torch.float32}


def test_random_weights_follow_the_seed_alone() -> None:
    config = EncoderConfig(vocab_size=9, hidden_size=8, num_layers=1, num_heads=2, intermediate_size=8)
    torch.manual_seed(1)
    first = random_encoder(config, seed=7).embeddings.word.weight
    torch.manual_seed(2)
    assert torch.equal(first, random_encoder(config, seed=7).embeddings.word.weight)
    assert not torch.equal(first, random_encoder(config, seed=8).embeddings.word.weight)


def changed_config(folder: Path, **change: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))


def without_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()


def without_a_layer(folder: Path) -> None:
    state = load_file(folder / "model.safetensors")
    save_file({n: t for n, t in state.items() if "layer.1.output.dense.bias" not in n}, folder / "model.safetensors")


def with_other_tasks(change: Callable[[Tensor], Tensor | None]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        changed_config(folder, model_type="ernie", use_task_id=True)
        state = load_file(folder / "model.safetensors")
        table = change(torch.zeros(3, 16))
        tasks = {} if table is None else {"embeddings.task_type_embeddings.weight": table.contiguous()}
        save_file(state | tasks, folder / "model.safetensors")

    return damage


def with_code_in_a_pickle(folder: Path) -> None:
    without_weights(folder)
    torch.save({"embeddings": print}, folder / "pytorch_model.bin")


def as_pickle(change: Callable[[dict[str, Tensor]], Any]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        content = change(load_file(folder / "model.safetensors"))
        without_weights(folder)
        torch.save(content, folder / "pytorch_model.bin")

    return damage


def cut(name: str, kept: int) -> Callable[[Path], None]:
    """Only the first bytes of a file, as after a broken download."""

    def damage(folder: Path) -> None:
        if name == "pytorch_model.bin":
            as_pickle(dict)(folder)
        file = folder / name
        file.write_bytes(file.read_bytes()[:kept])

    return damage


def without_git_lfs(folder: Path) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 409\n"
    (folder / "model.safetensors").write_text(pointer)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "config.json").unlink(), r"it has no config\.json"),
        (lambda folder: (folder / "config.json").write_text("{"), "is not JSON"),
        (
            lambda folder: changed_config(folder, model_type="gpt2"),
            "model_type is 'gpt2'; supported are bert, electra, ernie",
        ),
        (lambda folder: changed_config(folder, hidden_act="relu"), "hidden_act is 'relu'"),
        (lambda folder: changed_config(folder, model_type="ernie", hidden_act="relu"), "hidden_act is 'relu'"),
        (with_other_tasks(lambda table: None), r"use_task_id is true, but the weights have no .*task_type_embeddings"),
        (
            with_other_tasks(lambda table: table[:, :8]),
            r"task_type_embeddings.* \(3, 8\) does not fit types of \(2, 16\)",
        ),
        (lambda folder: changed_config(folder, position_embedding_type="relative_key"), "not 'absolute'"),
        (lambda folder: changed_config(folder, num_attention_heads=3), "num_heads=3 must divide"),
        (
            lambda folder: changed_config(folder, vocab_size=51),
            r"word_embeddings.*shape \(50, 16\), expected \(51, 16\)",
        ),
        (without_weights, r"neither model\.safetensors nor pytorch_model\.bin"),
        (without_a_layer, r"missing encoder\.layer\.1\.output\.dense\.bias"),
        (with_code_in_a_pickle, r"not a readable file of weights: .*which could be code\. Download the model again"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"<html>"), "not a readable file of weights"),
        (lambda folder: (folder / "config.json").write_text("[" * 100_000), "is not JSON"),
        (lambda folder: changed_config(folder, hidden_dropout_prob=None), r"hidden_dropout must be in \[0, 1\)"),
        (lambda folder: changed_config(folder, layer_norm_eps="1e-12"), "layer_norm_eps must be positive"),
        (cut("model.safetensors", -100), r"model\.safetensors is not a readable file of weights: .*Download the model"),
        (cut("model.safetensors", 0), r"model\.safetensors is not a readable file of weights: .*Download the model"),
        (cut("pytorch_model.bin", -100), r"pytorch_model\.bin is not a readable file of weights: .*Download the model"),
        (without_git_lfs, r"model\.safetensors is a Git LFS pointer. Run `git lfs pull`"),
        (as_pickle(lambda state: list(state.values())), "it holds a list, not weights by their names"),
        (
            as_pickle(lambda state: {"state_dict": state}),
            "have no embeddings.word_embeddings.weight; .*Give the folder",
        ),
        (as_pickle(lambda state: {1: torch.zeros(1)}), "have no embeddings.word_embeddings.weight; .*Give the folder"),
        (as_pickle(lambda state: {name: t * math.nan for name, t in state.items()}), "not finite. Download"),
    ],
)
def test_folders_without_an_encoder_are_refused(damage: Callable, message: str, tmp_path: Path) -> None:
    BertModel(BertConfig(**BERT)).save_pretrained(tmp_path)
    damage(tmp_path)
    with pytest.raises(UserError, match=message) as caught:
        load_encoder(tmp_path)
    assert str(caught.value).startswith(str(tmp_path)) and len(str(caught.value)) < 1000


def test_generators_are_refused(tmp_path: Path) -> None:
    ElectraForMaskedLM(ElectraConfig(**ELECTRA)).save_pretrained(tmp_path)
    with pytest.raises(UserError, match="ELECTRA generator; fine-tuning needs the discriminator"):
        load_encoder(tmp_path)
