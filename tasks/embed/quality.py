"""Knowledge of a graph in word vectors: synonyms, types and relations, each against random names.

Every measure is the share of pairs that are nearer by cosine than a random counterpart is, half for a tie: 50 % by
chance.

- synonym: two names of one entity, against the first of them and a random name of the same type;
- type: two names of the same type that are no synonyms, against the first and a random name of another type;
- analogy: for two triples (a, r, b) and (c, r, d) of one relation, b - a + c and d, against a random name of d's type
  that is no tail of c under r (Mikolov et al., 2013).

Only names that all compared vectors know count, so that these are judged on the same pairs. A name is known if it is a
word with a vector; vectors of characters alone know names by the mean of their characters.

Shape legend: N names, D width, P pairs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from models.word_vectors import WordVectors

ROUNDS = 1000
"""Resamples of an interval."""

T = TypeVar("T")


@dataclass(frozen=True)
class Name:
    """A name of the graph that means one thing."""

    surface: str
    entity_id: str
    group: str
    """Group of synonyms that it belongs to."""
    type: str


@dataclass(frozen=True)
class Quads:
    """Pairs with their random counterparts, as places of names."""

    measure: str
    start: np.ndarray
    """int64 (P, 3): places of a, b and c, where b - a + c is looked from; a == b where it is c itself."""
    near: np.ndarray
    """int64 (P,): the name that should be near."""
    far: np.ndarray
    """int64 (P,): the random one."""
    groups: np.ndarray
    """int64 (P,): the pairs of one group are resampled together."""


@dataclass(frozen=True)
class Score:
    """One figure: a share, with its 95 % interval by resampling groups."""

    measure: str
    pairs: int
    score: float
    low: float
    high: float


def name_vectors(vectors: WordVectors, names: Sequence[str]) -> np.ndarray:
    """Return a vector for each name, float32 (N, D); NaN for a name that the vectors do not know."""
    found = np.full((len(names), vectors.width), np.nan, dtype=np.float32)
    if not is_of_characters(vectors):
        rows = vectors.rows(names)
        found[rows >= 0] = vectors.matrix[rows[rows >= 0]]
        return found
    for place, name in enumerate(names):
        rows = vectors.rows("".join(name.split()))
        if len(rows) and rows.min() >= 0:
            found[place] = vectors.matrix[rows].mean(axis=0)
    return found


def is_of_characters(vectors: WordVectors) -> bool:
    """Return whether the vectors are those of single characters."""
    return all(len(word) == 1 for word in vectors.words)


def quads_of(names: Sequence[Name], triples: Iterable[tuple[str, str, str]], pairs: int, seed: int) -> list[Quads]:
    """Draw pairs of each measure; a measure without any is left out.

    Args:
        names: the names to draw from.
        triples: (head, relation, tail), by entity id.
        pairs: largest number of pairs of a measure.
        seed: of the draws; they do not depend on the order of the names or triples.

    Time and memory grow with names, triples and pairs.
    """
    ordered = sorted(range(len(names)), key=lambda place: names[place].surface)
    draw = _Draw(names, ordered, np.random.default_rng(seed))
    found = [draw.synonyms(pairs), draw.types(pairs), draw.analogies(triples, pairs)]
    return [quads for quads in found if len(quads.near)]


def score_of(quads: Quads, vectors_ND: np.ndarray, seed: int) -> Score:
    """Return the share of pairs that are nearer than their random counterpart; all names must have a vector."""
    unit_ND = vectors_ND / np.maximum(np.linalg.norm(vectors_ND, axis=1, keepdims=True), 1e-12)
    one, other, third = (unit_ND[quads.start[:, column]] for column in range(3))
    target_PD = other - one + third
    near_P = (target_PD * unit_ND[quads.near]).sum(axis=1)
    far_P = (target_PD * unit_ND[quads.far]).sum(axis=1)
    won_P = np.where(near_P == far_P, 0.5, near_P > far_P)
    _, group_P = np.unique(quads.groups, return_inverse=True)
    wins, sizes = np.bincount(group_P, weights=won_P), np.bincount(group_P)
    drawn = np.random.default_rng(seed).integers(len(sizes), size=(ROUNDS, len(sizes)))
    shares = wins[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)
    low, high = np.quantile(shares, [0.025, 0.975])
    return Score(quads.measure, len(won_P), float(won_P.mean()), float(low), float(high))


class _Draw:
    """Seeded draws of pairs from names."""

    def __init__(self, names: Sequence[Name], ordered: Sequence[int], random: np.random.Generator) -> None:
        self._names, self._random = names, random
        self._by_group = _grouped(ordered, lambda place: names[place].group)
        typed = [place for place in ordered if names[place].type]
        self._by_type = _grouped(typed, lambda place: names[place].type)
        self._by_entity = _grouped(ordered, lambda place: names[place].entity_id)
        self._typed = typed

    def synonyms(self, pairs: int) -> Quads:
        found = []
        groups = self._by_group.values()
        both = [(one, other) for group in groups for one in group for other in group if one != other]
        for one, other in self._some(both, pairs):
            far = self._random_of(self._by_type.get(self._names[one].type, []), self._of_another_group(one))
            if far is not None:
                found.append((one, one, one, other, far, self._names[one].group))
        return _quads("synonym", found)

    def types(self, pairs: int) -> Quads:
        found = []
        for one in self._some(self._typed, pairs):
            near = self._random_of(self._by_type[self._names[one].type], self._of_another_group(one))
            far = self._random_of(self._typed, self._of_another_type(one))
            if near is not None and far is not None:
                found.append((one, one, one, near, far, self._names[one].group))
        return _quads("type", found)

    def analogies(self, triples: Iterable[tuple[str, str, str]], pairs: int) -> Quads:
        inside = {each for each in triples if {each[0], each[2]} <= self._by_entity.keys() and each[0] != each[2]}
        known = [
            (self._by_entity[head][0], relation, self._by_entity[tail][0]) for head, relation, tail in sorted(inside)
        ]
        by_relation = _grouped(known, lambda triple: triple[1])
        tails = _grouped(known, lambda triple: triple[:2])
        found = []
        for a, relation, b in self._some(known, pairs):
            fitting = by_relation[relation]
            c, _, d = fitting[int(self._random.integers(len(fitting)))]
            # By group: another name of a right answer is no wrong one.
            right = {self._names[tail].group for _, _, tail in tails[c, relation]}
            if len({a, b, c, d}) < 4 or self._names[b].group in right:
                continue
            taken = right | {self._names[place].group for place in (a, b, c)}
            far = self._random_of(self._by_type.get(self._names[d].type, []), self._of_no_group(taken))
            if far is not None:
                found.append((a, b, c, d, far, self._names[a].group))
        return _quads("analogy", found)

    def _of_another_group(self, one: int) -> Callable[[int], bool]:
        return lambda place: self._names[place].group != self._names[one].group

    def _of_no_group(self, groups: Collection[str]) -> Callable[[int], bool]:
        return lambda place: self._names[place].group not in groups

    def _of_another_type(self, one: int) -> Callable[[int], bool]:
        return lambda place: self._names[place].type != self._names[one].type

    def _some(self, items: Sequence[T], number: int) -> list[T]:
        order = self._random.permutation(len(items))[:number]
        return [items[place] for place in order.tolist()]

    def _random_of(self, places: Sequence[int], fits: Callable[[int], bool]) -> int | None:
        """Return a random place that fits; None if twenty draws find none."""
        for _ in range(20 if places else 0):
            place = places[int(self._random.integers(len(places)))]
            if fits(place):
                return place
        return None


def _grouped(items: Iterable[T], key: Callable[[T], Hashable]) -> Mapping[Hashable, list[T]]:
    found: dict[Hashable, list[T]] = defaultdict(list)
    for item in items:
        found[key(item)].append(item)
    return dict(found)


def _quads(measure: str, found: Sequence[tuple[int, int, int, int, int, str]]) -> Quads:
    numbers: dict[str, int] = {}
    groups = [numbers.setdefault(row[5], len(numbers)) for row in found]
    places = np.array([row[:5] for row in found], dtype=np.int64).reshape(-1, 5)
    return Quads(measure, places[:, :3], places[:, 3], places[:, 4], np.array(groups, dtype=np.int64))
