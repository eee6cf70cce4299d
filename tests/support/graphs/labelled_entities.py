"""The labelled names of entity_segmentation_labelled.tsv, and how well they are cut.

200 names of at least four characters, drawn at random by type from CMeKG and labelled by us before anything had cut
them: even rows for tuning, odd ones held out. The rules of the labels:
- A border wherever two parts keep a meaning of their own; marks and dosage forms (胶囊, 片) are parts.
- An affix stays with the word it forms (酒精性, 气阴|两虚型, 硬脑膜下), a numeral with its unit or letters.
- Transliterations, species and set terms (依维莫司, 大飞扬草, 自主神经) are whole.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

LABELLED = Path(__file__).with_name("entity_segmentation_labelled.tsv")


class LabelledName(NamedTuple):
    """A name with its pieces as a person cuts it."""

    split: str
    """tuning or held_out."""
    type: str
    pieces: tuple[str, ...]

    @property
    def surface(self) -> str:
        return "".join(self.pieces)


class Accuracy(NamedTuple):
    """How well names are cut."""

    exact: float
    """Share of names that are cut exactly as labelled."""
    precision: float
    """Of the borders found."""
    recall: float
    """Of the borders labelled."""
    f1: float


def read_names(split: str | None = None) -> list[LabelledName]:
    """All labelled names in order, or those of one split."""
    with LABELLED.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    names = [LabelledName(row["split"], row["type"], tuple(row["pieces"].split("|"))) for row in rows]
    return [name for name in names if split in (None, name.split)]


def borders(pieces: Sequence[str]) -> set[int]:
    """Places between the pieces."""
    return set(accumulate(map(len, pieces[:-1])))


def accuracy(names: Sequence[LabelledName], found: Mapping[str, Sequence[str]]) -> Accuracy:
    """Accuracy of the pieces found, by surface."""
    cuts = [(borders(found[name.surface]), borders(name.pieces)) for name in names]
    right = sum(len(one & other) for one, other in cuts)
    given, wanted = sum(len(one) for one, _ in cuts), sum(len(other) for _, other in cuts)
    exact = sum(one == other for one, other in cuts) / len(cuts)
    return Accuracy(exact, right / given, right / wanted, 2 * right / (given + wanted))
