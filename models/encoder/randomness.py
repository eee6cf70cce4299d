"""All randomness of a training step, as functions of (run seed, step, global row, view, purpose).

Nothing here depends on which worker holds a row, on the number of workers, or on earlier draws: a batch is the same on
one worker, on eight, and after a resume.

- `uniforms` is counter-based (SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators",
  OOPSLA 2014). It serves draws that belong to one token, such as its masking.
- `SequenceNoise` holds one generator per sequence, for draws by the million, such as dropout on the CPU. NumPy's SFC64
  costs 0.4 ns per 16 bits, torch's own CPU dropout 5.6 ns per element (measured on two cores of an AMD EPYC).
- On CUDA each micro-batch of a step has one generator (`seed_device`). Its draws are reproducible, but rows in another
  micro-batch draw other numbers from the same distribution.

Shape legend: S sequences (a row's two views are two sequences), T tokens laid end to end.
"""

from collections.abc import Sequence
from enum import IntEnum

import numpy as np
import torch
from torch import Tensor

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio: SplitMix64's increment
_MASK_64 = (1 << 64) - 1
_LEVELS = 1 << 16  # dropout compares 16 random bits with a threshold


class Stream(IntEnum):
    """Purpose of a draw. Two purposes never share numbers. The values are part of a run's identity: append new ones,
    never renumber.
    """

    SELECT_WORD = 1
    REPLACEMENT_KIND = 2
    RANDOM_TOKEN = 3
    FORCED_WORD = 4
    GENERATOR_DROPOUT = 5
    DISCRIMINATOR_DROPOUT = 6
    SAMPLING = 7
    DEVICE = 8
    PAIR_ORDER = 9
    ENCODER_DROPOUT = 10
    TASK = 11
    PRODUCT_VALUES = 15
    SHARED_VALUES = 16
    ENTITY_REPLACED = 20
    ENTITY_LABEL = 21
    ENTITY_SURFACE = 22
    TERM_MASKED = 23
    TERM_SIDE = 24
    MENTION_USED = 30
    MENTION_MASKED = 31
    NEGATIVE_ENTITY = 32
    NEIGHBOUR_RELATION = 33


def _splitmix64(state: np.ndarray) -> np.ndarray:
    """SplitMix64's output function: a bijection of uint64 whose outputs pass BigCrush for consecutive inputs."""
    z = state + _GOLDEN
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def _as_uint64(values: np.ndarray | Sequence[int] | int) -> np.ndarray:
    """Integers modulo 2^64, at least one-dimensional: NumPy warns of the intended overflow on scalars only."""
    if isinstance(values, int):
        return np.array([values & _MASK_64], dtype=np.uint64)
    return np.atleast_1d(np.asarray(values)).astype(np.int64, copy=False).view(np.uint64)


def keys(seed: int, step: int, *parts: np.ndarray | Sequence[int] | int) -> np.ndarray:
    """Return a hash of (seed, step, parts...) as uint64.

    Integer parts broadcast against each other: rows (S,), views (S,) and one stream give (S,). Order matters:
    `keys(s, t, 1, 2)` and `keys(s, t, 2, 1)` are unrelated.
    """
    key = _splitmix64(_as_uint64(seed))
    for part in (step, *parts):
        key = _splitmix64(key ^ _splitmix64(_as_uint64(part)))
    return key


def uniforms(
    seed: int,
    step: int,
    rows: np.ndarray | Sequence[int] | int,
    stream: int,
    counters: np.ndarray | Sequence[int] | int,
    views: np.ndarray | Sequence[int] | int = 0,
) -> np.ndarray:
    """Return uniform float64 in [0, 1), one per (row, view, counter), independent of what else is drawn.

    `rows`, `views` and `counters` are integers that broadcast against each other; the result has their joint shape.
    """
    bits = _splitmix64(keys(seed, step, stream, rows, views) + _as_uint64(counters) * _GOLDEN)
    return (bits >> np.uint64(11)) * 2.0**-53  # a float64 holds 53 bits


