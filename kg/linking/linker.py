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
from numbers import Real
from typing import NamedTuple

import numpy as np

from infra.errors import UserError
from infra.keywords import explained_keywords
from kg.linking.surface_forms import forms_of_names, surface_forms
from kg.linking.surface_trie import SurfaceTrie


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

    Raises:
        UserError: the names are no mapping, a name or its entity is not text, or what is said of types and frequencies
            is no mapping, or not a number of 0 or more where one belongs.
    """

    @explained_keywords
    def __init__(
        self,
        names_to_ids: Mapping[str, str | Iterable[str]],
        types: Mapping[str, str] | None = None,
        type_priors: Mapping[str, float] | None = None,
        frequencies: Mapping[str, int] | None = None,
    ) -> None:
        _check_names(names_to_ids)
        _check_mapping("types", types, "{'D1': '疾病'}")
        _check_numbers("type_priors", type_priors, "{'疾病': 2.0}")
        _check_numbers("frequencies", frequencies, "{'D1': 12}")
        names, forms = list(names_to_ids), forms_of_names(names_to_ids)
        numbers: dict[str, int] = {}
        ids: set[str] = set()
        form_of_name = [-1] * len(names)
        # One entry for each entity of each name: sets of entities would take most of the time of building.
        form_of_entry: list[int] = []
        id_of_entry: list[str] = []
        linkable = _linkable(names, forms)
        for place, (form, given) in enumerate(zip(forms, names_to_ids.values(), strict=True)):
            own = (given,) if isinstance(given, str) else _ids_of(names[place], given)
            ids.update(own)
            if linkable[place] and own:
                form_of_name[place] = number = numbers.setdefault(form, len(numbers))
                form_of_entry += [number] * len(own)
                id_of_entry += own
        self.forms = np.array(form_of_name, dtype=np.int64)
        self.num_left_out = len(names) - sum(linkable)
        self.entity_ids = sorted(ids)
        self.num_surfaces = len(numbers)
        places = {entity: place for place, entity in enumerate(self.entity_ids)}
        entities = np.fromiter(map(places.__getitem__, id_of_entry), np.int64, len(id_of_entry))
        entries = np.stack([np.array(form_of_entry, dtype=np.int64), entities])
        order = _by_probability(self.entity_ids, types or {}, type_priors or {}, frequencies or {})
        self.entities, self._shared = _decided(entries, order, self.num_surfaces)
        self.num_ambiguous = int(self._shared.sum())
        self._trie = SurfaceTrie(list(numbers))

    def __repr__(self) -> str:
        return (
            f"EntityLinker({len(self.entity_ids):,} entities, {self.num_surfaces:,} names, {self.num_ambiguous:,} of "
            "several entities)"
        )

    def link(self, text: str) -> list[tuple[int, int, str]]:
        """Return the mentions of a text: first character, character after the last, id of the entity.

        Raises:
            UserError: what is given is not a text.
        """
        if not isinstance(text, str):
            raise UserError(f"link takes one text, and was given {type(text).__name__}. Call it for each text.")
        begins, ends, names = self._found([text])
        columns = begins.tolist(), ends.tolist(), self.entities[names].tolist()
        return [(begin, end, self.entity_ids[entity]) for begin, end, entity in zip(*columns, strict=True)]

    def link_many(self, texts: Sequence[str]) -> Mentions:
        """Return the mentions of every text.

        Time and memory grow with the characters, about 40 ns and 40 bytes each: pass a corpus in batches.

        Raises:
            UserError: a text in place of a list of texts, or an item that is not a text.
        """
        if isinstance(texts, str):
            raise UserError(f"link_many takes a list of texts, and was given one text. Give it as [{texts[:20]!r}].")
        for number, text in enumerate(texts):
            if not isinstance(text, str):
                raise UserError(f"link_many: number {number} is {text!r} and not a text. Leave it out, or give ''.")
        begins, ends, names = self._found(texts)
        firsts = np.cumsum([0, *(len(text) + 1 for text in texts)])
        places = np.searchsorted(firsts, begins, side="right") - 1
        starts = firsts[places]
        return Mentions(places, begins - starts, ends - starts, self.entities[names], names, self._shared[names])

    def _found(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return where names begin and end in the texts, joined by line ends, and which they are: int64 (M,) each."""
        forms = surface_forms(texts)
        begins, ends, names = self._trie.leftmost_longest(forms.points, forms.borders)
        if forms.sources is None:
            return begins, ends, names
        return forms.sources[begins], forms.sources[ends - 1] + 1, names


