"""The thesaurus: groups of surfaces with the same meaning (EMBERT, section 3.1), from names and aliases in a graph.

The name and the aliases of an entity mean the same (aliases, trade and generic names: the relation SameAs). Entities of
one type that share a surface are in one group, and so on (the transitive closure). A closure with more surfaces than
`max_size` is split into its entities again, because ambiguous aliases have joined too much in it. Entities of different
types are never in one group.

A surface is ambiguous if it may also mean something else: it is in several groups, or it is an alias of several
entities and the name of none.

Time is O(n log n) in the number of names, memory O(n).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

MAX_SIZE = 10
"""Default maximum number of surfaces in a group."""


class Named(NamedTuple):
    """An entity of a knowledge graph with its names."""

    entity_id: str
    name: str
    aliases: Sequence[str]
    type: str = ""
    """Empty if unknown, which counts as a type of its own."""


class Synonym(NamedTuple):
    """A surface of a group."""

    group_id: str
    """The smallest entity_id of the group."""
    entity_id: str
    """The entity with this surface: one with this name before one with this alias, then the smallest id."""
    surface: str
    type: str
    ambiguous: bool


def build_thesaurus(entities: Iterable[Named], max_size: int = MAX_SIZE) -> list[Synonym]:
    """Return the groups of two or more surfaces, sorted by group and surface.

    The order of the entities and of their aliases does not matter, nor do circular aliases. The names of an entity that
    is given twice are merged.

    Raises:
        ValueError: max_size is less than 2, or an entity has two types.
    """
    if max_size < 2:
        raise ValueError(f"max_size={max_size} must be at least 2: smaller groups contain no synonyms")
    known = _merged(entities)
    closures = _closures(known)
    groups = [group for closure in closures for group in ([closure] if _size(closure) <= max_size else _apart(closure))]
    ambiguous = _ambiguous(groups)
    return sorted(row for group in groups if _size(group) > 1 for row in _rows(group, ambiguous))


class _Entity(NamedTuple):
    """An entity with its names, and its other surfaces separately."""

    entity_id: str
    type: str
    names: frozenset[str]
    aliases: frozenset[str]

    @property
    def surfaces(self) -> frozenset[str]:
        return self.names | self.aliases


def _merged(entities: Iterable[Named]) -> list[_Entity]:
    names: dict[str, set[str]] = defaultdict(set)
    aliases: dict[str, set[str]] = defaultdict(set)
    types: dict[str, str] = {}
    for entity in entities:
        if types.setdefault(entity.entity_id, entity.type) != entity.type:
            raise ValueError(f"{entity.entity_id} has the types {types[entity.entity_id]!r} and {entity.type!r}")
        names[entity.entity_id].update({entity.name.strip()} - {""})
        aliases[entity.entity_id].update({alias.strip() for alias in entity.aliases} - {""})
    return [
        _Entity(id_, types[id_], frozenset(names[id_]), frozenset(aliases[id_] - names[id_])) for id_ in sorted(types)
    ]


def _closures(entities: Sequence[_Entity]) -> list[list[_Entity]]:
    """Return the entities of one type that are connected by shared surfaces; both levels sorted by entity_id."""
    parents = list(range(len(entities)))

    def root(index: int) -> int:
        while parents[index] != index:
            parents[index] = parents[parents[index]]
            index = parents[index]
        return index

    first: dict[tuple[str, str], int] = {}
    for index, entity in enumerate(entities):
        for surface in entity.surfaces:
            one, other = sorted((root(index), root(first.setdefault((entity.type, surface), index))))
            parents[other] = one  # the smaller index stays, so a closure is found under its first entity
    closures: dict[int, list[_Entity]] = defaultdict(list)
    for index, entity in enumerate(entities):
        closures[root(index)].append(entity)
    return list(closures.values())


def _size(group: Sequence[_Entity]) -> int:
    return len(frozenset().union(*(entity.surfaces for entity in group)))


def _apart(closure: Sequence[_Entity]) -> list[list[_Entity]]:
    return [[entity] for entity in closure]


def _ambiguous(groups: Sequence[Sequence[_Entity]]) -> set[str]:
    """Return the surfaces in several groups, and those that are aliases of several entities and the name of none."""
    in_groups: dict[str, set[int]] = defaultdict(set)
    called: set[str] = set()
    aliased: dict[str, int] = defaultdict(int)
    for number, group in enumerate(groups):
        for entity in group:
            called |= entity.names
            for surface in entity.surfaces:
                in_groups[surface].add(number)
            for surface in entity.aliases:
                aliased[surface] += 1
    shared = {surface for surface, count in aliased.items() if count > 1} - called
    return shared | {surface for surface, numbers in in_groups.items() if len(numbers) > 1}


def _rows(group: Sequence[_Entity], ambiguous: set[str]) -> Iterator[Synonym]:
    owners: dict[str, str] = {}
    for kind in ("names", "aliases"):
        for entity in group:
            for surface in getattr(entity, kind):
                owners.setdefault(surface, entity.entity_id)
    for surface, entity_id in owners.items():
        yield Synonym(group[0].entity_id, entity_id, surface, group[0].type, surface in ambiguous)
