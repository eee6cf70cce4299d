"""Continual pre-training starts from transformers' weights, or explains why it cannot."""

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import BertForMaskedLM, BertModel, ElectraForPreTraining, ElectraModel, RoFormerForMaskedLM

from infra.errors import UserError
from models.continual import check_start, initialise_from
from models.encoder.layout import Layout
from models.objectives import build
from models.objectives.ehealth.objective import EHealth
from models.training.checkpoint import save_state
from models.weights.convert import to_transformers, transformers_config
from tasks.finetune.inputs import ModelFolder

MakeRows = Callable[..., list[Any]]
LEFT_OUT = ("step", "positions", "streams", "identity", "optimizer", "skipped", "held_out", "window")
TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"t{number}" for number in range(5, 300))]


def saved(kind: type[Any], config: dict[str, Any], folder: Path, tokens: Sequence[str] | None = None) -> nn.Module:
    """A random model of transformers with the sizes of an objective's discriminator, in a folder."""
    torch.manual_seed(7)
    discriminator = build("ehealth", config).config.discriminator
    sizes = transformers_config(discriminator, "bert" if kind in (BertModel, BertForMaskedLM) else "electra")
    model: nn.Module = kind(sizes).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:  # RoFormer's table of sines is no weight
                parameter.add_(torch.randn_like(parameter) * 0.1)
    model.save_pretrained(folder)  # type: ignore[operator]
    if tokens is not None:
        (folder / "vocab.txt").write_text("\n".join(tokens) + "\n", encoding="utf-8")
    return model


def hidden(objective: EHealth, ids: Tensor) -> Tensor:
    with torch.no_grad():
        return objective.eval().discriminator(ids, Layout.from_lengths([len(ids)]))


def weights(objective: EHealth, part: str) -> list[Tensor]:
    return [p.detach().clone() for p in objective.get_submodule(part).parameters()]


@pytest.mark.parametrize("kind", [ElectraModel, BertModel, ElectraForPreTraining, BertForMaskedLM])
@pytest.mark.parametrize("multiple", [1, 64])
def test_discriminator_gives_the_checkpoints_hidden_states(
    kind: type[Any], multiple: int, tiny: dict[str, Any], make_rows: MakeRows, tmp_path: Path
) -> None:
    model = saved(kind, tiny, tmp_path)
    objective = build("ehealth", tiny | {"vocab_multiple": multiple})
    start = initialise_from(objective, tmp_path)
    ids = torch.randint(1, 300, (23,))
    with torch.no_grad():
        expected = getattr(model, "electra", getattr(model, "bert", model))(ids[None])[0][0]
    torch.testing.assert_close(hidden(objective, ids), expected, rtol=1e-5, atol=1e-5)
    assert start.taken == (("discriminator", "rtd_head") if kind is ElectraForPreTraining else ("discriminator",))
    assert {"generator", "generator_head"} <= set(start.fresh)
    objective.train()(objective.collate(make_rows([20, 12]), seed=1, step=0))["loss"].backward()


@pytest.mark.parametrize("name", ["ehealth", "electra"])
def test_equally_wide_generator_and_its_head_are_copied(name: str, tiny: dict[str, Any], tmp_path: Path) -> None:
    model = saved(BertForMaskedLM, tiny, tmp_path)
    objective = build(name, tiny | {"generator_divisor": 1, "vocab_multiple": 64})
    start = initialise_from(objective, tmp_path)
    assert start.taken == ("discriminator", "generator", "generator_head") and start.fresh == ("rtd_head",)
    ids = torch.randint(1, 300, (1, 12))
    with torch.no_grad():
        logits = model(ids).logits[0]
        states = objective.eval().generator(ids[0], Layout.from_lengths([12]))
        target, uniforms = torch.arange(12), torch.rand(12, 6, 2, dtype=torch.float64)
        head = objective.generator_head(states, objective.discriminator.embeddings.word.weight, target, uniforms)
    expected = nn.functional.cross_entropy(logits, target, reduction="sum")
    torch.testing.assert_close(head.loss_sum, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["ehealth", "electra"])
def test_head_of_an_electra_detects_as_before(name: str, tiny: dict[str, Any], tmp_path: Path) -> None:
    model = saved(ElectraForPreTraining, tiny, tmp_path)
    objective = build(name, tiny)
    initialise_from(objective, tmp_path)
    ids = torch.randint(1, 300, (15,))
    with torch.no_grad():
        torch.testing.assert_close(
            objective.rtd_head(hidden(objective, ids)), model(ids[None]).logits[0], rtol=1e-4, atol=1e-5
        )


def test_vocabulary_in_another_order_is_reordered(tiny: dict[str, Any], tmp_path: Path) -> None:
    """Google's BERT has [UNK] at 100; here the special tokens come first."""
    theirs = [*TOKENS[5:105], *TOKENS[:5], *TOKENS[105:]]
    model = saved(BertModel, tiny, tmp_path, theirs)
    objective = build("ehealth", tiny)
    initialise_from(objective, tmp_path, TOKENS)
    ids = torch.randint(0, 300, (20,))
    with torch.no_grad():
        expected = model(torch.tensor([[theirs.index(TOKENS[i]) for i in ids]]))[0][0]
    torch.testing.assert_close(hidden(objective, ids), expected, rtol=1e-5, atol=1e-5)


