"""Rules that turn a diagnosis into queries: the text itself, spelled out, without notes, and its parts.

    支气管哮踹(轻度)伴心衰  →  支气管哮踹(轻度)伴心衰, 支气管哮喘(轻度)伴心力衰竭, 支气管哮喘, 心力衰竭 …

Typos and abbreviations come from two tables, the default ones in tables/ or the user's own
(settings.py). compounds.py decides where a compound is cut. The whole diagnosis
stays a query of its own, so a wrong cut costs places among the candidates, but no answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from infra.errors import UserError
from kg.fusion.vocabularies import read_table
from tasks.normalise.queries.abbreviation_contexts import AbbreviationContexts
from tasks.normalise.queries.compounds import names_disease, parts_of, segments_of, without_numbers
from tasks.normalise.queries.spelling import PLACES, Abbreviations, Typos, normal_forms
from tasks.retrieve.fields import comparable_forms

ABBREVIATIONS, TYPOS = (
    Path(__file__).parents[1] / "tables" / f"diagnosis_{name}.csv" for name in ("abbreviations", "typos")
)
"""Default tables: rows (short, expansion, place), one per expansion, and rows (wrong, right)."""

MAX_PARTS = 24
"""Number of parts of a compound that become queries. Further parts are found only by the query of the whole."""

MAX_QUERIES = 32
"""Number of queries per diagnosis, including the whole: eight plus two per part, but never more than this."""

MAX_CHARACTERS = 1_000
"""Number of characters of a diagnosis that are used; the rest is ignored."""

# Matches (轻度) of 支气管哮喘(轻度). Nested brackets match inside only: (急性) of (左(急性)侧).
_NOTE = re.compile(r"\([^()]*\)")

# Matches CKD3期 and BPH, but not T2N0M0.
_LATIN = re.compile(r"([a-z][a-z-]*)(?:[ ]?(?:[1-5]|[ivx]{1,3})[abc]?[期级型])?", re.IGNORECASE)

IsName = Callable[[Sequence[str]], Sequence[bool]]
"""Tells for each text whether it is exactly a name in the list."""

_Form = tuple[str, ...]
"""Comparable form of a text (tasks/retrieve/fields.py)."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The queries for one diagnosis."""

    queries: tuple[str, ...]
    """Distinct queries, the whole diagnosis first. Empty if the text has no searchable character."""
    parts: tuple[tuple[int, ...], ...]
    """For each part of a compound, the places of its queries: spelled out, then as written if that differs. Empty
    unless there are at least two parts.
    """


@dataclass(frozen=True, slots=True)
class _Variants:
    """All texts worth a query, by falling priority; several may have the same comparable form."""

    texts: Sequence[str]
    parts: Sequence[tuple[int, int]]
    """For each part its places in `texts`: spelled out, and as written."""


