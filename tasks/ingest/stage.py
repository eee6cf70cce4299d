"""Stage `ingest`: documents from files of text, tables, workbooks and documents of office programs.

`tasks/ingest/plan.py` describes the units of work. A big .csv, .json or .xlsx, a compressed or a UTF-16 file is read by
one worker. To have such files read in parallel, split them or convert them to .jsonl or .parquet.

Rows that cannot be read are rejected with file#row, files in no supported encoding with their name, and the run
continues. After a thousand rows in a row that are rejected alike, the rest of them share one reject, file#first-last.
In a .txt or an HTML page undecodable bytes become U+FFFD, and `clean` decides how many are too many. A file that
changes while it is read stops the run. The table `files` has what was read of each file.

Memory holds one batch of documents and the state of the format's reader. A row of 100 MB takes about twelve to fourteen
times its size (bytes, characters, parsed values, written columns). Time is linear in the bytes.
"""

from __future__ import annotations

import codecs
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import Field, field_validator

from infra.builds import PartWriter
from infra.errors import UserError
from infra.stage import Output, StageParams, stage
from tasks.documents import source_called
from tasks.files.encodings import KNOWN
from tasks.files.office.pdf import check_installed
from tasks.files.raw_input import RawInput
from tasks.files.rows import read_rows
from tasks.files.slices import COMPRESSIONS, KINDS, Problem, RowOfSheet, Slice, compression_of, kind_of
from tasks.ingest.fields import FileFields, fields_for, read_settings
from tasks.ingest.plan import TxtDocuments, plan_units
from tasks.ingest.row_documents import DocumentMaker, matches, readable, source_of

logger = logging.getLogger(__name__)

CHARACTERS_PER_WRITE = 1 << 21
"""Characters of text that are collected in memory before they are written."""

REJECTED_ONE_BY_ONE = 1_000
"""Successive rows with equal problems that have a reject each; the rest of them share one, `a.parquet#1001-9000`."""


class IngestParams(StageParams):
    """Parameters for reading files."""

    source: str | None = Field(default=None, pattern=r"\S")
    """Sub-domain of all documents: dialogue, article, emr, textbook, encyclopedia, … By default, the first folder or
    file named after a sub-domain sets it, beginning with the given folder; other common names count as well
    (`tasks.documents`: EMR, records, 病历 …). Without such a name it is dialogue for rows with turns, else article."""
    source_of: dict[str, str] = Field(default_factory=dict)
    """Sub-domains by folder, file or pattern (`notes/*.txt`) of relative names; the longest match counts. Takes
    precedence over `source`."""
    source_field: str | None = None
    """Field with the sub-domain of each row; if it is empty, the parameters above apply."""
    text_field: str | tuple[str, ...] | None = None
    """Field with the text, or several fields whose texts are joined with line feeds; by default the first of text,
    content, 正文, 内容, 文本 and body that exists."""
    title_field: str | None = None
    """Field with the title; by default the first of title, 标题 and 题目 that exists."""
    turns_field: str | tuple[str, ...] | None = None
    """Field with the turns of a dialogue, or several fields with one turn each, in order (`["ask", "answer"]`), whose
    names are turned into speakers: the usual (user, ask, 患者; assistant, answer, 医生 …) and those of `roles`. One of
    several fields may contain a list of turns: `["history", "question", "answer"]`. By default, unless `text_field`
    is set, the first of turns, dialogue, messages, conversations, conversation and 对话 that is a list; in rows without
    a text, `history` with the question and the answer beside it."""
    fields: dict[str, FileFields | None] = Field(default_factory=dict)
    """Fields of single files, by file, folder, pattern (`notes/*.csv`) or sheet (`a.xlsx/病程`) of relative names, or
    by source; the longest match counts. A value is the column of the text, several columns, a table of `text_field`,
    `title_field`, `turns_field` and `source_field`, or null to leave the files out. Takes precedence over the
    parameters above."""
    roles: dict[str, str] = Field(default_factory=dict)
    """Names in the text by speaker of the turns; takes precedence over the usual ones."""
    encoding: str | None = None
    """Encoding of all text files; by default each file's is detected."""
    txt_documents: TxtDocuments = "auto"
    """Unit of a .txt that becomes a document: the file, a block between blank lines, or a line. `auto` uses the file
    up to 1 MiB, and above that paragraphs packed to about 20,000 characters. A .docx and a .pdf are cut between
    paragraphs and pages in the same way, or not at all with `file`."""
    bytes_per_part: int = Field(default=16 << 20, ge=1)
    """Most bytes of input per part, if the format can be cut."""

    @field_validator("encoding")
    @classmethod
    def _known(cls, encoding: str | None) -> str | None:
        if encoding is None:
            return None
        try:
            return KNOWN[codecs.lookup(encoding).name]
        except LookupError:
            raise ValueError(f"unsupported encoding; give one of {', '.join(KNOWN.values())}") from None

    @field_validator("text_field", "turns_field")
    @classmethod
    def _some(cls, fields: str | tuple[str, ...] | None) -> str | tuple[str, ...] | None:
        if fields is not None and not all(fields or [""]):
            raise ValueError("name a field, or several as a list")
        return fields

    @field_validator("fields", mode="before")
    @classmethod
    def _in_full(cls, fields: Any) -> Any:
        return {key: read_settings(one) for key, one in fields.items()} if isinstance(fields, Mapping) else fields

    @field_validator("source_of")
    @classmethod
    def _all_named(cls, sources: dict[str, str]) -> dict[str, str]:
        if not all(pattern.strip() and source.strip() for pattern, source in sources.items()):
            raise ValueError("a pattern or a source is blank")
        return sources


