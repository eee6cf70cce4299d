"""Dagger and asterisk codes: the code of a disease with that of its manifestation, as ICD-10 pairs them.

    2型糖尿病肾病  →  E11.2† N08.3*
    结核性脑膜炎   →  A17.0† G01*

Only the 83 categories of `ASTERISK_CATEGORIES` have asterisks. Which code goes with which is in the table of pairs,
each with a regular expression for what names the manifestation, and in the names of a list: 结核性食管炎（A18.8+） has
the dagger code of K23.0. An answer has a pair if the text names the manifestation. The first row that fits counts.

Time grows with the rows of the category of an answer.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from infra.errors import UserError
from kg.fusion.vocabularies import read_table
from tasks.normalise.terms.columns import plain_code, significant_code

PAIRS = Path(__file__).parents[1] / "tables" / "diagnosis_pairs.csv"
"""Default table, with the columns dagger, asterisk, named and example."""

_ASTERISKS = """
D63 D77 E35 E90 F00 F02 G01 G02 G05 G07 G13 G22 G26 G32 G46 G53 G55 G59 G63 G73 G94 G99 H03 H06 H13 H19 H22 H28 H32 H36
H42 H45 H48 H58 H62 H67 H75 H82 H94 I32 I39 I41 I43 I52 I68 I79 I98 J17 J91 J99 K23 K67 K77 K87 K93 L14 L45 L54 L62 L86
L99 M01 M03 M07 M09 M14 M36 M49 M63 M68 M73 M82 M90 N08 N16 N22 N29 N33 N37 N51 N74 N77 P75
"""
ASTERISK_CATEGORIES = frozenset(_ASTERISKS.split())
"""All categories of ICD-10 whose codes describe a manifestation."""

_CODE = re.compile(r"[A-Z]\d\d(?:\.\d)?")
# Matches A18.8+ of 结核性食管炎(A18.8+) and J99.0* of 类风湿性肺病(J99.0*), but not C00-D48+ nor E03.-+.
_NAMED = re.compile(r"[(（](?P<code>[A-Z]\d\d(?:\.\d)?)(?P<mark>[+†*])[)）]$")


class Pair(NamedTuple):
    """Codes that belong together."""

    dagger: str
    asterisk: str

    def __str__(self) -> str:
        """Return both with their marks: E11.2† N08.3*."""
        return f"{self.dagger}† {self.asterisk}*"


class PairRow(NamedTuple):
    """A row of the table."""

    pair: Pair
    named: re.Pattern[str]
    example: str


def read_pairs(path: Path = PAIRS) -> tuple[PairRow, ...]:
    """Read a table of pairs.

    Raises:
        UserError: the file is unreadable or lacks a column, or a row has no code, an asterisk code of another category,
            or a faulty regular expression. The message names the row.
    """
    rows = []
    for number, row in enumerate(read_table(path, ("dagger", "asterisk", "named", "example")), start=2):
        pair = Pair(row["dagger"], row["asterisk"])
        if not all(_CODE.fullmatch(code) for code in pair):
            raise UserError(f"{path}, row {number}: {pair.dagger!r} and {pair.asterisk!r} must be codes of ICD-10.")
        if pair.asterisk[:3] not in ASTERISK_CATEGORIES:
            raise UserError(f"{path}, row {number}: {pair.asterisk} is no asterisk code. Exchange the columns?")
        try:
            named = re.compile(row["named"], re.IGNORECASE)
        except re.error as error:
            raise UserError(f"{path}, row {number}: {row['named']!r} is not a regular expression ({error}).") from error
        rows.append(PairRow(pair, named, row["example"]))
    return tuple(rows)


class DaggerPairs:
    """Finds the pairs of answers."""

    def __init__(self, rows: Sequence[PairRow] | None = None) -> None:
        """Take the rows; by default those of the table."""
        self._by_dagger: dict[str, list[PairRow]] = defaultdict(list)
        self._by_asterisk: dict[str, list[PairRow]] = defaultdict(list)
        for row in read_pairs() if rows is None else rows:
            self._by_dagger[row.pair.dagger[:3]].append(row)
            self._by_asterisk[row.pair.asterisk[:3]].append(row)

    def of(self, code: str, term: str, text: str) -> Pair | None:
        """Return the pair of an answer; None if its text names no manifestation, or ICD-10 pairs it with nothing.

        Args:
            code: code of the answer; of E11.200x021 of a national list, E11.2 counts.
            text: what it answers.
        """
        own = significant_code(code)[:5]
        if own[:3] in ASTERISK_CATEGORIES:
            rows = [row for row in self._by_asterisk[own[:3]] if own.startswith(row.pair.asterisk)]
            return self._stated(code, term) or self._first(rows, text, own)
        rows = [row for row in self._by_dagger.get(own[:3], ()) if own.startswith(row.pair.dagger)]
        return self._first(rows, text, own) or self._stated(code, term)

    def _first(self, rows: Sequence[PairRow], text: str, own: str) -> Pair | None:
        found = next((row.pair for row in rows if row.named.search(text)), None)
        # The table may have only the category of the disease: K74 of K74.6.
        return found and (found._replace(dagger=own) if own.startswith(found.dagger) else found)

    def _stated(self, code: str, term: str) -> Pair | None:
        """Return the pair that the term itself names."""
        match = _NAMED.search(term)
        if match is None:
            return None
        own = plain_code(code)
        return Pair(own, match["code"]) if match["mark"] == "*" else Pair(match["code"], own)
