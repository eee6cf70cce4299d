"""The knowledge model in its own form: its states, its folder, and its knowledge found, missing or foreign."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import AutoModel, AutoModelForSequenceClassification

from infra.errors import UserError
from models import heads
from models.encoder.layout import Layout
from models.heads.encoders import as_task_encoder, open_encoder, open_plain_encoder, reads_knowledge
from models.heads.examples import HeadExample, TokenSequence
from models.inference import predict
from models.knowledge import DESCRIPTION, KnowledgeArrays
from models.knowledge_model.folder import load_model
from models.knowledge_model.source import KnowledgeSource
from models.smedbert import SMedBertModel, SMedBertModelConfig
from models.weights.pretrained import save_encoder
from tests.support.graphs.knowledge_models import make_network, save_arrays, save_both

torch.set_num_threads(1)

IDS = [torch.tensor([2, 7, 8, 9, 10, 11, 3]), torch.tensor([2, 12, 13, 3]), torch.tensor([2, 7, 8, 9, 3])]
MENTIONS = [np.array([[1, 3, 0, 0], [4, 5, 2, 1]]), np.array([[1, 3, 4, 0]]), np.empty((0, 4), dtype=np.int64)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_both(tmp_path_factory.mktemp("store"))


def states_of(model: Any, numbers: list[int], with_mentions: bool = True) -> list[Tensor]:
    """Last states of some texts in one batch, by the network itself."""
    lengths = [len(IDS[number]) for number in numbers]
    starts = np.cumsum([0, *lengths[:-1]])
    given = [MENTIONS[n] + np.array([s, s, 0, 0]) for n, s in zip(numbers, starts, strict=True)]
    mentions = torch.from_numpy(np.concatenate(given)) if with_mentions else None
    ids = torch.cat([IDS[number] for number in numbers])
    with torch.no_grad():
        return list(model.eval()(ids, Layout.from_lengths(lengths), None, mentions).split(lengths))


def padded(numbers: list[int]) -> dict[str, Tensor]:
    ids = torch.nn.utils.rnn.pad_sequence([IDS[number] for number in numbers], batch_first=True)
    return {"input_ids": ids, "attention_mask": (ids != 0).long()}


def test_states_are_those_of_the_layers_and_the_infusion_between_them(folder: Path) -> None:
    network = load_model(folder).network
    encoder, layout = network.encoder.eval(), Layout.from_lengths([len(IDS[0])])
    with torch.enable_grad():  # the plain way, without the faster one for inference
        hidden = encoder.run(encoder.embed(IDS[0], layout), layout, last=2)
        spans, near = network._looked_up(torch.from_numpy(MENTIONS[0]), network.knowledge, hidden.device)
        infused = network.infusion(hidden, spans, near)
        expected = encoder.run(infused, layout, first=2)
    (found,) = states_of(network, [0])
    torch.testing.assert_close(found, expected.detach(), rtol=1e-5, atol=1e-5)
    plain = encoder(IDS[0], layout).detach()
    assert (found - plain).abs().max() > 0.05


def test_without_mentions_both_forms_and_transformers_agree(folder: Path) -> None:
    plain = AutoModel.from_pretrained(folder.parent)
    whole = AutoModel.from_pretrained(folder)
    assert type(whole) is SMedBertModel
    given = padded([0, 1, 2])
    with torch.no_grad():
        expected = plain(**given).last_hidden_state * given["attention_mask"][:, :, None]
        for mentions in (None, [[], [], []]):
            found = whole(**given, mentions=mentions).last_hidden_state
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_without_a_change_to_infuse_both_forms_agree(folder: Path) -> None:
    """Eq. 11 adds GELU of a dense layer, which is 0 where the layer's weights are."""
    whole = load_model(folder).network
    torch.nn.init.zeros_(whole.infusion.output.weight)
    torch.nn.init.zeros_(whole.infusion.output.bias)
    for ours, plain in zip(states_of(whole, [0, 1]), states_of(whole, [0, 1], with_mentions=False), strict=True):
        torch.testing.assert_close(ours, plain, rtol=1e-5, atol=1e-5)


def test_without_knowledge_mentions_change_nothing(folder: Path) -> None:
    plain = AutoModel.from_pretrained(folder, knowledge=False)
    given = padded([0, 1])
    with torch.no_grad():
        with_mentions, without = (plain(**given, mentions=m).last_hidden_state for m in (MENTIONS[:2], None))
    assert torch.equal(with_mentions, without)
    assert as_task_encoder(open_encoder(folder, knowledge=False)).graph is None


@pytest.mark.parametrize("numbers", [[0, 1, 2], [2, 0], [1, 1, 0, 2]])
def test_states_do_not_depend_on_the_batch(folder: Path, numbers: list[int]) -> None:
    whole = load_model(folder).network
    for number, together in zip(numbers, states_of(whole, numbers), strict=True):
        torch.testing.assert_close(together, states_of(whole, [number])[0], rtol=1e-5, atol=1e-5)


