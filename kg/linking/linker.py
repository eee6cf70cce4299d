"""Entity linking by names: the longest names, from left to right, with one entity each.

Names and texts are compared by their surface forms (kg/linking/surface_forms.py); mentions are given in characters of
the original text. Names of one character, of digits only or of punctuation only are never linked.

A name shared by several entities is linked to the one with the highest P(entity | name) ∝ prior of its type ×
(frequency + 1), and of equals to the smallest id.

The names are in a trie of our own (kg/linking/surface_trie.py), not in an Aho-Corasick automaton. If the longest name
is rejected because it would cut a word, a shorter one or one further right may fit, which an automaton for
leftmost-longest matches would have skipped. The trie is also faster (benchmarks/knowledge/linking.py).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from kg.linking.surface_forms import forms_of_names, surface_forms
from kg.linking.surface_trie import Matches, SurfaceTrie


class Mentions(NamedTuple):
    """Mentions in some texts, ordered by text and position."""

    texts: np.ndarray
    """int64 (M,): index of the text."""
    starts: np.ndarray
    """int64 (M,): first character in the text."""
    ends: np.ndarray
    """int64 (M,): character after the last."""
    entities: np.ndarray
    """int64 (M,): index of the entity in `EntityLinker.entity_ids`."""
    forms: np.ndarray
    """int64 (M,): index of the form that was found, as in `EntityLinker.forms`."""
    shared: np.ndarray
    """bool (M,): whether other entities have the name too."""

    def chosen(self, which: np.ndarray) -> Mentions:
        """Return some of the mentions: `which` is bool (M,)."""
        return Mentions(*(column[which] for column in self))


class EntityLinker:
    """Finds names of entities in texts.

    Building takes about 10 µs and 700 bytes per name.

    Args:
        names_to_ids: the entity, or the entities, of each name and alias.
        types: type of each entity, by id.
        type_priors: relative probability that a name means an entity of a type, by type; 1 by default.
        frequencies: number of occurrences of each entity, by id; 0 by default.

    Attributes:
        entity_ids: all ids, ascending.
        num_surfaces: number of distinct forms that are searched for.
        num_ambiguous: number of these forms that several entities share.
        num_left_out: number of names that are never linked: empty, one character, only digits or only punctuation.
        forms: int64, for each name in the order of `names_to_ids` the index of its form; -1 if it is never linked.
        entities: int64 (num_surfaces,), index in `entity_ids` of the entity that each form is linked to.
    """

    def __init__(
        self,
        names_to_ids: Mapping[str, str | Iterable[str]],
        types: Mapping[str, str] | None = None,
        type_priors: Mapping[str, float] | None = None,
        frequencies: Mapping[str, int] | None = None,
    ) -> None:
        sharing: dict[str, set[str]] = {}
        numbers: dict[str, int] = {}
        ids: set[str] = set()
        self.forms = np.full(len(names_to_ids), -1, dtype=np.int64)
        self.num_left_out = 0
        given_forms = zip(names_to_ids, forms_of_names(names_to_ids), names_to_ids.values(), strict=True)
        for number, (name, form, given) in enumerate(given_forms):
            entities = {given} if isinstance(given, str) else set(given)
            ids |= entities
            if not _is_linkable(name, form):
                self.num_left_out += 1
            elif entities:
                sharing.setdefault(form, set()).update(entities)
                self.forms[number] = numbers.setdefault(form, len(numbers))

        def by_probability(entity: str) -> tuple[float, str]:
            prior = (type_priors or {}).get((types or {}).get(entity, ""), 1.0)
            return -prior * ((frequencies or {}).get(entity, 0) + 1), entity

        self.entity_ids = sorted(ids)
        self.num_surfaces = len(sharing)
        places = {entity: place for place, entity in enumerate(self.entity_ids)}
        chosen = (min(entities, key=by_probability) for entities in sharing.values())
        self.entities = np.fromiter((places[entity] for entity in chosen), np.int64, len(sharing))
        self._shared = np.fromiter((len(entities) > 1 for entities in sharing.values()), bool, len(sharing))
        self.num_ambiguous = int(self._shared.sum())
        self._trie = SurfaceTrie(list(sharing))

    def link(self, text: str) -> list[tuple[int, int, str]]:
        """Return the mentions of a text: first character, character after the last, id of the entity.

        For many texts `link_many` is faster.
        """
        found = self.link_many([text])
        columns = (array.tolist() for array in (found.starts, found.ends, found.entities))
        return [(start, end, self.entity_ids[entity]) for start, end, entity in zip(*columns, strict=True)]

    def link_many(self, texts: Sequence[str]) -> Mentions:
        """Return the mentions of every text.

        Time and memory grow with the characters, about 60 ns and 40 bytes each: pass a corpus in batches. From a
        million characters on, the fixed cost of a batch is negligible.
        """
        forms = surface_forms(texts)
        found = self._trie.longest(forms.points, forms.borders)
        chosen = left_to_right(found)
        begins, ends = found.begins[chosen], found.ends[chosen]
        if forms.sources is not None:
            begins, ends = forms.sources[begins], forms.sources[ends - 1] + 1
        firsts = np.cumsum([0, *(len(text) + 1 for text in texts)])
        text = np.searchsorted(firsts, begins, side="right") - 1
        starts, names = firsts[text], found.names[chosen]
        return Mentions(text, begins - starts, ends - starts, self.entities[names], names, self._shared[names])


def left_to_right(found: Matches) -> np.ndarray:
    """Return the places of the matches that remain if none may overlap one to its left: int64, ascending."""
    following = np.searchsorted(found.begins, found.ends).tolist()
    chosen = []
    place = 0
    while place < len(following):
        chosen.append(place)
        place = following[place]
    return np.array(chosen, dtype=np.int64)


def _is_linkable(name: str, form: str) -> bool:
    """Return whether a name has two characters, as given and as compared, and is not only digits or punctuation."""
    shortest = min(len(name.strip()), len(form), len(unicodedata.normalize("NFC", form)))
    return shortest > 1 and not form.isdecimal() and any(map(str.isalnum, form))