def keep_probability(rate: float) -> float:
    """Return the share that dropout at `rate` really keeps: the rate is rounded to 1/65,536 (0.1 becomes 0.100006)."""
    return 1.0 - _threshold(rate) / _LEVELS


def _threshold(rate: float) -> int:
    return round(rate * _LEVELS)


class SequenceNoise:
    """Independent random streams, one per sequence, for draws on the CPU.

    `fork(site)` returns the streams of one place in the network, such as a layer, so that a layer recomputed for
    activation checkpointing draws the same numbers again.
    """

    def __init__(self, sequence_keys: np.ndarray) -> None:
        """`sequence_keys`: uint64 (S,), from `keys`."""
        self.keys = sequence_keys
        self._streams = [np.random.SFC64(int(key)) for key in sequence_keys]

    @classmethod
    def for_step(cls, seed: int, step: int, stream: int, rows: np.ndarray, views: np.ndarray) -> "SequenceNoise":
        """Return the streams of the sequences (rows[i], views[i]) for one purpose; integer arrays (S,)."""
        return cls(keys(seed, step, stream, rows, views))

    @classmethod
    def from_default_generator(cls, sequences: int) -> "SequenceNoise":
        """Return streams that `torch.manual_seed` governs, for callers without step and row (fine-tuning)."""
        seed = int(torch.randint(2**62, ()))
        return cls(keys(seed, 0, np.arange(sequences)))

    def fork(self, site: int) -> "SequenceNoise":
        """Return the streams of one place in the network. They start over at each call."""
        return SequenceNoise(_splitmix64(self.keys ^ _splitmix64(_as_uint64(site))))

    def bits(self, counts: Sequence[int]) -> Tensor:
        """Return int16 (sum(counts),): `counts[i]` 16-bit numbers from sequence i's stream, laid end to end."""
        out = np.empty(sum(counts), dtype=np.int16)
        start = 0
        for stream, count in zip(self._streams, counts, strict=True):
            # One raw draw of 64 bits holds four numbers.
            out[start : start + count] = stream.random_raw((count + 3) // 4).view(np.int16)[:count]
            start += count
        return torch.from_numpy(out)

    def keep_mask(self, counts: Sequence[int], rate: float) -> Tensor:
        """Return uint8 (sum(counts),) of 0 (dropped, with probability `rate`) and 1.

        The caller scales by 1 / keep_probability(rate). It is uint8, not bool: on the CPU torch multiplies by it 2.4
        times as fast.
        """
        bits = self.bits(counts)
        mask = torch.empty(bits.shape, dtype=torch.uint8)
        return torch.ge(bits, _threshold(rate) - _LEVELS // 2, out=mask)  # one pass: compare and convert

    def uniforms(self, counts: Sequence[int]) -> Tensor:
        """Return float64 (sum(counts),) in [0, 1): `counts[i]` numbers from sequence i's stream."""
        draws = [np.random.Generator(s).random(count) for s, count in zip(self._streams, counts, strict=True)]
        return torch.from_numpy(np.concatenate(draws)) if draws else torch.empty(0, dtype=torch.float64)


def seed_device(device: torch.device, seed: int, step: int, first_row: int) -> torch.Generator:
    """Seed an accelerator's default generator, which dropout draws from, and return a second one for sampling.

    Both depend on (seed, step, first row of the micro-batch). Results are exact for the same rows in the same
    micro-batch. With other micro-batches, say by another number of workers, the draws differ but their distribution
    does not.
    """
    dropout_seed, sampling_seed = (int(k) >> 1 for k in keys(seed, step, Stream.DEVICE, first_row, np.arange(2)))
    with torch.cuda.device(device):
        torch.cuda.manual_seed(dropout_seed)
    return torch.Generator(device=device).manual_seed(sampling_seed)
