"""Files that AutoPhrase reads and writes: text as word ids, case, stop words, labels; phrases with their quality.

A line of text is a segment: ids of words and the marks that separate sentences, with blanks between. The case file has
one character for each of them, '0' plus 1 for a first capital letter, 2 for all capitals, 4 for a number.

Memory grows with what is written at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute

from tasks.phrases.labels import LabelIds
from tasks.phrases.words import MARKS, Vocabulary

TEXT, CASE, STOP_WORDS, KNOWN, QUALITY = "text.txt", "case.txt", "stop_words.txt", "known.txt", "quality.txt"
MODEL, MARKED = "segmentation.model", "marked.txt"
MULTI_WORD, SINGLE_WORD = "final_quality_multi-words.txt", "final_quality_unigrams.txt"

UNKNOWN = "-1"
"""Id of a word that was not in the training text."""


class TextWriter:
    """Writes segments as lines of the text file and, if given, of the case file."""

    def __init__(self, text: BinaryIO, case: BinaryIO | None, vocabulary: Vocabulary) -> None:
        self._text, self._case = text, case
        self._words = vocabulary.words
        self._cases = bytearray()

    def write(self, codes: np.ndarray, borders: np.ndarray) -> None:
        """Write some segments, without those that have no word: the program would misread an empty first line.

        Args:
            codes: codes of all segments, without white space, int (C,).
            borders: code at which each segment begins, and the number of codes, int (S + 1,).
        """
        is_word = (codes >= 0) | (codes == Vocabulary.unknown)
        words_before = np.concatenate([[0], np.cumsum(is_word)])[borders]
        kept = np.flatnonzero(np.diff(words_before))
        lines = pa.ListArray.from_arrays(borders.astype(np.int32), _ids_as_text(codes))
        for line in pa.compute.binary_join(lines.take(kept), " "):
            self._text.write(line.as_buffer())
            self._text.write(b"\n")
        if self._case is not None:
            self._cases += bytes(map(_case_of, self._words[len(self._cases) :]))
            cases = np.frombuffer(bytes(self._cases) or b"0", dtype=np.uint8)[np.maximum(codes, 0)]
            cases[codes < 0] = ord("0")
            for segment in kept.tolist():
                self._case.write(cases[borders[segment] : borders[segment + 1]].tobytes() + b"\n")


def _ids_as_text(codes: np.ndarray) -> pa.Array:
    """Return the text of each code in the text file."""
    names = pa.array([UNKNOWN, *reversed(MARKS)])
    words = pa.array(np.maximum(codes, 0)).cast(pa.string())
    marks = names.take(pa.array(np.clip(codes - Vocabulary.unknown, 0, len(MARKS))))
    return pa.compute.if_else(pa.array(codes >= 0), words, marks)


def _case_of(word: str) -> int:
    first, all_of_it = "A" <= word[0] <= "Z", all("A" <= letter <= "Z" for letter in word)
    return ord("0") + first + 2 * all_of_it + 4 * word.isnumeric()


def write_labels(folder: Path, labels: LabelIds) -> None:
    """Write stop words, good names, and all known names, one per line."""
    positives = labels.positives
    lists = ((QUALITY, positives), (KNOWN, positives + labels.known), (STOP_WORDS, labels.stop_words))
    for name, rows in lists:
        (folder / name).write_text("".join(f"{' '.join(map(str, ids))}\n" for ids in rows), encoding="ascii")


def read_qualities(folder: Path) -> Iterator[tuple[tuple[int, ...], float]]:
    """Yield phrases as ids with the quality that the program gave them, from its two lists."""
    for name in (MULTI_WORD, SINGLE_WORD):
        with (folder / name).open(encoding="ascii") as file:
            for line in file:
                quality, ids = line.split("\t")
                yield tuple(map(int, ids.split())), float(quality)