@stage(name="ingest", version=10, params=IngestParams, tables=("documents", "rejects", "files"), heavy=True)
def ingest(inputs: Mapping[str, RawInput], params: IngestParams, out: Output) -> None:
    """Read the documents of `inputs["corpus"]`.

    Raises:
        UserError: no file is supported, no row has a text, a table lacks the text field, a file changed since it was
            hashed, or there are PDFs and the package that reads them is missing.
    """
    corpus = inputs["corpus"]
    if not any(kind_of(file.name) for file in corpus.files):
        raise UserError(
            f"{corpus.path} contains no supported file. Give files ending in "
            f"{', '.join('.' + kind for kind in KINDS)}; all but .zip may also end in {' or '.join(COMPRESSIONS)}."
        )
    units = plan_units(corpus.files, params.bytes_per_part, params.encoding, params.txt_documents)
    if any(piece.kind == "pdf" for unit in units for piece in unit):
        check_installed()
    _warn_of_patterns(corpus, units, params)
    out.map(ingest_part, units, params)
    if out.rows("documents") == 0:
        counts = sorted(out.counters().items())
        rejected = [f"{name} {count:,}" for name, count in counts if name.startswith("rejected_")]
        why = ", ".join(rejected).replace("rejected_", "") or "it is empty"
        raise UserError(
            f"Empty corpus: no row of {corpus.path} became a document ({why}). "
            + (_first_wrong_encoding(units) if "rejected_wrong_encoding" in dict(counts) else "")
            + "Check the files, or set ingest.text_field to the field that contains the text."
        )


def _warn_of_patterns(corpus: RawInput, units: Iterable[tuple[Slice, ...]], params: IngestParams) -> None:
    """Warn of patterns that match no file: a typing error would otherwise have no effect in silence."""
    pieces = [piece for unit in units for piece in unit]
    for key, patterns in (("source_of", params.source_of), ("fields", params.fields)):
        for pattern in patterns:
            if not any(_may_match(piece, key, pattern, params) for piece in pieces):
                logger.warning(
                    "ingest.%s: %r matches no file or folder of %s; correct the pattern", key, pattern, corpus.path
                )


def _may_match(piece: Slice, key: str, pattern: str, params: IngestParams) -> bool:
    if matches(piece.name, pattern):
        return True
    # The sheets of a workbook are known once it is read: records.xlsx/病程.
    is_sheet = piece.kind == "xlsx" and matches(piece.name, pattern.rpartition("/")[0])
    return key == "fields" and (is_sheet or source_called(pattern) == source_of(piece, params))


def _first_wrong_encoding(units: Iterable[tuple[Slice, ...]]) -> str:
    """Return the problem of the first file in no supported encoding: without documents no rejects are kept."""
    firsts = (next(read_rows(piece), (0, None))[1] for unit in units for piece in unit if piece.kind)
    wrong = (row.detail for row in firsts if isinstance(row, Problem) and row.reason == "wrong_encoding")
    return f"{next(wrong, '')} "


def ingest_part(part: PartWriter, unit: tuple[Slice, ...], params: IngestParams) -> None:
    """Read the slices of one unit."""
    batch: list[dict[str, str]] = []
    waiting = 0
    for piece in unit:
        read: dict[str, _Read] = {}
        rejected = _Rejects(part, params)
        for place, number, found in _documents(part, piece, params):
            counted = read.setdefault(place.name, _Read())
            if isinstance(found, Problem):
                counted.reasons[found.reason] += 1
                rejected.add(place, number, found)
                continue
            rejected.end_run()
            counted.documents += 1
            batch.append(found)
            waiting += len(found["text"])
            if waiting >= CHARACTERS_PER_WRITE:
                part.write("documents", batch)
                batch, waiting = [], 0
        rejected.end_run()
        part.count("bytes_read", _size_of(piece))
        if read:
            part.write("files", [one.row(name) for name, one in read.items()])
    if batch:
        part.write("documents", batch)


