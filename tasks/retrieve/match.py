"""Reason of an answer: the name that a query found it by, and which parts of the query that name has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from tasks.retrieve.fields import comparable_forms


@dataclass(frozen=True, slots=True)
class Match:
    """A query beside the name that it found."""

    query: str
    """The query, such as a part of a compound with its abbreviations spelled out."""
    name: str
    """Name of the entry, as its source has it."""
    source: str
    """Where the name comes from, such as list, graph or text; empty for the standard term itself."""
    matched: tuple[str, ...]
    """Runs of the query's comparable form (tasks/retrieve/fields.py) that the name contains, in order."""
    unmatched: tuple[str, ...]
    """Runs that it lacks."""
    query_share: float = 0.0
    """Share of the query's tokens that the name has, rare ones counting more; 1 if it has them all."""
    name_share: float = 0.0
    """Share of the name's tokens that the query has."""
    evidence: float = 0.0
    """Weight of the tokens that both have."""


Weigh = Callable[[tuple[str, ...]], Mapping[str, float]]
"""Weight of each token of a comparable form."""


def _alike(form: tuple[str, ...]) -> Mapping[str, float]:
    return dict.fromkeys(form, 1.0)


def match(query: str, name: str, source: str) -> Match:
    """Compare a query with a name by the characters, words and numbers of their comparable forms.

    左侧肺炎 and 肺炎  →  matched 肺炎, unmatched 左侧
    """
    (found,) = matches([(query, name, source)])
    return found


def matches(compared: Sequence[tuple[str, str, str]], weigh: Weigh = _alike) -> list[Match]:
    """Return `match` of each query, name and source. One call for many is much faster than a call each.

    Args:
        weigh: weights of tokens for shares and evidence; by default each counts alike.
    """
    forms = comparable_forms([text for query, name, _ in compared for text in (query, name)])
    return [_match(*one, forms[2 * at], forms[2 * at + 1], weigh) for at, one in enumerate(compared)]


def _match(query: str, name: str, source: str, asked: tuple[str, ...], has: tuple[str, ...], weigh: Weigh) -> Match:
    held = set(has)
    runs = [(same, "".join(run)) for same, run in groupby(asked, key=held.__contains__)]
    matched, unmatched = (tuple(run for same, run in runs if same is wanted) for wanted in (True, False))
    of_query, of_name = weigh(asked), weigh(has)
    evidence = sum(weight for token, weight in of_query.items() if token in of_name)
    query_share, name_share = (evidence / sum(weights.values()) if weights else 0.0 for weights in (of_query, of_name))
    return Match(query, name, source, matched, unmatched, query_share, name_share, evidence)
