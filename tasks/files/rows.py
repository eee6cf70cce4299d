"""Rows of corpus files: .txt, .jsonl, .json, .csv, .tsv, .parquet, .html, .xlsx, .docx and .pdf, also packed.

Each may end in .gz, .bz2 or .zst, or be in a .zip. A row is a mapping of the file's fields, or a `Problem` that says
why it cannot be read, which the caller rejects. Rows are numbered from 1: by line in text files (a document of a .txt
by its first line), by element in .json, by row in Parquet and in a sheet, by paragraph in .docx, by page in .pdf.

Memory holds one line, one record, one page, one document, one batch of a Parquet row group or a workbook's strings.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, time
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from infra.disk.parquet_batches import ParquetBombError, open_parquet, parquet_batches
from infra.errors import UserError
from infra.limits import limits
from tasks.files.access import WatchedFile, is_local, watched
from tasks.files.archives import member_blocks
from tasks.files.columns import distinct_columns
from tasks.files.compression import DamagedArchiveError, unfold
from tasks.files.csv_rows import read_csv
from tasks.files.encodings import LINE_SAFE, SAMPLE, decodes, encoding_of, sample_windows
from tasks.files.html_text import page_text
from tasks.files.json_rows import json_object, read_json
from tasks.files.lines import BEGINNING, Lines, ends_in_returns, with_line_feeds
from tasks.files.office.docx import docx_blocks
from tasks.files.office.package import UnreadableDocumentError, refuse_other_formats
from tasks.files.office.pdf import pdf_pages
from tasks.files.slices import Problem, RowOfSheet, Slice, Splitting, compression_of
from tasks.files.workbooks import Value, damage_named, streamed_rows, streamed_sheets, text_of, with_merged

ROWS_PER_BATCH = 512
"""Rows of a Parquet row group that are Python objects at the same time."""

LONG_TEXT = 1 << 20
"""Bytes above which a text is cut into documents between its paragraphs or pages by default."""

PACKED_CHARACTERS = 20_000
"""Approximate characters of the documents that a long text is cut into."""

ENDS_SENTENCE = "。！？!?…”）)"
"""Characters with which a page ends if the next one begins a new sentence."""

_OF_LINES = ("txt", "jsonl", "csv", "tsv")
"""Kinds whose rows end where lines do."""

Row = tuple[int, Mapping[str, Any] | Problem]


def read_rows(piece: Slice, counts: Counter[str] | None = None) -> Iterator[Row]:
    """Yield the rows of a slice, in order.

    A damaged archive ends with a `Problem`, and a file in no supported encoding is a single one.

    Args:
        piece: the slice.
        counts: where repairs are counted.

    Raises:
        ChangedFileError: the file differs from the plan.
    """
    member = piece.member
    if member is not None and member.refusal:
        yield 0, Problem(member.refusal, member.detail)
        return
    number = piece.first_row - 1
    problem = None
    with watched(piece) as file:
        in_places = _READERS_IN_PLACES.get(piece.kind)
        rows = in_places(piece, file) if in_places else _read_text(piece, file, counts)
        try:
            for number, row in rows:
                yield number, row
        except DamagedArchiveError as error:
            problem = Problem(error.reason, str(error))
        except UnreadableDocumentError as error:  # of the file, unless some of it was read before
            number = number - 1 if number < piece.first_row else number
            problem = Problem(error.reason, str(error))
        except ParquetBombError as error:
            problem = Problem("archive_bomb", f"the rest of the file was not read: {error}")
        except pa.ArrowException as error:
            problem = _unreadable_parquet(error)
        except OSError as error:
            if piece.kind != "parquet":  # pyarrow raises it for damaged pages; elsewhere the storage failed
                raise
            problem = _unreadable_parquet(error)
    if problem is not None:
        yield number + 1, problem


def _unreadable_parquet(error: Exception) -> Problem:
    return Problem("unreadable_file", f"the file cannot be read as Parquet: {error}; copy or write it again")


def _read_text(piece: Slice, file: WatchedFile, counts: Counter[str] | None) -> Iterator[Row]:
    """Yield the rows of a text file, or a single problem if it is in no supported encoding."""
    encoding, wrong = encoding_in(piece, file)
    if wrong is not None:
        yield 0, wrong
        return
    blocks = _blocks(piece, file)
    if encoding in LINE_SAFE and has_returns(piece, file):
        blocks = map(with_line_feeds, blocks)
    lines = Lines(blocks, piece.name, encoding, counts, piece.start, _separator(piece))
    number = piece.first_row - 1
    for number, row in _READERS[piece.kind](piece, lines):
        yield number, row
    # The plan has checked a sample of a file that is cut into ranges: the result must not depend on the cuts.
    if piece.end is None and (wrong := lines.wrong_encoding()) is not None:
        yield number + 1, wrong


def _blocks(piece: Slice, file: WatchedFile) -> Iterator[bytes]:
    """Yield the decompressed bytes of a slice."""
    member = piece.member
    blocks = file.blocks(piece.start, piece.end) if member is None else member_blocks(file.file, member)
    compression = compression_of(piece.name)
    return unfold(blocks, compression) if compression else blocks


def sample_of(piece: Slice, file: WatchedFile) -> bytes:
    """Return the bytes of a slice's file from which its encoding is detected."""
    if piece.member is None and not compression_of(piece.name):
        plain = with_line_feeds if has_returns(piece, file) else bytes

        def read_at(start: int, size: int) -> bytes:
            file.file.seek(start)
            return plain(file.file.read(size))

        return sample_windows(read_at, piece.size)
    sample = _unfolded(piece, file, SAMPLE)
    return with_line_feeds(sample) if piece.kind in _OF_LINES and ends_in_returns(sample[:BEGINNING]) else sample


