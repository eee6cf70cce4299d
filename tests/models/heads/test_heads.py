"""What holds for every head: it learns, saves, does not depend on the batch's order, and names bad input."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from infra.errors import UserError
from models import heads
from models.finetuning import FinetuneConfig, finetune
from models.heads.examples import HeadExample, Pointers, TokenSequence
from models.inference import predict

KINDS = ["single", "pair", "multi_label", "ranking", "choice", "tagging", "tagging_crf", "two_stream", "triples"]


def is_right(kind: str, prediction: Any, target: Any) -> bool:
    """Whether a prediction, read as its table says, is the target."""
    if kind in ("single", "pair", "choice"):
        return int(np.argmax(prediction)) == target
    if kind == "multi_label":
        return np.array_equal(prediction > 0.5, target > 0.5)
    if kind == "ranking":
        return (prediction > 0.0) == bool(target)
    if kind == "triples":
        return all(
            {tuple(row) for row in getattr(prediction, name)} == {tuple(row) for row in getattr(target, name)}
            for name in ("entities", "relations")
        )
    return np.array_equal(prediction, target)


def same(first: Any, second: Any) -> bool:
    """Whether two predictions are equal, bit for bit."""
    if isinstance(first, Pointers):
        return all(np.array_equal(getattr(first, n), getattr(second, n)) for n in ("entities", "relations", "scores"))
    return np.array_equal(first, second)


@pytest.mark.parametrize("kind", KINDS)
def test_handful_of_examples_is_learnt_and_kept(
    kind: str, make_model: Callable, make_examples: Callable, tmp_path: Path
) -> None:
    model, examples = make_model(kind, dropout=0.0), make_examples(kind)
    config = FinetuneConfig(epochs=80, batch_size=6, learning_rate=1e-2, ema_decay=None)
    finetune(model, examples, config)
    predictions = predict(model, examples)
    assert all(is_right(kind, p, example.target) for p, example in zip(predictions, examples, strict=True))

    model.save(tmp_path)
    loaded = heads.load(tmp_path)
    assert loaded.config() == model.config() and type(loaded) is type(model)
    assert all(same(a, b) for a, b in zip(predictions, predict(loaded, examples), strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_order_of_examples_changes_neither_loss_nor_predictions(
    kind: str, make_model: Callable, make_examples: Callable
) -> None:
    model, examples = make_model(kind).eval(), make_examples(kind)
    with torch.no_grad():
        loss, turned = (model(model.collate(part))["loss"] for part in (examples, examples[::-1]))
        torch.testing.assert_close(loss, turned)
        one_by_one = [model.predict(model.collate([example]))[0] for example in examples]
        for alone, together in zip(one_by_one, model.predict(model.collate(examples)), strict=True):
            if not isinstance(alone, Pointers):
                np.testing.assert_allclose(alone, together, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_dropout_follows_seed_and_step_alone(kind: str, make_model: Callable, make_examples: Callable) -> None:
    model, examples = make_model(kind, dropout=0.3).train(), make_examples(kind)

    def loss(seed: int, step: int) -> float:
        return model(model.collate(examples, seed=seed, step=step))["loss"].item()

    assert loss(1, 2) == loss(1, 2)
    assert len({loss(1, 2), loss(1, 3), loss(2, 2)}) == 3


@pytest.mark.parametrize("kind", KINDS)
def test_losses_at_random_initialisation_are_those_of_chance(
    kind: str, make_model: Callable, make_examples: Callable
) -> None:
    model = make_model(kind, **{"relation_prior": 0.5} if kind == "triples" else {}).eval()
    losses = {name: value.item() for name, value in model(model.collate(make_examples(kind))).items()}
    expected = {
        "single": {"loss": np.log(3)},
        "pair": {"loss": np.log(3)},
        "tagging": {"loss": np.log(5)},
        "tagging_crf": {"loss": np.log(5)},
        "two_stream": {"first": np.log(5), "second": np.log(33)},
        "triples": {"entity": np.log(2), "relation": np.log(2)},
    }.get(kind, {"loss": np.log(2)})
    for name, value in expected.items():
        assert losses[name] == pytest.approx(value, abs=0.15), name


def test_two_streams_are_cmeee_s_by_default() -> None:
    model = heads.build("two_stream", {"vocab_size": 9, "hidden_size": 8, "num_layers": 1, "num_heads": 2})
    assert model.config()["num_labels"] == [5, 33]


def test_seed_determines_fresh_weights_and_leaves_the_generator_alone(make_model: Callable) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first, second, other = make_model("single", 1), make_model("single", 1), make_model("single", 2)
    assert torch.equal(torch.rand(3), expected)
    assert torch.equal(first.classifier.weight, second.classifier.weight)
    assert not torch.equal(first.classifier.weight, other.classifier.weight)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: heads.build("singel", num_labels=3), "unknown head 'singel'; did you mean single"),
        (lambda: heads.build("single", {"hidden_size": 8, "num_heads": 2}), "needs num_labels.* got None"),
        (lambda: heads.build("tagging", num_labels=1), "at least 2, got 1; a task with one label"),
        (lambda: heads.build("pair", num_labels=2, crf=True), "has no option 'crf'; its options are num_labels"),
        (lambda: heads.build("ranking", num_labels=2), "has no option 'num_labels'"),
        (lambda: heads.build("two_stream", {"vocab_size": 9}, num_labels=5), "needs two num_labels"),
        (lambda: heads.build("single", {"vocab_size": 9}, num_labels=2, dropout=1.0), r"dropout must be in \[0, 1\)"),
        (
            lambda: heads.build("choice", {"vocab_size": 9}, pooling="max"),
            "pooling must be one of cls, mean, got 'max'",
        ),
        (lambda: heads.build("tagging", num_labels=5, pooling="mean"), "has no option 'pooling'"),
    ],
)
def test_impossible_heads_are_refused(call: Callable, message: str) -> None:
    with torch.device("meta"), pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    ("kind", "target", "message"),
    [
        ("single", 3, "example 1: the target must be a whole number from 0 to 2, got 3"),
        ("single", "2", "whole number"),
        ("single", -1, "whole number"),
        ("ranking", 2, "from 0 to 1, got 2"),
        ("choice", 9, "from 0 to"),
        ("multi_label", np.array([0, 1, 2, 0]), "4 numbers, each 0 or 1"),
        ("multi_label", np.zeros(3), "4 numbers"),
        ("tagging", np.zeros(3, int), "a tag for each of"),
        ("tagging", None, "5 of 6 examples have a target"),
        ("triples", np.zeros((2, 2)), "must be Pointers, got ndarray"),
        ("triples", Pointers(np.array([[2, 1]]), np.empty((0, 3))), "from a first to a last token"),
        ("triples", Pointers(np.array([[1, 99]]), np.empty((0, 3))), "within 0 to"),
        ("triples", Pointers(np.empty((0, 2)), np.array([[1, 4, 1]])), "numbered from 0 to 3"),
        ("triples", Pointers(np.empty((0, 2)), np.array([[1, 0, 50]])), "must join tokens"),
        ("triples", Pointers(np.zeros((1, 3), int), np.empty((0, 3))), r"shape \(n, 2\)"),
    ],
)
def test_bad_targets_are_named(
    kind: str, target: Any, message: str, make_model: Callable, make_examples: Callable
) -> None:
    examples = make_examples(kind)
    examples[1] = replace(examples[1], target=target)
    with pytest.raises(ValueError, match=message):
        make_model(kind).collate(examples)


def test_tags_out_of_range_are_named(make_model: Callable, make_examples: Callable) -> None:
    examples = make_examples("tagging")
    examples[2].target[3] = 5
    with pytest.raises(ValueError, match="example 2: tags must be between 0 and 4, or -100, got 5"):
        make_model("tagging").collate(examples)
    streams = make_examples("two_stream")
    streams[0].target[0, 2] = 5  # the first stream knows 5 tags, the second 33
    with pytest.raises(ValueError, match="between 0 and 4"):
        make_model("two_stream").collate(streams)


@pytest.mark.parametrize(
    ("ids", "types", "message"),
    [
        (np.full(41, 5), np.zeros(41, int), "41 tokens is longer than the encoder's 40 positions; cut it"),
        (np.array([2, 60, 3]), np.zeros(3, int), "from 2 to 60, but the encoder's vocabulary from 0 to 59; use"),
        (np.array([2, 5, 3]), np.array([0, 0, 2]), "type ids must be between 0 and 1"),
        (np.array([2]), np.array([0]), r"at least \[CLS\] and \[SEP\]"),
        (np.array([2, 5, 3]), np.zeros(2, int), "must both be"),
    ],
)
def test_bad_sequences_are_named(ids: np.ndarray, types: np.ndarray, message: str, make_model: Callable) -> None:
    with pytest.raises(ValueError, match=f"example 0: .*{message}"):
        make_model("single").collate([HeadExample((TokenSequence(ids, types),), 0)])


def test_wrong_numbers_of_examples_and_sequences_are_named(make_model: Callable, make_examples: Callable) -> None:
    model = make_model("single")
    with pytest.raises(ValueError, match="no examples given"):
        model.collate([])
    sequence = make_examples("single")[0].sequences[0]
    with pytest.raises(ValueError, match=r"head 'single' takes 1 sequence\(s\), got 2"):
        model.collate([HeadExample((sequence, sequence), 0)])
    with pytest.raises(ValueError, match="no targets, so there is no loss"):
        model(model.collate([HeadExample((sequence,))]))


def test_empty_text_has_no_tags(make_model: Callable) -> None:
    empty = HeadExample((TokenSequence(np.array([2, 3]), np.zeros(2, int)),), np.array([-100, -100]))
    for kind in ("tagging", "tagging_crf"):
        model = make_model(kind)
        loss = model(model.collate([empty]))["loss"]
        loss.backward()
        assert loss.item() == 0.0
        assert predict(model, [empty])[0].tolist() == [-100, -100]


def test_damaged_models_are_named(tmp_path: Path, make_model: Callable) -> None:
    with pytest.raises(UserError, match=r"has no head\.json\. Run a fine-tuning flow"):
        heads.load(tmp_path)
    make_model("single").save(tmp_path)
    (tmp_path / "head.safetensors").write_bytes(b"no weights")
    with pytest.raises(UserError, match=r"head\.safetensors is damaged.*Fine-tune again"):
        heads.load(tmp_path)
