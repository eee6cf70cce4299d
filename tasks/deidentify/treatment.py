"""De-identification of one document: identifiers are replaced by typed placeholders, or by what a plan says.

A name that is found in one text of the document is known in the others: title, text and the values of `meta`.

Rounds of the search must not find what replaced an identifier, such as a drawn name. So where a plan has other
operators than placeholders, an identifier becomes a mark first: two characters for private use in the brackets of a
placeholder. `Treatment.finished` puts in what the operators give.
"""

from __future__ import annotations

import itertools
import re
import secrets
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tasks.deidentify.document_persons import OF_ANYTHING, cue_of, in_path, is_path, speakers
from tasks.deidentify.forms.identifier import Identifier
from tasks.deidentify.plan import MINIMAL_PLAN, Plan
from tasks.deidentify.search.find import names_of, replace

# matches: "13812345678.0"
# not: "61.0", "13812345678"
_WHOLE_NUMBER = re.compile(r"\d{5,20}\.0$")
"""A number as a table writes it in a column with gaps."""

RECOGNISED_ROUNDS = 3
"""Searches of a text that ask the recogniser too: a text of nothing but numbers might reveal one more each time."""
MOST_ROUNDS = 12
"""Searches of a text. A name that is replaced may reveal one beside it, so that a text of nothing but 孙子 would be
searched once for each, which takes quadratic time; what people write is done after three to five."""

_PRIVATE, _DIGITS = 0xF0000, 60_000
"""First code point of marks, and the number of those that are used as digits."""
_FIRST = secrets.randbelow(_DIGITS**2)
"""Number of the first mark. A text that holds such characters itself cannot know it, and so pose as a mark."""
# matches: "〔\U000f0000\U000f0001〕"
# not: "〔姓名〕"
_MARK = re.compile("〔([\U000f0000-\U000ffffd]{2})〕")


def deidentify(text: str, plan: Plan = MINIMAL_PLAN, scope: str = "") -> tuple[str, dict[str, int]]:
    """Replace the identifiers of a text by placeholders such as 〔手机号〕, or by what a plan says.

    With placeholders, doing it again changes nothing, unless a text took `MOST_ROUNDS` searches.

    Args:
        text: any text.
        plan: kinds that are treated and what becomes of them.
        scope: person or document in which surrogates are consistent and dates are shifted by the same days.

    Returns:
        The text with placeholders, and the number of identifiers of each kind that occurs. The kinds are the names in
        `tasks.deidentify.kinds.KINDS`.
    """
    treatment = Treatment(plan, scope)
    treated: str = treatment.finished(treatment.of(text))
    return treated, dict(treatment.counts)


class Replaced(NamedTuple):
    """An identifier that a mark stands for."""

    kind: str
    written: str
    rule: str


@dataclass
class Treatment:
    """Replaces identifiers in the texts of one document; a name found in one of them is known in the others."""

    plan: Plan = MINIMAL_PLAN
    scope: str = ""
    """Person or document in which surrogates are consistent and dates are shifted by the same days."""
    with_marks: bool = False
    """True where identifiers become marks even if the plan has placeholders alone; see `replaced`."""
    counts: Counter[str] = field(default_factory=Counter)
    """Number of identifiers replaced so far, by kind."""
    names: set[str] = field(default_factory=set)
    """Names found so far."""
    certain: set[str] = field(default_factory=set)
    """Those of them that a field of `meta` gives as its value: 高峰 under 姓名."""
    replaced: list[Replaced] = field(default_factory=list)
    """Identifiers by the number of their mark."""

    def of(self, text: str) -> str:
        """Return a text with placeholders or marks."""
        if not text:
            return text
        # Replacing an identifier may reveal another beside it.
        rules_alone = itertools.repeat(self.plan.rules_alone, MOST_ROUNDS - RECOGNISED_ROUNDS)
        for finder in itertools.chain([self.plan.finder] * RECOGNISED_ROUNDS, rules_alone):
            found = finder.find(text, self.names, self.certain)
            if not found:
                break
            text = self._replaced(text, found)
        return text

    def finished(self, value: Any) -> Any:
        """Return a text, or a value of `meta`, with what the operators make of the identifiers behind the marks."""
        if not self.replaced:
            return value
        if isinstance(value, dict):
            return {name: self.finished(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [self.finished(inner) for inner in value]
        return _MARK.sub(self._put_in, value) if isinstance(value, str) else value

    def spans(self, text: str) -> list[tuple[int, int, Replaced]]:
        """Return where the marks of a text were before it was treated: start, end and the identifier, in order."""
        found = []
        shift = 0
        for mark in _MARK.finditer(text):
            number = _number_of(mark[1])
            if number < len(self.replaced):
                one = self.replaced[number]
                start = mark.start() + shift
                shift += len(one.written) - len(mark[0])
                found.append((start, start + len(one.written), one))
        return found

    def of_value(self, key: str, value: Any) -> Any:
        """Return a value of `meta` with placeholders. Keys stay, and are read as cues: {"姓名": …}, {"住院号": …}."""
        if isinstance(value, dict):
            return {name: self.of_value(name, inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [self.of_value(key, inner) for inner in value]
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            return value
        clear = str(value)
        if is_path(key):
            found = in_path(clear, self.plan.finder.find)
            # A folder may be called 平片, which could be a name; the file of a person has a number beside the name.
            treated = self._replaced(clear, found, known=any(one.type != "name" for one in found))
        else:
            cue = cue_of(key)
            if _WHOLE_NUMBER.match(clear):
                clear = clear.removesuffix(".0")
            found = tuple(i for i in self.plan.finder.find(cue + clear, self.names) if i.start >= len(cue))
            self.certain |= {one for one in names_of(cue + clear, found) if one == clear.strip()}
            treated = self._replaced(cue + clear, found, known=cue != OF_ANYTHING)[len(cue) :]
        treated = self.of(treated)
        return value if treated == clear else treated

    def of_turns(self, text: str) -> str:
        """Return a dialogue with placeholders; persons may be named before their lines as speakers."""
        return self.of(self._replaced(text, self.plan.finder.without_allowed(text, speakers(text))))

    def _replaced(self, text: str, found: Sequence[Identifier], known: bool = True) -> str:
        """Replace some identifiers of a text and count them.

        Their names are searched for in the other texts too, where they are `known` to be names.
        """
        found = [one for one in found if one.type in self.plan.kinds]
        self.counts.update(identifier.type for identifier in found)
        if known:
            self.names |= names_of(text, found)
        if self.plan.only_placeholders and not self.with_marks:
            return replace(text, found, [self.plan.placeholders[one.type] for one in found])
        return replace(text, found, [self._mark(text[one.start : one.end], one) for one in found])

    def _mark(self, written: str, one: Identifier) -> str:
        number = (_FIRST + len(self.replaced)) % _DIGITS**2
        self.replaced.append(Replaced(one.type, written, one.rule))
        return f"〔{chr(_PRIVATE + number // _DIGITS)}{chr(_PRIVATE + number % _DIGITS)}〕"

    def _put_in(self, mark: re.Match[str]) -> str:
        number = _number_of(mark[1])
        if number >= len(self.replaced):
            return mark[0]  # such characters were in the text
        one = self.replaced[number]
        return self.plan.replacement(one.kind, one.written, self.scope)


def _number_of(digits: str) -> int:
    written = (ord(digits[0]) - _PRIVATE) * _DIGITS + ord(digits[1]) - _PRIVATE
    return (written - _FIRST) % _DIGITS**2
