"""Trust in the names that graphs and texts give to codes: wrong ones are kept aside, marked and counted.

A name begins with a trust of 1, which is multiplied for each reason to doubt it:

    known_elsewhere   0     食管裂孔疝 of Q40.1: the list, or the table of everyday names, has it under K44 only
    of_sibling        0     呼吸衰竭 of J96.0 (acute): everyday names have it under J96.9 of the same category
    names_another     0.3   先天性听神经瘤 of C72.4 ends with a known name of D33, and resembles no name of C72
    contradicts       0.5   慢性肾炎 of an acute one; and so for each row of diagnosis_contradictions.csv
    context           *     脱水 of P74.1 says nothing of a newborn; * is the factor in diagnosis_contexts.csv
    no_disease        0.6   出现 of any code: short, without the ending of a disease, and unlike its names
    shared            1/√n  of n categories

Agreement outweighs doubt: a name with a further source for the same category keeps its trust, unless that source gives
it to a sibling. Names of the list itself, its English names and everyday names are not judged.

Time and memory grow with the number of names.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tasks.normalise.queries.compounds import names_disease
from tasks.normalise.reading import Sense, read_senses
from tasks.normalise.terms.everyday_names import EVERYDAY
from tasks.retrieve.candidates import Entry
from tasks.retrieve.fields import comparable_forms
from tasks.retrieve.icd_categories import category_of

KNOWN = ("", "list", EVERYDAY)
"""Sources that are believed; "" is the standard term."""
JUDGED = ("graph", "text")
ALIKE = 0.35
"""Share of characters (Dice) from which a name resembles another."""
SHORT = 3
"""Longest name that needs the ending of a disease."""


_CHINESE = re.compile("[\u4e00-\u9fff]")


class Doubted(NamedTuple):
    """A name that is not trusted."""

    code: str
    term: str
    name: str
    source: str
    trust: float
    """From 0 to below the least trust that is asked for."""
    reasons: str
    """Reasons to doubt it, joined by ";"."""


def with_trusted_names(
    entries: Sequence[Entry], least: float, senses: Sequence[Sense] | None = None
) -> tuple[list[Entry], list[Doubted], Counter[str]]:
    """Take the names off entries whose trust is below the least; 0 keeps all.

    Returns:
        The entries in their order, the names taken off, and counts by source and reason.
    """
    judge = _Judge(entries, read_senses() if senses is None else senses)
    kept, doubted, counts = [], list[Doubted](), Counter[str]()
    for entry in entries:
        names = entry.source_of
        for name, source in entry.source_of.items():
            if source not in JUDGED:
                continue
            trust, reasons = judge.trust(entry, name)
            counts[f"names_of_{source}_judged"] += 1
            if trust < least:
                del names[name]
                doubted.append(Doubted(entry.code, entry.term, name, source, trust, ";".join(reasons)))
                counts[f"names_of_{source}_doubted"] += 1
                counts.update(f"doubted_{reason}" for reason in reasons)
        kept.append(Entry(entry.code, entry.term, tuple(names), tuple(names.values())))
    return kept, doubted, counts


class _Judge:
    """What the names of a list say of each other."""

    def __init__(self, entries: Sequence[Entry], senses: Sequence[Sense]) -> None:
        self._senses = senses
        named = [
            (entry, name or entry.term, source)
            for entry in entries
            for name, source in (("", ""), *entry.source_of.items())
        ]
        self._form = dict(zip((name for _, name, _ in named), _forms([name for _, name, _ in named]), strict=True))
        self._known: dict[str, set[str]] = defaultdict(set)
        """Groups of each believed name."""
        self._believed: dict[tuple[str, str], set[tuple[str, str]]] = defaultdict(set)
        """Codes and terms in a group that have a believed name."""
        self._groups: dict[str, set[str]] = defaultdict(set)
        """Groups of each name, of any source."""
        self._sources: dict[tuple[str, str], set[str]] = defaultdict(set)
        self._of_group: dict[str, set[str]] = defaultdict(set)
        for entry, name, source in named:
            form, group = self._form[name], _group(entry)
            self._groups[form].add(group)
            self._sources[group, form].add(source)
            if source in KNOWN:
                self._known[form].add(group)
                self._believed[group, form].add((entry.code, entry.term))
                self._of_group[group].add(form)

    def trust(self, entry: Entry, name: str) -> tuple[float, list[str]]:
        form, group = self._form[name], _group(entry)
        siblings = self._believed[group, form]
        if siblings and (entry.code, entry.term) not in siblings:
            return 0.0, ["of_sibling"]
        if len(self._sources[group, form]) > 1:
            return 1.0, []
        factors = self._factors(entry, name, form, group)
        return math.prod(factors.values()), [reason for reason, factor in factors.items() if factor < 1]

    def _factors(self, entry: Entry, name: str, form: str, group: str) -> Mapping[str, float]:
        likeness = max((_dice(form, own) for own in self._of_group[group]), default=0.0)
        known = self._known.get(form, {group})
        longest = self._longest_end(form) if _CHINESE.search(name) else ""
        # Tables and endings are Chinese: they say nothing of "lung cancer".
        contradicts, context = self._sense(entry, name) if _CHINESE.search(name) else (1.0, 1.0)
        return {
            "known_elsewhere": 1.0 if group in known else 0.0,
            "names_another": 1.0 if not longest or group in self._known[longest] or likeness >= ALIKE else 0.3,
            "contradicts": contradicts,
            "context": context,
            "no_disease": 1.0
            if len(form) > SHORT or not _CHINESE.search(name) or names_disease(name) or likeness >= ALIKE
            else 0.6,
            "shared": 1 / math.sqrt(len(self._groups[form])),
        }

    def _longest_end(self, form: str) -> str:
        """Return the longest known name that a name ends with: Chinese names have their head at the end."""
        ends = (form[start:] for start in range(1, len(form) - 2))
        return next((end for end in ends if end in self._known), "")

    def _sense(self, entry: Entry, name: str) -> tuple[float, float]:
        said = [one for one in self._senses if one.concerns(entry.code, entry.term)]
        contradicts = math.prod(one.factor for one in said if one.when and one.asked.search(name))
        context = math.prod(one.factor for one in said if not one.when and not one.asked.search(name))
        return contradicts, context


def _group(entry: Entry) -> str:
    """Return the category of an entry, or its code or term in a list that has none."""
    return category_of(entry.code) or entry.code or entry.term


def _forms(names: Sequence[str]) -> list[str]:
    return ["".join(form) for form in comparable_forms(names)]


def _dice(one: str, other: str) -> float:
    """Return the share of characters that two names have in common."""
    own, their = set(one), set(other)
    return 2 * len(own & their) / max(1, len(own) + len(their))
