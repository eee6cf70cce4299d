"""Training pairs of a ranker: a diagnosis and a standard term that belong together or not (eHealth, appendix E).

Each diagnosis forms a right pair with each of its terms. Its wrong pairs are hard or random. Half of the hard ones are
the best wrong terms that retrieval found, the other half a sample of the rest. The random ones are any terms of the
list.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


class Pair(NamedTuple):
    """A diagnosis and a standard term."""

    diagnosis: str
    term: str
    right: bool
    """The term is one of the diagnosis's terms."""


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
    """Yield the pairs of each diagnosis in turn: the right ones, then up to `hard` and `random` wrong ones.

    Pairs of a diagnosis are distinct, and no right pair is drawn as a wrong one. The sample depends on the seed and the
    position of the diagnosis, but not on other diagnoses. Memory holds the pairs of one diagnosis.

    Args:
        terms: all standard terms, in a fixed order.
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
    # The best wrong terms are the hardest; the sample adds some from further down the list.
    chosen = draw.permutation(len(others))[: count - len(best)]
    return dict.fromkeys([*best, *(others[number] for number in sorted(chosen))])


def _random(terms: Sequence[str], count: int, taken: set[str], draw: np.random.Generator) -> dict[str, None]:
    """Draw wrong terms from the whole list."""
    if not terms or count == 0:
        return {}
    # Draw more than needed: repeated terms and those already in a pair are dropped.
    drawn = dict.fromkeys(terms[number] for number in draw.integers(len(terms), size=2 * count + len(taken)))
    return dict.fromkeys([term for term in drawn if term not in taken][:count])
