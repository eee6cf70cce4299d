"""What an index holds (entries), what a search returns (candidates), and the protocol of both engines.

`EmbeddedIndex(path)` searches in this process (tasks/retrieve/embedded.py). `ElasticsearchIndex(url, index)` queries a
server (tasks/retrieve/server_index.py). Both search the fields of tasks/retrieve/fields.py and rank by the same
formula.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

MOST_CANDIDATES = 10_000
"""Largest number of candidates per query: Elasticsearch returns no more (`index.max_result_window`)."""


@dataclass(frozen=True)
class Entry:
    """A standard term of a terminology with all names it can be found by."""

    code: str
    """Code of the term in normal form (kg/codes.py); empty if the list has none."""
    term: str
    """The standard term, as returned to the user."""
    aliases: tuple[str, ...] = ()
    """Other names of the term."""
    sources: tuple[str, ...] = ()
    """For each alias, where it comes from, such as list, graph or text; may be empty if that is not known."""

    def with_names(self, names: Iterable[str], source: str) -> Entry:
        """Return the entry with further aliases from a source, all sorted. A known alias keeps its source."""
        held = dict.fromkeys(names, source) | self.source_of
        return replace(self, aliases=tuple(sorted(held)), sources=tuple(held[name] for name in sorted(held)))

    @property
    def source_of(self) -> dict[str, str]:
        """Source of each alias, by alias; empty strings if the sources are not known."""
        return dict(zip(self.aliases, self.sources or [""] * len(self.aliases), strict=True))


class Candidate(NamedTuple):
    """A standard term found by a query. A tuple, since a diagnosis has hundreds."""

    code: str
    term: str
    score: float
    """Sum over the fields of its best name; comparable only within one query."""


class CandidateIndex(Protocol):
    """Finds the standard terms whose names are most similar to a search term."""

    def search(self, terms: Sequence[str], k: int) -> list[list[Candidate]]:
        """Return at most `k` candidates per term, best first; equal scores are ordered by (term, code).

        A standard term, i.e. a pair of code and term, is returned once, with the score of its best name. A search term
        without letters and digits finds nothing. All characters of a search term are literal: there is no syntax.
        """
        ...
