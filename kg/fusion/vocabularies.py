"""Tables that map the types and relations of several graphs to one vocabulary: CSV files that a user can edit.

SMedBERT (section 4.1) mapped those of two graphs to 26 types and 56 relations in this way. `types.csv` and
`relations.csv` beside this file are the default. A row without a source applies to every source; one with a source
takes precedence. Types and relations without a row keep their names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

import polars as pl

from infra.errors import UserError

TYPES, RELATIONS = (Path(__file__).with_name(name) for name in ("types.csv", "relations.csv"))
"""The default tables."""

UNKNOWN = "-"
"""Value of the column `name` of types.csv for types that say nothing about the entity."""

YES = frozenset({"yes", "true", "1", "是"})
NO = frozenset({"", "no", "false", "0", "否"})


class Role(StrEnum):
    """Meaning of a relation's tail: an entity of its own, another name of the head, its code, or ignored."""

    RELATION = "relation"
    ALIAS = "alias"
    CODE = "code"
    IGNORE = "ignore"


class Relation(NamedTuple):
    """Target of a relation in the vocabulary."""

    name: str
    role: Role = Role.RELATION
    functional: bool = False
    """Whether a head has only one tail; several are a conflict."""
    inverse: bool = False
    """Whether head and tail are swapped."""


@dataclass(frozen=True)
class Vocabulary:
    """Both tables, by (source, name in the source)."""

    types: Mapping[tuple[str, str], str] = field(default_factory=dict)
    relations: Mapping[tuple[str, str], Relation] = field(default_factory=dict)

    @classmethod
    def read(cls, types: Path | None = None, relations: Path | None = None) -> Vocabulary:
        """Read the tables; the default ones if no file is given.

        Raises:
            UserError: a file cannot be read, lacks a column, names an unknown role, or maps a name to one that is
                itself mapped to another; the message names file and row.
        """
        return cls(_read_types(types or TYPES), _read_relations(relations or RELATIONS))

    def type_of(self, source: str, name: str) -> str:
        """Return the type that a source's type is mapped to; empty for unknown."""
        return self.types.get((source, name), self.types.get(("", name), name))

    def relation_of(self, source: str, name: str) -> Relation:
        """Return the relation that a source's relation is mapped to."""
        return self.relations.get((source, name)) or self.relations.get(("", name)) or Relation(name)


def read_table(path: Path, columns: Sequence[str]) -> list[dict[str, str]]:
    """Return the rows of a CSV file as stripped strings; missing cells are empty.

    Raises:
        UserError: the file cannot be read or lacks a column.
    """
    try:
        frame = pl.read_csv(path, infer_schema=False)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise UserError(f"{path} cannot be read as CSV in UTF-8: {str(error).splitlines()[0]}.") from error
    missing = [column for column in columns if column not in frame.columns]
    if missing:
        raise UserError(f"{path} lacks the columns {missing}. Its first line must name {', '.join(columns)}.")
    return frame.select(pl.col(columns).fill_null("").str.strip_chars()).to_dicts()


def _read_types(path: Path) -> dict[tuple[str, str], str]:
    types: dict[tuple[str, str], str] = {}
    for number, row in enumerate(read_table(path, ("source", "type", "name")), start=2):
        _put(path, number, types, (row["source"], row["type"]), row["name"])
    for (_, name), target in types.items():
        if target != UNKNOWN and types.get(("", target), target) != target:
            raise UserError(
                f"{path}: {name} is mapped to {target}, which is mapped to another type. Map it to that one directly."
            )
    return {key: "" if target == UNKNOWN else target for key, target in types.items()}


def _read_relations(path: Path) -> dict[tuple[str, str], Relation]:
    relations: dict[tuple[str, str], Relation] = {}
    columns = ("source", "relation", "name", "role", "functional", "inverse")
    for number, row in enumerate(read_table(path, columns), start=2):
        try:
            role = Role(row["role"] or Role.RELATION)
            functional, inverse = (_flag(row[column]) for column in ("functional", "inverse"))
        except ValueError as error:
            raise UserError(f"{path}, row {number}: {error}. Roles are {', '.join(Role)}; flags yes or no.") from error
        target = Relation(row["name"] or row["relation"], role, functional, inverse)
        _put(path, number, relations, (row["source"], row["relation"]), target)
    for (_, name), target in list(relations.items()):
        # Statements of a fused graph must keep their meaning when it is fused again.
        plain = target._replace(inverse=False)
        if (target.inverse and name == target.name) or relations.setdefault(("", target.name), plain) != plain:
            raise UserError(
                f"{path}: {name} is mapped to {target.name}, whose own row differs. "
                "Map it to the final relation directly, with the same role and flags."
            )
    return relations


def _put(path: Path, number: int, table: dict, key: tuple[str, str], target: object) -> None:
    if not key[1]:
        raise UserError(f"{path}, row {number}: the name in the source is empty. Fill it in or delete the row.")
    if key in table:
        raise UserError(f"{path}, row {number}: {key[1]} of source {key[0]!r} occurs twice. Delete one of the rows.")
    table[key] = target


def _flag(cell: str) -> bool:
    if cell.lower() not in YES | NO:
        raise ValueError(f"{cell!r} is not a flag")
    return cell.lower() in YES
