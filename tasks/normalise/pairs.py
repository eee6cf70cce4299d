"""Pairs of a diagnosis and a standard term, from which a ranker learns which belong together (eHealth, appendix E).

Right pairs are a diagnosis with each of its terms. Wrong ones are hard, terms that retrieval found for it, the best
first half and the rest at random from the others, and random, any terms of the list.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


class Pair(NamedTuple):
    """A diagnosis, a standard term, and whether they belong together."""

    diagnosis: str
    term: str
    right: bool


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """A labelled diagnosis and the terms that retrieval found for it."""

    text: str
    terms: tuple[str, ...]
    found: tuple[str, ...]
    """Best first."""


def training_pairs(
    diagnoses: Sequence[Diagnosis], terms: Sequence[str], *, hard: int, random: int, seed: int
) -> Iterator[Pair]:
    """The pairs of each diagnosis in turn: its terms, then `hard` and `random` wrong ones, as far as there are any.

    No pair occurs twice, and none of the wrong ones is right. What is drawn for a diagnosis depends on the seed and its
    place, not on the others. Memory holds one diagnosis.

    Args:
        terms: all standard terms, in an order that does not change.
    """
    for place, diagnosis in enumerate(diagnoses):
        draw = np.random.Generator(np.random.Philox(np.random.SeedSequence((seed, place))))
        right = dict.fromkeys(diagnosis.terms)
        wrong = _hard(diagnosis, hard, draw)
        wrong |= _random(terms, random, right.keys() | wrong.keys(), draw)
        yield from (Pair(diagnosis.text, term, True) for term in right)
        yield from (Pair(diagnosis.text, term, False) for term in wrong)


def _hard(diagnosis: Diagnosis, count: int, draw: np.random.Generator) -> dict[str, None]:
    found = [term for term in dict.fromkeys(diagnosis.found) if term not in diagnosis.terms]
    best, others = found[: (count + 1) // 2], found[(count + 1) // 2 :]
    chosen = draw.permutation(len(others))[: count - len(best)]
    return dict.fromkeys([*best, *(others[number] for number in sorted(chosen))])


def _random(terms: Sequence[str], count: int, taken: set[str], draw: np.random.Generator) -> dict[str, None]:
    """Twice as many are drawn as are wanted: what is taken falls out."""
    if not terms or count == 0:
        return {}
    drawn = dict.fromkeys(terms[number] for number in draw.integers(len(terms), size=2 * count + len(taken)))
    return dict.fromkeys([term for term in drawn if term not in taken][:count])