def test_rotary_model_starts_from_a_roformer_only(tiny: dict[str, Any], tmp_path: Path) -> None:
    rotary = tiny | {"positions": "rotary"}
    model = saved(RoFormerForMaskedLM, rotary, tmp_path)
    objective = build("ehealth", rotary)
    assert initialise_from(objective, tmp_path).taken == ("discriminator",)
    ids = torch.randint(1, 300, (23,))
    with torch.no_grad():
        expected = model.roformer(ids[None])[0][0]
    torch.testing.assert_close(hidden(objective, ids), expected, rtol=1e-5, atol=1e-5)
    with pytest.raises(UserError, match=r"Set model\.positions = 'rotary' in the preset"):
        initialise_from(build("ehealth", tiny), tmp_path)


@pytest.mark.parametrize("positions", [20, 64, 90])
def test_shared_positions_are_copied(positions: int, tiny: dict[str, Any], tmp_path: Path) -> None:
    model = saved(ElectraModel, tiny | {"max_positions": positions}, tmp_path)
    objective = build("ehealth", tiny)
    fresh = objective.discriminator.embeddings.position.weight.detach().clone()
    initialise_from(objective, tmp_path)
    table, given = objective.discriminator.embeddings.position.weight, model.embeddings.position_embeddings.weight
    shared = min(positions, 64)
    assert torch.equal(table[:shared], given[:shared]) and torch.equal(table[shared:], fresh[shared:])


def test_old_names_in_an_old_file(tiny: dict[str, Any], tmp_path: Path) -> None:
    model = saved(BertForMaskedLM, tiny, tmp_path)
    (tmp_path / "model.safetensors").unlink()
    old = {
        n.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): t
        for n, t in model.state_dict().items()
    }
    torch.save(old, tmp_path / "pytorch_model.bin")
    objective = build("ehealth", tiny)
    initialise_from(objective, tmp_path)
    exported = to_transformers(objective.discriminator)
    for name, tensor in model.bert.state_dict().items():
        assert torch.equal(exported[name], tensor), name


@pytest.mark.parametrize("kind", ["safetensors", "bin"])
def test_weights_in_several_files_are_read(kind: str, tiny: dict[str, Any], tmp_path: Path) -> None:
    model, pieces = saved(BertModel, tiny, tmp_path), tmp_path / "pieces"
    whole, cut = build("ehealth", tiny), build("ehealth", tiny)
    initialise_from(whole, tmp_path)
    before = ModelFolder(tmp_path).fingerprint
    model.save_pretrained(pieces, max_shard_size="20KB")  # type: ignore[operator]
    shards = sorted(pieces.glob("model-*.safetensors"))
    assert len(shards) > 2
    if kind == "bin":
        _as_bin(pieces, shards)
    start = initialise_from(cut, pieces)
    assert start.taken == ("discriminator",)
    for one, other in zip(weights(whole, "discriminator"), weights(cut, "discriminator"), strict=True):
        assert torch.equal(one, other)
    found = ModelFolder(pieces).fingerprint
    last = sorted(file for file in pieces.iterdir() if "-of-" in file.name)[-1]
    last.write_bytes(last.read_bytes()[:-1])
    assert len({before, found, ModelFolder(pieces).fingerprint}) == 3
    last.unlink()
    with pytest.raises(UserError, match=rf"index\.json names \d+ files, of which 1 \('{last.name}'\) are missing"):
        check_start(pieces, cut)


def _as_bin(folder: Path, shards: list[Path]) -> None:
    """A checkpoint as older versions of transformers wrote it."""
    index = folder / "model.safetensors.index.json"
    old = index.read_text().replace("model-", "pytorch_model-").replace(".safetensors", ".bin")
    (folder / "pytorch_model.bin.index.json").write_text(old)
    index.unlink()
    for shard in shards:
        torch.save(load_file(shard), folder / f"pytorch_{shard.stem}.bin")
        shard.unlink()


@pytest.mark.parametrize("text", ['{"weight_map": {"a": "../elsewhere.safetensors"}}', "[]", '{"weight_map": {}}', "{"])
def test_invalid_index_is_refused(text: str, tiny: dict[str, Any], tmp_path: Path) -> None:
    saved(BertModel, tiny, tmp_path)
    (tmp_path / "model.safetensors").rename(tmp_path.parent / "elsewhere.safetensors")
    (tmp_path / "model.safetensors.index.json").write_text(text)
    with pytest.raises(UserError, match=r"index\.json .*Download the checkpoint again"):
        check_start(tmp_path, build("ehealth", tiny))


