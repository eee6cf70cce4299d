"""Texts of downstream sets: every string of a row that is long enough, in the form in which overlaps are searched.

Ids and labels are too short to count. A text that occurs in many rows (a question beside each of its candidate
answers) counts once and is named by the first of them. A line of a .txt file is a row. Sets may have forms that no
corpus has: one character and its tag per line, lists of characters, tables without a header, stray quotes. Their texts
count too.

Time grows with the bytes; memory with the distinct texts (4 bytes per letter or digit) and one batch.
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
from tasks.deidentify.document_persons import harmless_path
from tasks.files.raw_input import RawInput
from tasks.files.rows import read_rows
from tasks.files.slices import KINDS, Problem, Slice
from tasks.ingest.plan import whole_files

logger = logging.getLogger(__name__)

# matches: "患\tB-PER", "者 O", "头痛 1 2 B_SYM ", "病", " O"
# not: "患者头痛", "患\t主诉"
_WORD = re.compile(
    r"(\S{1,20}|)[\t ]+(?:\S+[\t ]+){0,3}[BIMEOS](?:[-_]\S+)?\s*"
    r"|\s*([^\sA-Za-z0-9]|[A-Za-z0-9.]{1,20})\s*"
)
"""A line with a character or word and its tag, or without a tag as in test files. A blank is a character too."""

LEAST_CHARACTERS = 13
"""Least number of strings, half of them one character, in a list that is a text; others hold options or mentions."""


class BenchmarkTexts(NamedTuple):
    """Forms of texts, end to end, with their places in the files."""

    points: np.ndarray
    """uint32: their letters and digits."""
    starts: np.ndarray
    """int64: start of each text, and the end of the last."""
    benchmarks: list[str]
    """File of each text."""
    rows: list[int]
    """Row of each text in its file, from 1."""


def read_benchmarks(given: RawInput, min_characters: int) -> tuple[BenchmarkTexts, Counter[str]]:
    """Read the distinct texts of at least `min_characters` letters and digits, and count files and rows.

    Files of unknown kinds and rows that cannot be read are counted and logged.

    Raises:
        UserError: there is no file or no such text, or a file changes its encoding.
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
            f"({counters['benchmark_rows']:,} rows were read, {counters['benchmark_rows_unreadable']:,} are damaged, "
            f"{counters['benchmark_files_not_read']:,} files were skipped as they are not {', '.join(KINDS)}). "
            "Give the files of the sets, or a smaller decontaminate.overlap."
        )
    counters["benchmark_texts"] = len(points)
    starts = np.cumsum([0, *map(len, points)])
    return BenchmarkTexts(np.concatenate(points), starts, benchmarks, rows), counters


def _all_strings(given: RawInput, counters: Counter[str]) -> Iterator[tuple[str, int, str]]:
    """Yield file, row and text of every string."""
    for file in itertools.chain.from_iterable(whole_files(file, "lines") for file in given.files):
        for number, text in _strings_of_file(file, counters):
            yield file.name.encode("utf-8", "replace").decode(), number, text


def _strings_of_file(file: Slice, counters: Counter[str]) -> Iterator[tuple[int, str]]:
    if not file.kind:
        # A README beside the sets does no harm; a set in an unknown format does, and must not go unnoticed.
        shown = harmless_path(file.name)
        logger.warning("Decontamination skips %s, which is not one of %s", shown, ", ".join(KINDS))
        counters["benchmark_files_not_read"] += 1
        return
    unreadable = 0
    words = _Words()
    has_header = file.kind in ("csv", "tsv")
    try:
        for number, row in read_rows(file):
            if isinstance(row, Problem):
                if row.reason == "wrong_encoding":  # texts that are not read would stay in the corpus
                    raise UserError(row.detail)
                unreadable += 1
                yield number, row.text  # the text is in it somewhere: a stray quote may have damaged the row
                continue
            counters["benchmark_rows"] += 1
            if has_header:  # what is taken for the header may be the first row of a table without one
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
            "Decontamination cannot read %d rows of %s and searches for them as they are",
            unreadable,
            harmless_path(file.name),
        )
        counters["benchmark_rows_unreadable"] += unreadable


class _Words:
    """Joins consecutive lines that hold one character or word each."""

    def __init__(self) -> None:
        self._words: list[str] = []
        self._first = self._next = 0

    def take(self, number: int, line: str) -> Iterator[tuple[int, str]]:
        """Take a line, and yield the text that ends before it with the number of its first line."""
        word = _WORD.fullmatch(line)
        if word is None or number != self._next:
            yield from self.end()
        if word is not None:
            self._first = self._first if self._words else number
            self._words.append(word[1] or word[2] or "")
            self._next = number + 1

    def end(self) -> Iterator[tuple[int, str]]:
        """Yield the text that has not ended yet."""
        if self._words:
            yield self._first, "".join(self._words)
        self._words.clear()


def _strings(value: Any) -> Iterator[str]:
    """Yield all strings in a row, including those in lists and mappings."""
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
    """Return True for a list of characters or tokens that are one text: ["头", "痛", …]."""
    if len(strings) < LEAST_CHARACTERS or not all(isinstance(each, str) for each in strings):
        return False
    return 2 * sum(len(each) == 1 for each in strings) >= len(strings)
