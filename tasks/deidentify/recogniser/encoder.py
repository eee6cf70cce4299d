"""A small pre-trained encoder that reads again where identifiers may be: names that are words want a whole sentence.

It finds names that the linear model missed, and refutes some that it found.

The weights are a file beside this module: a BERT of this project with rotary positions (Su et al. 2021, RoFormer),
tuned on drawn lines and rounded to integers of 8 bits. It runs on NumPy alone. Time and memory grow with the characters
of what is read at once, the attention's with their square; `Model` gives it passages of at most 200.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from infra.arrays.code_points import points_of
from infra.errors import UserError
from tasks.deidentify.recogniser.labels import LABELS, MAY_FOLLOW, OUTSIDE, WIDTH
from tasks.deidentify.recogniser.paths import NEVER, best_path

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

WEIGHTS = Path(__file__).with_name("encoder.npz")
"""Weights that are shipped."""

OTHER, SPACE, FIRST = 0, 1, 2
"""Rows of the embeddings: a character that is not in the table, a blank, and the first character of the table."""
PARTS_OF_A_NAT = 1000
"""Log-probabilities are summed as integers of a thousandth, so that a path does not hang on a processor's last bits."""
_BLANKS = np.array([ord(blank) for blank in " \u3000\t\n\r\xa0"], dtype=np.int32)
_EPSILON = 1e-12
"""What is added to a variance, as in BERT."""
_TRANSITIONS = np.where(MAY_FOLLOW, 0, 10 * NEVER).astype(np.int32)


class Reading(NamedTuple):
    """What the encoder makes of a text."""

    labels: np.ndarray
    """Label of each character on the likeliest path, int8 (N,)."""
    likely: np.ndarray
    """Probability that a character belongs to an identifier, float32 (N,)."""


