"""Networks as heads: over vectors of tokens and over a frozen encoder's states; learning, resuming, saving, caching."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from infra.errors import UserError
from models import heads, networks
from models.encoder.config import EncoderConfig
from models.encoder.network import Encoder
from models.finetuning import FinetuneConfig, State, finetune
from models.heads.embedding_table import EmbeddingTable, random_table
from models.heads.encoders import AnyEncoder, as_task_encoder, open_encoder
from models.heads.examples import HeadExample, TokenSequence
from models.heads.frozen import FrozenStates
from models.heads.state_cache import KEYS, OFFSETS, STATES, unique
from models.heads.task_model import TaskModel
from models.inference import predict
from tests.support.heads.tiny_heads import OPTIONS, SIZES


def bare() -> EmbeddingTable:
    return random_table(60, 16, seed=3)


def vectors() -> EmbeddingTable:
    return EmbeddingTable(torch.randn(60, 16, generator=torch.Generator().manual_seed(3)), trained=False)


def frozen(**change: Any) -> Encoder:
    torch.manual_seed(3)
    return Encoder(EncoderConfig(**SIZES | {"num_layers": 5, "initializer_range": 0.2} | change))


SOURCES: dict[str, Callable[[], AnyEncoder]] = {"bare": bare, "vectors": vectors, "frozen": frozen}
NETWORKS = {"single": "cnn", "multi_label": "dropout_avrnn", "tagging": "cnn_lstm", "tagging_crf": "bilstm_crf"}


def model_of(kind: str, source: str, network: str | None = None) -> TaskModel:
    name, options = OPTIONS[kind]
    options = {key: value for key, value in options.items() if key != "crf"}
    return heads.build(name, SOURCES[source](), seed=1, network=network or NETWORKS[kind], dropout=0.1, **options)


@pytest.fixture
def make_one_type(make_examples: Callable) -> Callable[..., list[HeadExample]]:
    """`make_examples` for encoders of a single segment type."""

    def build(kind: str, count: int = 6) -> list[HeadExample]:
        return [
            HeadExample(
                (TokenSequence(one.sequences[0].input_ids, np.zeros_like(one.sequences[0].type_ids)),), one.target
            )
            for one in make_examples(kind, count=count)
        ]

    return build


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("kind", NETWORKS)
def test_every_head_learns_from_every_source_and_is_saved(
    kind: str, source: str, make_one_type: Callable, tmp_path: Path
) -> None:
    model, examples = model_of(kind, source), make_one_type(kind, count=6)
    with torch.no_grad():
        before = model.eval()(model.collate(examples))["loss"].item()
    finetune(model, examples, FinetuneConfig(epochs=40, batch_size=6, learning_rate=1e-2, ema_decay=None))
    with torch.no_grad():
        assert model(model.collate(examples))["loss"].item() < 0.5 * before
    model.save(tmp_path)
    loaded = heads.load(tmp_path)
    for first, second in zip(predict(model, examples), predict(loaded, examples), strict=True):
        np.testing.assert_array_equal(first, second)
    assert not any(path.suffix in (".bin", ".pt", ".pkl") for path in tmp_path.rglob("*"))


def test_only_bare_embeddings_are_trained(make_one_type: Callable) -> None:
    config = FinetuneConfig(epochs=2, batch_size=6, learning_rate=1e-2, ema_decay=None)
    for source, trained in (("bare", True), ("vectors", False)):
        model = model_of("single", source)
        before = model.encoder.table.detach().clone()
        finetune(model, make_one_type("single"), config)
        assert torch.equal(model.encoder.table, before) != trained
    model = model_of("single", "frozen")
    before = {name: value.clone() for name, value in model.encoder.encoder.state_dict().items()}
    finetune(model, make_one_type("single"), config)
    assert all(torch.equal(value, before[name]) for name, value in model.encoder.encoder.state_dict().items())
    assert not any(name.startswith("encoder.") for name in model.state_dict())


class Killed(Exception):
    pass


@pytest.mark.parametrize("source", SOURCES)
def test_killed_run_ends_like_an_uninterrupted_one(source: str, make_one_type: Callable) -> None:
    examples, kept = make_one_type("multi_label", count=10), io.BytesIO()
    config = FinetuneConfig(epochs=3, batch_size=4, learning_rate=1e-3)

    def save(state: State) -> None:
        torch.save(dict(state), kept)
        raise Killed

    whole, killed, resumed = (model_of("multi_label", source) for _ in range(3))
    finetune(whole, examples, config)
    with pytest.raises(Killed):
        finetune(killed, examples, config, save=save)
    finetune(resumed, examples, config, resume=torch.load(io.BytesIO(kept.getvalue()), weights_only=True))
    for name, value in whole.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[name]), name


def test_frozen_states_are_the_last_four_layers(make_one_type: Callable) -> None:
    model = model_of("tagging", "frozen").eval()
    batch, encoder = model.collate(make_one_type("tagging")), frozen().eval()
    with torch.no_grad():
        layers = encoder.states(batch.input_ids, batch.layout, (2, 3, 4, 5), batch.type_ids)
        wanted = torch.cat([layers[number] for number in (2, 3, 4, 5)], 1)
        found = model.reader.states(batch, None)
    assert found.shape[1] == model.sizes.hidden_size == 4 * 32
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-3)
    assert torch.equal(found, found.half().float())
    model.train()  # an encoder with dropout has none here
    assert torch.equal(model.reader.states(batch, None), found)


def test_the_frozen_encoder_goes_where_its_head_goes() -> None:
    model = model_of("single", "frozen").to("meta")
    assert {value.device.type for value in model.encoder.encoder.parameters()} == {"meta"}


def write_cache(folder: Path, model: TaskModel, examples: list[HeadExample]) -> list[TokenSequence]:
    sequences, keys = unique([example.sequences[0] for example in examples])
    states = []
    for sequence in sequences:
        with torch.no_grad():
            states.append(model.reader.states(model.collate([HeadExample((sequence,))]), None).numpy())
    np.save(folder / STATES, np.concatenate(states).astype(np.float16))
    np.save(folder / OFFSETS, np.cumsum([0, *map(len, states)]))
    np.save(folder / KEYS, keys)
    return sequences


def test_cached_states_replace_the_encoder(make_one_type: Callable, tmp_path: Path) -> None:
    examples = make_one_type("single", count=8)
    model = model_of("single", "frozen").eval()
    kept = write_cache(tmp_path, model, [*examples[:5], examples[0]])
    assert len(kept) == 5
    plain = predict(model, examples)
    model.encoder.attach(tmp_path)
    assert model.collate(examples[:5]).features is not None and model.collate(examples).features is None
    np.testing.assert_allclose(np.stack(predict(model, examples)), np.stack(plain), atol=2e-4)
    model.encoder.encoder.requires_grad_(False).apply(lambda part: [p.zero_() for p in part.parameters()])
    np.testing.assert_allclose(np.stack(predict(model, examples[:5])), np.stack(plain[:5]), atol=2e-4)


def test_wrong_caches_are_explained(make_one_type: Callable, tmp_path: Path) -> None:
    model = model_of("single", "frozen")
    with pytest.raises(UserError, match=r"is no cache of states: .*Run the flow again"):
        model.encoder.attach(tmp_path)
    write_cache(tmp_path, model, make_one_type("single"))
    with pytest.raises(UserError, match=r"has states \(\d+, 128\) of \d+ sequences, and the encoder has 64 features"):
        heads.build("single", frozen(num_layers=2), num_labels=3, network="cnn").encoder.attach(tmp_path)


def test_texts_of_one_token_and_of_none_are_answered() -> None:
    for kind, network in [("single", name) for name in networks.names("classify")] + [
        ("tagging", name) for name in networks.names("tag")
    ]:
        model = model_of(kind, "bare", network)
        sequences = [np.array(ids) for ids in ([2, 9, 3], [2, 3])]
        examples = [HeadExample((TokenSequence(ids, np.zeros_like(ids)),)) for ids in sequences]
        for prediction, ids in zip(predict(model, examples), sequences, strict=True):
            assert np.isfinite(prediction).all() and (kind == "single" or len(prediction) == len(ids))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "pair",
            {"network": "cnn", "num_labels": 2},
            "network 'cnn' can.* answer for .*single, multi_label, tagging",
        ),
        ("single", {"network": "cn", "num_labels": 2}, "no network 'cn' of kind 'classify'; did you mean cnn"),
        ("tagging", {"network": "bilstm", "num_labels": 3, "crf": True}, "has no option 'crf'"),
        ("single", {"num_labels": 2}, "vectors of tokens know no context; give a network that reads them"),
    ],
)
def test_what_no_network_can_answer_is_explained(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        heads.build(name, bare(), **options)


def test_tables_have_fresh_weights_only_if_trained(tmp_path: Path) -> None:
    first, again, other = (as_task_encoder(bare()).fresh(seed).table for seed in (1, 1, 2))  # type: ignore[union-attr]
    assert torch.equal(first, again) and not torch.equal(first, other)
    with pytest.raises(UserError, match="Word vectors cannot start from fresh weights"):
        vectors().fresh(1)
    assert isinstance(FrozenStates(frozen()).fresh(1), FrozenStates)


def test_damaged_tables_are_named(tmp_path: Path) -> None:
    vectors().save(tmp_path)
    assert torch.equal(open_encoder(tmp_path).table, vectors().table)  # type: ignore[union-attr]
    (tmp_path / "model.safetensors").write_bytes(b"half")
    with pytest.raises(UserError, match=r"model\.safetensors is missing or damaged: .*Make the table again"):
        open_encoder(tmp_path)