def has_returns(piece: Slice, file: WatchedFile) -> bool:
    """Return True if lines of the slice's file end in returns alone, as the beginning of the file shows."""
    if piece.kind not in _OF_LINES:
        return False
    if piece.member is None and not compression_of(piece.name):
        file.file.seek(0)
        return ends_in_returns(file.file.read(BEGINNING))
    return ends_in_returns(_unfolded(piece, file, BEGINNING)[:BEGINNING])


def _unfolded(piece: Slice, file: WatchedFile, wanted: int) -> bytes:
    """Return the first bytes of a compressed file, at least as many as wanted if it has them."""
    held = b""
    try:
        for block in _blocks(piece, file):
            held += block
            if len(held) >= wanted:
                break
    except DamagedArchiveError:
        pass  # reported when the rows are read
    return held


def encoding_in(piece: Slice, file: WatchedFile) -> tuple[str, Problem | None]:
    """Return the encoding of a text file, and a problem if its sample is not in that encoding."""
    if piece.end is not None and piece.encoding:
        return piece.encoding, None  # a range of a file: the plan has detected the encoding
    sample = sample_of(piece, file)
    encoding = encoding_of(piece, lambda: sample)
    if decodes(sample, encoding):
        return encoding, None
    lines = Lines(iter([sample]), piece.name, encoding, separator=_separator(piece))
    collections.deque(lines, maxlen=0)  # read all lines, keep none
    return encoding, lines.wrong_encoding(is_sample=len(sample) < piece.size)


def _separator(piece: Slice) -> str:
    return "," if piece.kind == "json" else "\n"


def _read_jsonl(piece: Slice, lines: Lines) -> Iterator[Row]:
    for number, line in enumerate(lines, piece.first_row):
        problem = lines.take_problem()
        if line.strip():
            row = _with_text(problem, line) if problem else json_object(line)
            # A line that ends where the archive is damaged is broken JSON: the damage is reported instead.
            if not (lines.cut_short and isinstance(row, Problem)):
                yield number, row


def _with_text(problem: Problem, text: str) -> Problem:
    return Problem(problem.reason, problem.detail, text)


def _read_html(piece: Slice, lines: Lines) -> Iterator[Row]:
    page: list[str] = []
    size = 0
    damage = None
    try:
        for line in lines:
            page.append(line)
            size += len(line) + 1
            if size > limits().row_bytes:
                yield (
                    1,
                    Problem("page_too_long", f"the page is longer than {limits().row_bytes:,} characters; split it"),
                )
                return
    except DamagedArchiveError as error:
        damage = error
    source = "\n".join(page)
    read = lines.take_text(source)
    if isinstance(read, Problem):
        yield 1, read
    elif read.strip():
        title, text = page_text(read)
        yield 1, {"title": title, "text": text}
    if damage is not None:
        raise damage


def _read_parquet(piece: Slice, file: WatchedFile) -> Iterator[Row]:
    if _is_plain(piece):
        yield from _parquet_rows(piece, piece.path if is_local(piece.path) else file.file)
        return
    with _unpacked(piece, file) as whole:
        yield from _parquet_rows(piece, whole)


def _is_plain(piece: Slice) -> bool:
    return piece.member is None and not compression_of(piece.name)


@contextlib.contextmanager
def _opened(piece: Slice, file: WatchedFile) -> Iterator[BinaryIO]:
    """Open a file of a kind of `READ_IN_PLACES` at any position, decompressed."""
    if _is_plain(piece):
        yield file.file
        return
    with _unpacked(piece, file) as whole, whole.open("rb") as copy:
        yield copy


