"""Samples follow the softmax exactly: compared with full enumeration on small vocabularies."""

import itertools

import numpy as np
import pytest
import torch
from torch import Tensor

from models.objectives.parts import sampling
from models.objectives.parts.sampling import block_sums, sample, sample_without_replacement, softmax_weights_

DRAWS = 60_000


def weights_of(logits_V: Tensor, rows: int) -> tuple[Tensor, Tensor]:
    weights = softmax_weights_(logits_V.repeat(rows, 1).clone())
    return weights, block_sums(weights)


def chi_square(counts: np.ndarray, probabilities: np.ndarray) -> float:
    expected = probabilities * counts.sum()
    return float(((counts - expected) ** 2 / expected).sum())


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several blocks, the last one partly filled, from a vocabulary that can be enumerated."""
    monkeypatch.setattr(sampling, "BLOCK", 3)


@pytest.mark.usefixtures("small_blocks")
def test_sample_follows_the_softmax() -> None:
    torch.manual_seed(0)
    logits = torch.tensor([0.0, 1.5, -2.0, 0.3, 0.3, 2.0, -1.0, 0.8])  # two unequal tokens in the last block
    token = sample(*weights_of(logits, DRAWS), torch.rand(DRAWS, 2, dtype=torch.float64))
    counts = np.bincount(token.numpy(), minlength=8)
    assert chi_square(counts, torch.softmax(logits.double(), 0).numpy()) < 24.3  # 7 degrees, p = 0.001


def test_rare_tokens_of_a_full_vocabulary_keep_their_share() -> None:
    torch.manual_seed(0)
    vocabulary = 21_128
    logits = torch.zeros(vocabulary)
    logits[7] = 14.0  # all others together: 0.0173 of the mass, each 8e-7
    weights, sums = weights_of(logits, 300)
    token = torch.cat([sample(weights, sums, torch.rand(300, 2, dtype=torch.float64)) for _ in range(100)])
    rare = token[token != 7].numpy()
    share = 1 - torch.softmax(logits.double(), 0)[7].item()
    assert len(rare) / len(token) == pytest.approx(share, rel=0.15)
    assert abs(np.mean(rare) / vocabulary - 0.5) < 0.06  # evenly over the vocabulary


@pytest.mark.usefixtures("small_blocks")
def test_negatives_follow_successive_sampling() -> None:
    """Ordered pairs without the original: p(a) / (1 - p(o)) * p(b) / (1 - p(o) - p(a)), the law of Gumbel top-k."""
    torch.manual_seed(0)
    logits, original = torch.tensor([0.0, 1.5, -1.0, 0.3, 2.5]), 4
    excluded = torch.full((DRAWS,), original)
    pairs = sample_without_replacement(*weights_of(logits, DRAWS), excluded, torch.rand(DRAWS, 2, 2).double()).numpy()
    p = torch.softmax(logits.double(), 0).numpy()
    orders = list(itertools.permutations(range(4), 2))
    expected = np.array([p[a] / (1 - p[original]) * p[b] / (1 - p[original] - p[a]) for a, b in orders])
    assert expected.sum() == pytest.approx(1.0)
    counts = np.array([((pairs == order).all(1)).sum() for order in orders])
    assert counts.sum() == DRAWS
    assert chi_square(counts, expected) < 31.3  # 11 degrees of freedom, p = 0.001


@pytest.mark.parametrize("vocabulary", [6, 300])
@pytest.mark.parametrize("spread", [1.0, 1000.0])
def test_candidate_sets_are_distinct_and_hold_the_original_once(vocabulary: int, spread: float) -> None:
    """Also if the generator is certain (spread 1000: all weights but one vanish in float32)."""
    torch.manual_seed(0)
    rows = 2000
    weights = softmax_weights_(torch.randn(rows, vocabulary) * spread)
    original = torch.where(torch.arange(rows) % 2 == 0, weights.argmax(1), torch.randint(vocabulary, (rows,)))
    negatives = sample_without_replacement(
        weights, block_sums(weights), original, torch.rand(rows, 5, 2, dtype=torch.float64)
    )
    candidates = torch.cat([original[:, None], negatives], 1)
    assert candidates.min() >= 0 and candidates.max() < vocabulary
    assert (candidates.sort(1).values.diff(dim=1) > 0).all()


@pytest.mark.parametrize("edge", [0.0, 1.0 - 2.0**-53])
def test_ends_of_the_unit_interval(edge: float) -> None:
    weights, sums = weights_of(torch.tensor([0.0, -5.0, 3.0, -200.0]), 1)
    uniforms = torch.full((1, 3, 2), edge, dtype=torch.float64)
    assert 0 <= sample(weights, sums, uniforms[:, 0]).item() < 4
    assert sorted(sample_without_replacement(weights, sums, torch.tensor([2]), uniforms)[0].tolist()) == [0, 1, 3]


def test_vocabulary_smaller_than_the_sample_is_refused() -> None:
    weights, sums = weights_of(torch.zeros(5), 2)
    with pytest.raises(ValueError, match="cannot draw 5 tokens besides the original from a vocabulary of 5"):
        sample_without_replacement(weights, sums, torch.tensor([0, 1]), torch.rand(2, 5, 2).double())


@pytest.mark.parametrize("size", [1, 2, 3, 16, 147, 256])
def test_running_sums_by_steps_choose_as_cumsum_does(size: int) -> None:
    """The method of deterministic runs on a GPU: the same sums, and never a step at a weight of 0."""
    weights = torch.rand(200, size, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    weights[weights < 0.4] = 0.0
    plain, stepped = (sampling._running_sums(weights, by_steps) for by_steps in (False, True))
    torch.testing.assert_close(stepped, plain, rtol=1e-13, atol=0)
    steps = stepped.diff(dim=1)
    assert bool((steps[weights[:, 1:] == 0.0] == 0.0).all()) and bool((steps >= 0.0).all())
    assert bool((stepped[:, 0] == weights[:, 0]).all())
