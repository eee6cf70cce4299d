"""Segments that an earlier artifact holds of documents which come again.

After new text has come in, a part of documents is often an earlier one but for a few that went as duplicates. What its
other documents were cut into is taken from the earlier artifact, whose rows depend on nothing but the document, the
parameters and the vocabulary. Time grows with the rows of one unit, memory too.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from infra import schemas
from infra.artifacts import Artifact, Part
from infra.errors import DamagedArtifactError

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class EarlierUnit:
    """The parts of one unit of an earlier artifact."""

    segments: tuple[Part, ...] = ()
    rejects: tuple[Part, ...] = ()


@dataclass(frozen=True)
class Work:
    """Documents to cut."""

    documents: Part
    earlier: EarlierUnit | None = field(default=None, compare=False)
    """A unit of much the same documents. It changes no result, so the work is not known by it."""


def work_on(documents: Sequence[Part], earlier: Artifact | None) -> list[Work]:
    """Each part with the unit of an earlier artifact that was made of nearly the same documents, where there is one.

    Known by the least or greatest id in one of its row groups: a part that loses a few documents mostly keeps those.
    """
    if earlier is None:
        return [Work(part) for part in documents]
    units: dict[int, EarlierUnit] = {}
    by_id: dict[str, int] = {}
    try:
        for table in ("segments", "rejects"):
            for part in earlier.parts(table):
                before = units.get(part.unit, EarlierUnit())
                units[part.unit] = replace(before, **{table: (*getattr(before, table), part)})
                by_id |= dict.fromkeys(part.extremes("doc_id"), part.unit)
        found = [[by_id[one] for one in sorted(part.extremes("doc_id")) if one in by_id] for part in documents]
    except DamagedArtifactError as error:
        logger.warning("all is segmented anew: %s", error)
        return [Work(part) for part in documents]
    return [Work(part, units[of[0]] if of else None) for part, of in zip(documents, found, strict=True)]


class EarlierSegments:
    """The segments of an earlier unit, by document.

    A document of which a piece was rejected counts as unknown: it is cut again.
    """

    def __init__(self, unit: EarlierUnit | None) -> None:
        self._rows = schemas.SEGMENTS.empty_table()
        try:
            if unit is not None:
                self._rows = _without_rejected(unit)
        except DamagedArtifactError as error:
            logger.warning("segmented anew: %s", error)
        self._starts = np.flatnonzero(self._rows["position"].to_numpy() == 0)
        self._counts = np.diff(self._starts, append=self._rows.num_rows)
        self._doc_ids = self._rows["doc_id"].take(pa.array(self._starts))

    def find(self, doc_ids: pa.ChunkedArray) -> np.ndarray:
        """Where each document is here, for `of`; -1 where it is unknown: int64 (D,)."""
        places = pc.index_in(doc_ids, value_set=self._doc_ids).fill_null(-1)
        return places.to_numpy().astype(np.int64)

    def of(self, places: np.ndarray) -> tuple[pa.Table, np.ndarray]:
        """The rows of documents, one's after the other's, and how many each has: int64 (D,)."""
        counts = self._counts[places]
        before = np.cumsum(counts) - counts
        rows = np.repeat(self._starts[places] - before, counts) + np.arange(counts.sum())
        return self._rows.take(pa.array(rows)), counts


def _without_rejected(unit: EarlierUnit) -> pa.Table:
    rows = pa.concat_tables([schemas.SEGMENTS.empty_table(), *(part.read() for part in unit.segments)])
    for part in unit.rejects:
        rejected = part.read(columns=["doc_id"])["doc_id"]
        rows = rows.filter(pc.invert(pc.is_in(rows["doc_id"], value_set=rejected)))
    return rows.combine_chunks()
