"""Candidates of diagnoses: the queries of each diagnosis are searched, and their results merged.

tasks/normalise/queries/rules.py turns a diagnosis into queries. Here they take turns: each contributes its best
candidate, then each its second, and so on. The last places go to siblings of the first candidates, which share their
ICD-10 category.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest

import numpy as np

from tasks.normalise.queries.rules import Asked, IsName, QueryRules
from tasks.normalise.queries.spelling import normal_forms
from tasks.retrieve.candidates import Candidate, CandidateIndex
from tasks.retrieve.fields import comparable_forms
from tasks.retrieve.icd_categories import Categories, category_of
from tasks.retrieve.placed import PlacedCandidates, PlacingIndex
from tasks.retrieve.sums import in_turn, with_siblings

AT_ONCE = 256
"""Number of diagnoses whose queries are searched together."""

SIBLING_SHARE = 0.3
SIBLINGS_OF = 10
"""See `find`. Chosen on dev, where shares from 0.2 to 0.5 differ by less than one percentage point."""

_Rows = Sequence[Sequence[Candidate]]
"""Candidates of each query of a diagnosis."""


@dataclass(frozen=True, slots=True)
class Found:
    """What the queries of one diagnosis find."""

    candidates: Sequence[Candidate]
    """See `find`."""
    parts: int
    """Number of parts of a compound; 1 for a single diagnosis."""
    of_parts: tuple[Candidate, ...]
    """Best candidate of each part, in the order of `candidates`. Empty if the diagnosis is not a compound, or if the
    list has a term with the name of the whole compound.
    """
    queries: tuple[str, ...]
    """The queries, the whole diagnosis first."""
    rows: _Rows
    """Candidates of each query."""
    asked_by: Mapping[tuple[str, str], tuple[int, ...]]
    """For the code and term of each of `of_parts`, the places of the queries of its part."""
    part_places: Sequence[Sequence[int]] = ()
    """The places of the queries of each part."""

    def queries_of(self, answer: Candidate) -> tuple[str, ...]:
        """Return the queries that an answer answers: those of its part, or all of a diagnosis that is no compound."""
        places = self.asked_by.get(_key(answer))
        return self.queries if places is None else tuple(self.queries[place] for place in places)

    @property
    def found_parts(self) -> tuple[str, ...]:
        """The texts of the parts that have an answer of their own."""
        kept = {_key(one) for one in self.of_parts}
        return tuple(
            self.queries[place]
            for own in self.part_places
            if any(self.rows[place] and _key(self.rows[place][0]) in kept for place in own)
            for place in own
        )

    def part_of(self, answer: Candidate) -> str:
        """Return the part that an answer answers, as written; the whole diagnosis if it is no compound."""
        places = self.asked_by.get(_key(answer))
        # The last query of a part has its abbreviations; those of the whole begin with it.
        return self.queries[0 if places is None or 0 in places else places[-1]]


def find(
    index: CandidateIndex,
    diagnoses: Sequence[str],
    k: int,
    rules: QueryRules | None = None,
    categories: Categories | None = None,
    is_name: IsName | None = None,
) -> list[Found]:
    """Return at most `k` candidates per diagnosis from all its queries, and the best ones of its parts.

    Queries take turns, beginning with the whole diagnosis: each contributes its best candidate, then each its second.
    Repeated candidates take no further place. So no part of a compound goes without a candidate, and candidates of
    several queries come early. The score of a candidate is the best one that a query gives it.

    The last `SIBLING_SHARE` of the k places are reserved for siblings: terms in the same category as one of the first
    `SIBLINGS_OF` candidates. Their score is 0. They matter since the right term is often a residual code such as
    其他特指的 …, whose name resembles no diagnosis.

    Args:
        rules: how diagnoses become queries; by default with the default tables.
        categories: result of `categories_of`; without it no places are reserved.
        is_name: see `QueryRules.ask`.

    Besides the result, memory holds what the queries of `AT_ONCE` diagnoses find.
    """
    rules = rules or QueryRules.read()
    results: list[Found] = []
    for start in range(0, len(diagnoses), AT_ONCE):
        asked = rules.ask(diagnoses[start : start + AT_ONCE], is_name)
        # Parts such as 高血压 are in many diagnoses: each query is searched once.
        distinct = list(dict.fromkeys(query for one in asked for query in one.queries))
        found = dict(zip(distinct, _searched(index, distinct, k), strict=True))
        rows = [[found[query] for query in one.queries] for one in asked]
        plain = _plain_names(asked, rows)
        for one, own, is_named in zip(asked, rows, _named(asked, rows), strict=True):
            merged = _in_turn(own, k)
            kept = _with_siblings(merged, k, categories) if categories else merged
            best = _best_of_parts(one, own, is_named, plain)
            of_parts = tuple(each for each in kept if _key(each) in best) if best else ()
            results.append(Found(kept, max(1, len(one.parts)), of_parts, one.queries, own, best, one.parts))
    return results


def candidates(
    index: CandidateIndex,
    diagnoses: Sequence[str],
    k: int,
    rules: QueryRules | None = None,
    categories: Categories | None = None,
) -> list[list[Candidate]]:
    """Return the candidates that `find` returns."""
    return [list(one.candidates) for one in find(index, diagnoses, k, rules, categories)]


def _named(asked: Sequence[Asked], found: Sequence[_Rows]) -> list[list[bool]]:
    """Return, per query of a compound, True if its best candidate has the same name; nothing for other diagnoses."""
    # The comparable forms of all compounds at once, as a call per query would be much slower.
    compounds = [(one, own) for one, own in zip(asked, found, strict=True) if one.parts]
    queries = comparable_forms([query for one, _ in compounds for query in one.queries])
    terms = comparable_forms([row[0].term if row else "" for _, own in compounds for row in own])
    same = iter([query == term for query, term in zip(queries, terms, strict=True)])
    return [[next(same) for _ in one.queries] if one.parts else [] for one in asked]


def _plain_names(asked: Sequence[Asked], found: Sequence[_Rows]) -> dict[str, str]:
    """Return the normal forms, without 的, of the best terms of all compounds: one call is faster than many."""
    terms = sorted({row[0].term for one, own in zip(asked, found, strict=True) if one.parts for row in own if row})
    return {term: name.replace("的", "") for term, name in zip(terms, normal_forms(terms), strict=True)}


def _best_of_parts(
    asked: Asked, found: _Rows, is_named: Sequence[bool], plain: Mapping[str, str]
) -> dict[tuple[str, str], tuple[int, ...]]:
    """Return the keys of the best candidates of the parts of a compound, with the places of the queries of each part.

    If a single term covers the whole compound, return that term alone. If it even has the compound's name, return
    nothing: the whole is then the answer.
    """
    if not asked.parts or is_named[0]:
        return {}
    # The queries before those of the parts are the whole compound, spelled out and without notes.
    whole = range(min(chain(*asked.parts)))
    for place in whole:
        if found[place] and _covers_all(plain[found[place][0].term], asked):
            return {_key(found[place][0]): tuple(whole)}
    # A part is searched as written if a term has that name, and spelled out otherwise.
    chosen = [(next((place for place in reversed(own) if is_named[place]), own[0]), own) for own in asked.parts]
    return {_key(found[place][0]): own for place, own in reversed(chosen) if found[place]}


# Matches 2型糖尿病不伴有高血压, which is not 2型糖尿病伴高血压, but not 食管静脉曲张伴有出血.
_NOT_WITH = re.compile("不伴|未提及|除外|非由")


def _covers_all(name: str, asked: Asked) -> bool:
    """Return True if a term's plain name contains all parts: 食管静脉曲张伴有出血 covers 食管静脉曲张伴出血."""
    named = (any(asked.queries[place].replace("的", "") in name for place in own) for own in asked.parts)
    return not _NOT_WITH.search(name) and all(named)


