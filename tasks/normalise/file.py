"""Normalisation of the diagnoses in a file: the command `python -m flows normalise`.

Time grows with the number of rows, memory with the size of the file plus one slab of candidates.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from infra.artifacts import ArtifactStore
from infra.errors import UserError
from infra.settings import Settings
from tasks.downstream.readers.assemble import SEPARATOR
from tasks.downstream.readers.source_text import source_text
from tasks.files.atomic import whole_file
from tasks.files.cells import inert
from tasks.files.csv_rows import allow_long_fields
from tasks.normalise.normaliser import Normalised, Normaliser, Progress, index_folder
from tasks.normalise.publish import ALIAS, open_server_index
from tasks.normalise.reading import Status
from tasks.retrieve.candidates import MOST_CANDIDATES, Candidate
from tasks.retrieve.embedded import EmbeddedIndex
from tasks.retrieve.match import Match

allow_long_fields()

SHOWN = 10
"""Default number of candidates written per diagnosis."""
NAMES = ("text", "diagnosis", "诊断", "诊断名称", "原始词", "term", "mention")
"""Column names recognised as diagnoses, in order of preference."""
ADDED = (
    "normalised_term",
    "normalised_code",
    "normalised_score",
    "normalised_by",
    "unmatched",
    "modifiers",
    "status",
    "candidates",
)
"""Columns that are added to the file."""


NOT_FOUND = "not_found"
"""Status of a diagnosis that shares no character with the list."""


def open_normaliser(
    folder: Path | None,
    k: int | None = None,
    device: str | None = None,
    elasticsearch: bool = False,
    alias: str | None = None,
    reads: bool = True,
    knowledge: Path | None = None,
) -> Normaliser:
    """Open a normaliser.

    Args:
        folder: folder of the normaliser. By default the newest one in the store of `YIWEN_HOME`; a trained normaliser
            is preferred to an index without a ranker.
        k: number of candidates ranked per diagnosis; by default the number it was trained with.
        elasticsearch: search its list on the server of `ELASTICSEARCH_URL`.
        alias: alias under which the list was published there; by default icd10.
        reads: refuse what a text denies, doubts or does not diagnose; see `Normaliser`.
        knowledge: folder of the knowledge of a ranker that reads some; by default it is looked for.

    Raises:
        UserError: there is no normaliser, its ranker's knowledge is missing, or `ELASTICSEARCH_URL` is not set.
    """
    if k is not None and not 1 <= k <= MOST_CANDIDATES:
        raise UserError(f"{k:,} is not a valid number of candidates to rank; give 1 to {MOST_CANDIDATES:,}.")
    if alias is not None and not elasticsearch:
        raise UserError(f"The alias {alias!r} refers to a list on a server. Add --elasticsearch.")
    folder = folder or _newest()
    index = open_server_index(EmbeddedIndex(index_folder(folder)), alias or ALIAS) if elasticsearch else None
    return Normaliser(folder, k=k, device=device, index=index, reads=reads, knowledge=knowledge)


def _newest() -> Path:
    store = ArtifactStore(Settings.from_environment().home)
    found = store.latest("normaliser") or store.latest("candidate_index")
    if found is None or not isinstance(found.path, Path):
        raise UserError(
            "There is no normaliser in YIWEN_HOME yet. Run `python -m flows run normalise/index` to build an index, or "
            "normalise/chip-cdn to train a normaliser, or give a folder with --model."
        )
    return found.path


def normalise_file(
    normaliser: Normaliser,
    source: Path,
    target: Path,
    column: str | None = None,
    progress: Progress = lambda done: None,
    shown: int = SHOWN,
) -> dict[str, int]:
    """Normalise each row of a file, in order. The target has the columns of the source and those of `ADDED`.

    A cell that a spreadsheet would run as a formula gets an apostrophe (tasks/files/cells.py).

    Most of these contain one value per term, separated by `##`. `normalised_by` is the name that the term
    was found by, with its source unless it is the standard term; `unmatched` is what of the query this name lacks.
    `modifiers` are stages, sides and the like of the whole diagnosis, as in side=右; stage=cT2N1M0.
    `status` is coded for each term; then follows why other parts of the diagnosis got none, as in coded##negated (see
    tasks/normalise/reading/cues.py), or not_found. `candidates` contains the best candidates as JSON. All are empty if
    a row has no diagnosis.

    Args:
        source: .csv or .tsv with a header, or .txt with one diagnosis per line; UTF-8, UTF-16 or GB18030.
        target: .csv or .tsv, written atomically.
        column: name of the column of diagnoses; by default one of `NAMES`, or the only column.
        shown: number of ranked candidates written per diagnosis; 0 for none.

    Returns:
        Counts: rows, normalised, without_answer, and the rows with each status.

    Raises:
        UserError: the source is missing, has an unknown format or lacks the column.
    """
    if shown < 0:
        raise UserError(f"{shown} is not a valid number of candidates to write; give 0 or more.")
    if target.suffix.lower() not in _DELIMITERS:
        raise UserError(f"The output {target} must end in .csv or .tsv.")
    header, rows = _read(source)
    place = _column(source, header, column)
    taken = sorted(set(header) & set(ADDED))
    if taken:
        raise UserError(f"{source} already has a column {taken[0]!r}. Rename the column, or give the file without it.")
    counts = {"rows": len(rows), "normalised": 0, "without_answer": 0}
    # Excel reads a CSV as UTF-8 only if it begins with a byte order mark.
    with whole_file(target, source, encoding="utf-8-sig", newline="") as file:
        writer = csv.writer(file, delimiter=_DELIMITERS[target.suffix.lower()])
        writer.writerow(map(inert, [*header, *ADDED]))
        found = normaliser.stream([row[place] for row in rows], progress)
        for row, one in zip(rows, found, strict=True):
            writer.writerow(map(inert, [*row, *_cells(one, shown)]))
            counts["normalised" if one.terms else "without_answer"] += 1
            for status in dict.fromkeys(_statuses(one)):
                counts[status] = counts.get(status, 0) + 1
    return counts


_DELIMITERS = {".csv": ",", ".tsv": "\t"}


def _cells(one: Normalised, shown: int) -> list[str]:
    columns = (
        SEPARATOR.join(value)
        for value in (
            [term.term for term in one.terms],
            [term.code for term in one.terms],
            [f"{term.score:.4f}" for term in one.terms],
            [_found_by(match) for match in one.matches],
            [" ".join(match.unmatched) if match else "" for match in one.matches],
            ["; ".join(f"{each.kind}={each.text}" for each in one.modifiers)],
            _statuses(one),
        )
    )
    candidates = [_shown(candidate) for candidate in one.considered[:shown]]
    return [*columns, json.dumps(candidates, ensure_ascii=False) if candidates else ""]


def _statuses(one: Normalised) -> list[str]:
    """Return the status of each term, then of the parts without a code; not_found if nothing else is said of a text."""
    statuses = [*(str(Status.CODED) for _ in one.terms), *(str(part.status) for part in one.refused)]
    return statuses or ([NOT_FOUND] if one.diagnosis.strip() else [])


def _found_by(match: Match | None) -> str:
    """Return a name with its source, as in 肺部感染 (graph)."""
    if match is None:
        return ""
    return f"{match.name} ({match.source})" if match.source else match.name


def _shown(candidate: Candidate) -> dict[str, Any]:
    return {"term": candidate.term, "code": candidate.code, "score": round(candidate.score, 4)}


def _read(source: Path) -> tuple[list[str], list[list[str]]]:
    """Return the header and the rows, padded to the length of the header."""
    kind = source.suffix.lower()
    if not source.is_file():
        raise UserError(f"{source} does not exist. Give a .csv, .tsv or .txt file with --input.")
    if kind not in (".csv", ".tsv", ".txt"):
        raise UserError(f"{source} must be a .csv, .tsv or .txt file.")
    text = source_text(source)
    if kind == ".txt":
        return ["text"], [[line] for line in text.removesuffix("\n").split("\n")] if text else []
    rows = list(_parsed(source, text, _DELIMITERS[kind]))
    if not rows:
        raise UserError(f"{source} is empty; its first line must name the columns.")
    header, *values = rows
    for number, row in enumerate(values, start=1):
        if len(row) > len(header):
            raise UserError(
                f"{source}, row {number}: {len(row)} fields, but the header has {len(header)}. Put fields that contain "
                "the delimiter in quotes."
            )
    return header, [row + [""] * (len(header) - len(row)) for row in values]


def _parsed(source: Path, text: str, delimiter: str) -> Iterator[list[str]]:
    # newline="" keeps U+2028 and the soft breaks of word processors inside a cell; only line feeds end a line.
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        yield from (row for row in reader if row)
    except csv.Error as error:
        raise UserError(f"{source}, line {reader.line_num}: {error}. Save the file as CSV again.") from error


def _column(source: Path, header: Sequence[str], wanted: str | None) -> int:
    names = [name.strip() for name in header]
    for name in (wanted,) if wanted is not None else NAMES:
        if name in names:
            return names.index(name)
    if wanted is None and len(names) == 1:
        return 0
    missing = f"no column {wanted!r}" if wanted is not None else f"no column with a usual name ({', '.join(NAMES)})"
    raise UserError(f"{source} has {missing}; its columns are {', '.join(names)}. Give the column with --column.")