@contextlib.contextmanager
def _unpacked(piece: Slice, file: WatchedFile) -> Iterator[Path]:
    """Copy a file, decompressed, into a temporary one: reading Parquet or a zip begins at the file's end.

    Raises:
        UserError: there is no room, which is not the file's fault.
    """
    try:
        with contextlib.ExitStack() as copy:
            whole = copy.enter_context(tempfile.NamedTemporaryFile(prefix="yiwen-", suffix=f".{piece.kind}"))
            for block in _blocks(piece, file):
                whole.write(block)
            whole.flush()
            kept = copy.pop_all()
    except OSError as error:
        raise UserError(
            f"{piece.name} cannot be decompressed into the folder for temporary files: {error}. Set TMPDIR to a folder "
            "with enough room, or decompress the file yourself."
        ) from error
    with kept:
        yield Path(whole.name)


def _parquet_rows(piece: Slice, source: Any) -> Iterator[Row]:
    with open_parquet(source) as file:
        groups = range(file.num_row_groups)[piece.start : piece.end]
        given = file.schema_arrow.names
    number = piece.first_row
    names = distinct_columns(given)
    for batch in parquet_batches(source, groups, ROWS_PER_BATCH):
        for row in _batch_rows(batch if names is given else batch.rename_columns(list(names))):
            # Arrow has made plain strings of the names, which lost the mark of a `RepeatedColumn`.
            if names is not given and not isinstance(row, Problem):
                row = dict(zip(names, row.values(), strict=True))
            yield number, row
            number += 1


def _read_xlsx(piece: Slice, file: WatchedFile) -> Iterator[Row]:
    """Yield the rows below the header of each sheet; values are text, as in CSV."""
    place = RowOfSheet(0, "")
    problem = None
    with _opened(piece, file) as workbook:
        refuse_other_formats(workbook, "xlsx")
        size = workbook.seek(0, 2)
        try:
            with damage_named(piece.name):
                sheets = list(streamed_sheets(workbook, size, piece.name))
                for title, sheet in sheets:
                    rows = with_merged(sheet, streamed_rows(sheet, piece.name), piece.name)
                    for number, row in _table_rows(rows):
                        place = RowOfSheet(number, title if len(sheets) > 1 else "")
                        yield place, row
        except UserError as error:
            problem = Problem("unreadable_file", str(error))
    if problem is not None:
        yield RowOfSheet(place + 1 if place else 0, place.sheet), problem


def _table_rows(rows: Iterable[tuple[int, list[Value]]]) -> Iterator[Row]:
    """Yield the rows below a sheet's header: its first filled row, or the second if the first is only a title."""
    filled = ((number, [_cell_text(value) for value in values]) for number, values in rows)
    filled = ((number, cells) for number, cells in filled if any(map(str.strip, cells)))
    first, second = next(filled, None), next(filled, None)
    if first is None or second is None:
        return
    # A merged title has its text in every cell: 出院病历 | 出院病历 | 出院病历
    is_title = len(set(filter(None, first[1]))) == 1 < len(set(filter(None, second[1])))
    header = [cell.strip() for cell in (second if is_title else first)[1]]
    names = list(distinct_columns(header))
    for number, cells in filled if is_title else itertools.chain([second], filled):
        names += [f"column {place}" for place in range(len(names) + 1, len(cells) + 1)]  # beside the header
        yield number, dict(itertools.zip_longest(names, cells, fillvalue=""))


def _cell_text(value: Value) -> str:
    """Return a cell as a spreadsheet's CSV has it: 2026-01-02 for a day, TRUE for a truth value, 12 for 12.0."""
    if isinstance(value, datetime) and value.time() == time():
        return str(value.date())
    return str(value).upper() if isinstance(value, bool) else text_of(value)


def _read_docx(piece: Slice, file: WatchedFile) -> Iterator[Row]:
    with _opened(piece, file) as document:
        yield from _gathered(piece, enumerate(docx_blocks(document), start=1), is_end=lambda text: True)


def _read_pdf(piece: Slice, file: WatchedFile) -> Iterator[Row]:
    with contextlib.ExitStack() as stack:
        if _is_plain(piece) and is_local(piece.path):
            path = Path(piece.path)
        else:
            path = stack.enter_context(_unpacked(piece, file))
        yield from _gathered(piece, pdf_pages(path), is_end=lambda text: text.rstrip()[-1:] in ENDS_SENTENCE)


