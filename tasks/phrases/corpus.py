"""The text for phrase mining as numbers: its size, the sample drawn from it, and its stream of codes.

Text is read part by part: memory is bounded by one part and the vocabulary.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute

from infra.artifacts import Artifact, Part
from infra.errors import UserError
from tasks.phrases.words import BLANK, MARKS, SEPARATOR, Unit, Vocabulary, cut_units

MAX_WORDS = 2**31 - 1
"""Maximum words of text: the program counts them in 32 bits."""

MAX_SENTENCE = 2**15 - 1
"""Maximum words between two marks: the program stores positions in a sentence in 16 bits."""

MAX_SEGMENT = 10**8 // 11
"""Maximum words and marks in a segment: the program cuts lines at 100 MB, and an id takes up to 11 bytes."""

SEGMENT_END = SEPARATOR - len(MARKS) - 1
"""Code of the end of a segment in a stream."""

STREAM = "stream.int32"


@dataclass(frozen=True)
class Corpus:
    """The text as numbers, in a working folder."""

    folder: Path
    vocabulary: Vocabulary
    words: int
    segments: int

    @property
    def stream(self) -> np.ndarray:
        """Codes of all segments, each ended by `SEGMENT_END`; int32, mapped from the disk."""
        return np.memmap(self.folder / STREAM, dtype=np.int32, mode="r")


def words_in(segments: Artifact, unit: Unit) -> int:
    """Return an upper bound of the words in the segments, which counts marks and white space too."""
    column = "words" if unit == "words" else "text"
    measure = pa.compute.list_value_length if unit == "words" else pa.compute.utf8_length
    return sum(
        pa.compute.sum(measure(part.read(columns=[column])[column]), min_count=0).as_py()
        for part in segments.parts("segments")
    )


def chosen_share(words: int, most: int, sample: bool) -> float:
    """Return the share of the segments to use, so that they have at most about `most` words.

    Raises:
        UserError: it is less than 1, and no sample may be drawn.
    """
    if words <= most:
        return 1.0
    if not sample:
        raise UserError(
            f"The corpus has up to {words:,} words, more than phrases.max_words={most:,} (AutoPhrase counts in 32 "
            "bits). Allow a sample (phrases.sample=true), or use less text."
        )
    return 0.99 * most / words


def is_chosen(segment_id: str, share: float, seed: int) -> bool:
    """Return whether a segment is in the sample; this does not depend on the order of segments."""
    if share >= 1:
        return True
    digest = hashlib.blake2b(f"{seed}:{segment_id}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) < share * 2**64


def stream_of(
    part: Part, unit: Unit, vocabulary: Vocabulary, chosen: Callable[[str], bool] = lambda segment_id: True
) -> np.ndarray:
    """Return the chosen segments of a part as codes, each ended by `SEGMENT_END`, without white space; int32 (C,).

    Raises:
        UserError: a sentence has more than `MAX_SENTENCE` words, or a segment more than `MAX_SEGMENT`.
    """
    table = part.read(columns=["segment_id", "text", "words"])
    columns = (table[name].to_pylist() for name in ("segment_id", "text", "words"))
    stream = array("i")
    for segment_id, text, lengths in zip(*columns, strict=True):
        if chosen(segment_id):
            codes = vocabulary.codes(cut_units(text, lengths, unit))
            if len(codes) > MAX_SENTENCE:
                _check_lengths(segment_id, [code for code in codes if code != BLANK])
            stream.extend(codes)
            stream.append(SEGMENT_END)
    coded = np.frombuffer(stream, dtype=np.int32) if stream else np.zeros(0, dtype=np.int32)
    return coded[coded != BLANK]


def _check_lengths(segment_id: str, codes: Sequence[int]) -> None:
    ends = [place for place, code in enumerate(codes) if code < 0]
    longest = max(end - start - 1 for start, end in zip([-1, *ends], [*ends, len(codes)], strict=True))
    if longest > MAX_SENTENCE or len(codes) > MAX_SEGMENT:
        raise UserError(
            f"Segment {segment_id} has {len(codes):,} words and marks, and a sentence of {longest:,}; AutoPhrase takes "
            f"at most {MAX_SEGMENT:,} and {MAX_SENTENCE:,}. Remove from the corpus what is not text, or lower "
            "segment.max_tokens."
        )
