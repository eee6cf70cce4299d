"""Normalisation of the diagnoses in a file: the command `python -m flows normalise`.

Time grows with the number of rows, memory with the size of the file plus one slab of candidates.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from infra.artifacts import ArtifactStore
from infra.errors import UserError
from infra.settings import Settings
from tasks.downstream.readers.assemble import SEPARATOR
from tasks.files.tables import write_table
from tasks.files.workbooks import Value
from tasks.normalise.answers import EMPTY, NOT_FOUND, REVIEW, Normalised
from tasks.normalise.files.review import Review
from tasks.normalise.files.tables import Table, check_target, read_table
from tasks.normalise.files.written import FINER, written_codes
from tasks.normalise.normaliser import Normaliser, Progress, index_folder
from tasks.normalise.publish import ALIAS, open_server_index
from tasks.normalise.reading import Status
from tasks.retrieve.candidates import MOST_CANDIDATES, Candidate
from tasks.retrieve.embedded import EmbeddedIndex
from tasks.retrieve.match import Match

SHOWN = 10
"""Default number of candidates written per diagnosis."""
ADDED = (
    "normalised_term",
    "normalised_code",
    "dagger_asterisk",
    "confidence",
    "normalised_part",
    "normalised_by",
    "matched",
    "unmatched",
    "modifiers",
    "written_code",
    "written_code_is",
    "status",
    "refused",
    "candidates",
)
"""Columns that are added to the file."""

_OPEN = {REVIEW, NOT_FOUND, str(Status.UNCERTAIN), str(Status.CODE_ONLY)}


@dataclass
class Summary:
    """What became of the rows of a file. Each counts once: as coded, if any part of it is, and otherwise as uncertain,
    if any part of it is (below the threshold, doubted by the text itself, only a code, or without any candidate)."""

    rows: int = 0
    coded: int = 0
    uncertain: int = 0
    refused: int = 0
    """Rows that only state what gets no code, such as a negation."""
    empty: int = 0
    to_review: int = 0
    """Distinct texts in the review file."""
    statuses: Counter[str] = field(default_factory=Counter)
    """Rows with each status."""
    finer: int = 0
    """Rows whose text has a finer code than the answer of the list."""
    without_value: tuple[str, ...] = ()
    """Cells whose formula has no stored value, and which count as empty."""
    column: str = field(default="", compare=False)
    """Name of the column of diagnoses."""

    def count(self, one: Normalised) -> None:
        """Count a row."""
        statuses = set(one.statuses)
        self.rows += 1
        self.statuses.update(statuses)
        self.finer += FINER in (relation for _, relation in written_codes(one))
        if one.answers:
            self.coded += 1
        elif statuses & _OPEN:
            self.uncertain += 1
        elif EMPTY in statuses:
            self.empty += 1
        else:
            self.refused += 1

    def __str__(self) -> str:
        """Return it in one line, as in: 10 diagnoses: 7 coded, 1 uncertain, 1 refused, 1 empty."""
        counts = (f"{getattr(self, name):,} {name}" for name in ("coded", "uncertain", "refused", "empty"))
        return f"{self.rows:,} diagnoses: {', '.join(counts)}"


def open_normaliser(
    folder: Path | None,
    k: int | None = None,
    device: str | None = None,
    elasticsearch: bool = False,
    alias: str | None = None,
    reads: bool = True,
    threshold: float | None = None,
    names: Path | None = None,
    knowledge: Path | None = None,
    encoder: Path | bool | None = None,
) -> Normaliser:
    """Open a normaliser.

    Args:
        folder: folder of the normaliser. By default the newest one in the store of `YIWEN_HOME`; a trained normaliser
            is preferred to an index without a ranker.
        k: number of candidates ranked per diagnosis; by default the number it was trained with.
        elasticsearch: search its list on the server of `ELASTICSEARCH_URL`.
        alias: alias under which the list was published there; by default icd10.
        reads: refuse what a text denies, doubts or does not diagnose; see `Normaliser`, also for the rest.
        knowledge: folder of the knowledge of a ranker that reads some; by default it is looked for.
        encoder: folder of an encoder of names, or False for none; see `Normaliser`.

    Raises:
        UserError: there is no normaliser, its ranker's knowledge is missing, or `ELASTICSEARCH_URL` is not set.
    """
    if k is not None and not 1 <= k <= MOST_CANDIDATES:
        raise UserError(f"{k:,} is not a valid number of candidates to rank; give 1 to {MOST_CANDIDATES:,}.")
    if alias is not None and not elasticsearch:
        raise UserError(f"The alias {alias!r} refers to a list on a server. Add --elasticsearch.")
    folder = folder or _newest()
    index = open_server_index(EmbeddedIndex(index_folder(folder)), alias or ALIAS) if elasticsearch else None
    return Normaliser(
        folder,
        k=k,
        device=device,
        index=index,
        reads=reads,
        threshold=threshold,
        names=names,
        knowledge=knowledge,
        encoder=encoder,
    )


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
    review: Path | None = None,
) -> Summary:
    """Normalise each row of a file, in order. The target has the columns of the source and those of `ADDED`.

    Of a workbook, one sheet is read, with the values of its cells; see tasks/normalise/files/tables.py. A cell that a
    spreadsheet would run as a formula gets an apostrophe (infra/cells.py).

    All but the last of the added columns contain one value per answer, separated by `##`. `confidence` falls from
    answer to answer; `dagger_asterisk` has both codes where ICD-10 pairs an answer with another, as in E11.2† N08.3*;
    `normalised_part` is the part of the diagnosis that an answer answers. `normalised_by` is the name
    that it was found by, with its source unless it is the standard term; `matched` and `unmatched` are what of the part
    this name has and lacks. `modifiers` are stages, sides and the like of the whole diagnosis, as in side=右;
    stage=cT2N1M0. `written_code` has the codes that the text itself contains, and `written_code_is` what each is beside
    the answers (tasks/normalise/files/written.py). `status` is coded for each answer; then follows review for each one
    below the threshold, and why
    other parts of the diagnosis got none, as in coded##negated (see tasks/normalise/reading/cues.py), or not_found, or
    empty. `refused` has these parts, with their statuses. `candidates` contains the best candidates as JSON.

    Args:
        source: .csv, .tsv or .xlsx with a header, or .txt with one diagnosis per line; UTF-8, UTF-16 or GB18030.
        target: .csv, .tsv or .xlsx, written atomically.
        column: name of the column of diagnoses; by default one of `NAMES`, or the only column.
        shown: number of ranked candidates written per diagnosis; 0 for none.
        review: .csv, .tsv or .xlsx file for what is below the threshold (tasks/normalise/files/review.py); it is
        written
            after the target, and only if there is something to review.

    Raises:
        UserError: the source is missing, has an unknown format or lacks the column.
    """
    if shown < 0:
        raise UserError(f"{shown} is not a valid number of candidates to write; give 0 or more.")
    check_target(target)
    if review is not None:
        check_target(review, "review file")
        if review.resolve() in (source.resolve(), target.resolve()):
            raise UserError(f"The review file {review} is the input or the output. Give another file with --review.")
    table = read_table(source, column)
    taken = sorted({name.strip() for name in table.header} & set(ADDED))
    if taken:
        raise UserError(f"{source} already has a column {taken[0]!r}. Rename the column, or give the file without it.")
    summary = Summary(without_value=table.without_value, column=table.header[table.column].strip())
    left = Review(normaliser.threshold)
    rows = _rows(normaliser, table, progress, shown, summary, left)
    write_table(target, source, rows, table.title)
    summary.to_review = len(left)
    if review is not None and len(left):
        left.write(review, source)
    return summary


def _rows(
    normaliser: Normaliser, table: Table, progress: Progress, shown: int, summary: Summary, left: Review
) -> Iterator[list[Value]]:
    yield from table.above
    yield [*table.header, *ADDED]
    found = normaliser.stream(table.texts, progress)
    for number, (row, one) in enumerate(zip(table.rows, found, strict=True), start=table.first_row):
        summary.count(one)
        left.add(one, number)
        yield [*row, *_cells(one, shown)]


def _cells(one: Normalised, shown: int) -> list[str]:
    written = written_codes(one)
    columns = (
        SEPARATOR.join(value)
        for value in (
            [answer.term for answer in one.answers],
            [answer.code for answer in one.answers],
            [str(answer.pair or "") for answer in one.answers] if any(answer.pair for answer in one.answers) else [],
            [f"{answer.confidence:.3f}" for answer in one.answers],
            [answer.part for answer in one.answers],
            [found_by(answer.match) for answer in one.answers],
            [" ".join(answer.match.matched) if answer.match else "" for answer in one.answers],
            [" ".join(answer.match.unmatched) if answer.match else "" for answer in one.answers],
            ["; ".join(f"{each.kind}={each.text}" for each in one.modifiers)],
            [code for code, _ in written],
            [relation for _, relation in written],
            one.statuses,
            [f"{part.text} ({part.status})" for part in one.refused],
        )
    )
    candidates = [_shown(candidate) for candidate in one.considered[:shown]]
    return [*columns, json.dumps(candidates, ensure_ascii=False) if candidates else ""]


def found_by(match: Match | None) -> str:
    """Return a name with its source, as in 肺部感染 (graph)."""
    if match is None:
        return ""
    return f"{match.name} ({match.source})" if match.source else match.name


def _shown(candidate: Candidate) -> dict[str, Any]:
    return {"term": candidate.term, "code": candidate.code, "score": round(candidate.score, 4)}