def _check_names(names_to_ids: Mapping[str, str | Iterable[str]]) -> None:
    """Raise `UserError` for what is not a mapping of texts."""
    if not isinstance(names_to_ids, Mapping):
        raise UserError(
            f"EntityLinker takes a mapping of names to ids, and was given {type(names_to_ids).__name__}. Give "
            "{'高血压': 'D1'}; a name that several entities share has a list of ids."
        )
    for name in names_to_ids:
        if not isinstance(name, str):
            raise UserError(f"EntityLinker: the name {name!r} is not text. Leave it out, or give it as text.")


def _check_mapping(parameter: str, given: object, example: str) -> None:
    """Raise `UserError` for what is neither None nor a mapping."""
    if given is not None and not isinstance(given, Mapping):
        raise UserError(f"EntityLinker: {parameter} is {type(given).__name__} and no mapping. Give {example}.")


def _check_numbers(parameter: str, given: Mapping[str, float] | None, example: str) -> None:
    """Raise `UserError` unless all values of a mapping are numbers of 0 or more; NaN is not."""
    _check_mapping(parameter, given, example)
    for key, value in (given or {}).items():
        if not isinstance(value, Real) or not value >= 0:
            raise UserError(
                f"EntityLinker: {parameter} has {value!r} for {key!r}. Give numbers of 0 or more, as in {example}."
            )


def _ids_of(name: str, given: Iterable[str]) -> tuple[str, ...]:
    """Return the ids of a name that may have several; raises `UserError` for one that is not text."""
    ids = tuple(given) if isinstance(given, Iterable) else (given,)
    for one in ids:
        if not isinstance(one, str):
            raise UserError(f"EntityLinker: the id {one!r} of the name {name!r} is not text. Give ids as text.")
    return ids


def _linkable(names: Sequence[str], forms: Sequence[str]) -> list[bool]:
    """Return which names have two characters, as given and as compared, and are not only digits or punctuation."""
    composed = unicodedata.normalize("NFC", "\n".join(forms)).split("\n")  # a form has no line end
    return [
        len(form) > 1
        and len(whole) > 1
        and len(name.strip()) > 1
        and (form.isalpha() or (not form.isdecimal() and any(map(str.isalnum, form))))
        for name, form, whole in zip(names, forms, composed[: len(names)], strict=True)
    ]


def _by_probability(
    entity_ids: Sequence[str], types: Mapping[str, str], priors: Mapping[str, float], frequencies: Mapping[str, int]
) -> np.ndarray:
    """Return the place of each entity in the order of P(entity | name), the most probable first: int64 (E,)."""
    weights = np.array([frequencies.get(entity, 0) + 1 for entity in entity_ids], dtype=np.float64)
    if priors:
        weights *= [priors.get(types.get(entity, ""), 1.0) for entity in entity_ids]
    order = np.argsort(-weights, kind="stable")
    ranks = np.empty_like(order)
    ranks[order] = np.arange(len(order))
    return ranks


def _decided(entries: np.ndarray, ranks: np.ndarray, num_forms: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the entity that each form is linked to, int64, and whether it has others: bool.

    Args:
        entries: int64 (2, N): forms, and entities that have them; every form occurs.
        ranks: int64 (E,): place of each entity in the order of their probability.
    """
    forms, entities = entries[:, np.lexsort((ranks[entries[1]], entries[0]))]
    first = np.diff(forms, prepend=-1) != 0
    others = ~first & (np.diff(entities, prepend=-1) != 0)
    return entities[first], np.bincount(forms[others], minlength=num_forms) > 0
