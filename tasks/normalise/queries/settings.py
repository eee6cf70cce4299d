"""User settings for queries, stored with the index that is searched with them.

Rules that are switched off and the user's own tables are saved in the folder of the index (`queries.json`). So
training, `python -m flows normalise` and anyone who copies the folder use the same queries.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from infra.errors import UserError
from tasks.files.access import is_local
from tasks.files.raw_input import RawInput
from tasks.normalise.queries.rules import ABBREVIATIONS, TYPOS, QueryRules

QUERIES_FILE = "queries.json"
TABLES: Mapping[str, Path] = {"abbreviations": ABBREVIATIONS, "typos": TYPOS}
"""Default tables by the names of the inputs that replace them."""


class QueryParams(BaseModel):
    """Rules that turn a diagnosis into queries; see tasks/normalise/queries/rules.py."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    abbreviations: bool = Field(default=True, description="write abbreviations out")
    typos: bool = Field(default=True, description="correct common typos")
    notes: bool = Field(default=True, description="also search without the text in brackets")
    split: bool = Field(default=True, description="also search the parts of a compound")


def query_tables(params: QueryParams, given: Mapping[str, str | None]) -> dict[str, RawInput]:
    """Return the tables in use: the given ones, or the default ones instead of None.

    Raises:
        UserError: a table is given although its rule is switched off.
    """
    for name, path in given.items():
        if path is not None and not getattr(params, name):
            raise UserError(f"The table {path} is given, but index.queries.{name} is false. Omit one of them.")
    return {name: RawInput(given.get(name) or default) for name, default in TABLES.items() if getattr(params, name)}


def read_rules(params: QueryParams, tables: Mapping[str, RawInput]) -> QueryRules:
    """Return the rules with the tables of `query_tables`, or default tables for those not given.

    Raises:
        UserError: a table is missing or invalid; the message names file and row.
    """
    paths = {
        name: (local_table(tables[name]) if name in tables else default) if getattr(params, name) else None
        for name, default in TABLES.items()
    }
    return QueryRules.read(**paths, notes=params.notes, split=params.split)


def save_rules(rules: QueryRules, folder: Path) -> None:
    """Write rules to `queries.json` in a folder."""
    held = {
        "abbreviations": rules.abbreviations,
        "typos": rules.typos,
        "notes": rules.notes,
        "split": rules.split,
    }
    (folder / QUERIES_FILE).write_text(json.dumps(held, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def load_rules(folder: Path) -> QueryRules:
    """Read the rules of a folder, or return the default ones if it has none.

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
        raise UserError(f"{path} is damaged ({error}). Build the index again.") from error


def local_table(table: RawInput) -> Path:
    """Return the path of a table.

    Raises:
        UserError: it is not one local file.
    """
    (first, *more) = table.places().values()
    if more or not is_local(first):
        raise UserError(f"{table.path}: a table must be one local CSV file. Give the path of that file.")
    return Path(first)
