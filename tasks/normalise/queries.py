"""What is looked for when a diagnosis is to be normalised: the text itself, spelled out, without notes, and its parts.

    支气管哮踹(轻度)伴心衰  →  支气管哮踹(轻度)伴心衰, 支气管哮喘(轻度)伴心力衰竭, 支气管哮喘, 心力衰竭 …

Two tables put typos right and write abbreviations out: those beside this file, or the user's own
(tasks/normalise/query_settings.py). tasks/normalise/compounds.py says where a compound is cut. The whole stays a query
of its own, so that a wrong cut costs places and no answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path

import polars as pl

from infra.errors import UserError
from kg.fusion.vocabularies import read_table
from kg.names import normalise_names
from tasks.normalise.compounds import parts_of, without_numbers
from tasks.retrieve.candidates import Candidate, CandidateIndex, Entry
from tasks.retrieve.fields import comparable_forms

ABBREVIATIONS, TYPOS = (
    Path(__file__).with_name("tables") / f"diagnosis_{name}.csv" for name in ("abbreviations", "typos")
)
"""The default tables: (short, expansion, place), a row for each expansion, and (wrong, right)."""

PLACES = ("anywhere", "end", "whole")
"""Where in a text a short form means its expansion."""

MAX_PARTS = 24
"""Parts of a compound that are looked for; what stands behind them is found by the whole only."""

MAX_QUERIES = 32
"""Queries of one diagnosis, the whole among them: eight and two for each part, and never more than these."""

AT_ONCE = 256
"""Diagnoses whose queries are searched together."""

MAX_CHARACTERS = 1_000
"""What of a longer diagnosis is looked at."""

SIBLING_SHARE = 0.3
SIBLINGS_OF = 10
"""See `candidates`. Chosen on dev, where shares from 0.2 to 0.5 differ by less than a point."""

_ICD10 = re.compile(r"[A-Z]\d\d")
_NOTE = re.compile(r"\([^()]*\)")


@dataclass(frozen=True, slots=True)
class Asked:
    """What is looked for to normalise one diagnosis."""

    queries: tuple[str, ...]
    """The whole first, each once; none where nothing can be searched."""
    parts: tuple[tuple[int, ...], ...]
    """Places among the queries of a compound's parts: of each as it is spelled out, and as it is written where that is
    another query. Two and more, or none.
    """


class QueryRules:
    """How a diagnosis becomes queries."""

    def __init__(
        self,
        abbreviations: Sequence[tuple[str, str, str]] = (),
        typos: Mapping[str, str] | None = None,
        notes: bool = True,
        split: bool = True,
    ) -> None:
        """Take tables as they are written; `read` takes the default ones.

        Args:
            abbreviations: (short form, expansion, place); a short form may have several expansions.
            typos: what is right by what is wrong.
            notes: also look for the diagnosis without what stands in brackets.
            split: also look for the parts of a compound.
        """
        self.abbreviations, self.typos = tuple(abbreviations), dict(typos or {})
        self.notes, self.split = notes, split
        wrong = self.typos
        self._typos = dict(zip(_normal(wrong.keys()), _normal(wrong.values()), strict=True))
        shorts, expansions = (_normal([row[column] for row in abbreviations]) for column in (0, 1))
        self._expansions: dict[tuple[str, str], list[str]] = {}
        for short, expansion, (_, _, place) in zip(shorts, expansions, abbreviations, strict=True):
            self._expansions.setdefault((short, place), []).append(expansion)
        self._typo = _any_of(self._typos)
        self._short = {place: _any_of([short for short, own in self._expansions if own == place]) for place in PLACES}

    @classmethod
    def read(
        cls,
        abbreviations: Path | None = ABBREVIATIONS,
        typos: Path | None = TYPOS,
        notes: bool = True,
        split: bool = True,
    ) -> QueryRules:
        """Read the tables; None stands for an empty one.

        Raises:
            UserError: a file cannot be read, lacks a column, or a row has an empty cell or an unknown place.
        """
        shorts = _rows(abbreviations, ("short", "expansion", "place"))
        for number, row in enumerate(shorts, start=2):
            if row[2] not in PLACES:
                raise UserError(f"{abbreviations}, row {number}: place {row[2]!r} is none of {', '.join(PLACES)}.")
        wrong = {row[0]: row[1] for row in _rows(typos, ("wrong", "right"))}
        return cls([(short, expansion, place) for short, expansion, place in shorts], wrong, notes, split)

    def ask(self, diagnoses: Sequence[str]) -> list[Asked]:
        """The queries of every diagnosis, and which of them are its parts."""
        # Before white space goes, without which 1.冠心病 2.房颤 shows no second number.
        texts = _normal([without_numbers(diagnosis[:MAX_CHARACTERS]) for diagnosis in diagnoses])
        variants = [self._variants(text) for text in texts]
        forms = iter(comparable_forms([query for own, _ in variants for query in own]))
        return [_asked(own, [next(forms) for _ in own], parts) for own, parts in variants]

    def queries(self, diagnoses: Sequence[str]) -> list[list[str]]:
        """The queries of every diagnosis; see `Asked`."""
        return [list(asked.queries) for asked in self.ask(diagnoses)]

    def parts(self, diagnoses: Sequence[str]) -> list[int]:
        """How many diagnoses each one is made of: its different parts where it is a compound that is split, else 1.

        All of them are among the queries.
        """
        return [max(1, len(asked.parts)) for asked in self.ask(diagnoses)]

    def _variants(self, text: str) -> tuple[list[str], list[tuple[int, int]]]:
        """Everything to look for, and where among it the parts stand, spelled out and as they are written."""
        right = self._typo.sub(lambda match: self._typos[match[0]], text) if self._typo else text
        plain = _NOTE.sub("", right) if self.notes else right
        parts = parts_of(plain)[:MAX_PARTS] if self.split else []
        whole, bare, *spelled = (self._spelled_out(one) for one in (right, plain, *parts))
        # Every part before second spellings, so that none is lost to the limit.
        first = [text, right, *whole[:1], plain, *bare[:1]]
        readings = [written[0] if written else part for part, written in zip(parts, spelled, strict=True)]
        more = chain(*(written[1:] for written in (whole, bare, *spelled)))
        places = [(len(first) + place, len(first) + len(parts) + place) for place in range(len(parts))]
        return [*first, *readings, *parts, *more], places

    def _spelled_out(self, text: str) -> list[str]:
        """The text with the first expansion of its short forms, with the second, and so on; nothing without them."""
        texts: list[str] = []
        for place, pattern in self._short.items():
            found = [match for match in pattern.finditer(text) if _stands(match, place)] if pattern else []
            choices = [self._expansions[match[0], place] for match in found]
            for written in zip_longest(*choices):
                # Where one has fewer expansions than another its last one serves.
                filled = [one or own[-1] for one, own in zip(written, choices, strict=True)]
                texts.append(_with(text, found, filled))
        return [written for written in texts if written != text]


def _asked(variants: Sequence[str], forms: Sequence[tuple[str, ...]], parts: Sequence[tuple[int, int]]) -> Asked:
    distinct: dict[tuple[str, ...], str] = {}
    for variant, form in zip(variants, forms, strict=True):
        if form:
            distinct.setdefault(form, variant)
    queries = tuple(distinct.values())[: min(MAX_QUERIES, 8 + 2 * len(parts))]
    places = {form: place for place, form in enumerate(list(distinct)[: len(queries)])}
    readings = [tuple(dict.fromkeys(places[forms[at]] for at in own if forms[at] in places)) for own in parts]
    own = {reading[0]: reading for reading in reversed(readings) if reading}
    return Asked(queries, tuple(own[place] for place in sorted(own)) if len(own) > 1 else ())


Categories = Mapping[str, Sequence[Entry]]
"""The entries of every three-character category, in order of their codes."""


def category_of(code: str) -> str:
    """The three characters that a code of ICD-10 begins with; empty for a code of another shape."""
    return code[:3] if _ICD10.match(code) else ""


def categories_of(entries: Iterable[Entry]) -> Categories:
    """The categories of a list of ICD-10; codes of another shape have none."""
    categories: dict[str, list[Entry]] = {}
    for entry in sorted(entries, key=lambda entry: (entry.code, entry.term)):
        if category := category_of(entry.code):
            categories.setdefault(category, []).append(entry)
    return categories


@dataclass(frozen=True, slots=True)
class Found:
    """What the queries of one diagnosis find."""

    candidates: list[Candidate]
    """See `find`."""
    parts: int
    """Diagnoses that it is made of; at least 1."""
    of_parts: tuple[Candidate, ...]
    """The best of each part's own query, of those that are among the candidates. Empty where it is one disease, or
    where a term is called like the whole.
    """


def find(
    index: CandidateIndex,
    diagnoses: Sequence[str],
    k: int,
    rules: QueryRules | None = None,
    categories: Categories | None = None,
) -> list[Found]:
    """At most `k` candidates for every diagnosis, from all its queries, and which of them its parts found first.

    The queries take turns, the whole diagnosis first: each gives its best candidate, then each its second, and one
    that is there already takes no further place. So no part of a compound goes without, and what several queries find
    stands early. A candidate's score is the best that a query gives it.

    Of k places, the last `SIBLING_SHARE` go to what stands beside the first `SIBLINGS_OF` candidates in the category
    of their codes and is not among them, with the score 0: what is wanted is often called 其他特指的 …, like no name.

    Args:
        rules: how diagnoses become queries; the default tables by default.
        categories: of `categories_of`; without, all places go to what the queries find.

    Beside the answer, memory is bounded by what the queries of `AT_ONCE` diagnoses find.
    """
    rules = rules or QueryRules.read()
    merged: list[Found] = []
    for start in range(0, len(diagnoses), AT_ONCE):
        asked = rules.ask(diagnoses[start : start + AT_ONCE])
        found = iter(index.search([query for one in asked for query in one.queries], k))
        rows = [[next(found) for _ in one.queries] for one in asked]
        plain = _plain_names(asked, rows)
        for one, own, is_named in zip(asked, rows, _named(asked, rows), strict=True):
            in_turn = _in_turn(own, k)
            kept = _with_siblings(in_turn, k, categories) if categories else in_turn
            first = _best_of_parts(one, own, is_named, plain)
            merged.append(Found(kept, max(1, len(one.parts)), tuple(each for each in kept if _key(each) in first)))
    return merged


def candidates(
    index: CandidateIndex,
    diagnoses: Sequence[str],
    k: int,
    rules: QueryRules | None = None,
    categories: Categories | None = None,
) -> list[list[Candidate]]:
    """The candidates that `find` gives."""
    return [one.candidates for one in find(index, diagnoses, k, rules, categories)]


_Rows = Sequence[Sequence[Candidate]]


def _named(asked: Sequence[Asked], found: Sequence[_Rows]) -> list[list[bool]]:
    """Whether the best candidate of each query of a compound is called as the query; nothing for what is none."""
    compounds = [(one, own) for one, own in zip(asked, found, strict=True) if one.parts]
    queries = comparable_forms([query for one, _ in compounds for query in one.queries])
    terms = comparable_forms([row[0].term if row else "" for _, own in compounds for row in own])
    same = iter([query == term for query, term in zip(queries, terms, strict=True)])
    return [[next(same) for _ in one.queries] if one.parts else [] for one in asked]


def _plain_names(asked: Sequence[Asked], found: Sequence[_Rows]) -> dict[str, str]:
    """The best terms of compounds as texts are compared, without 的: all at once, as that is much faster."""
    terms = sorted({row[0].term for one, own in zip(asked, found, strict=True) if one.parts for row in own if row})
    return {term: name.replace("的", "") for term, name in zip(terms, _normal(terms), strict=True)}


def _best_of_parts(
    asked: Asked, found: _Rows, is_named: Sequence[bool], plain: Mapping[str, str]
) -> set[tuple[str, str]]:
    """What the query of each part finds first: as it is written if that is a term's name, else as it is spelled out.

    Where the list has the whole compound as one term, that term alone; nothing where it is called just so.
    """
    if not asked.parts or is_named[0]:
        return set()
    for place in range(min(chain(*asked.parts))):  # the whole, spelled out and without notes
        if found[place] and _holds_all(plain[found[place][0].term], asked):
            return {_key(found[place][0])}
    chosen = (next((place for place in reversed(own) if is_named[place]), own[0]) for own in asked.parts)
    return {_key(found[place][0]) for place in chosen if found[place]}


_NOT_WITH = re.compile("不伴|未提及|除外|非由")


def _holds_all(name: str, asked: Asked) -> bool:
    """Whether a term's plain name has every part of a compound: 食管静脉曲张伴有出血 both of 食管静脉曲张伴出血."""
    named = (any(asked.queries[place].replace("的", "") in name for place in own) for own in asked.parts)
    return not _NOT_WITH.search(name) and all(named)


