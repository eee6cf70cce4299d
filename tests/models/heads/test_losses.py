"""Each head's loss equals its formula, written plainly on the hidden states of transformers' own model."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import ElectraConfig, ElectraModel

from models.heads.examples import HeadExample, TokenSequence
from models.heads.task_model import TaskModel
from models.weights.convert import electra_config, to_transformers


def hidden_states(model: TaskModel, example: HeadExample) -> list[Tensor]:
    """transformers' hidden states (L, D) of each of the example's sequences."""
    theirs = ElectraModel(ElectraConfig(**electra_config(model.encoder.config))).eval()
    theirs.load_state_dict(to_transformers(model.encoder))
    return [
        theirs(input_ids=torch.tensor(s.input_ids)[None], token_type_ids=torch.tensor(s.type_ids)[None])[0][0]
        for s in example.sequences
    ]


def dense(layer: torch.nn.Linear, x: Tensor) -> Tensor:
    return x @ layer.weight.T + layer.bias


def loss_of(model: TaskModel, examples: list[HeadExample]) -> dict[str, Tensor]:
    return model(model.collate(examples))


def pooled(pooling: str, states: Tensor) -> Tensor:
    """The state (D,) that a label is read from."""
    return states[0] if pooling == "cls" else states[1:-1].mean(0)


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_single_and_pair(pooling: str, make_model: Callable, make_examples: Callable) -> None:
    for kind in ("single", "pair"):
        model, examples = make_model(kind, pooling=pooling).eval(), make_examples(kind)
        logits = [dense(model.classifier, pooled(pooling, hidden_states(model, e)[0])) for e in examples]
        logs = [row.log_softmax(0)[example.target] for row, example in zip(logits, examples, strict=True)]
        torch.testing.assert_close(loss_of(model, examples)["loss"], -torch.stack(logs).mean())
        for row, probabilities in zip(logits, model.predict(model.collate(examples)), strict=True):
            np.testing.assert_allclose(probabilities, row.softmax(0).detach(), rtol=1e-4)


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_multi_label(pooling: str, make_model: Callable, make_examples: Callable) -> None:
    model, examples = make_model("multi_label", pooling=pooling).eval(), make_examples("multi_label")
    states = [pooled(pooling, hidden_states(model, e)[0]) for e in examples]
    p = torch.stack([dense(model.classifier, state).sigmoid() for state in states])
    y = torch.tensor(np.stack([example.target for example in examples]))
    torch.testing.assert_close(loss_of(model, examples)["loss"], -(y * p.log() + (1 - y) * (1 - p).log()).mean())


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_ranking_and_choice_judge_each_sequence(pooling: str, make_model: Callable, make_examples: Callable) -> None:
    for kind in ("ranking", "choice"):
        model, examples = make_model(kind, pooling=pooling).eval(), make_examples(kind)
        logs = []
        for example in examples:
            for option, hidden in enumerate(hidden_states(model, example)):
                p = dense(model.classifier, pooled(pooling, hidden)).sigmoid()
                right = example.target == (option if kind == "choice" else 1)
                logs.append((p if right else 1 - p).log())
        torch.testing.assert_close(loss_of(model, examples)["loss"], -torch.cat(logs).mean())


def test_tagging(make_model: Callable, make_examples: Callable) -> None:
    model, examples = make_model("tagging").eval(), make_examples("tagging")
    logs = []
    for example in examples:
        rows = dense(model.classifier, hidden_states(model, example)[0]).log_softmax(1)
        logs += [row[tag] for row, tag in zip(rows, example.target, strict=True) if tag != -100]
    torch.testing.assert_close(loss_of(model, examples)["loss"], -torch.stack(logs).mean())


def test_two_streams(make_model: Callable, make_examples: Callable) -> None:
    model, examples = make_model("two_stream").eval(), make_examples("two_stream")
    losses = loss_of(model, examples)
    for stream, name in enumerate(("first", "second")):
        logits = [dense(model.classifiers[stream], hidden_states(model, example)[0]) for example in examples]
        tags = torch.tensor(np.concatenate([example.target[stream] for example in examples]))
        torch.testing.assert_close(losses[name], F.cross_entropy(torch.cat(logits), tags))
    torch.testing.assert_close(losses["loss"], losses["first"] + losses["second"])


def test_crf_loss_is_a_mean_over_labelled_tokens_however_few(make_model: Callable, make_examples: Callable) -> None:
    model, example = make_model("tagging_crf").eval(), make_examples("tagging", count=1)[0]
    short = TokenSequence(example.sequences[0].input_ids[[0, 1, -1]], np.zeros(3, int))
    single = HeadExample((short,), np.array([-100, 2, -100]))
    logits = dense(model.classifier, hidden_states(model, single)[0][1])  # a fresh CRF knows no transitions
    for examples in ([single], [single, single], [single] * 3):
        torch.testing.assert_close(loss_of(model, examples)["loss"], -logits.log_softmax(0)[2])
