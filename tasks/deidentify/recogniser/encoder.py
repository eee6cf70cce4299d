"""Small pre-trained encoders that read again where identifiers may be: names that are words want a whole sentence.

They find names that the linear model missed, and refute some that it found.

The weights are files beside this module: a BERT of this project with rotary positions (Su et al. 2021, RoFormer), tuned
on drawn lines, and a reader with a sixteenth of its weights that learned from it (distilling.py); both are rounded to
integers of 8 bits. They run on NumPy alone. Time and memory grow with the characters of what is read at once, the
attention's with their square; `Model` gives them passages of a bounded length.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from infra.arrays.code_points import points_of
from infra.errors import UserError
from tasks.deidentify.recogniser.encoder_layer import EncoderLayer, add_and_norm, lower, product
from tasks.deidentify.recogniser.labels import LABELS, MAY_FOLLOW, OUTSIDE, WIDTH
from tasks.deidentify.recogniser.paths import NEVER, best_path

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

WEIGHTS, READER = (Path(__file__).with_name(f"{name}.npz") for name in ("encoder", "reader"))
"""Weights that are shipped: those of the large encoder, and of the small one that reads by default."""

OTHER, SPACE, FIRST = 0, 1, 2
"""Rows of the embeddings: a character that is not in the table, a blank, and the first character of the table."""
PARTS_OF_A_NAT = 1000
"""Log-probabilities are summed as integers of a thousandth, so that a path does not hang on a processor's last bits."""
_IS_BLANK = np.zeros(0x3002, dtype=np.bool_)
"""Which code points are blanks; the last one stands for all that are greater."""
_IS_BLANK[[ord(blank) for blank in " \u3000\t\n\r\xa0"]] = True
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
                be read again; `rectified`, 1 where the inner function is ReLU instead of GELU; and matrices as int8
                with a scale a row, in `NAME` and `NAME/scale`, or as float32.
        """
        self.characters = np.asarray(arrays["characters"])
        self.heads = int(arrays["heads"])
        self.least_lead = int(arrays["least_lead"])
        self.costs = np.zeros(len(LABELS), dtype=np.int32)
        self.costs[[label[0] in "BS" for label in LABELS]] = round(float(arrays["cost"]) * PARTS_OF_A_NAT)
        settings = "characters", "heads", "cost", "least_lead", "rectified"
        held = {name: unrounded(arrays, name) for name in arrays if "/" not in name and name not in settings}
        self._embeddings = held["embeddings"]
        self._embeddings_norm = held["embeddings_norm"], held["embeddings_norm.bias"]
        self._zeros = np.zeros(self._embeddings.shape[1], dtype=np.float32)
        self._head = product(held, "head")
        is_rectified = bool(arrays.get("rectified", 0))
        self.layers = sum(name.endswith(".query") for name in held)
        self._layers = [
            EncoderLayer(held, f"layers.{number}.", self.heads, is_rectified) for number in range(self.layers)
        ]

    def scores(self, text: str) -> np.ndarray:
        """Return the log-probability of each label of each character, float32 (N, L)."""
        states = self._embeddings[rows_of(text, self.characters)]
        add_and_norm(states, self._zeros, np.zeros_like(states), *self._embeddings_norm)
        turns = rotations(len(states), states.shape[1] // self.heads)
        for layer in self._layers:
            states = layer(states, *turns)
        of_labels: np.ndarray = states @ self._head[0]
        of_labels += self._head[1]
        lower(of_labels)
        of_labels -= np.log(np.exp(of_labels).sum(axis=1, keepdims=True))
        return of_labels

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
    """Return the large encoder whose weights are shipped.

    Raises:
        UserError: they are absent.
    """
    if not WEIGHTS.exists():
        raise UserError(f"deidentify.encoder needs the weights {WEIGHTS.name}, which are not installed: install again.")
    return _read(WEIGHTS)


def shipped_reader() -> Encoder | None:
    """Return the small encoder whose weights are shipped, or None where they are absent."""
    return _read(READER) if READER.exists() else None


def _read(file: Path) -> Encoder:
    with np.load(file) as held:
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
    rows[_IS_BLANK[np.minimum(points, len(_IS_BLANK) - 1)]] = SPACE
    return rows


def unrounded(arrays: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    """Return a matrix or vector as float32."""
    held = np.asarray(arrays[name])
    scale = arrays.get(f"{name}/scale")
    return held.astype(np.float32) if scale is None else held.astype(np.float32) * np.asarray(scale)[:, None]


@functools.lru_cache(maxsize=1024)
def rotations(length: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Return cosines and sines of the rotary positions, float32 (N, width / 2) (Su et al. 2021, equation 15)."""
    angles = np.arange(length)[:, None] / 10_000 ** (2 * np.arange(width // 2) / width)
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
