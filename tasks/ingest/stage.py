"""Stage `ingest`: files of text to documents.

How files become units of work is told in `tasks/ingest/plan.py`: a big .csv or .json, a compressed or a UTF-16 file is
read by one worker; cut such files yourself, or give them as .jsonl or .parquet, to have them read in parallel.

Rows that cannot be read are rejected with file#row, files in no known encoding with their name, and the run goes on.
In a .txt or a page what cannot be decoded stands as U+FFFD: `clean` judges how much of it is too much. A file that
changes while it is read stops the run.

Memory: one batch of documents and what the reader of the format holds; for a row of 100 MB about twelve to fourteen
times the row (bytes, characters, their parse, the columns written). Time is linear in the bytes.
"""

from __future__ import annotations

import codecs
import logging
from collections.abc import Iterable, Iterator, Mapping

from pydantic import Field, field_validator

from infra.builds import PartWriter
from infra.errors import UserError
from infra.stage import Output, StageParams, stage
from tasks.files.encodings import KNOWN
from tasks.files.raw_input import RawInput
from tasks.files.rows import read_rows
from tasks.files.slices import COMPRESSIONS, KINDS, Problem, Slice, compression_of, kind_of
from tasks.ingest.plan import TxtDocuments, plan_units
from tasks.ingest.row_documents import DocumentMaker, matches, readable, source_of

logger = logging.getLogger(__name__)

CHARACTERS_PER_WRITE = 1 << 21
"""Characters of text that wait in memory for the next write."""


class IngestParams(StageParams):
    """How files are read."""

    source: str | None = Field(default=None, pattern=r"\S")
    """Sub-domain of all documents: dialogue, article, emr, textbook, encyclopedia, … By default that of the first
    folder, from the one that was given on, or of the file where it is named as one of these or as people call it
    (`tasks.documents`: EMR, records, 病历 …); else dialogue for rows with turns, else article."""
    source_of: dict[str, str] = Field(default_factory=dict)
    """Folders, files or patterns (`notes/*.txt`) of relative names to the sub-domain of what they match; the longest
    counts, and all go before `source`."""
    source_field: str | None = None
    """Field that holds the sub-domain of each row; what is said above stands in where it is empty."""
    text_field: str | tuple[str, ...] | None = None
    """Field that holds the text, or fields whose texts make one with a line feed between them; the first of
    `TEXT_FIELDS` that is there by default."""
    title_field: str | None = None
    """Field that holds the title; the first of `TITLE_FIELDS` that is there by default."""
    turns_field: str | tuple[str, ...] | None = None
    """Field that holds the turns of a dialogue, or fields that hold a turn each, in order (`["ask", "answer"]`), whose
    names `roles` and `ROLES` make speakers; by default the first of `TURNS_FIELDS` that is a list, or `history` with
    the question and the answer beside it where there is no text, unless `text_field` is named. Of several fields one
    may hold a list of turns: `["history", "question", "answer"]`."""
    roles: dict[str, str] = Field(default_factory=dict)
    """Speakers of the turns to what they are called in the text; they go before `ROLES`."""
    encoding: str | None = None
    """Encoding of all text files; told from each file's own bytes by default."""
    txt_documents: TxtDocuments = "auto"
    """What one document of a .txt is: the file, a block between blank lines, or a line. `auto` takes the file
    up to 1 MiB, and above that paragraphs packed to about 20,000 characters."""
    bytes_per_part: int = Field(default=16 << 20, ge=1)
    """Bytes of input that one part is made from at most, where the format can be cut."""

    @field_validator("encoding")
    @classmethod
    def _known(cls, encoding: str | None) -> str | None:
        if encoding is None:
            return None
        try:
            return KNOWN[codecs.lookup(encoding).name]
        except LookupError:
            raise ValueError(f"no such encoding is read; give one of {', '.join(KNOWN.values())}") from None

    @field_validator("text_field", "turns_field")
    @classmethod
    def _some(cls, fields: str | tuple[str, ...] | None) -> str | tuple[str, ...] | None:
        if fields is not None and not all(fields or [""]):
            raise ValueError("name a field, or several as a list")
        return fields

    @field_validator("source_of")
    @classmethod
    def _all_named(cls, sources: dict[str, str]) -> dict[str, str]:
        if not all(pattern.strip() and source.strip() for pattern, source in sources.items()):
            raise ValueError("a pattern or a source is blank")
        return sources


