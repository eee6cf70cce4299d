"""Entity linking by names: the longest name from left to right, one entity for each.

Names and texts are compared by their surface forms (kg/linking/surface_forms.py); what a mention covers is given in
characters of the text as it is. A name of one character, of digits alone or of punctuation alone is never linked.

A name that several entities share stands for the one with the highest P(entity | name) ∝ prior of its type ×
(frequency + 1), the smallest id among equals.

The names lie in a trie of our own (kg/linking/surface_trie.py), not in an Aho-Corasick automaton: where the longest
name is refused because it would cut a word, a shorter one or one further right may stand, which an automaton of
leftmost-longest matches has passed over; and it is faster (benchmarks/linking.py).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from kg.linking.surface_forms import forms_of_names, surface_forms
from kg.linking.surface_trie import Matches, SurfaceTrie


class Mentions(NamedTuple):
    """The mentions in some texts, ordered by text and place."""

    texts: np.ndarray
    """int64 (M,): the text each is in."""
    starts: np.ndarray
    """int64 (M,): its first character there."""
    ends: np.ndarray
    """int64 (M,): the character behind its last."""
    entities: np.ndarray
    """int64 (M,): place of its entity in `EntityLinker.entity_ids`."""
    shared: np.ndarray
    """bool (M,): whether the name is that of other entities too."""


class EntityLinker:
    """Finds names of entities in texts.

    Building takes about 10 µs and 700 bytes a name.

    Args:
        names_to_ids: the entity, or the entities, of each name and alias.
        types: the type of an entity, by id.
        type_priors: how likely a name means an entity of a type, by type; 1 where none is given.
        frequencies: how often an entity occurs, by id; 0 where none is given.

    Attributes:
        entity_ids: all ids, ascending.
        num_surfaces: distinct forms that are looked for.
        num_ambiguous: of these, the forms that several entities share.
        num_left_out: names that are never linked: empty, of one character, of digits alone or of punctuation alone.
    """

    def __init__(
        self,
        names_to_ids: Mapping[str, str | Iterable[str]],
        types: Mapping[str, str] | None = None,
        type_priors: Mapping[str, float] | None = None,
        frequencies: Mapping[str, int] | None = None,
    ) -> None:
        sharing: dict[str, set[str]] = {}
        ids: set[str] = set()
        self.num_left_out = 0
        for name, form, given in zip(names_to_ids, forms_of_names(names_to_ids), names_to_ids.values(), strict=True):
            entities = {given} if isinstance(given, str) else set(given)
            ids |= entities
            if not _is_linkable(name, form):
                self.num_left_out += 1
            elif entities:
                sharing.setdefault(form, set()).update(entities)

        def by_probability(entity: str) -> tuple[float, str]:
            prior = (type_priors or {}).get((types or {}).get(entity, ""), 1.0)
            return -prior * ((frequencies or {}).get(entity, 0) + 1), entity

        self.entity_ids = sorted(ids)
        self.num_surfaces = len(sharing)
        places = {entity: place for place, entity in enumerate(self.entity_ids)}
        chosen = (min(entities, key=by_probability) for entities in sharing.values())
        self._entities = np.fromiter((places[entity] for entity in chosen), np.int64, len(sharing))
        self._shared = np.fromiter((len(entities) > 1 for entities in sharing.values()), bool, len(sharing))
        self.num_ambiguous = int(self._shared.sum())
        self._trie = SurfaceTrie(list(sharing))

    def link(self, text: str) -> list[tuple[int, int, str]]:
        """The mentions of a text: first character, character behind the last, id of the entity.

        For many texts `link_many` is faster.
        """
        found = self.link_many([text])
        columns = (array.tolist() for array in (found.starts, found.ends, found.entities))
        return [(start, end, self.entity_ids[entity]) for start, end, entity in zip(*columns, strict=True)]

    def link_many(self, texts: Sequence[str]) -> Mentions:
        """The mentions of every text.

        Time and memory grow with the characters, about 60 ns and 40 bytes each: give a corpus in batches. Of a million
        characters the fixed cost of a batch is no longer felt.
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
        return Mentions(text, begins - starts, ends - starts, self._entities[names], self._shared[names])


def left_to_right(found: Matches) -> np.ndarray:
    """Places of the matches that stand when each, from left to right, takes its characters: int64, ascending."""
    following = np.searchsorted(found.begins, found.ends).tolist()
    chosen = []
    place = 0
    while place < len(following):
        chosen.append(place)
        place = following[place]
    return np.array(chosen, dtype=np.int64)


def _is_linkable(name: str, form: str) -> bool:
    """Whether a name has two characters, as it is given and as it is compared, and more than digits or punctuation."""
    shortest = min(len(name.strip()), len(form), len(unicodedata.normalize("NFC", form)))
    return shortest > 1 and not form.isdecimal() and any(map(str.isalnum, form))
