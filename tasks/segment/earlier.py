"""Reuse of an earlier artifact's segments for documents that occur again.

After new text has arrived, a part of documents often equals an earlier one except for a few dropped duplicates. The
segments of its other documents are reused from the earlier artifact: they depend only on the document, the parameters
and the vocabulary. Time and memory grow with the rows of one unit.
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
    """Unit of nearly the same documents. It changes no result, and is not part of the work's identity."""


def work_on(documents: Sequence[Part], earlier: Artifact | None) -> list[Work]:
    """Return each part with the unit of an earlier artifact made from nearly the same documents, if there is one.

    The unit is found by the least or greatest id in a row group, which a part that loses a few documents mostly keeps.
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
        logger.warning("All documents are segmented anew: %s", error)
        return [Work(part) for part in documents]
    return [Work(part, units[of[0]] if of else None) for part, of in zip(documents, found, strict=True)]


class EarlierSegments:
    """The segments of an earlier unit, by document.

    A document with a rejected piece counts as unknown and is cut again.
    """

    def __init__(self, unit: EarlierUnit | None) -> None:
        self._rows = schemas.SEGMENTS.empty_table()
        try:
            if unit is not None:
                self._rows = _without_rejected(unit)
        except DamagedArtifactError as error:
            logger.warning("Some documents are segmented anew: %s", error)
        # The segments of a document are consecutive rows; the first one has position 0.
        self._starts = np.flatnonzero(self._rows["position"].to_numpy() == 0)
        self._counts = np.diff(self._starts, append=self._rows.num_rows)
        self._doc_ids = self._rows["doc_id"].take(pa.array(self._starts))

    def find(self, doc_ids: pa.ChunkedArray) -> np.ndarray:
        """Return each document's index for `of`, or -1 if it is unknown: int64 (D,)."""
        places = pc.index_in(doc_ids, value_set=self._doc_ids).fill_null(-1)
        return places.to_numpy().astype(np.int64)

    def of(self, places: np.ndarray) -> tuple[pa.Table, np.ndarray]:
        """Return the consecutive rows of documents, and the number of rows of each: int64 (D,)."""
        counts = self._counts[places]
        before = np.cumsum(counts) - counts
        # Starts 5 and 9 with counts 2 and 3 are the rows 5, 6, 9, 10, 11: [5, 5, 9 - 2, 9 - 2, 9 - 2] + [0, …, 4].
        rows = np.repeat(self._starts[places] - before, counts) + np.arange(counts.sum())
        return self._rows.take(pa.array(rows)), counts


def _without_rejected(unit: EarlierUnit) -> pa.Table:
    rows = pa.concat_tables([schemas.SEGMENTS.empty_table(), *(part.read() for part in unit.segments)])
    for part in unit.rejects:
        rejected = part.read(columns=["doc_id"])["doc_id"]
        rows = rows.filter(pc.invert(pc.is_in(rows["doc_id"], value_set=rejected)))
    return rows.combine_chunks()