def test_transformers_model_gives_the_network_s_states(folder: Path) -> None:
    model = AutoModel.from_pretrained(folder)
    with torch.no_grad():
        found = model(**padded([0, 1, 2]), mentions=MENTIONS).last_hidden_state
    for row, expected in zip(found, states_of(load_model(folder).network, [0, 1, 2]), strict=True):
        torch.testing.assert_close(row[: len(expected)], expected, rtol=1e-5, atol=1e-5)
        assert not row[len(expected) :].any()


def test_wrong_inputs_are_named(folder: Path) -> None:
    model = AutoModel.from_pretrained(folder)
    with pytest.raises(ValueError, match=r"padding must follow a text's tokens; set the tokenizer's padding_side"):
        model(torch.tensor([[0, 2, 3]]), torch.tensor([[0, 1, 1]]))
    with pytest.raises(ValueError, match="mentions are for 1 texts of 2"):
        model(**padded([0, 1]), mentions=[[]])
    with pytest.raises(ValueError, match="text 0: mentions must begin before they end, within its 4 tokens"):
        model(**padded([1]), mentions=[[[1, 6, 0, 0]]])
    with pytest.raises(ValueError, match="names entity 6, but the graph has rows 0 to 5"):
        model(**padded([1]), mentions=[[[1, 2, 6, 0]]])


def test_save_and_load_keep_every_bit(folder: Path, tmp_path: Path) -> None:
    model = AutoModel.from_pretrained(folder)
    model.save_pretrained(tmp_path / "theirs")
    open_encoder(folder).save(tmp_path / "ours")  # type: ignore[union-attr]
    expected = load_model(folder).network.state_dict()
    for name in ("theirs", "ours"):
        again = AutoModel.from_pretrained(tmp_path / name).network
        assert again.state_dict().keys() == expected.keys()
        assert all(torch.equal(value, expected[key]) for key, value in again.state_dict().items()), name
        assert load_model(tmp_path / name).source == load_model(folder).source
        assert all(map(torch.equal, states_of(again, [0, 1]), states_of(model.network, [0, 1])))


def test_added_rows_of_the_word_table_and_settings_of_training_are_not_exported(tmp_path: Path) -> None:
    folder = save_both(tmp_path, vocab_multiple=64, checkpoint_activations=True)
    text = json.loads((folder / "config.json").read_text())["text"]
    assert (text["vocab_size"], text["vocab_multiple"], text["checkpoint_activations"]) == (60, 1, False)
    assert load_model(folder).network.encoder.embeddings.word.weight.shape[0] == 60


def test_knowledge_moves_with_the_store_or_lies_beside_the_model(folder: Path, tmp_path: Path) -> None:
    store = shutil.copytree(folder.parents[2], tmp_path / "moved")
    model = store / "export" / "e1" / "knowledge_model"
    config = json.loads((model / "config.json").read_text())
    config["knowledge_source"]["folder"] = "/gone"
    (model / "config.json").write_text(json.dumps(config))
    assert load_model(model).source.folder == str(store / "knowledge_arrays" / "k1")
    alone = shutil.copytree(model, tmp_path / "alone")
    (alone / "knowledge").symlink_to(store / "knowledge_arrays" / "k1")
    assert load_model(alone).network.knowledge is not None
    assert type(AutoModel.from_pretrained(alone)) is SMedBertModel


def test_the_encoder_below_the_knowledge_is_one_without(folder: Path, tmp_path: Path) -> None:
    below = open_plain_encoder(folder)
    save_encoder(below, tmp_path)
    alone = open_plain_encoder(tmp_path)
    assert reads_knowledge(folder) and not reads_knowledge(tmp_path)
    for name, value in alone.state_dict().items():
        assert torch.equal(value, below.state_dict()[name]), name
    with pytest.raises(UserError, match="reads no knowledge: its model_type is 'electra'"):
        open_encoder(tmp_path, knowledge=folder.parents[2] / "knowledge_arrays" / "k1")


def test_missing_knowledge_is_named_with_the_remedy(folder: Path, tmp_path: Path) -> None:
    alone = shutil.copytree(folder, tmp_path / "alone")
    config = json.loads((alone / "config.json").read_text())
    config["knowledge_source"]["folder"] = "/gone"
    (alone / "config.json").write_text(json.dumps(config))
    message = r"reads the knowledge arrays knowledge_arrays/k1 of the graph fuse_graphs/0{32}, which .*knowledge=FOLDER"
    for load in (load_model, AutoModel.from_pretrained, open_encoder):
        with pytest.raises(UserError, match=message):
            load(alone)
    given = folder.parents[2] / "knowledge_arrays" / "k1"
    assert load_model(alone, knowledge=given).network.knowledge is not None
    assert AutoModel.from_pretrained(alone, knowledge=given).network.knowledge is not None
    assert AutoModel.from_pretrained(alone, knowledge=KnowledgeArrays.open(given)).network.knowledge is not None


