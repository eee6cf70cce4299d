"""Randomness is a function of (seed, step, row, view, purpose) and of nothing else."""

import numpy as np
import pytest
import torch

from models.encoder.randomness import SequenceNoise, Stream, keep_probability, keys, uniforms


def test_uniforms_are_uniform_and_uncorrelated() -> None:
    draws = uniforms(1, 2, np.arange(400)[:, None], Stream.SELECT_WORD, np.arange(500))
    assert draws.shape == (400, 500)
    assert draws.min() >= 0.0 and draws.max() < 1.0
    counts, _ = np.histogram(draws, bins=100, range=(0, 1))
    chi_square = ((counts - 2000.0) ** 2 / 2000.0).sum()
    assert chi_square < 149  # 99 degrees of freedom, p = 0.001
    neighbours = [np.corrcoef(draws[:, 1:].ravel(), draws[:, :-1].ravel()), np.corrcoef(draws[0], draws[1])]
    assert abs(neighbours[0][0, 1]) < 0.01 and abs(neighbours[1][0, 1]) < 0.15


def test_draw_does_not_depend_on_other_draws() -> None:
    together = uniforms(7, 3, np.array([4, 9, 2]), Stream.RANDOM_TOKEN, np.array([0, 5, 1]), np.array([1, 0, 1]))
    alone = [uniforms(7, 3, r, Stream.RANDOM_TOKEN, c, v)[0] for r, c, v in ((4, 0, 1), (9, 5, 0), (2, 1, 1))]
    assert together.tolist() == alone


@pytest.mark.parametrize("change", [(8, 3, 4, 1), (7, 4, 4, 1), (7, 3, 5, 1), (7, 3, 4, 2), (4, 3, 7, 1)])
def test_every_part_of_the_key_matters(change: tuple[int, ...]) -> None:
    assert keys(*change) != keys(7, 3, 4, 1)


def test_negative_and_large_seeds_are_accepted() -> None:
    assert len({int(keys(seed, 0, 1)[0]) for seed in (-1, 0, 1, 2**63, 2**64 - 2)}) == 5


def test_every_sequence_has_its_own_stream() -> None:
    rows, views = np.array([5, 8, 5]), np.array([0, 0, 1])
    noise = SequenceNoise.for_step(1, 2, Stream.GENERATOR_DROPOUT, rows, views).fork(3)
    mask = noise.keep_mask([10, 7, 30], 0.3)
    other = SequenceNoise.for_step(1, 2, Stream.GENERATOR_DROPOUT, rows[2:], views[2:]).fork(3)
    assert torch.equal(mask[17:], other.keep_mask([30], 0.3))
    assert not torch.equal(mask[:10], mask[17:27])


def test_fork_restarts_so_that_recomputation_repeats_it() -> None:
    noise = SequenceNoise.for_step(1, 2, Stream.GENERATOR_DROPOUT, np.arange(2), np.zeros(2, int))
    first = noise.fork(4).bits([9, 9])
    noise.fork(5).bits([100, 1])
    assert torch.equal(first, noise.fork(4).bits([9, 9]))
    assert not torch.equal(first, noise.fork(5).bits([9, 9]))


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.0])
def test_masks_drop_at_their_rate(rate: float) -> None:
    noise = SequenceNoise.for_step(3, 1, Stream.GENERATOR_DROPOUT, np.arange(4), np.zeros(4, int))
    mask = noise.keep_mask([100_001] * 4, rate)
    assert set(mask.unique().tolist()) <= {0, 1}
    assert mask.double().mean().item() == pytest.approx(keep_probability(rate), abs=0.003)
    assert keep_probability(rate) == pytest.approx(1 - rate, abs=1e-5)


def test_sequence_uniforms() -> None:
    noise = SequenceNoise.for_step(3, 1, Stream.SAMPLING, np.arange(3), np.zeros(3, int))
    draws = noise.uniforms([50_000, 0, 50_000])
    assert draws.dtype == torch.float64 and draws.shape == (100_000,)
    assert draws.mean().item() == pytest.approx(0.5, abs=0.005)


def test_default_generator_governs_unnamed_noise() -> None:
    torch.manual_seed(5)
    first = SequenceNoise.from_default_generator(2).bits([8, 8])
    again = SequenceNoise.from_default_generator(2).bits([8, 8])
    torch.manual_seed(5)
    assert torch.equal(first, SequenceNoise.from_default_generator(2).bits([8, 8]))
    assert not torch.equal(first, again)