class Encoder:
    """Weights of the encoder, and its labels."""

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Read what `arrays_of` in encoder_training.py returns.

        Args:
            arrays: `characters`, int32 (V,) in order; `heads`; `cost`, what a span must be worth more than none, in
                nats; `least_lead`, what a label must be worth in the linear model, compared with none, for a piece to
                be read again; and matrices as int8 with a scale a row, in `NAME` and `NAME/scale`, or as float32.
        """
        self.characters = np.asarray(arrays["characters"])
        self.heads = int(arrays["heads"])
        self.least_lead = int(arrays["least_lead"])
        self.costs = np.zeros(len(LABELS), dtype=np.int32)
        self.costs[[label[0] in "BS" for label in LABELS]] = round(float(arrays["cost"]) * PARTS_OF_A_NAT)
        settings = "characters", "heads", "cost", "least_lead"
        self._held = {name: unrounded(arrays, name) for name in arrays if "/" not in name and name not in settings}
        self.layers = sum(name.endswith(".query") for name in self._held)

    def scores(self, text: str) -> np.ndarray:
        """Return the log-probability of each label of each character, float32 (N, L)."""
        held = self._held
        rows = rows_of(text, self.characters)
        states = _normed(held["embeddings"][rows], held, "embeddings_norm")
        width = states.shape[1] // self.heads
        cosines, sines = rotations(len(rows), width)
        for number in range(self.layers):
            layer = f"layers.{number}."
            query, key, value = (
                _linear(states, held, layer + name).reshape(len(rows), self.heads, width).transpose(1, 0, 2)
                for name in ("query", "key", "value")
            )
            query, key = (rotated(each, cosines, sines) for each in (query, key))
            attention = _softmax(query @ key.transpose(0, 2, 1) / np.float32(width**0.5))
            mixed = (attention @ value).transpose(1, 0, 2).reshape(len(rows), -1)
            states = _normed(states + _linear(mixed, held, layer + "output"), held, layer + "attention_norm")
            inner = _linear(states, held, layer + "up")
            inner *= np.float32(0.5) * (1 + erf(inner * np.float32(0.5**0.5)))  # GELU
            states = _normed(states + _linear(inner, held, layer + "down"), held, layer + "norm")
        of_labels = _linear(states, held, "head")
        of_labels -= of_labels.max(axis=1, keepdims=True)
        result: np.ndarray = of_labels - np.log(np.exp(of_labels).sum(axis=1, keepdims=True))
        return result

    def read(self, text: str) -> Reading:
        """Return the label of each character on the likeliest path, and how likely each is part of an identifier."""
        if not text:
            return Reading(np.zeros(0, dtype=np.int8), np.zeros(0, dtype=np.float32))
        # Several threads wait for each other in every small product: fourteen times as long, on two busy cores.
        with _libraries().limit(limits=1, user_api="blas"):
            scores = self.scores(text)
        emissions = np.zeros((len(text), WIDTH), dtype=np.int32)
        emissions[:, : len(LABELS)] = np.rint(np.maximum(scores, -1000) * PARTS_OF_A_NAT)
        return Reading(best_path(emissions, _TRANSITIONS, self.costs), 1 - np.exp(scores[:, OUTSIDE]))


def shipped_encoder() -> Encoder:
    """Return the encoder whose weights are shipped.

    Raises:
        UserError: they are absent.
    """
    if not WEIGHTS.exists():
        raise UserError(f"deidentify.encoder needs the weights {WEIGHTS.name}, which are not installed: install again.")
    with np.load(WEIGHTS) as held:
        return Encoder(dict(held))


@functools.cache
def _libraries() -> ThreadpoolController:
    """Return what sets the threads of the libraries that are loaded; finding them takes milliseconds."""
    from threadpoolctl import ThreadpoolController  # who reads without an encoder need not wait for it

    return ThreadpoolController()


def rows_of(text: str, characters: np.ndarray) -> np.ndarray:
    """Return the row of the embeddings of each character, int64 (N,), by the code points that have one, in order."""
    points = points_of(text).astype(np.int32)
    places = np.minimum(np.searchsorted(characters, points), len(characters) - 1)
    rows = np.where(characters[places] == points, places + FIRST, OTHER)
    rows[np.isin(points, _BLANKS)] = SPACE
    return rows


def unrounded(arrays: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    """Return a matrix or vector as float32."""
    held = np.asarray(arrays[name])
    scale = arrays.get(f"{name}/scale")
    return held.astype(np.float32) if scale is None else held.astype(np.float32) * np.asarray(scale)[:, None]


def erf(values: np.ndarray) -> np.ndarray:
    """Return the error function of float32 values, to 2e-7 (Abramowitz and Stegun 1964, 7.1.26).

    SciPy's took a third of the whole time.
    """
    size = np.abs(values)
    part = 1 / (1 + np.float32(0.3275911) * size)
    sum_of_powers = np.float32(1.061405429) * part
    for factor in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        sum_of_powers += np.float32(factor)
        sum_of_powers *= part
    return np.copysign(1 - sum_of_powers * np.exp(-size * size), values)


def rotations(length: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Return cosines and sines of the rotary positions, float32 (N, width / 2) (Su et al. 2021, equation 15)."""
    angles = np.arange(length)[:, None] / 10_000 ** (2 * np.arange(width // 2) / width)
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def rotated(states: np.ndarray, cosines: np.ndarray, sines: np.ndarray) -> np.ndarray:
    """Return states, (heads, N, width), whose pairs of neighbouring columns are turned by their position's angles."""
    even, odd = states[..., 0::2], states[..., 1::2]
    turned = np.empty_like(states)
    turned[..., 0::2] = even * cosines - odd * sines
    turned[..., 1::2] = odd * cosines + even * sines
    return turned


def _linear(states: np.ndarray, held: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    result: np.ndarray = states @ held[name].T + held[f"{name}.bias"]
    return result


def _normed(states: np.ndarray, held: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    centred = states - states.mean(axis=1, keepdims=True)
    deviation = np.sqrt((centred * centred).mean(axis=1, keepdims=True) + np.float32(_EPSILON))
    result: np.ndarray = centred / deviation * held[name] + held[f"{name}.bias"]
    return result


def _softmax(scores: np.ndarray) -> np.ndarray:
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    result: np.ndarray = weights / weights.sum(axis=-1, keepdims=True)
    return result
