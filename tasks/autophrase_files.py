"""The files that AutoPhrase reads and writes, made from our segments: text as word ids, case, stop words, labels.

A line of text is a segment: ids of words and the marks that part sentences, with blanks between. The case file has a
character for each of them, '0' plus 1 for a first capital letter, 2 for capitals alone, 4 for a number.

Text is written part by part: memory is bounded by a part and the vocabulary.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute

from infra.artifacts import Artifact, Part
from infra.errors import UserError
from tasks.phrase_labels import Labels
from tasks.phrase_words import BLANK, MARKS, SEPARATOR, Unit, Vocabulary, cut_units

TEXT, CASE, STOP_WORDS, KNOWN, QUALITY = "text.txt", "case.txt", "stop_words.txt", "known.txt", "quality.txt"
MODEL, MARKED = "segmentation.model", "marked.txt"
MULTI_WORD, SINGLE_WORD = "final_quality_multi-words.txt", "final_quality_unigrams.txt"

MAX_WORDS = 2**31 - 1
"""The program counts words in 32 bits."""

MAX_SENTENCE = 2**15 - 1
"""Words between two marks; the program's type for a place in a sentence has 16 bits."""

UNKNOWN = "-1"
"""A word that the program has not been trained with."""

SEGMENT_END = SEPARATOR - len(MARKS) - 1
"""Ends a segment in a stream of codes."""


def words_in(segments: Artifact, unit: Unit) -> int:
    """At most so many words are in the segments (marks and white space count here)."""
    column = "words" if unit == "words" else "text"
    measure = pa.compute.list_value_length if unit == "words" else pa.compute.utf8_length
    return sum(
        pa.compute.sum(measure(part.read(columns=[column])[column]), min_count=0).as_py()
        for part in segments.parts("segments")
    )


def chosen_share(words: int, most: int, sample: bool) -> float:
    """The share of the segments that is used, so that about `most` words at most are.

    Raises:
        UserError: that is less than all, and no sample is wanted.
    """
    if words <= most:
        return 1.0
    if not sample:
        raise UserError(
            f"The corpus has up to {words:,} words; AutoPhrase counts in 32 bits, and phrases.max_words={most:,} are "
            "let through. Let a sample be drawn (phrases.sample=true), or give less text."
        )
    return 0.99 * most / words


