"""Heads on encoders of other kinds: what they read reaches them, and they learn, resume, save and predict."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from infra.errors import UserError
from models import heads
from models.encoder.config import EncoderConfig
from models.encoder.network import Encoder
from models.finetuning import FinetuneConfig, State, finetune
from models.heads.encoders import AnyEncoder, as_task_encoder, open_encoder
from models.heads.examples import HeadExample, TokenSequence
from models.heads.task_model import TaskModel
from models.inference import predict
from tests.support.heads.other_encoders import MentionEncoder, VectorEncoder, register
from tests.support.heads.tiny_heads import OPTIONS, SIZES

NAMES = [[7, 8], [9], [8, 10]]


def vectors(features: int = 0) -> VectorEncoder:
    torch.manual_seed(3)
    return VectorEncoder(torch.randn(60, 12), 32, features)


def mentions(**change: Any) -> MentionEncoder:
    torch.manual_seed(3)
    return MentionEncoder(Encoder(EncoderConfig(**SIZES | change)), NAMES)


ENCODERS: dict[str, Callable[..., AnyEncoder]] = {"vectors": vectors, "mentions": mentions}


def model_of(kind: str, encoder: AnyEncoder) -> TaskModel:
    name, options = OPTIONS[kind]
    return heads.build(name, encoder, seed=1, **options)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch)


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("kind", ["single", "choice", "tagging", "tagging_crf", "two_stream", "triples"])
def test_every_head_learns_on_every_kind_of_encoder(
    kind: str, encoder: str, make_examples: Callable, tmp_path: Path
) -> None:
    model, examples = model_of(kind, ENCODERS[encoder]()), make_examples(kind)
    with torch.no_grad():
        before = model(model.collate(examples))["loss"].item()
    finetune(model, examples, FinetuneConfig(epochs=80, batch_size=6, learning_rate=1e-2, ema_decay=None))
    with torch.no_grad():
        assert model(model.collate(examples))["loss"].item() < 0.5 * before
    model.save(tmp_path)
    loaded = heads.load(tmp_path)
    assert type(loaded.encoder) is type(model.encoder)
    for first, second in zip(predict(model, examples), predict(loaded, examples), strict=True):
        for name in ("entities", "relations", "scores") if kind == "triples" else ("T",):
            np.testing.assert_array_equal(getattr(first, name), getattr(second, name))


class Killed(Exception):
    pass


@pytest.mark.parametrize("encoder", ENCODERS)
def test_killed_run_ends_like_an_uninterrupted_one(encoder: str, make_examples: Callable) -> None:
    examples, kept = make_examples("single", count=10), io.BytesIO()
    change = {"hidden_dropout": 0.2} if encoder == "mentions" else {}
    config = FinetuneConfig(epochs=3, batch_size=4, learning_rate=1e-3)

    def save(state: State) -> None:
        torch.save(dict(state), kept)
        raise Killed

    whole, killed, resumed = (model_of("single", ENCODERS[encoder](**change)) for _ in range(3))
    finetune(whole, examples, config)
    with pytest.raises(Killed):
        finetune(killed, examples, config, save=save)
    finetune(resumed, examples, config, resume=torch.load(io.BytesIO(kept.getvalue()), weights_only=True))
    for name, value in whole.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[name]), name


def test_frozen_vectors_stay(make_examples: Callable) -> None:
    model = model_of("single", vectors())
    before = model.encoder.vectors.detach().clone()
    finetune(model, make_examples("single"), FinetuneConfig(epochs=2, batch_size=3, learning_rate=1e-2))
    assert torch.equal(model.encoder.vectors, before)


def sequence(*ids: int, **more: Any) -> TokenSequence:
    return TokenSequence(np.array([2, *ids, 3]), np.zeros(len(ids) + 2, np.int64), **more)


def test_mentions_are_found_or_given_and_counted_through_the_batch() -> None:
    model = model_of("single", mentions())
    long, short = sequence(9, 5, 7, 8, 10), sequence(9, 5)
    given = sequence(5, 5, 9, mentions=np.array([[1, 3, 2, 1]]))
    batch = model.collate([HeadExample((one,)) for one in (long, short, given)])
    # Packed the shortest first: `short` from token 0, `given` from 4, `long` from 9.
    assert batch.mentions is not None
    assert batch.mentions.tolist() == [[1, 2, 1, 0], [5, 7, 2, 1], [12, 14, 0, 0], [10, 11, 1, 0], [13, 15, 2, 0]]
    assert batch.to("meta").mentions.device.type == "meta"  # type: ignore[union-attr]


def test_entities_of_the_text_change_its_prediction_and_no_other() -> None:
    model = model_of("single", mentions()).eval()
    examples = [HeadExample((sequence(5, 7, 8),)), HeadExample((sequence(5, 6),))]
    before = predict(model, examples)
    model.encoder.entities.weight.data[0] += 1.0
    after = predict(model, examples)
    assert not np.allclose(before[0], after[0]) and np.array_equal(before[1], after[1])


def test_features_reach_the_encoder_in_the_layout_s_order() -> None:
    model = model_of("tagging", vectors(features=3)).eval()
    rng = np.random.default_rng(0)
    long, short = (sequence(*ids, features=rng.normal(size=(len(ids) + 2, 3))) for ids in ((5, 6, 7), (9,)))
    batch = model.collate([HeadExample((long,)), HeadExample((short,))])
    assert batch.features is not None and batch.features.dtype == torch.float32
    np.testing.assert_allclose(batch.features, np.concatenate([short.features, long.features]), rtol=1e-6)  # type: ignore[list-item]
    states = model.encode(batch)[3:]
    plain = torch.tanh(
        model.encoder.own(model.encoder.vectors[torch.tensor(long.input_ids)])
        + model.encoder.mean(model.encoder.vectors[torch.tensor(long.input_ids)].mean(0))
        + torch.tensor(long.features, dtype=torch.float32) @ model.encoder.features.weight.T
    )
    torch.testing.assert_close(states, plain)


def test_plain_encoder_ignores_mentions(make_model: Callable) -> None:
    model = make_model("single").eval()
    text = sequence(5, 9, 7)
    with_mentions = replace(text, mentions=np.array([[1, 2, 0, 0]]))
    first, second = predict(model, [HeadExample((text,)), HeadExample((with_mentions,))])
    np.testing.assert_allclose(first, second, rtol=1e-6)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"mentions": np.array([[1, 2, 0]])}, r"mentions of shape \(1, 3\) must be \(N, 4\)"),
        ({"mentions": np.array([[2, 2, 0, 0]])}, "must begin before they end"),
        ({"mentions": np.array([[1, 6, 0, 0]])}, "lie within 0 to 5"),
        ({"features": np.zeros((4, 3))}, "with a row for each of 5 tokens"),
    ],
)
def test_bad_mentions_and_features_are_named(more: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"example 0: .*{message}"):
        model_of("single", vectors()).collate([HeadExample((sequence(5, 6, 7, **more),), 0)])


def test_features_of_some_sequences_alone_are_refused() -> None:
    examples = [HeadExample((sequence(5, features=np.zeros((3, 3))),)), HeadExample((sequence(5),))]
    with pytest.raises(ValueError, match="1 of 2 sequences have features; a batch needs all or none"):
        model_of("single", vectors(features=3)).collate(examples)


def test_fresh_weights_follow_the_seed_where_a_kind_has_them(tmp_path: Path) -> None:
    plain = Encoder(EncoderConfig(**SIZES))
    for encoder in (plain, mentions()):
        first, second, other = (as_task_encoder(encoder).fresh(seed).state_dict() for seed in (1, 1, 2))  # type: ignore[union-attr]
        assert all(torch.equal(first[name], second[name]) for name in first)
        assert not all(torch.equal(first[name], other[name]) for name in first)
    with pytest.raises(UserError, match=r"VectorEncoder cannot start from fresh weights\. Leave random_weights out"):
        vectors().fresh(1)


def test_what_is_no_encoder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"stands on an Encoder or on an nn.Module that is a TaskEncoder, got"):
        heads.build("single", torch.nn.Linear(2, 2), num_labels=2)
    with pytest.raises(UserError, match=r"is not a model folder: it has no config\.json"):
        open_encoder(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "smed"}')
    with pytest.raises(UserError, match=r"model_type is 'smed'; supported are bert, electra"):
        open_encoder(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "yiwen-two_stream"}')
    with pytest.raises(UserError, match=r"encoder is missing or has no config\.json\. Copy the whole folder"):
        open_encoder(tmp_path)