def rewrite(folder: Path, **changes: Any) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"model_type": "roberta"},
            r"describes a 'roberta' model\. Pre-training starts from 'bert', 'electra' or 'roformer'",
        ),
        ({"hidden_act": "relu"}, "hidden_act is 'relu'; the encoder here needs 'gelu'"),
        ({"hidden_size": 48, "num_hidden_layers": 4}, r"Set model\.hidden_size = 48, model\.num_layers = 4 in the"),
        ({"layer_norm_eps": 1e-5}, r"Set model\.layer_norm_eps = 1e-05"),
        ({"embedding_size": 12}, r"Set model\.embedding_size = 12"),
    ],
)
def test_error_for_an_unsuitable_model_names_the_remedy(
    changes: dict[str, Any], message: str, tiny: dict[str, Any], tmp_path: Path
) -> None:
    saved(ElectraModel, tiny, tmp_path)
    rewrite(tmp_path, **changes)
    objective = build("ehealth", tiny)
    before = weights(objective, "discriminator")
    with pytest.raises(UserError, match=message):
        initialise_from(objective, tmp_path)
    assert all(torch.equal(a, b) for a, b in zip(before, weights(objective, "discriminator"), strict=True))


def test_error_for_another_vocabulary_names_its_tokens(tiny: dict[str, Any], tmp_path: Path) -> None:
    saved(ElectraModel, tiny, tmp_path, [*TOKENS[:-2], "肺", "炎"])
    objective = build("ehealth", tiny)
    message = (
        r"2 \('t298', 't299'\) only in use, 2 \('肺', '炎'\) only in the checkpoint\. Train with .*vocabulary_file"
    )
    with pytest.raises(UserError, match=message):
        initialise_from(objective, tmp_path, TOKENS)


def test_another_number_of_tokens_is_refused(tiny: dict[str, Any], tmp_path: Path) -> None:
    saved(ElectraModel, tiny, tmp_path)
    with pytest.raises(UserError, match="has 300 tokens, the vocabulary in use 310"):
        initialise_from(build("ehealth", tiny | {"vocab_size": 310}), tmp_path)


def test_missing_and_damaged_files_are_refused(tiny: dict[str, Any], tmp_path: Path) -> None:
    objective = build("ehealth", tiny)
    with pytest.raises(UserError, match=r"has no config\.json"):
        initialise_from(objective, tmp_path)
    saved(ElectraModel, tiny, tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"\x10" * 200)
    with pytest.raises(UserError, match=r"model\.safetensors is damaged"):
        initialise_from(objective, tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(UserError, match=r"has neither model\.safetensors nor pytorch_model\.bin"):
        initialise_from(objective, tmp_path)
    torch.save({"embeddings": os.system}, tmp_path / "pytorch_model.bin")  # code, which is not run
    with pytest.raises(UserError, match="holds more than weights"):
        initialise_from(objective, tmp_path)
    (tmp_path / "config.json").write_text("[1]")
    with pytest.raises(UserError, match="is not a configuration"):
        initialise_from(objective, tmp_path)


def test_checkpoint_without_some_weights_is_refused(tiny: dict[str, Any], tmp_path: Path) -> None:
    model = saved(ElectraModel, tiny, tmp_path)
    (tmp_path / "model.safetensors").unlink()
    state = dict(model.state_dict())
    del state["encoder.layer.1.output.dense.bias"]
    torch.save(state, tmp_path / "pytorch_model.bin")
    with pytest.raises(UserError, match=r"missing encoder\.layer\.1\.output\.dense\.bias.*whole BERT or ELECTRA"):
        initialise_from(build("ehealth", tiny), tmp_path)


def saved_run(objective: nn.Module, folder: Path) -> Path:
    """The last checkpoint of a run of ours, as far as a start reads it."""
    save_state({"format": 2, "model": objective.state_dict(), **dict.fromkeys(LEFT_OUT)}, folder)
    return folder


def test_run_of_ours_gives_generator_detector_and_heads(tiny: dict[str, Any], tmp_path: Path) -> None:
    first, second = build("electra", tiny), build("electra", tiny)
    assert not all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    start = initialise_from(second, saved_run(first, tmp_path))
    assert start.fresh == () and {"discriminator", "generator", "generator_head", "rtd_head"} == set(start.taken)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))


def test_run_of_ours_leaves_parts_that_it_lacks_fresh(tiny: dict[str, Any], tmp_path: Path) -> None:
    first = build("bert", tiny)
    second = build("bert", tiny | {"pair_task": "sop"})
    fresh = [p.detach().clone() for p in second.pair_output.parameters()]
    start = initialise_from(second, saved_run(first, tmp_path))
    assert start.taken == ("encoder", "head") and start.fresh == ("pooler", "pair_output")
    assert all(torch.equal(a, b) for a, b in zip(fresh, second.pair_output.parameters(), strict=True))


def test_run_of_another_encoder_is_refused_and_changes_nothing(tiny: dict[str, Any], tmp_path: Path) -> None:
    saved_run(build("bert", tiny), tmp_path)
    for other in (build("electra", tiny), build("bert", tiny | {"num_layers": 3})):
        before = {name: value.clone() for name, value in other.state_dict().items()}
        for start in (initialise_from, lambda objective, folder: check_start(folder, objective)):
            with pytest.raises(UserError, match="holds another encoder"):
                start(other, tmp_path)
        assert all(torch.equal(before[name], value) for name, value in other.state_dict().items())
