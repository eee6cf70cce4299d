"""Concepts and their names, from everything that knows synonyms: a term list, a graph, and text.

A term of the list with its aliases is a concept. An entity of a graph that shares a name with one concept adds its
names to it; one that shares none is a concept of its own, and one that shares names with several is left out. So is a
pair of names that a text states. A name of several concepts means nothing certain: it stays with the concept whose
standard term it is, and is dropped otherwise.

Time and memory grow with the number of names.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from tasks.retrieve.candidates import Entry
from tasks.retrieve.fields import comparable_forms
from tasks.retrieve.icd_categories import category_of

OF_LIST = ("", "list", "english")
"""Sources of names that come with the list itself; "" is the standard term."""

# Matches 肺炎 and COPD, but not A15.9, 2型 or X.
_NAME = re.compile("[\u4e00-\u9fff].*[\u4e00-\u9fff]|[A-Za-z]{3}")
_CHINESE = re.compile("[\u4e00-\u9fff]")


@dataclass
class Concept:
    """Something with names."""

    category: str
    """Category of its code (E11), or the type of an entity."""
    names: dict[str, str] = field(default_factory=dict)
    """Source of each name; a term's own first."""


class Concepts:
    """Concepts as they are gathered; names are compared in comparable form (tasks/retrieve/fields.py).

    Args:
        held_out: comparable forms of names that must not be used, unless the list itself has them.
        english: use names without a Chinese character.
    """

    def __init__(self, held_out: Set[str] = frozenset(), *, english: bool = True) -> None:
        self.counts: Counter[str] = Counter()
        self._concepts: list[Concept] = []
        self._owners: dict[str, set[int]] = defaultdict(set)
        self._term_of: dict[str, set[int]] = defaultdict(set)
        self._held_out, self._english = held_out, english

    def add_entries(self, entries: Iterable[Entry]) -> None:
        """Add the terms of a list with their aliases."""
        for entry in entries:
            number = self._new(category_of(entry.code))
            self._name(number, {entry.term: "", **entry.source_of})

    def add_entities(self, entities: Iterable[tuple[Sequence[str], str]], source: str = "graph") -> None:
        """Add entities: the names of each, and its type."""
        for names, kind in entities:
            allowed = self._allowed(names, source)
            known = set().union(*(self._owners.get(form, set()) for form in allowed.values()))
            if len(known) > 1:
                self.counts[f"{source}_entities_of_several_concepts"] += 1
            elif known or len(set(allowed.values())) > 1:
                self.counts[f"{source}_entities_{'joined' if known else 'added'}"] += 1
                self._name(known.pop() if known else self._new(kind), dict.fromkeys(allowed, source), allowed)
            else:
                self.counts[f"{source}_entities_without_synonym"] += 1

    def finished(self) -> list[Concept]:
        """Return the concepts, each with the names that are its alone; concepts without any are left out."""
        kept = []
        for number, concept in enumerate(self._concepts):
            forms = dict(zip(concept.names, _forms(list(concept.names)), strict=True))
            names: dict[str, str] = {}
            seen: set[str] = set()
            for name, source in concept.names.items():
                form = forms[name]
                owner = self._term_of.get(form) or self._owners[form]
                if owner != {number}:
                    self.counts["names_of_several_concepts"] += 1
                elif form not in seen:
                    names[name] = source
                    seen.add(form)
            if names:
                kept.append(Concept(concept.category, names))
        return kept

    def _new(self, category: str) -> int:
        self._concepts.append(Concept(category))
        return len(self._concepts) - 1

    def _allowed(self, names: Iterable[str], source: str) -> dict[str, str]:
        """Return the comparable form of each name that may be used."""
        stripped = [name.strip() for name in names]
        allowed: dict[str, str] = {}
        for name, form in zip(stripped, _forms(stripped), strict=True):
            if not form or not _NAME.search(name):
                continue
            if not self._english and not _CHINESE.search(name):
                self.counts["english_names_left_out"] += 1
            elif form in self._held_out and source not in OF_LIST:
                self.counts["names_held_out"] += 1
            else:
                allowed[name] = form
        return allowed

    def _name(self, number: int, names: Mapping[str, str], forms: Mapping[str, str] | None = None) -> None:
        concept = self._concepts[number]
        for source in dict.fromkeys(names.values()):
            own = [name for name, from_ in names.items() if from_ == source]
            allowed = self._allowed(own, source) if forms is None else {name: forms[name] for name in own}
            for name, form in allowed.items():
                concept.names.setdefault(name, source)
                self._owners[form].add(number)
                if source == "":
                    self._term_of[form].add(number)


def _forms(names: Sequence[str]) -> list[str]:
    return ["".join(form) for form in comparable_forms(names)]