@stage(name="ingest", version=6, params=IngestParams, tables=("documents", "rejects"))
def ingest(inputs: Mapping[str, RawInput], params: IngestParams, out: Output) -> None:
    """Documents and rejects of `inputs["corpus"]`.

    Raises:
        UserError: nothing there can be read, no row holds a text, a table lacks the text field, or a file changed
            since it was hashed.
    """
    corpus = inputs["corpus"]
    if not any(kind_of(file.name) for file in corpus.files):
        raise UserError(
            f"{corpus.path} holds no file that can be read. Give files ending in "
            f"{', '.join('.' + kind for kind in KINDS)}, each but .zip also {' or '.join(COMPRESSIONS)}."
        )
    units = plan_units(corpus.files, params.bytes_per_part, params.encoding, params.txt_documents)
    for pattern in params.source_of:
        if not any(matches(piece.name, pattern) for unit in units for piece in unit):
            logger.warning("ingest.source_of: no file of %s is named or lies below %r", corpus.path, pattern)
    out.map(ingest_part, units, params)
    if out.rows("documents") == 0:
        counts = sorted(out.counters().items())
        rejected = [f"{name} {count:,}" for name, count in counts if name.startswith("rejected_")]
        why = ", ".join(rejected).replace("rejected_", "") or "it is empty"
        raise UserError(
            f"Empty corpus: no row of {corpus.path} became a document ({why}). "
            + (_first_wrong_encoding(units) if "rejected_wrong_encoding" in dict(counts) else "")
            + "Look at the files, or name the field that holds the text with ingest.text_field."
        )


def _first_wrong_encoding(units: Iterable[tuple[Slice, ...]]) -> str:
    """What is told of the first file in no known encoding: its rejects are not kept where there is no document."""
    firsts = (next(read_rows(piece), (0, None))[1] for unit in units for piece in unit if piece.kind)
    wrong = (row.detail for row in firsts if isinstance(row, Problem) and row.reason == "wrong_encoding")
    return f"{next(wrong, '')} "


def ingest_part(part: PartWriter, unit: tuple[Slice, ...], params: IngestParams) -> None:
    """Read the slices of one unit."""
    batch: list[dict[str, str]] = []
    waiting = 0
    for piece in unit:
        for number, found in _documents(part, piece, params):
            if isinstance(found, Problem):
                _reject(part, piece, number, found, params)
                continue
            batch.append(found)
            waiting += len(found["text"])
            if waiting >= CHARACTERS_PER_WRITE:
                part.write("documents", batch)
                batch, waiting = [], 0
        part.count("bytes_read", _size_of(piece))
    if batch:
        part.write("documents", batch)


def _documents(part: PartWriter, piece: Slice, params: IngestParams) -> Iterator[tuple[int, dict[str, str] | Problem]]:
    if not piece.kind and not (piece.member and piece.member.refusal):
        known = ", ".join(KINDS)
        _, *suffixes = piece.name.rpartition("/")[2].split(".")
        suffix = ".".join(
            suffixes[-2:] if compression_of(piece.name) else suffixes[-1:]
        )  # .csv.gz is read, .tar.gz not
        files = f"files that end in {suffix!r}" if suffix else "files without an ending"
        yield 0, Problem("unknown_kind", f"{files} are not read; {known} are")
        return
    number, maker = None, DocumentMaker(piece, params, part.counters)
    for number, row in read_rows(piece, part.counters):
        yield number, row if isinstance(row, Problem) else maker.document_of(number, row)
    if number is None and piece.end is None:
        yield 0, Problem("empty_file", "the file holds no row")


def _reject(part: PartWriter, piece: Slice, number: int, problem: Problem, params: IngestParams) -> None:
    part.reject(
        doc_id=readable(f"{piece.name}#{number}" if number else piece.name),
        source=source_of(piece, params),
        reason=problem.reason,
        detail=readable(problem.detail),
        text=readable(problem.text[:1000]),
    )


def _size_of(piece: Slice) -> int:
    if piece.member is not None:
        return max(piece.member.packed, 0)
    if piece.kind == "parquet" or piece.end is None:
        return piece.size if piece.start == 0 else 0
    return piece.end - piece.start
