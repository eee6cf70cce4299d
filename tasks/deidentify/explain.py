"""What de-identification does to a text, span by span: where, which kind, which rule, and what becomes of it.

Time grows with the characters, memory with the text.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tasks.deidentify.forms.identifier import PROFILES, Cues, IdentifierType
from tasks.deidentify.kinds import KINDS
from tasks.deidentify.plan import Plan
from tasks.deidentify.treatment import Treatment


class Explained(NamedTuple):
    """An identifier of a text with its reason."""

    start: int
    end: int
    written: str
    kind: str
    rule: str
    becomes: str


def explain(text: str, plan: Plan, scope: str = "") -> tuple[str, list[Explained]]:
    """Return the de-identified text, and its identifiers in order with the places they have in the text given."""
    treatment = Treatment(plan, scope, with_marks=True)
    marked = treatment.of(text)
    found = [
        Explained(start, end, one.written, one.kind, one.rule, plan.replacement(one.kind, one.written, scope))
        for start, end, one in treatment.spans(marked)
    ]
    treated: str = treatment.finished(marked)
    return treated, found


def counts_of(found: Sequence[Explained]) -> dict[str, int]:
    """Return the number of identifiers of each kind that occurs."""
    return dict(Counter(one.kind for one in found))


def explained_lines(found: list[Explained], plan: Plan) -> Iterator[str]:
    """Yield a table of identifiers with their reasons, for a terminal."""
    own = {} if plan.rules is None else {each.name: each for each in plan.rules.types}
    rows = [("place", "text", "kind", "becomes", "rule")]
    for one in found:
        meaning = (own.get(one.kind) or KINDS[one.kind]).about.what
        rows.append(
            (f"{one.start}-{one.end}", _line(one.written), one.kind, _line(one.becomes), f"{one.rule} ({meaning})")
        )
    yield from _columns(rows)
    yield f"{len(found):,} identifiers" if len(found) != 1 else "1 identifier"


def kinds_lines() -> Iterator[str]:
    """Yield the table of kinds: placeholder, profiles, what it is, an example and a counter-example."""
    rows = [("kind", "placeholder", "profiles", "what", "found", "stays")]
    for kind in KINDS.values():
        rows.append((kind.name, kind.placeholder, profiles_text(kind), kind.about.what, *examples_of(kind)))
    yield from _columns(rows)


def profiles_text(kind: IdentifierType) -> str:
    """Return the profiles that treat a kind: all, or their names, or option."""
    profiles = kind.about.profiles
    return "all" if set(profiles) == set(PROFILES) else " ".join(profiles) or "option"


def examples_of(kind: IdentifierType) -> tuple[str, str]:
    """Return a text with an identifier of the kind in braces, and one that stays, of a way that has cues if one has."""
    way = next((way for way in kind.ways if isinstance(way, Cues)), kind.ways[0])
    return way.found[0], way.kept[0]


def _line(text: str) -> str:
    """Return a text on one line, without control characters that a terminal would obey."""
    return "".join(sign if sign.isprintable() else " " for sign in text)


def _columns(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True)]
        yield "  ".join(cells).rstrip()


def _width(text: str) -> int:
    """Return the columns of a text on a terminal, where Chinese characters take two."""
    return sum(2 if unicodedata.east_asian_width(sign) in "WF" else 1 for sign in text)