class QueryRules:
    """Turns diagnoses into queries."""

    def __init__(
        self,
        abbreviations: Sequence[tuple[str, str, str]] = (),
        typos: Mapping[str, str] | None = None,
        notes: bool = True,
        split: bool = True,
    ) -> None:
        """Take the tables themselves; see `read` for the default ones.

        Args:
            abbreviations: rows (short form, expansion, place); a short form may have several expansions.
            typos: right spellings by wrong ones.
            notes: also search the diagnosis without the text in brackets.
            split: also search the parts of a compound.
        """
        self.abbreviations, self.typos = tuple(abbreviations), dict(typos or {})
        self.notes, self.split = notes, split
        self._contexts = AbbreviationContexts()
        self._abbreviations, self._typos = Abbreviations(self.abbreviations), Typos(self.typos)
        self._shorts = frozenset(
            short.lower()
            for short, expansion, place in self.abbreviations
            if place == "anywhere" and len(short) > 1 and short.isascii() and names_disease(expansion)
        )

    @classmethod
    def read(
        cls,
        abbreviations: Path | None = ABBREVIATIONS,
        typos: Path | None = TYPOS,
        notes: bool = True,
        split: bool = True,
    ) -> QueryRules:
        """Read the tables from CSV files; None means an empty table.

        Raises:
            UserError: a file is unreadable or lacks a column, or a row has an empty cell or an unknown place.
        """
        shorts = _rows(abbreviations, ("short", "expansion", "place"))
        for number, row in enumerate(shorts, start=2):
            if row[2] not in PLACES:
                raise UserError(f"{abbreviations}, row {number}: place {row[2]!r} must be one of {', '.join(PLACES)}.")
        wrong = {row[0]: row[1] for row in _rows(typos, ("wrong", "right"))}
        return cls([(short, expansion, place) for short, expansion, place in shorts], wrong, notes, split)

    def ask(self, diagnoses: Sequence[str], is_name: IsName | None = None) -> list[Asked]:
        """Return the queries of each diagnosis.

        Args:
            is_name: tells for each text whether it is exactly a name in the list. Parts that are one name together are
                not cut: 支气管扩张伴咯血.
        """
        # Numbers are removed before normalisation, which would join 1.冠心病 2.房颤 to 1.冠心病2.房颤.
        texts = normal_forms([without_numbers(diagnosis[:MAX_CHARACTERS]) for diagnosis in diagnoses])
        cuts = [self._cuts(text) for text in texts]
        named = _names_among([_runs(*own) for own in cuts], is_name)
        variants = [self._variants(text, _uncut(*own, named)) for text, own in zip(texts, cuts, strict=True)]
        # The comparable forms of all variants at once, as a call per text would be much slower.
        forms = iter(comparable_forms([text for own in variants for text in own.texts]))
        return [_distinct(own, [next(forms) for _ in own.texts]) for own in variants]

    def queries(self, diagnoses: Sequence[str]) -> list[list[str]]:
        """Return the queries of each diagnosis; see `Asked`."""
        return [list(asked.queries) for asked in self.ask(diagnoses)]

    def parts(self, diagnoses: Sequence[str]) -> list[int]:
        """Return the number of different parts of each diagnosis: at least 1, and 1 if compounds are not split.

        Every part counted is also a query.
        """
        return [max(1, len(asked.parts)) for asked in self.ask(diagnoses)]

    def readings(self, text: str, whole: str = "") -> tuple[tuple[str, ...], bool]:
        """Return what a text in normal form may mean by a Latin short form of several expansions, the usual one first,
        and whether the text is nothing but that short form: MI, but not 急性MI.

        Only one reading is left if the text itself spells it out, as in DM(糖尿病), or if the whole diagnosis decides
        (tasks/normalise/queries/abbreviation_contexts.py): 二尖瓣狭窄 for MS of 房颤、MS.
        """
        plain = self._plain(text)
        if self._abbreviations.has_latin(plain) and (decided := self._contexts.decided(plain, whole)):
            return (decided,), self._abbreviations.is_short(plain)
        if not self._abbreviations.is_ambiguous(plain):
            return (), False
        found = tuple(self._abbreviations.written_out(plain))
        given = tuple(one for one in found if one in text)
        return given[:1] or found, self._abbreviations.is_short(plain)

    def spelled(self, text: str) -> tuple[str, ...]:
        """Return a text without typos and with its short forms written out, in each way."""
        plain = normal_forms([text])[0]
        right = self._typos.corrected(plain)
        return (*(() if right == plain else (right,)), *self._abbreviations.written_out(right))

    def is_short(self, word: str) -> bool:
        """Return True if a Latin word, perhaps with a stage, is a short form of a disease: BPH, CKD3期."""
        match = _LATIN.fullmatch(word)
        return match is not None and match[1].lower() in self._shorts

    def segments(self, text: str) -> list[tuple[str, tuple[str, ...]]]:
        """Return the segments of a text in normal form (compounds.py), each with itself spelled out."""
        plain = self._plain(self._typos.corrected(text))
        return [(one, (one, *self._abbreviations.written_out(one))) for one in segments_of(plain)]

    def _plain(self, right: str) -> str:
        return _NOTE.sub("", right) if self.notes else right

    def _cuts(self, text: str) -> tuple[str, list[str]]:
        """Return a diagnosis without typos and notes, and the parts that it is cut into."""
        plain = self._plain(self._typos.corrected(text))
        return plain, parts_of(plain)[:MAX_PARTS] if self.split else []

    def _variants(self, text: str, parts: Sequence[str]) -> _Variants:
        right = self._typos.corrected(text)
        plain = self._plain(right)
        whole, *spelled = (self._abbreviations.written_out(one) for one in (right, *parts))
        bare = whole if plain == right else self._abbreviations.written_out(plain)
        readings = [written[0] if written else part for part, written in zip(parts, spelled, strict=True)]
        # The number of queries is limited: every part goes before any second expansion, so that no part is lost.
        first = [text, right, *whole[:1], plain, *bare[:1]]
        last = chain(*(written[1:] for written in (whole, bare, *spelled)))
        places = [(len(first) + place, len(first) + len(parts) + place) for place in range(len(parts))]
        return _Variants([*first, *readings, *parts, *last], places)