def _in_turn(found: Sequence[Sequence[Candidate]], k: int) -> list[Candidate]:
    best: dict[tuple[str, str], Candidate] = {}
    for row in zip_longest(*found):
        for one in row:
            if one is not None:
                key = _key(one)
                if key not in best or best[key].score < one.score:
                    best[key] = one  # an earlier place is kept
    return list(best.values())[:k]


def _key(one: Candidate) -> tuple[str, str]:
    return one.code, one.term


def _with_siblings(found: Sequence[Candidate], k: int, categories: Categories) -> list[Candidate]:
    first = list(found[: k - int(k * SIBLING_SHARE)])
    there = {_key(one) for one in first}
    siblings = []
    for one in first[:SIBLINGS_OF]:
        for entry in categories.get(one.code[:3], ()):
            if (entry.code, entry.term) not in there:
                there.add((entry.code, entry.term))
                siblings.append(Candidate(entry.code, entry.term, 0.0))
    room = max(0, k - len(first) - len(siblings))
    more = [one for one in found[len(first) :] if _key(one) not in there][:room]
    return [*first, *more, *siblings][:k]


def _stands(match: re.Match[str], place: str) -> bool:
    at_start, at_end = match.start() == 0, match.end() == len(match.string)
    return {"anywhere": True, "end": at_end and not at_start, "whole": at_start and at_end}[place]


