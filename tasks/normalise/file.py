"""Diagnoses of a file to standard terms, written beside them: what `python -m flows normalise` does.

Time grows with the rows; memory with the file's diagnoses, which are short, and one slab of candidates.
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
from tasks.files.csv_rows import allow_long_fields
from tasks.normalise.normaliser import Normalised, Normaliser, Progress, index_folder
from tasks.normalise.publish import ALIAS, open_server_index
from tasks.retrieve.candidates import MOST_CANDIDATES, Candidate
from tasks.retrieve.embedded import EmbeddedIndex

allow_long_fields()

SHOWN = 10
"""Candidates that are written of each diagnosis, unless more or fewer are asked for."""
NAMES = ("text", "diagnosis", "诊断", "诊断名称", "原始词", "term", "mention")
"""Names a column of diagnoses goes by; the first column where none is there."""
ADDED = ("normalised_term", "normalised_code", "normalised_score", "candidates")


def open_normaliser(
    folder: Path | None,
    k: int | None = None,
    device: str | None = None,
    elasticsearch: bool = False,
    alias: str | None = None,
) -> Normaliser:
    """The normaliser of a folder, or else the newest of the store of `YIWEN_HOME`, one that was trained before one
    that was not.

    Args:
        k: candidates of a diagnosis that are ranked; by default as trained.
        elasticsearch: its list is searched on the server of `ELASTICSEARCH_URL`.
        alias: what the list was put there under; icd10 by default.

    Raises:
        UserError: there is none, or no server is named.
    """
    if k is not None and not 1 <= k <= MOST_CANDIDATES:
        raise UserError(f"{k:,} candidates cannot be ranked; give from 1 to {MOST_CANDIDATES:,}.")
    if alias is not None and not elasticsearch:
        raise UserError(f"{alias!r} is the alias of a list on a server. Give --elasticsearch too.")
    folder = folder or _newest()
    index = open_server_index(EmbeddedIndex(index_folder(folder)), alias or ALIAS) if elasticsearch else None
    return Normaliser(folder, k=k, device=device, index=index)


def _newest() -> Path:
    store = ArtifactStore(Settings.from_environment().home)
    found = store.latest("normaliser") or store.latest("candidate_index")
    if found is None or not isinstance(found.path, Path):
        raise UserError(
            "There is no normaliser here yet. Run `python -m flows run normalise/index` (normalise/chip-cdn trains "
            "one), or name a folder with --model."
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
    """Normalise every row of a file, in order; the target has the given columns and four more.

    `normalised_term`, `normalised_code` and `normalised_score` hold one value a term, with `##` between several;
    `candidates` the best ones as JSON. A row without a diagnosis, or for which nothing was found, has empty ones.

    Args:
        source: .csv or .tsv with a header, or .txt with a diagnosis a line; UTF-8, UTF-16 or GB18030.
        target: .csv or .tsv; written whole or not at all.
        column: name of the column of diagnoses; by default one of `NAMES`, or the only one.
        shown: candidates that are written of each diagnosis, of those that were ranked; 0 for none.

    Returns:
        Counts: rows, normalised, without_answer.

    Raises:
        UserError: the file is not there or of no known form, or has no such column.
    """
    if shown < 0:
        raise UserError(f"{shown} candidates cannot be written; give 0 or more.")
    if target.suffix.lower() not in _DELIMITERS:
        raise UserError(f"{target} is neither .csv nor .tsv; give the output one of these names.")
    header, rows = _read(source)
    place = _column(source, header, column)
    taken = sorted(set(header) & set(ADDED))
    if taken:
        raise UserError(f"{source} already has a column {taken[0]!r}. Rename it, or give the file as it was before.")
    counts = {"rows": len(rows), "normalised": 0, "without_answer": 0}
    # Excel takes a CSV for UTF-8 only if it begins with a byte order mark.
    with whole_file(target, source, encoding="utf-8-sig", newline="") as file:
        writer = csv.writer(file, delimiter=_DELIMITERS[target.suffix.lower()])
        writer.writerow([*header, *ADDED])
        found = normaliser.stream([row[place] for row in rows], progress)
        for row, one in zip(rows, found, strict=True):
            writer.writerow([*row, *_cells(one, shown)])
            counts["normalised" if one.terms else "without_answer"] += 1
    return counts


_DELIMITERS = {".csv": ",", ".tsv": "\t"}


def _cells(one: Normalised, shown: int) -> list[str]:
    columns = (
        SEPARATOR.join(value)
        for value in (
            [term.term for term in one.terms],
            [term.code for term in one.terms],
            [f"{term.score:.4f}" for term in one.terms],
        )
    )
    candidates = [_shown(candidate) for candidate in one.considered[:shown]]
    return [*columns, json.dumps(candidates, ensure_ascii=False) if candidates else ""]


def _shown(candidate: Candidate) -> dict[str, Any]:
    return {"term": candidate.term, "code": candidate.code, "score": round(candidate.score, 4)}


def _read(source: Path) -> tuple[list[str], list[list[str]]]:
    """Header and rows, all of the header's length."""
    kind = source.suffix.lower()
    if not source.is_file():
        raise UserError(f"There is no file {source}. Give a .csv, .tsv or .txt with --input.")
    if kind not in (".csv", ".tsv", ".txt"):
        raise UserError(f"{source} is none of .csv, .tsv and .txt; give the file one of these names.")
    text = source_text(source)
    if kind == ".txt":
        return ["text"], [[line] for line in text.removesuffix("\n").split("\n")] if text else []
    rows = list(_parsed(source, text, _DELIMITERS[kind]))
    if not rows:
        raise UserError(f"{source} is empty; its first line has to name the columns.")
    header, *values = rows
    for number, row in enumerate(values, start=1):
        if len(row) > len(header):
            raise UserError(
                f"{source}, row {number}: {len(row)} fields, but the header has {len(header)}. Put the field with the "
                "delimiter in it between quotes."
            )
    return header, [row + [""] * (len(header) - len(row)) for row in values]


def _parsed(source: Path, text: str, delimiter: str) -> Iterator[list[str]]:
    # Lines end at line feeds alone: a cell may hold U+2028, or the soft break of a word processor.
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        yield from (row for row in reader if row)
    except csv.Error as error:
        raise UserError(f"{source}, line {reader.line_num}: {error}. Save it as CSV again.") from error


def _column(source: Path, header: Sequence[str], wanted: str | None) -> int:
    names = [name.strip() for name in header]
    for name in (wanted,) if wanted is not None else NAMES:
        if name in names:
            return names.index(name)
    if wanted is None and len(names) == 1:
        return 0
    told = f"no column {wanted!r}" if wanted is not None else f"no column that is called {', '.join(NAMES)}"
    raise UserError(f"{source} has {told}; there are {', '.join(names)}. Name it with --column.")