MAX_RUN = 3
"""Number of neighbouring parts that may be one name."""


def _runs(plain: str, parts: Sequence[str]) -> dict[tuple[int, int], str]:
    """Return what a diagnosis says from one part to a later one, by their places."""
    starts, start = [], 0
    for part in parts:
        start = plain.find(part, start)
        starts.append(start)
        start += len(part)
    return {
        (first, last): plain[starts[first] : starts[last] + len(parts[last])]
        for first in range(len(parts))
        for last in range(first + 1, min(first + MAX_RUN, len(parts)))
    }


def _names_among(runs: Sequence[Mapping[tuple[int, int], str]], is_name: IsName | None) -> set[str]:
    texts = sorted({text for own in runs for text in own.values()})
    return {text for text, is_own in zip(texts, is_name(texts), strict=True) if is_own} if is_name and texts else set()


def _uncut(plain: str, parts: Sequence[str], named: set[str]) -> list[str]:
    """Return the parts, those that are one name together as one; none if that is the whole diagnosis."""
    runs, joined, place = _runs(plain, parts), list[str](), 0
    while place < len(parts):
        longest = max((last for (first, last), text in runs.items() if first == place and text in named), default=place)
        joined.append(runs[place, longest] if longest > place else parts[place])
        place = longest + 1
    return joined if len(joined) > 1 else []


def _distinct(variants: _Variants, forms: Sequence[_Form]) -> Asked:
    """Return one query per comparable form, with the parts that are left."""
    texts: dict[_Form, str] = {}
    for text, form in zip(variants.texts, forms, strict=True):
        if form:
            texts.setdefault(form, text)
    limit = min(MAX_QUERIES, 8 + 2 * len(variants.parts))
    queries = tuple(texts.values())[:limit]
    places = {form: place for place, form in enumerate(list(texts)[:limit])}
    own_places = [
        tuple(dict.fromkeys(places[forms[at]] for at in own if forms[at] in places)) for own in variants.parts
    ]
    # 心衰、心力衰竭 has one part: both are spelled out as 心力衰竭. The first of equal parts is kept.
    parts: dict[int, tuple[int, ...]] = {}
    for own in own_places:
        if own:
            parts.setdefault(own[0], own)
    return Asked(queries, tuple(parts[place] for place in sorted(parts)) if len(parts) > 1 else ())


def _rows(path: Path | None, columns: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the rows of a table without empty cells; none without a path."""
    rows = [tuple(row[column] for column in columns) for row in read_table(path, columns)] if path else []
    for number, row in enumerate(rows, start=2):
        if not all(row):
            raise UserError(f"{path}, row {number} has an empty cell: {', '.join(row)}. Fill it, or delete the row.")
    for number, (row, name) in enumerate(zip(rows, normal_forms(row[0] for row in rows), strict=True), start=2):
        if not name:
            raise UserError(f"{path}, row {number}: {row[0]!r} contains no searchable characters. Delete the row.")
    return rows
