"""Wrong candidates: names of a type that resemble the right one (Jaro-Winkler), drawn at random.

Every right name is compared with every name of its type, a block at a time. So time grows with their product
(benchmarks/knowledge/similarity_sets.py), and memory is bounded by the block. The draw of a sample depends on its two
names, the names of the type, and the seed.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from rapidfuzz.distance import JaroWinkler
from rapidfuzz.process import cdist

CELLS = 1 << 22
"""Comparisons in a block: 32 MB of float64."""
ROUNDING = 1e-9
"""A similarity of exactly the limit may come out a little above it: (2/5 + 2/5 + 1) / 3 > 0.6 in float64."""


@dataclass(frozen=True)
class Names:
    """The names of one type of entities: each comparable form once, sorted."""

    forms: list[str]
    names: list[str]
    """A spelling of each form."""
    owners: list[tuple[int, ...]]
    """The entities that each form is a name of."""
    owned: Mapping[int, tuple[int, ...]]
    """The places of an entity's forms."""

    @classmethod
    def of(cls, rows: Iterable[tuple[int, str, str]]) -> Names:
        """Return the names of rows (entity, form, name); of several spellings the first in order is kept."""
        spelled: dict[str, str] = {}
        owners: dict[str, set[int]] = defaultdict(set)
        for entity, form, name in rows:
            spelled[form] = min(spelled.get(form, name), name)
            owners[form].add(entity)
        forms = sorted(spelled)
        owned: dict[int, list[int]] = defaultdict(list)
        for place, form in enumerate(forms):
            for entity in owners[form]:
                owned[entity].append(place)
        return cls(
            forms,
            [spelled[form] for form in forms],
            [tuple(sorted(owners[form])) for form in forms],
            {entity: tuple(places) for entity, places in owned.items()},
        )

    def equal_to(self, *forms: str) -> set[int]:
        """Return the places of all names of the entities that have one of these names: none of them is wrong.

        The given names are of this type.
        """
        places = [bisect_left(self.forms, form) for form in forms]
        return {place for named in places for entity in self.owners[named] for place in self.owned[entity]}


def draw_negatives(
    samples: Sequence[tuple[str, str]], names: Names, similarity: float, number: int, seed: int
) -> Iterator[list[str] | None]:
    """Yield for each sample (query, truth), in comparable form, its wrong candidates in order of their forms.

    They resemble the truth by more than `similarity` and are no name of an entity that is called query or truth. None:
    there are fewer than `number`.
    """
    rows = max(1, CELLS // max(1, len(names.forms)))
    for first in range(0, len(samples), rows):
        block = samples[first : first + rows]
        truths = [truth for _, truth in block]
        scores = cdist(truths, names.forms, scorer=JaroWinkler.similarity, score_cutoff=similarity, dtype=np.float64)
        for (query, truth), row in zip(block, scores, strict=True):
            alike = np.flatnonzero(row > similarity + ROUNDING)
            wrong = np.setdiff1d(alike, list(names.equal_to(query, truth)), assume_unique=True)
            if len(wrong) < number:
                yield None
                continue
            drawn = np.sort(_generator(query, truth, seed).choice(wrong, number, replace=False))
            yield [names.names[place] for place in drawn]


def _generator(query: str, truth: str, seed: int) -> np.random.Generator:
    key = "\0".join((str(seed), query, truth)).encode("utf-8", "surrogatepass")
    return np.random.default_rng(int.from_bytes(hashlib.blake2b(key, digest_size=16).digest(), "big"))
