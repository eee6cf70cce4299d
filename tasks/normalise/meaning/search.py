"""Candidates by characters and by meaning, united by reciprocal rank fusion (tasks/retrieve/fusion.py).

An answer that the characters alone would have put first is explained by them, as without an encoder. Any other was
found by meaning: its reason is the nearest name of the term, with the source `meaning`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tasks.normalise.meaning.folders import has_vectors
from tasks.retrieve.candidates import Candidate, CandidateIndex
from tasks.retrieve.embedded import EmbeddedIndex
from tasks.retrieve.fusion import WEIGHT, FusedIndex
from tasks.retrieve.match import Match, match
from tasks.retrieve.server_index import ElasticsearchIndex
from tasks.retrieve.vectors import Encode, VectorIndex

BY_MEANING = "meaning"
"""Source of a name that shares its meaning with a query, and characters perhaps or not."""


class UnitedIndex(FusedIndex):
    """Finds what characters find, and what means the same."""

    def __init__(
        self,
        index: CandidateIndex,
        vectors: VectorIndex,
        own: EmbeddedIndex,
        server: ElasticsearchIndex | None = None,
        weight: float = WEIGHT,
    ) -> None:
        """`own`: the embedded index of the list, whose names have the vectors; `server`: where they are searched."""
        super().__init__(index, vectors if server is None else _OnServer(server, vectors.encode), weight)
        self._vectors = vectors
        self._names, _ = own.names()

    def reason(self, queries: Sequence[str], found: Candidate, known: Match | None) -> Match | None:
        """Return why queries find a candidate; `known` is the reason by characters."""
        if known is not None and self.agrees(known.query, found):
            return known
        nearest = [(query, *self._vectors.nearest_name(query, found)) for query in queries]
        # Of queries that are equally near, the first.
        query, name, cosine = max(nearest, key=lambda one: one[2])
        return match(query, self._names[name], BY_MEANING) if cosine > 0 else known


class _OnServer:
    """Finds by vectors on a server what `VectorIndex` finds here."""

    def __init__(self, server: ElasticsearchIndex, encode: Encode) -> None:
        self._server, self._encode = server, encode

    def search(self, terms: Sequence[str], k: int) -> list[list[Candidate]]:
        """See `CandidateIndex.search`."""
        return self._server.nearest(self._encode(terms), k) if terms else []


def with_meaning(
    index: CandidateIndex,
    own: EmbeddedIndex,
    encoder: str | Path | bool | None = None,
    device: str | None = None,
    engine: CandidateIndex | None = None,
) -> CandidateIndex:
    """Return an index that finds by meaning too, or the index itself if nothing has vectors.

    Args:
        index: what searches by characters.
        own: the embedded index of the list.
        encoder: folder of an encoder, see `open_vectors`; None: that of the list's index, if it has one; False: none.
        engine: what searches the list; a server searches the vectors as well, if the list's index has them.

    Raises:
        UserError: as `open_vectors` does.
    """
    if encoder is False or (encoder is None and not has_vectors(own.folder)):
        return index
    from tasks.normalise.meaning.vectors import open_vectors  # without an encoder, nothing needs torch

    vectors = open_vectors(own, None if isinstance(encoder, bool) else encoder, device)
    server = engine if isinstance(engine, ElasticsearchIndex) and has_vectors(own.folder) else None
    return UnitedIndex(index, vectors, own, server)