def _with(text: str, found: Sequence[re.Match[str]], written: Sequence[str]) -> str:
    """The text with other words in the place of those found, but for those that stand within their expansion."""
    pieces, start = [], 0
    for match, expansion in zip(found, written, strict=True):
        before = expansion.find(match[0])
        is_there = before >= 0 and text.startswith(expansion, max(0, match.start() - before))
        kept = text[start : match.start()]
        # 急性STEMI does not become 急性急性ST段抬高型心肌梗死.
        twice = next((size for size in range(len(expansion), 1, -1) if kept.endswith(expansion[:size])), 0)
        pieces += [kept, match[0] if is_there else expansion[twice:]]
        start = match.end()
    return "".join([*pieces, text[start:]])


def _any_of(words: Sequence[str] | Mapping[str, str]) -> re.Pattern[str] | None:
    """Any of the words, the longest first; those of Latin letters and digits only where they stand alone."""
    if not words:
        return None
    longest_first = sorted(words, key=lambda word: (-len(word), word))
    return re.compile(
        "|".join(
            rf"(?<![a-z0-9]){re.escape(word)}(?![a-z0-9])" if word.isascii() else re.escape(word)
            for word in longest_first
        )
    )


def _normal(names: Iterable[str]) -> list[str]:
    whole = [name.encode("utf-8", "replace").decode() for name in names]
    return normalise_names(pl.Series(whole, dtype=pl.String)).to_list()


def _rows(path: Path | None, columns: Sequence[str]) -> list[tuple[str, ...]]:
    rows = [tuple(row[column] for column in columns) for row in read_table(path, columns)] if path else []
    for number, row in enumerate(rows, start=2):
        if not all(row):
            raise UserError(f"{path}, row {number} has an empty cell: {', '.join(row)}. Fill it, or delete the row.")
    for number, (row, name) in enumerate(zip(rows, _normal(row[0] for row in rows), strict=True), start=2):
        if not name:
            raise UserError(f"{path}, row {number}: nothing of {row[0]!r} can be looked for. Delete the row.")
    return rows
