"""CSV and TSV files as rows, read by Python's csv module, but a missing closing quote spoils only its own line.

A quote without its partner turns everything up to some later quote, or to the end of the file, into one field. A row
over several lines must therefore be well formed. Its quotes close where fields end, before the file ends and within
`MAX_ROW` characters. If it has the wrong number of fields, none of its later lines is a whole row by itself. Where
one of these fails, the row's first line is rejected and reading resumes at the second. A row on one line may contain
stray quotes, as the csv module accepts them.

If the field after a missing quote begins with a line break or a delimiter, its opening quote looks like the missing
one, and that row may be lost too.

Time is linear in the file, whatever its quotes. Memory holds the longest line, or one row of `MAX_ROW` characters.
"""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any, NamedTuple

from tasks.files.columns import distinct_columns
from tasks.files.compression import DamagedArchiveError
from tasks.files.lines import Lines
from tasks.files.slices import Problem

MAX_ROW = 1 << 24
"""Characters after which a row takes no further line: several textbooks in one field."""

LOST_QUOTE = (
    "a quote opens in this line and is not closed at the end of a field; the next line is read as a new row. Close the "
    "quote, or double it inside a quoted field"
)

MAX_FIELD = 2**31 - 1
"""Characters of the longest field. A document, or everything that follows a missing quote, exceeds the 128 KiB that
Python's csv module allows by default."""


def allow_long_fields() -> None:
    """Let every CSV reader of this process take fields of up to `MAX_FIELD` characters.

    The csv module has one limit per process. Setting it here alone keeps a reader's behaviour independent of which
    other readers are loaded.
    """
    csv.field_size_limit(MAX_FIELD)


allow_long_fields()

Row = tuple[int, Mapping[str, Any] | Problem]


def read_csv(lines: Lines, delimiter: str) -> Iterator[Row]:
    """Yield the rows under a file's header, each with the number of its first line, counted from 1.

    Empty lines are skipped, and repeated names in the header are made distinct (`tasks.files.columns`).

    Raises:
        DamagedArchiveError: after the last readable row.
    """
    feed = _Feed(lines)
    reader = csv.reader(feed, delimiter=delimiter, strict=True)
    first = _next_row(reader, feed, delimiter, width=0) or []
    if isinstance(first, Problem):
        yield 1, first
        # Without its header the whole file would be lost: take its names without quotes.
        first = feed.row[0].text.replace('"', "").split(delimiter)
    elif problem := feed.problem():
        yield 1, _with_text(problem, delimiter.join(first))
    header = distinct_columns(first)
    while (fields := _next_row(reader, feed, delimiter, len(header))) is not None:
        number = feed.row[0].number
        if feed.row[-1].is_cut:
            continue  # the archive's damage is reported instead
        if isinstance(fields, Problem):
            yield number, fields
        elif problem := feed.problem():
            yield number, _with_text(problem, delimiter.join(fields))
        elif len(fields) > len(header):
            detail = (
                f"the row has {len(fields)} fields, but the header has {len(header)}; quote fields that contain the "
                "delimiter, or add the missing quote"
            )
            yield number, Problem("surplus_fields", detail, delimiter.join(fields))
        elif fields:
            yield number, dict(zip_longest(header, fields))
    if feed.damage is not None:
        raise feed.damage


class _Line(NamedTuple):
    number: int
    text: str
    problem: Problem | None
    """Reason why it cannot be read."""
    is_cut: bool
    """True if it ends where its archive is damaged."""


class _OpenQuoteError(Exception):
    """The csv module asks for a line that does not belong to the current row."""


class _Feed:
    """Source of lines for the csv module that tracks the lines of the current row, and can take them back."""

    def __init__(self, lines: Lines) -> None:
        self.row: list[_Line] = []
        self.damage: DamagedArchiveError | None = None
        """Damage to the archive, once met; the file is read as if it ended there."""
        self._lines, self._source = lines, enumerate(lines, start=1)
        self._again: deque[_Line] = deque()
        """Lines that were taken back."""
        self._characters = 0
        self._in_vain = 0
        """Number of the line up to which no open quote can be closed; see `keep_first_line`."""

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        # Within a row the csv module asks for another line only if a quote is open.
        if self.row and (self._characters > MAX_ROW or self.row[-1].number < self._in_vain):
            raise _OpenQuoteError
        line = self._again.popleft() if self._again else self._read()
        if line is None:
            raise _OpenQuoteError if self.row else StopIteration
        self.row.append(line)
        self._characters += len(line.text)
        return line.text + "\n"

    def start_row(self) -> None:
        """Begin a new row with the next line."""
        self.row, self._characters = [], 0

    def keep_first_line(self, in_vain: int) -> None:
        """Take back all lines of the row but its first.

        A quote that is open at the end of any line before number `in_vain` is known to fail, whichever quote it is.
        Looking again from each of these lines would take quadratic time.
        """
        self._again.extendleft(reversed(self.row[1:]))
        self.row = self.row[:1]
        self._in_vain = max(self._in_vain, in_vain)

    def problem(self) -> Problem | None:
        """Return the reason why a line of the row cannot be read, or None."""
        return next((line.problem for line in self.row if line.problem), None)

    def _read(self) -> _Line | None:
        try:
            number, text = next(self._source, (0, ""))
        except DamagedArchiveError as error:
            self.damage = error
            return None
        return _Line(number, text, self._lines.take_problem(), self._lines.cut_short) if number else None


def _next_row(reader: Iterator[list[str]], feed: _Feed, delimiter: str, width: int) -> list[str] | Problem | None:
    """Return the next row's fields, of which whole rows have `width`, or its problem; None after the last row."""
    feed.start_row()
    try:
        fields = next(reader)
    except StopIteration:
        return None
    except _OpenQuoteError:
        return _lost_quote(feed, feed.row[-1].number + 1)
    except csv.Error:
        if len(feed.row) == 1:
            return _with_stray_quotes(feed.row[0].text, delimiter)
        return _lost_quote(feed, feed.row[-1].number)
    is_odd = len(feed.row) > 1 and len(fields) != width
    # A row of the wrong width that contains whole rows: its first quote is the missing one's partner.
    if is_odd and any(len(own) == width for own in _taken_in(feed.row[1:], delimiter)):
        return _lost_quote(feed, feed.row[-1].number)
    return fields


def _taken_in(lines: list[_Line], delimiter: str) -> Iterator[list[str]]:
    """Yield the rows of lines that are rows by themselves; a line with a return in it is not one."""
    reader = csv.reader((line.text + "\n" for line in lines), delimiter=delimiter)
    while True:
        try:
            yield next(reader)
        except csv.Error:
            continue
        except StopIteration:
            return


def _with_text(problem: Problem, text: str) -> Problem:
    return Problem(problem.reason, problem.detail, text)


def _lost_quote(feed: _Feed, in_vain: int) -> Problem:
    feed.keep_first_line(in_vain)
    line = feed.row[0]
    return _with_text(line.problem or Problem("lost_quote", LOST_QUOTE), line.text)


def _with_stray_quotes(line: str, delimiter: str) -> list[str] | Problem:
    """Return the fields of one line whose quotes do not close where fields end, or its problem."""

    def only_line() -> Iterator[str]:
        yield line + "\n"
        raise _OpenQuoteError

    try:
        return next(csv.reader(only_line(), delimiter=delimiter))
    except _OpenQuoteError:
        return Problem("lost_quote", LOST_QUOTE, line)
    except csv.Error as error:
        return Problem("invalid_row", f"the row is not CSV: {error}; correct the line", line)
