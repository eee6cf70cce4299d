"""Drawing splits: stratified by label, whole groups, and the same for the same seed on every machine.

The records that must stay together, those of a patient and those with the same text, are a unit (`joined`). Units are
laid in a line, ordered by their rarest label and then by a hash with the seed, and dealt out along it by the shares. So
each split gets its share of every label. Time grows with n log n.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from infra.errors import UserError
from tasks.downstream.spec import Split


class Unit(NamedTuple):
    """Records that stay in one split."""

    key: str
    size: int
    """Number of records."""
    labels: frozenset[str]


def joined(keys: Sequence[Sequence[str]]) -> list[int]:
    """Return the number of each record's unit; records with a key in common are in one unit, directly or by others.

    A unit has the number of its first record: the keys `[["甲", "头痛"], ["乙", "头痛"], ["乙"], ["丙"]]`
    give `[0, 0, 0, 3]`. Time and memory grow with the number of keys.
    """
    parents = list(range(len(keys)))

    def root(number: int) -> int:
        while parents[number] != number:
            parents[number] = parents[parents[number]]  # halves the way of those that come later
            number = parents[number]
        return number

    first: dict[str, int] = {}
    for number, own in enumerate(keys):
        for key in own:
            one, other = root(number), root(first.setdefault(key, number))
            parents[max(one, other)] = min(one, other)
    return [root(number) for number in range(len(keys))]


def draw(units: Sequence[Unit], shares: Mapping[Split, float], seed: int) -> list[Split]:
    """Return the split of each unit, in their order; `shares` has train first and adds up to 1.

    Every label is in train, and every split with a share has a unit.

    Raises:
        UserError: there are too few units for that.
    """
    counts = Counter(label for unit in units for label in unit.labels)

    def place(number: int) -> tuple[int, str, bytes]:
        unit = units[number]
        rarest = min(unit.labels, key=lambda label: (counts[label], label), default="")
        return -counts[rarest], rarest, _hash(unit.key, seed)

    line = sorted(range(len(units)), key=place)
    chosen: dict[int, Split] = {}
    owed: dict[Split, float] = dict.fromkeys(shares, 0.0)
    for number in line:
        for split, share in shares.items():
            owed[split] += share * units[number].size
        split = max(owed, key=lambda one: owed[one])  # of equals train, which is first
        owed[split] -= units[number].size
        chosen[number] = split
    _mend(units, line, chosen, shares)
    return [chosen[number] for number in range(len(units))]


def _mend(units: Sequence[Unit], line: Sequence[int], chosen: dict[int, Split], shares: Mapping[Split, float]) -> None:
    """Move units so that train has every label, and no split is empty."""
    held = Counter(label for number in line if chosen[number] == "train" for label in units[number].labels)
    for number in line:
        if not all(label in held for label in units[number].labels):
            held.update(units[number].labels)
            chosen[number] = "train"
    for split in shares:
        if split in chosen.values():
            continue
        # A unit that train can spare: another of its units has each of the labels.
        spare = (n for n in reversed(line) if chosen[n] == "train" and all(held[one] > 1 for one in units[n].labels))
        moved = next(spare, None)
        if moved is None:
            raise UserError(
                f"{len(units):,} different texts or groups are too few to draw {split} from: train would lose a label. "
                f"Add rows, or give {split} as a file of its own."
            )
        held.subtract(units[moved].labels)
        chosen[moved] = split


def _hash(key: str, seed: int) -> bytes:
    # Python's own hash differs between runs; this one draws the same units everywhere.
    return hashlib.blake2b(f"{seed}\0{key}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
