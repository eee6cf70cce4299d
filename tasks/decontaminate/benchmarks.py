"""The texts of downstream sets: every string of a row that is long enough, in the form overlaps are looked for in.

Ids and labels are short and drop out by themselves. A text that stands in many rows (a question beside each of its
candidate answers) counts once and is named by the first of them. A line of a .txt is a row. Sets may be written in
ways that no corpus is: a character and its tag a line, lists of characters, tables without a header, quotes that mean
nothing. Their texts count too.

Time grows with the bytes; memory with the distinct texts (4 bytes a letter or digit) and one batch.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from infra.arrays.batching import batches_of
from infra.errors import UserError
from tasks.decontaminate.plain_form import plain_forms
from tasks.files.raw_input import RawInput
from tasks.files.rows import read_rows
from tasks.files.slices import KINDS, Problem, Slice
from tasks.ingest.plan import whole_files

logger = logging.getLogger(__name__)


_WORD = re.compile(
    r"(\S{1,20}|)[\t ]+(?:\S+[\t ]+){0,3}[BIMEOS](?:[-_]\S+)?\s*"
    r"|\s*([^\sA-Za-z0-9]|[A-Za-z0-9.]{1,20})\s*"
)
"""A line that is a character or word with its tag, or without one as in test files; a blank is a character too."""

LEAST_CHARACTERS = 13
"""Of so many strings, of which half are one character, a list holds a text: others are options or mentions."""


class BenchmarkTexts(NamedTuple):
    """Forms that lie end to end, with their places in the files."""

    points: np.ndarray
    """uint32: their letters and digits."""
    starts: np.ndarray
    """int64: where each begins, and where the last ends."""
    benchmarks: list[str]
    """The file of each."""
    rows: list[int]
    """The row of each in its file, from 1."""


def read_benchmarks(given: RawInput, min_characters: int) -> tuple[BenchmarkTexts, Counter[str]]:
    """The distinct texts of at least `min_characters` letters and digits, and counters of what was read.

    Files of other kinds and rows that cannot be read are counted and logged.

    Raises:
        UserError: there is nothing to read, no such text, or a file is not in the encoding it begins with.
    """
    counters: Counter[str] = Counter()
    seen: set[bytes] = set()
    points: list[np.ndarray] = []
    benchmarks: list[str] = []
    rows: list[int] = []
    for batch in batches_of(_all_strings(given, counters), length=lambda found: len(found[2])):
        forms = plain_forms([text for _, _, text in batch])
        borders = forms.starts.tolist()
        for (name, row, _), start, end in zip(batch, borders, borders[1:], strict=False):
            if end - start < min_characters:
                continue
            form = forms.points[start:end]
            digest = hashlib.blake2b(form.tobytes(), digest_size=16).digest()
            if digest not in seen:
                seen.add(digest)
                points.append(form.copy())  # a view would keep the batch
                benchmarks.append(name)
                rows.append(row)
    if not points:
        raise UserError(
            f"No text in the benchmarks of {given.path} has {min_characters} letters and digits or more "
            f"({counters['benchmark_rows']:,} rows were read, {counters['benchmark_rows_unreadable']:,} could not be, "
            f"{counters['benchmark_files_not_read']:,} files are none of {', '.join(KINDS)}). "
            "Give the files of the sets, or a smaller decontaminate.overlap."
        )
    counters["benchmark_texts"] = len(points)
    starts = np.cumsum([0, *map(len, points)])
    return BenchmarkTexts(np.concatenate(points), starts, benchmarks, rows), counters


def _all_strings(given: RawInput, counters: Counter[str]) -> Iterator[tuple[str, int, str]]:
    """File, row and text of every string."""
    for file in itertools.chain.from_iterable(whole_files(file, "lines") for file in given.files):
        for number, text in _strings_of_file(file, counters):
            yield file.name.encode("utf-8", "replace").decode(), number, text


def _strings_of_file(file: Slice, counters: Counter[str]) -> Iterator[tuple[int, str]]:
    if not file.kind:
        # A README beside the sets is no mistake; a set in another format is one, and would go unnoticed.
        logger.warning("decontaminate: %s is none of %s and is not read", file.name, ", ".join(KINDS))
        counters["benchmark_files_not_read"] += 1
        return
    unreadable = 0
    words = _Words()
    has_header = file.kind in ("csv", "tsv")
    try:
        for number, row in read_rows(file):
            if isinstance(row, Problem):
                if row.reason == "wrong_encoding":  # a set that is not read would not be cut out
                    raise UserError(row.detail)
                unreadable += 1
                yield number, row.text  # the text is in there somewhere: quotes may mean nothing to a set
                continue
            counters["benchmark_rows"] += 1
            if has_header:  # or none: then it is a row like the others
                yield from ((1, name) for name in row)
                has_header = False
            if file.kind in ("csv", "tsv", "txt"):
                yield from words.take(number, "\t".join(value or "" for value in row.values()))
            for text in _strings(row):
                yield number, text
        yield from words.end()
    except UserError as error:
        raise UserError(str(error).replace(file.name, f"{file.name} in the benchmarks", 1)) from error
    if unreadable:
        logger.warning(
            "decontaminate: %d rows of %s cannot be read and are looked for as they stand", unreadable, file.name
        )
        counters["benchmark_rows_unreadable"] += unreadable


class _Words:
    """Joins lines that follow each other and hold a character or word each."""

    def __init__(self) -> None:
        self._words: list[str] = []
        self._first = self._next = 0

    def take(self, number: int, line: str) -> Iterator[tuple[int, str]]:
        """Take a line; gives the text, with the number of its first line, that ends before it."""
        word = _WORD.fullmatch(line)
        if word is None or number != self._next:
            yield from self.end()
        if word is not None:
            self._first = self._first if self._words else number
            self._words.append(word[1] or word[2] or "")
            self._next = number + 1

    def end(self) -> Iterator[tuple[int, str]]:
        """The text that is not ended yet."""
        if self._words:
            yield self._first, "".join(self._words)
        self._words.clear()


def _strings(value: Any) -> Iterator[str]:
    """All strings in a row, those in lists and mappings too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _strings(each)
    elif isinstance(value, list | tuple):
        if _is_text(value):
            yield "".join(value)
        for each in value:
            yield from _strings(each)


def _is_text(strings: Sequence[Any]) -> bool:
    if len(strings) < LEAST_CHARACTERS or not all(isinstance(each, str) for each in strings):
        return False
    return 2 * sum(len(each) == 1 for each in strings) >= len(strings)