def is_chosen(segment_id: str, share: float, seed: int) -> bool:
    """Whether a segment is in the sample; the same one whatever the order."""
    if share >= 1:
        return True
    digest = hashlib.blake2b(f"{seed}:{segment_id}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) < share * 2**64


def segment_codes(
    part: Part, unit: Unit, vocabulary: Vocabulary, chosen: Callable[[str], bool] = lambda segment_id: True
) -> Iterator[tuple[str, list[int]]]:
    """Id and codes of the chosen segments of a part, white space left out.

    Raises:
        UserError: a sentence has more than `MAX_SENTENCE` words.
    """
    table = part.read(columns=["segment_id", "text", "words"])
    columns = (table[name].to_pylist() for name in ("segment_id", "text", "words"))
    for segment_id, text, lengths in zip(*columns, strict=True):
        if chosen(segment_id):
            codes = without_blanks(vocabulary.codes(cut_units(text, lengths, unit)))
            if len(codes) > MAX_SENTENCE:
                _check_sentences(segment_id, codes)
            yield segment_id, codes


def without_blanks(codes: list[int]) -> list[int]:
    """The codes of words and marks."""
    return [code for code in codes if code != BLANK] if BLANK in codes else codes


def _check_sentences(segment_id: str, codes: Sequence[int]) -> None:
    ends = [place for place, code in enumerate(codes) if code < 0 and code != Vocabulary.unknown]
    longest = max(end - start - 1 for start, end in zip([-1, *ends], [*ends, len(codes)], strict=True))
    if longest > MAX_SENTENCE:
        raise UserError(
            f"Segment {segment_id} has a sentence of about {longest:,} words; AutoPhrase takes {MAX_SENTENCE:,} at "
            "most. Clean the corpus of what is no text, or lower segment.max_tokens."
        )


class TextWriter:
    """Writes segments as lines of the text file and, where one is given, of the case file."""

    def __init__(self, text: BinaryIO, case: BinaryIO | None, vocabulary: Vocabulary) -> None:
        self._text, self._case = text, case
        self._words = vocabulary.words
        self._cases = bytearray()

    def write(self, codes: np.ndarray, borders: np.ndarray) -> None:
        """Some segments; one without a word is left out, for the program would misread an empty first line.

        Args:
            codes: int (C,) of all of them, without white space.
            borders: code at which each begins, and their number, int (S + 1,).
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
    """What stands in the text file for each code."""
    names = pa.array([UNKNOWN, *reversed(MARKS)])
    words = pa.array(np.maximum(codes, 0)).cast(pa.string())
    marks = names.take(pa.array(np.clip(codes - Vocabulary.unknown, 0, len(MARKS))))
    return pa.compute.if_else(pa.array(codes >= 0), words, marks)


def _case_of(word: str) -> int:
    first, all_of_it = "A" <= word[0] <= "Z", all("A" <= letter <= "Z" for letter in word)
    return ord("0") + first + 2 * all_of_it + 4 * word.isnumeric()


Cut = Callable[[str], list[str]]
"""From a name to its pieces, as the segments are cut."""


def word_ids(name: str, cut: Cut, vocabulary: Vocabulary) -> tuple[int, ...] | None:
    """A name as ids of words; None where it holds a word that the text does not, or a mark."""
    codes = [vocabulary.get(piece, vocabulary.unknown) for piece in cut(name) if not piece.isspace()]
    return tuple(codes) if codes and min(codes) >= 0 else None


@dataclass(frozen=True)
class LabelIds:
    """Labels as ids of words, each once; without names that hold a word which the text does not have."""

    kg: list[tuple[int, ...]]
    wiki: list[tuple[int, ...]]
    known: list[tuple[int, ...]]
    stop_words: list[tuple[int, ...]]

    @property
    def positives(self) -> list[tuple[int, ...]]:
        """What is taken for good phrases."""
        return list(dict.fromkeys(self.kg + self.wiki))


def label_ids(labels: Labels, cut: Cut, vocabulary: Vocabulary) -> LabelIds:
    """Labels as ids; names are cut into words as the text is."""
    return LabelIds(
        kg=_ids_of(labels.kg, cut, vocabulary),
        wiki=_ids_of(labels.wiki, cut, vocabulary),
        known=_ids_of(labels.known, cut, vocabulary),
        stop_words=_ids_of(labels.stop_words, lambda word: [word], vocabulary),
    )


def _ids_of(names: Iterable[str], cut: Cut, vocabulary: Vocabulary) -> list[tuple[int, ...]]:
    found = (word_ids(name, cut, vocabulary) for name in sorted(names))
    return list(dict.fromkeys(ids for ids in found if ids is not None))


def write_labels(folder: Path, labels: LabelIds) -> None:
    """Write stop words, good names, and all known names, a line each."""
    positives = labels.positives
    lists = ((QUALITY, positives), (KNOWN, positives + labels.known), (STOP_WORDS, labels.stop_words))
    for name, rows in lists:
        (folder / name).write_text("".join(f"{' '.join(map(str, ids))}\n" for ids in rows), encoding="ascii")


def read_qualities(folder: Path) -> Iterator[tuple[tuple[int, ...], float]]:
    """Phrases as ids with the quality that the program gave them, from its two lists."""
    for name in (MULTI_WORD, SINGLE_WORD):
        with (folder / name).open(encoding="ascii") as file:
            for line in file:
                quality, ids = line.split("\t")
                yield tuple(map(int, ids.split())), float(quality)