def test_foreign_knowledge_is_refused_by_name(folder: Path, tmp_path: Path) -> None:
    other = save_arrays(tmp_path / "other_graph")
    described = json.loads((other / DESCRIPTION).read_text())
    described["graph"]["fingerprint"] = "1" * 32
    (other / DESCRIPTION).write_text(json.dumps(described))
    with pytest.raises(
        UserError, match=r"other_graph has knowledge of the graph fuse_graphs/1{32}, but .*fuse_graphs/0"
    ):
        AutoModel.from_pretrained(folder, knowledge=other)
    retrained = save_arrays(tmp_path / "retrained")
    vectors = np.load(retrained / "entity_vectors.npy")
    np.save(retrained / "entity_vectors.npy", vectors + 1)
    with pytest.raises(UserError, match=r"retrained is of the graph of .*, but its neighbours or vectors are not"):
        load_model(folder, knowledge=retrained)
    with pytest.raises(UserError, match=r"absent has no knowledge\.json"):
        load_model(folder, knowledge=tmp_path / "absent")


def test_damaged_folders_are_named(folder: Path, tmp_path: Path) -> None:
    damaged = shutil.copytree(folder, tmp_path / "damaged")
    (damaged / "model.safetensors").write_bytes(b"x")
    with pytest.raises(UserError, match=r"damaged: model\.safetensors is missing, damaged or not of this config\.json"):
        load_model(damaged, knowledge=False)
    (damaged / "config.json").write_text('{"model_type": "smedbert", "text": {"vocab_size": 9}, "infusion": {}}')
    with pytest.raises(UserError, match=r"config\.json cannot be read: its knowledge_source lacks"):
        load_model(damaged)
    with pytest.raises(UserError, match=r"reads no knowledge: its model_type is 'electra'"):
        open_encoder(folder.parent, knowledge=tmp_path)


def test_sizes_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    wide = KnowledgeArrays.open(save_arrays(tmp_path, width=7))
    with pytest.raises(ValueError, match=r"entities' vectors of width 4, the knowledge's have 7"):
        make_network(wide)
    with pytest.raises(ValueError, match="after layer 4, but the encoder has 3"):
        make_network(None, layer=4)


def test_no_head_of_transformers_answers_at_random(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="SMedBertModelConfig"):
        AutoModelForSequenceClassification.from_pretrained(folder)
    heads.build("single", open_encoder(folder), num_labels=3, seed=1).save(tmp_path)
    with pytest.raises(ValueError, match="yiwen-single"):
        AutoModelForSequenceClassification.from_pretrained(tmp_path)
    assert type(AutoModel.from_pretrained(tmp_path / "encoder")) is SMedBertModel


def test_a_model_is_made_from_a_config_as_transformers_does(folder: Path) -> None:
    config = SMedBertModelConfig.from_pretrained(folder)
    assert (config.vocab_size, config.hidden_size) == (60, 32)
    again = SMedBertModelConfig.from_dict(config.to_dict())
    opened = load_model(folder).source
    assert KnowledgeSource.from_json(again.knowledge_source) == replace(opened, folder="knowledge")


@pytest.mark.parametrize("layer", [1, 2, 3])
@pytest.mark.parametrize("grad", [False, True])
def test_first_states_are_those_of_all_states(layer: int, grad: bool, tmp_path: Path) -> None:
    encoder: Any = open_encoder(save_both(tmp_path, layer=layer))
    model = heads.build("single", encoder, num_labels=3, seed=1).eval()
    plain = [TokenSequence(ids.numpy(), np.zeros(len(ids), np.int64)) for ids in IDS]
    linked = [replace(one, mentions=mentions) for one, mentions in zip(plain, MENTIONS, strict=True)]
    examples, without = ([HeadExample((one,)) for one in some] for some in (linked, plain))
    batch = model.collate(examples)
    with torch.set_grad_enabled(grad):
        expected = encoder.states(batch, None)[batch.layout.firsts]
        torch.testing.assert_close(encoder.first_states(batch, None), expected, rtol=1e-5, atol=1e-5)
    if layer < 3:  # after the last layer [CLS] can no longer read of the mentions
        assert np.abs(np.stack(predict(model, examples)) - np.stack(predict(model, without)))[:2].max() > 1e-3


def test_fresh_weights_follow_the_seed_and_keep_the_knowledge(folder: Path) -> None:
    encoder: Any = open_encoder(folder)
    first, second, other = (encoder.fresh(seed) for seed in (1, 1, 2))
    assert first.graph == encoder.graph
    states = [one.state_dict() for one in (first, second, other)]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    assert not torch.equal(states[0]["network.infusion.gate.weight"], states[2]["network.infusion.gate.weight"])
