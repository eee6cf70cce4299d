"""Training of the recogniser: the weights that plain PyTorch and NumPy compute, and equal ones for equal seeds."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tasks.deidentify.recogniser.drawing import Drawing, Line
from tasks.deidentify.recogniser.features import LEXICON_BITS, Knowledge, features_of
from tasks.deidentify.recogniser.labels import LABELS, MAY_FOLLOW
from tasks.deidentify.recogniser.tokens import shortened, tokens_of
from tasks.deidentify.recogniser.training import HIDDEN_OF_256, PENALTY, read_examples, train
from tests.support.text.drawn_lines import SOURCE

KNOWLEDGE = Knowledge(np.full((3, 0x10000), -128, dtype=np.int8), np.zeros(1 << LEXICON_BITS, dtype=np.bool_))


def drawn(count: int) -> list[Line]:
    drawing = Drawing(SOURCE, 5)
    return [drawing.line() for _ in range(count)]


def hidden(keys: np.ndarray, seed: int, line: int) -> np.ndarray:
    """Return the keys of a line, those that a step does not see as 0."""
    state = (seed * 0x9E3779B97F4A7C15 + line * 0xD1342543DE82EF95 + 1) % 2**64
    seen = keys.copy()
    for at in np.ndindex(*keys.shape):
        state ^= state << 13 & (2**64 - 1)
        state ^= state >> 7
        state ^= state << 17 & (2**64 - 1)
        if state % 256 < HIDDEN_OF_256:
            seen[at] = 0
    return seen


def log_likelihood(emissions: torch.Tensor, transitions: torch.Tensor, labels: np.ndarray) -> torch.Tensor:
    """Return that of the labels in a linear-chain CRF whose first token follows no identifier."""
    allowed = torch.from_numpy(MAY_FOLLOW)
    chain = transitions.masked_fill(~allowed, -torch.inf)
    sums = chain[0] + emissions[0]
    for row in emissions[1:]:
        sums = torch.logsumexp(sums[:, None] + chain, 0) + row
    before = [0, *labels[:-1]]
    path = sum(emissions[at, label] for at, label in enumerate(labels))
    return path + chain[before, labels].sum() - torch.logsumexp(sums, 0)


def test_weights_are_those_of_plain_steps() -> None:
    lines = drawn(12)
    examples = read_examples(lines)
    rows, weights, transitions = train(examples, KNOWLEDGE, epochs=2, seed=7, least=2)
    assert rows.max() + 1 == len(weights) > 100

    held = np.zeros(weights.shape)
    squares = np.full(weights.shape, 1e-3)
    chain, chain_squares = np.zeros(transitions.shape), np.full(transitions.shape, 1e-3)
    rng = np.random.default_rng(7)
    for epoch in range(2):
        rate = 0.12 / (1 + 0.5 * epoch)
        for line in rng.permutation(len(lines)):
            keys = hidden(features_of(tokens_of(shortened(lines[line].text)[0]), KNOWLEDGE), 700 + epoch, int(line))
            labels = examples.labels[examples.lines[line] : examples.lines[line + 1]]
            emissions = torch.tensor(held[rows[keys]].sum(1), requires_grad=True)  # the weights of row 0 stay 0
            of_chain = torch.tensor(chain, requires_grad=True)
            (-log_likelihood(emissions, of_chain, labels)).backward()
            assert emissions.grad is not None and of_chain.grad is not None
            for wrong, of_token in zip(emissions.grad.numpy(), rows[keys], strict=True):
                for row in of_token[of_token > 0] if np.abs(wrong).max() >= 1e-3 else ():
                    slope = wrong + PENALTY * held[row]
                    squares[row] += slope**2
                    held[row] -= rate * slope / np.sqrt(squares[row])
            slope = np.where(MAY_FOLLOW, of_chain.grad.numpy(), 0)
            chain_squares += slope**2
            chain -= rate * slope / np.sqrt(chain_squares)
    np.testing.assert_allclose(weights, held, atol=2e-4)
    np.testing.assert_allclose(transitions[MAY_FOLLOW], chain[MAY_FOLLOW], atol=2e-4)
    assert np.isneginf(transitions[~MAY_FOLLOW]).all()


def test_it_learns_and_equal_seeds_give_equal_weights(capsys: pytest.CaptureFixture[str]) -> None:
    examples = read_examples(drawn(300))
    first, again, other = (train(examples, KNOWLEDGE, epochs=3, seed=seed) for seed in (1, 1, 2))
    assert all(np.array_equal(one, two) for one, two in zip(first, again, strict=True))
    assert not np.array_equal(first[1], other[1])
    losses = [float(line.split("line ")[1].split(",")[0]) for line in capsys.readouterr().out.splitlines()]
    assert losses[2] < 0.5 * losses[0]
    assert len(LABELS) == first[1].shape[1]
