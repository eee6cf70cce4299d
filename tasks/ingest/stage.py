"""Stage `ingest`: documents from text files.

`tasks/ingest/plan.py` describes the units of work. A big .csv or .json, a compressed or a UTF-16 file is read by one
worker. To have such files read in parallel, split them or convert them to .jsonl or .parquet.

Rows that cannot be read are rejected with file#row, files in no supported encoding with their name, and the run
continues. In a .txt or an HTML page undecodable bytes become U+FFFD, and `clean` decides how many are too many. A file
that changes while it is read stops the run.

Memory holds one batch of documents and the state of the format's reader. A row of 100 MB takes about twelve to fourteen
times its size (bytes, characters, parsed values, written columns). Time is linear in the bytes.
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
"""Characters of text that are collected in memory before they are written."""


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
    """Field with the text, or several fields whose texts are joined with line feeds; by default the first of
    `TEXT_FIELDS` that exists."""
    title_field: str | None = None
    """Field with the title; by default the first of `TITLE_FIELDS` that exists."""
    turns_field: str | tuple[str, ...] | None = None
    """Field with the turns of a dialogue, or several fields with one turn each, in order (`["ask", "answer"]`), whose
    names `roles` and `ROLES` turn into speakers. One of several fields may contain a list of turns:
    `["history", "question", "answer"]`. By default, unless `text_field` is set, the first of `TURNS_FIELDS` that is a
    list; in rows without a text, `history` with the question and the answer beside it."""
    roles: dict[str, str] = Field(default_factory=dict)
    """Names in the text by speaker of the turns; takes precedence over `ROLES`."""
    encoding: str | None = None
    """Encoding of all text files; by default each file's is detected."""
    txt_documents: TxtDocuments = "auto"
    """Unit of a .txt that becomes a document: the file, a block between blank lines, or a line. `auto` uses the file
    up to 1 MiB, and above that paragraphs packed to about 20,000 characters."""
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

    @field_validator("source_of")
    @classmethod
    def _all_named(cls, sources: dict[str, str]) -> dict[str, str]:
        if not all(pattern.strip() and source.strip() for pattern, source in sources.items()):
            raise ValueError("a pattern or a source is blank")
        return sources


@stage(name="ingest", version=6, params=IngestParams, tables=("documents", "rejects"), heavy=True)
def ingest(inputs: Mapping[str, RawInput], params: IngestParams, out: Output) -> None:
    """Read the documents of `inputs["corpus"]`.

    Raises:
        UserError: no file is supported, no row has a text, a table lacks the text field, or a file changed since it
            was hashed.
    """
    corpus = inputs["corpus"]
    if not any(kind_of(file.name) for file in corpus.files):
        raise UserError(
            f"{corpus.path} contains no supported file. Give files ending in "
            f"{', '.join('.' + kind for kind in KINDS)}; all but .zip may also end in {' or '.join(COMPRESSIONS)}."
        )
    units = plan_units(corpus.files, params.bytes_per_part, params.encoding, params.txt_documents)
    for pattern in params.source_of:
        if not any(matches(piece.name, pattern) for unit in units for piece in unit):
            logger.warning(
                "ingest.source_of: %r matches no file or folder of %s; correct the pattern", pattern, corpus.path
            )
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
        yield 0, _unknown_kind(piece.name)
        return
    number, maker = None, DocumentMaker(piece, params, part.counters)
    for number, row in read_rows(piece, part.counters):
        yield number, row if isinstance(row, Problem) else maker.document_of(number, row)
    if number is None and piece.end is None:
        yield 0, Problem("empty_file", "the file contains no row; remove it or export it again")


def _unknown_kind(name: str) -> Problem:
    _, *suffixes = name.rpartition("/")[2].split(".")
    # .csv.gz is supported and .tar.gz is not: the ending before the compression is needed too.
    suffix = ".".join(suffixes[-2:] if compression_of(name) else suffixes[-1:])
    files = f"files ending in {suffix!r}" if suffix else "files without an ending"
    return Problem("unknown_kind", f"{files} are not supported; convert the file to one of {', '.join(KINDS)}")


def _reject(part: PartWriter, piece: Slice, number: int, problem: Problem, params: IngestParams) -> None:
    part.reject(
        doc_id=readable(f"{piece.name}#{number}" if number else piece.name),
        source=source_of(piece, params),
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
