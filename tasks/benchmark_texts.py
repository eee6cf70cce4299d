"""The texts of downstream sets: every string of a row that is long enough, in the form overlaps are looked for in.

Ids and labels are short and drop out by themselves. A text that stands in many rows (a question beside each of its
candidate answers) counts once and is named by the first of them. A line of a .txt is a row.

Time grows with the bytes; memory with the distinct texts (4 bytes a letter or digit) and one batch.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from infra.batching import batches_of
from infra.errors import UserError
from tasks.corpus_plan import whole_files
from tasks.plain_form import plain_forms
from tasks.raw_input import RawInput
from tasks.row_files import read_rows
from tasks.slices import KINDS, Problem, Slice

logger = logging.getLogger(__name__)


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
    try:
        for number, row in read_rows(file):
            if isinstance(row, Problem):
                if row.reason == "wrong_encoding":  # a set that is not read would not be cut out
                    raise UserError(row.detail)
                unreadable += 1
                continue
            counters["benchmark_rows"] += 1
            for text in _strings(row):
                yield number, text
    except UserError as error:
        raise UserError(str(error).replace(file.name, f"{file.name} in the benchmarks", 1)) from error
    if unreadable:
        logger.warning("decontaminate: %d rows of %s cannot be read", unreadable, file.name)
        counters["benchmark_rows_unreadable"] += unreadable


def _strings(value: Any) -> Iterator[str]:
    """All strings in a row, those in lists and mappings too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _strings(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _strings(each)