def _searched(index: CandidateIndex, queries: Sequence[str], k: int) -> _Rows:
    """Return the candidates of each query, as places if the list is searched in this process."""
    placed = index.placed(queries, k) if isinstance(index, PlacingIndex) else None
    return index.search(queries, k) if placed is None else placed


def _in_turn(found: _Rows, k: int) -> Sequence[Candidate]:
    if len(found) == 1:
        return found[0][:k]
    rows = [row for row in found if isinstance(row, PlacedCandidates)]
    if rows and len(rows) == len(found):
        starts = np.cumsum([0, *map(len, rows)])
        places, scores = (np.concatenate([getattr(row, name) for row in rows]) for name in ("places", "scores"))
        return PlacedCandidates(rows[0].listed, *in_turn(places, scores, starts, len(rows[0].listed.codes), k))
    best: dict[tuple[str, str], Candidate] = {}
    for row in zip_longest(*found):
        for one in row:
            if one is not None:
                key = _key(one)
                # A better score replaces the candidate, but a dict keeps the place of its first.
                if key not in best or best[key].score < one.score:
                    best[key] = one
    return list(best.values())[:k]


def _key(one: Candidate) -> tuple[str, str]:
    return one.code, one.term


def _with_siblings(found: Sequence[Candidate], k: int, categories: Categories) -> Sequence[Candidate]:
    if isinstance(found, PlacedCandidates):
        members = categories.members(found.listed)
        kept = k - int(k * SIBLING_SHARE)
        own = with_siblings(found.places, found.scores, *members, k, kept, SIBLINGS_OF)
        return PlacedCandidates(found.listed, *own)
    first = list(found[: k - int(k * SIBLING_SHARE)])
    taken = {_key(one) for one in first}
    siblings = []
    for one in first[:SIBLINGS_OF]:
        for entry in categories.get(category_of(one.code), ()):
            if (entry.code, entry.term) not in taken:
                taken.add((entry.code, entry.term))
                siblings.append(Candidate(entry.code, entry.term, 0.0))
    # With few siblings the places that they leave go to further candidates.
    room = max(0, k - len(first) - len(siblings))
    more = [one for one in found[len(first) :] if _key(one) not in taken][:room]
    return [*first, *more, *siblings][:k]