@dataclass
class _Read:
    """What was read of a slice, or of a sheet of a workbook."""

    documents: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    """Rejected rows by reason."""

    def row(self, name: str) -> dict[str, Any]:
        rejected = [{"reason": reason, "rows": rows} for reason, rows in sorted(self.reasons.items())]
        rows = self.documents + self.reasons.total()
        return {"file": readable(name), "rows": rows, "documents": self.documents, "rejected": rejected}


def _documents(
    part: PartWriter, piece: Slice, params: IngestParams
) -> Iterator[tuple[Slice, int, dict[str, str] | Problem]]:
    """Yield the documents and problems of a slice, with the slice and the number of their rows.

    The rows of a sheet are in a slice of their own, named after it: `records.xlsx/病程`.
    """
    if not piece.kind and not (piece.member and piece.member.refusal):
        yield piece, 0, _unknown_kind(piece.name)
        return
    number, place, maker = None, piece, _maker(part, piece, params)
    if maker is None and piece.kind != "xlsx":
        return
    for number, row in read_rows(piece, part.counters):
        if isinstance(number, RowOfSheet) and number.sheet and place.name != (name := f"{piece.name}/{number.sheet}"):
            place = replace(piece, name=name)
            maker = _maker(part, place, params)
        if maker is not None:
            yield place, number, row if isinstance(row, Problem) else maker.document_of(number, row)
    if number is None and piece.end is None:
        yield piece, 0, Problem("empty_file", "the file contains no row; remove it or export it again")


def _maker(part: PartWriter, piece: Slice, params: IngestParams) -> DocumentMaker | None:
    """Return what makes documents of a file's rows, or None, which is counted, for a file that is left out."""
    own = fields_for(piece, params)
    if own is None:
        part.count("files_left_out")
        return None
    return DocumentMaker(piece, own, part.counters)


def _unknown_kind(name: str) -> Problem:
    _, *suffixes = name.rpartition("/")[2].split(".")
    # .csv.gz is supported and .tar.gz is not: the ending before the compression is needed too.
    suffix = ".".join(suffixes[-2:] if compression_of(name) else suffixes[-1:])
    files = f"files ending in {suffix!r}" if suffix else "files without an ending"
    return Problem("unknown_kind", f"{files} are not supported; convert the file to one of {', '.join(KINDS)}")


class _Rejects:
    """Rejects of one slice. A file of 7 kB may have a million null rows, of which each would be written."""

    def __init__(self, part: PartWriter, params: IngestParams) -> None:
        self._part, self._params = part, params
        self._place: Slice | None = None
        self._problem: Problem | None = None
        self._count = 0
        """Rows of the run so far."""
        self._first = self._last = 0
        """First and last row of the run that share a reject; 0 if none do."""

    def add(self, place: Slice, number: int, problem: Problem) -> None:
        """Reject a row, at once or as one of a long run of rows with the same problem."""
        if place is not self._place or problem != self._problem:
            self.end_run()
            self._place, self._problem = place, problem
        self._count += 1
        if self._count <= REJECTED_ONE_BY_ONE:
            self._write(place, problem, f"{number}" if number else "")
            return
        self._first = self._first or number
        self._last = number

    def end_run(self) -> None:
        """Write what is left of a run."""
        if self._first and self._place is not None and self._problem is not None:
            rows = self._count - REJECTED_ONE_BY_ONE
            self._write(self._place, self._problem, f"{self._first}-{self._last}" if rows > 1 else f"{self._first}")
            self._part.count(f"rejected_{self._problem.reason}", rows - 1)
        self._place = self._problem = None
        self._count = self._first = self._last = 0

    def _write(self, place: Slice, problem: Problem, rows: str) -> None:
        self._part.reject(
            doc_id=readable(f"{place.name}#{rows}" if rows else place.name),
            source=source_of(place, self._params),
            reason=problem.reason,
            detail=readable(problem.detail),
            text=readable(problem.text[:1000]),
        )


def _size_of(piece: Slice) -> int:
    """Return the bytes of the file that this slice counts as read: those of Parquet with its first slice."""
    if piece.member is not None:
        return max(piece.member.packed, 0)
    if piece.kind == "parquet" or piece.end is None:
        return piece.size if piece.start == 0 else 0
    return piece.end - piece.start
