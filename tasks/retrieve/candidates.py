"""Candidates of a term normaliser: what is looked for, what is found, and the two engines that find it.

`EmbeddedIndex(path)` works in this process (tasks/retrieve/embedded.py), `ElasticsearchIndex(url, index)` asks a server
(tasks/retrieve/server_index.py). Both search the fields of tasks/retrieve/fields.py and rank by the same formula.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from tasks.retrieve.embedded import EmbeddedIndex as EmbeddedIndex

_ENGINES = {"EmbeddedIndex": "tasks.retrieve.embedded", "ElasticsearchIndex": "tasks.retrieve.server_index"}

MOST_CANDIDATES = 10_000
"""Of one query: what Elasticsearch gives at most (`index.max_result_window`)."""


@dataclass(frozen=True)
class Entry:
    """One standard term of a terminology with the names it may be searched by."""

    code: str
    """Its code in one form (kg/codes.py); empty where the list has none for it."""
    term: str
    """The standard term, as it is answered."""
    aliases: tuple[str, ...] = ()
    """Further names it goes by."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A standard term that a query found."""

    code: str
    term: str
    score: float
    """What the fields of its best name add up to; comparable within one query only."""


class CandidateIndex(Protocol):
    """Finds the standard terms that are called most like a term."""

    def search(self, terms: Sequence[str], k: int) -> list[list[Candidate]]:
        """For every term at most `k` candidates, best first, equal scores by (term, code).

        A standard term, that is a pair of code and term, is found once, by the best of its names. A term without any
        letter or digit finds nothing. No character of a term means anything but itself.
        """
        ...


def __getattr__(name: str) -> Any:
    # An engine is imported once it is asked for: who has no Elasticsearch client needs none.
    if name not in _ENGINES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_ENGINES[name]), name)
