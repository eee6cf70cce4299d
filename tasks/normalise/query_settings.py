"""How diagnoses become queries, as a user sets it, and kept beside the index that is searched with it.

What is switched off or given as an own table is part of the index's folder (`queries.json`), so that training,
`python -m flows normalise` and whoever copies the folder look for the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from infra.errors import UserError
from tasks.files.access import is_local
from tasks.files.raw_input import RawInput
from tasks.normalise.query_rules import ABBREVIATIONS, TYPOS, QueryRules

QUERIES_FILE = "queries.json"
TABLES: Mapping[str, Path] = {"abbreviations": ABBREVIATIONS, "typos": TYPOS}
"""The default tables by the names of the inputs that stand for them."""


class QueryParams(BaseModel):
    """What is done to a diagnosis before it is looked for; see tasks/normalise/queries.py."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    abbreviations: bool = Field(default=True, description="short forms are written out")
    typos: bool = Field(default=True, description="common typos are put right")
    notes: bool = Field(default=True, description="also look for it without what stands in brackets")
    split: bool = Field(default=True, description="also look for the parts of a compound")


def query_tables(params: QueryParams, given: Mapping[str, str | None]) -> dict[str, RawInput]:
    """The tables that are used: the given ones, and the default ones in the place of None.

    Raises:
        UserError: a table is given and switched off.
    """
    for name, path in given.items():
        if path is not None and not getattr(params, name):
            raise UserError(f"The table {path} is given, but index.queries.{name} is false. Leave one of them out.")
    return {name: RawInput(given.get(name) or default) for name, default in TABLES.items() if getattr(params, name)}


def read_rules(params: QueryParams, tables: Mapping[str, RawInput]) -> QueryRules:
    """The rules of the parameters with the tables of `query_tables`; a default table where one is not among them.

    Raises:
        UserError: a table is not there or has a fault; the message names file and row.
    """
    paths = {
        name: (_path(tables[name]) if name in tables else default) if getattr(params, name) else None
        for name, default in TABLES.items()
    }
    return QueryRules.read(**paths, notes=params.notes, split=params.split)


def save_rules(rules: QueryRules, folder: Path) -> None:
    """Keep rules in a folder."""
    held = {
        "abbreviations": rules.abbreviations,
        "typos": rules.typos,
        "notes": rules.notes,
        "split": rules.split,
    }
    (folder / QUERIES_FILE).write_text(json.dumps(held, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def load_rules(folder: Path) -> QueryRules:
    """The rules that a folder holds; the default ones where it holds none.

    Raises:
        UserError: the file is damaged.
    """
    path = folder / QUERIES_FILE
    if not path.is_file():
        return QueryRules.read()
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
        abbreviations = [(str(short), str(expansion), str(place)) for short, expansion, place in held["abbreviations"]]
        return QueryRules(abbreviations, dict(held["typos"]), bool(held["notes"]), bool(held["split"]))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path} cannot be read ({error}). Build the index again.") from error


def _path(table: RawInput) -> Path:
    (first, *more) = table.places().values()
    if more or not is_local(first):
        raise UserError(f"{table.path}: a table is one local CSV file. Give its path.")
    return Path(first)
