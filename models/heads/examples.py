"""Inputs and outputs of heads, in tokens: the boundary between files of text and networks.

| head | sequences | target | prediction |
|---|---|---|---|
| single, pair | 1 | class: int | probabilities float32 (C,) |
| multi_label | 1 | float32 (C,) of 0 and 1 | probabilities float32 (C,) |
| ranking | 1 | 1 right, 0 wrong: int | score: float, higher is better |
| choice | one per option | the right option: int | probabilities float32 (number of options,) |
| tagging | 1 | tag of each token int64 (L,), -100 for none | tags int64 (L,) |
| two_stream | 1 | int64 (2, L), -100 for none | tags int64 (2, L) |
| triples | 1 | `Pointers` | `Pointers`, with scores |
| alignment | one per name | concept of each name int64 (n,) | unit vectors float32 (n, D) |

Shape legend: L tokens of a sequence with [CLS] and [SEP], C classes, N mentions, F features of a token.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

MENTION_FIELDS = 4
"""Numbers of a mention: first token, the token after its last, row of the entity table, number of the surface."""


@dataclass(frozen=True, slots=True)
class TokenSequence:
    """Token ids of one sequence, [CLS] … [SEP], and what else some encoders read."""

    input_ids: np.ndarray
    """int64 (L,)"""
    type_ids: np.ndarray
    """int64 (L,): 0 for the first text, 1 for the second."""
    mentions: np.ndarray | None = None
    """int64 (N, 4): entities of a knowledge graph that the text names, `MENTION_FIELDS` each; None if not looked up."""
    features: np.ndarray | None = None
    """float32 (L, F): vectors of the tokens, such as a frozen encoder's states; None without such vectors."""


@dataclass(frozen=True, slots=True)
class Pointers:
    """Entities and the relations between them, by tokens."""

    entities: np.ndarray
    """int64 (N, 2): first and last token (inclusive) of each entity."""
    relations: np.ndarray
    """int64 (R, 3): first token of the subject, relation, first token of the object."""
    scores: np.ndarray | None = None
    """float32 (R,): probability of each relation; None in a target."""


@dataclass(frozen=True, slots=True)
class HeadExample:
    """One example of a task in its head's form. `target` is None if only a prediction is needed."""

    sequences: tuple[TokenSequence, ...]
    target: Any = None