def _gathered(piece: Slice, texts: Iterable[tuple[int, str]], is_end: Callable[[str], bool]) -> Iterator[Row]:
    """Yield the paragraphs or pages of a file as one document, or a long file as several, each with its first number.

    Args:
        piece: its `splitting` says whether a long file may be cut.
        texts: numbers and texts of the paragraphs or pages.
        is_end: returns True where a document may end after a text.
    """
    waiting: list[tuple[int, str]] = []
    """Documents of a file that is not long so far: it becomes a single one if it ends before."""
    held: list[tuple[int, str]] = []
    size = total = 0
    damage: Exception | None = None
    try:
        for number, text in texts:
            held.append((number, text))
            size += len(text) + 1
            total += len(text.encode("utf-8", "surrogatepass")) + 1
            if piece.splitting == "file":
                if total > limits().row_bytes:
                    detail = f"the document is longer than {limits().row_bytes:,} bytes; leave ingest.txt_documents out"
                    yield held[0][0], Problem("document_too_long", detail, held[0][1])
                    return
            elif size >= PACKED_CHARACTERS and (is_end(text) or size >= 2 * PACKED_CHARACTERS):
                waiting.append(_joined(held))
                held, size = [], 0
                if total > LONG_TEXT:
                    yield from ((first, {"text": text}) for first, text in waiting)
                    waiting.clear()
    except (DamagedArchiveError, UnreadableDocumentError) as error:  # what was read before is kept
        damage = error
    if held:
        waiting.append(_joined(held))
    if waiting and total <= LONG_TEXT:
        waiting = [_joined(waiting)]
    yield from ((first, {"text": text}) for first, text in waiting)
    if damage is not None:
        raise damage


def _joined(held: list[tuple[int, str]]) -> tuple[int, str]:
    return held[0][0], "\n".join(text for _, text in held)


_NO_OBJECT = (ValueError, OverflowError, LookupError)
"""Errors of pyarrow for values without a Python object: broken UTF-8, the year 20000, an unknown time zone."""


def _batch_rows(batch: pa.RecordBatch) -> Iterator[Mapping[str, Any] | Problem]:
    """Yield the rows of a batch, with a problem in place of each row that cannot be converted."""
    try:
        yield from batch.to_pylist()
        return
    except _NO_OBJECT:
        # No document is made from points in time, so those that cannot be converted may be null.
        columns = [pa.nulls(len(each)) if pa.types.is_temporal(each.type) else each for each in batch.columns]
    plain = pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
    for row in range(len(plain)):
        try:
            yield plain.slice(row, 1).to_pylist()[0]
        except UnicodeDecodeError as error:
            detail = f"a value of the row is not {error.encoding} ({error.reason}); write it in UTF-8"
            yield Problem("undecodable", detail)
        except _NO_OBJECT as error:
            yield Problem("unreadable_value", f"a value of the row cannot be read: {error}; correct or remove it")


def _read_txt(piece: Slice, lines: Lines) -> Iterator[Row]:
    """Yield documents with the single field `text`, cut as `Slice.splitting` says."""
    held: list[str] = []
    first, size, longest = piece.first_row, 0, limits().row_bytes
    is_end = _DOCUMENT_ENDS[piece.splitting]
    damage = None

    def document() -> Row:
        text = lines.take_text("\n".join(held))
        if size > longest:
            detail = f"the document is longer than {longest:,} characters; cut it with ingest.txt_documents=blank_lines"
            return first, Problem("document_too_long", detail, held[0])
        return first, text if isinstance(text, Problem) else {"text": text}

    try:
        for number, line in enumerate(lines, piece.first_row):
            if not held:
                if not line.strip():
                    continue
                first, size = number, 0
            size += len(line) + 1
            if size <= longest or not held:  # of a document that is too long only the beginning is kept
                held.append(line)
            if is_end(line, size):
                yield document()
                held.clear()
    except DamagedArchiveError as error:
        damage = error
    if held:
        yield document()
    if damage is not None:
        raise damage


_DOCUMENT_ENDS: Mapping[Splitting, Callable[[str, int], bool]] = {
    "file": lambda line, size: False,
    "lines": lambda line, size: True,
    "blank_lines": lambda line, size: not line.strip(),
    # A long text without blank lines is cut at any line end.
    "packed": lambda line, size: size >= PACKED_CHARACTERS and (not line.strip() or size >= 2 * PACKED_CHARACTERS),
}

_READERS_IN_PLACES: Mapping[str, Callable[[Slice, WatchedFile], Iterator[Row]]] = {
    "parquet": _read_parquet,
    "xlsx": _read_xlsx,
    "docx": _read_docx,
    "pdf": _read_pdf,
}

_READERS: Mapping[str, Callable[[Slice, Lines], Iterator[Row]]] = {
    "txt": _read_txt,
    "jsonl": _read_jsonl,
    "json": lambda piece, lines: read_json(lines),
    "csv": lambda piece, lines: read_csv(lines, ","),
    "tsv": lambda piece, lines: read_csv(lines, "\t"),
    "html": _read_html,
}
