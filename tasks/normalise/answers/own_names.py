"""The user's own names of codes, such as a review file that was filled in.

    text,choice
    高压高,I10
    感冒,J00##J06.9      two codes, both of which are answers
    随访,-               no diagnosis

A text that is exactly such a name gets these codes, whatever the search finds, and so does a part of a compound. Names
are compared in the normal form of kg/names.py, so 肺炎? is another name than 肺炎. Rows without a choice are skipped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from infra.cells import original
from infra.errors import UserError
from tasks.normalise.queries.spelling import normal_forms
from tasks.normalise.terms.columns import plain_code
from tasks.normalise.terms.sheets import read_sheets
from tasks.retrieve.candidates import Entry

OWN_NAMES_FILE = "own_names.json"
USER = "user"
"""Source of such names."""
TEXT, CHOICE = "text", "choice"
"""Columns of the table; a column `candidates` lets a choice be the number of a candidate."""
NO_CODE = "-"
"""Choice for a text that is no diagnosis."""

# Separates choices: "##", and "；" of I10；E11.9. Not "，", which terms contain.
_BETWEEN = re.compile(r"##|[;；\n]")
# Number of a candidate: "2. " of "2. J18.9 未特指的肺炎".
_PLACE = re.compile(r"^\d+\. ")

MOST_FAULTS = 20
"""Faults of a table that are listed; the rest are counted."""


class Choice(NamedTuple):
    """What a user chose for a name."""

    chosen: tuple[str, ...]
    """Codes or terms; none for a text that is no diagnosis."""
    where: str = ""
    """File and row of the choice, if it comes from a table."""


Choices = Mapping[str, Choice]
"""Choices by name."""


def read_own_names(path: Path) -> Choices:
    """Read a table, .csv, .tsv or .xlsx, with the columns text and choice.

    Raises:
        UserError: the file is unreadable or lacks a column, a number is not that of a candidate, or a text is in two
            rows with different choices. The message lists all such rows.
    """
    try:
        sheets = read_sheets(path.read_bytes(), path.name)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}. Give a .csv, .tsv or .xlsx file.") from error
    rows = next((sheet for sheet in sheets if any(map(any, sheet))), [()])
    header = [cell.strip().lower() for cell in rows[0]]
    if missing := [column for column in (TEXT, CHOICE) if column not in header]:
        raise UserError(f"{path} has no column {missing[0]!r}; it needs the columns {TEXT} and {CHOICE}.")
    found: dict[str, Choice] = {}
    faults: list[str] = []
    for number, row in enumerate(rows[1:], start=2):
        cells = dict(zip(header, map(original, row), strict=False))
        if not cells.get(CHOICE, ""):
            continue
        where = f"{path}, row {number}"
        try:
            own = Choice(_chosen(cells[TEXT], cells[CHOICE], cells.get("candidates", "")), where)
        except ValueError as error:
            faults.append(f"{where}: {error}")
            continue
        known = found.setdefault(cells[TEXT], own)
        if known.chosen != own.chosen:
            before = known.where.rpartition(" ")[2]
            faults.append(f"{path}, rows {before} and {number}: two choices for {cells[TEXT]!r}. Delete one of them.")
    _report(faults)
    return found


def _chosen(text: str, choice: str, candidates: str) -> tuple[str, ...]:
    """Return the codes or terms of a choice. Raises `ValueError` with what is wrong with it."""
    if not text:
        raise ValueError("there is a choice, but no text. Fill it in, or delete the row.")
    if choice == NO_CODE:
        return ()
    listed = [_PLACE.sub("", line) for line in candidates.split("\n") if line]
    chosen = []
    for one in filter(None, (part.strip() for part in _BETWEEN.split(choice))):
        if one.isdigit() and listed:
            if not 1 <= int(one) <= len(listed):
                raise ValueError(f"there is no candidate {one}; give 1 to {len(listed)}, or a code.")
            one = listed[int(one) - 1]
        chosen.append(one)
    if not chosen:
        raise ValueError(f"{choice!r} is neither a code nor a term. Give a code, or {NO_CODE} for none.")
    return tuple(chosen)


def _report(faults: Sequence[str]) -> None:
    """Raise `UserError` with all faults of a table, if it has any."""
    if len(faults) == 1:
        raise UserError(faults[0])
    if faults:
        more = [f"… and {len(faults) - MOST_FAULTS:,} more"] if len(faults) > MOST_FAULTS else []
        raise UserError("\n".join([f"{len(faults):,} choices cannot be used:", *faults[:MOST_FAULTS], *more]))


class OwnNames:
    """The user's names with the entries of a list that they stand for."""

    def __init__(self, choices: Choices, entries: Iterable[Entry]) -> None:
        """Look the choices up in a list, by code or by term.

        Raises:
            UserError: the list has neither a code nor a term of that name. The message lists all such choices.
        """
        self.choices = dict(choices)
        by_code: dict[str, Entry] = {}
        by_term: dict[str, Entry] = {}
        if choices:
            for entry in entries:
                by_code.setdefault(plain_code(entry.code), entry)
                by_term.setdefault(entry.term, entry)
        forms = normal_forms(choices)
        self._entries: dict[str, tuple[Entry, ...]] = {}
        faults = []
        for form, (text, (chosen, where)) in zip(forms, choices.items(), strict=True):
            own = [(one, _found(one, by_code, by_term)) for one in chosen]
            self._entries[form] = tuple(entry for _, entry in own if entry is not None)
            faults += [
                f"{where}{': ' if where else ''}{one!r}, chosen for {text!r}, is neither a code nor a term of the list."
                for one, entry in own
                if entry is None
            ]
        _report(faults)

    def __bool__(self) -> bool:
        return bool(self._entries)

    def of(self, form: str) -> tuple[Entry, ...] | None:
        """Return the entries of a name in normal form: an empty tuple for no diagnosis, None if it is no such name."""
        return self._entries.get(form)


def _found(choice: str, by_code: Mapping[str, Entry], by_term: Mapping[str, Entry]) -> Entry | None:
    """Return the entry that is chosen by its term, its code, or both, as in J18.9 未特指的肺炎."""
    code, _, term = _PLACE.sub("", choice).partition(" ")
    return by_term.get(choice) or by_code.get(plain_code(choice)) or by_term.get(term) or by_code.get(plain_code(code))


def save_own_names(choices: Choices, folder: Path) -> None:
    """Write choices to `own_names.json` in the folder of an index."""
    text = json.dumps({name: one.chosen for name, one in choices.items()}, ensure_ascii=False, indent=1) + "\n"
    (folder / OWN_NAMES_FILE).write_text(text, encoding="utf-8")


def load_own_names(folder: Path) -> Choices:
    """Read the choices of a folder; none if it has no such file.

    Raises:
        UserError: the file is damaged.
    """
    path = folder / OWN_NAMES_FILE
    if not path.is_file():
        return {}
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
        return {str(text): Choice(tuple(str(one) for one in chosen)) for text, chosen in held.items()}
    except (ValueError, AttributeError, TypeError) as error:
        raise UserError(f"{path} is damaged ({error}). Build the index again.") from error
