"""Stage `phrase_segments`: positions of good phrases in the segments, in characters.

Phrases of the AutoPhrase program are marked by its `segphrase_segment`, whose output is aligned with our text; those of
the embedded engine by tasks/phrases/segmenter.py. Good phrases are those of the table with enough quality and, as in
the program, all names that were known to be good.

Each part is independent and may run on any worker; memory is one part and the phrases.
"""

from __future__ import annotations

import itertools
import json
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pydantic import Field

from infra import schemas
from infra.artifacts import Artifact, Part
from infra.builds import PartWriter
from infra.errors import UserError
from infra.stage import Output, StageParams, stage
from tasks.phrases import autophrase_files as files
from tasks.phrases.alignment import AlignmentError, CharacterSpans, marked_words, to_characters
from tasks.phrases.autophrase import SEGMENT, clear_working_folders, locate, run_program, working_folder
from tasks.phrases.segmenter import Segmenter, phrase_scores
from tasks.phrases.stage import PENALTY, POSITIVES, WORDS
from tasks.phrases.words import BLANK, Unit, Vocabulary, cut_units


class PhraseSegmentsParams(StageParams):
    """Minimum quality of phrases; the defaults are the program's."""

    threshold: float = Field(default=0.5, ge=0, le=1, description="minimum quality of phrases of several words")
    single_threshold: float = Field(default=0.8, ge=0, le=1, description="minimum quality of single words")
    timeout: float | None = Field(default=None, gt=0, description="seconds per part after which the program is stopped")


@stage(name="phrase_segments", version=1, params=PhraseSegmentsParams, tables=("phrase_segments",), heavy=True)
def phrase_segments(inputs: Mapping[str, Artifact], params: PhraseSegmentsParams, out: Output) -> None:
    """Mark the phrases of `inputs["phrases"]` in `inputs["segments"]`, which may be other text than they are from.

    Raises:
        UserError: the phrases are the program's, and the program fails.
    """
    if inputs["phrases"].manifest.params["engine"] == "autophrase":
        locate(SEGMENT)  # raises before workers start
    scratch = out.scratch
    clear_working_folders(scratch)
    out.map(segment_part, inputs["segments"].parts("segments"), inputs["phrases"], params, scratch)


def segment_part(writer: PartWriter, part: Part, phrases: Artifact, params: PhraseSegmentsParams, scratch: str) -> None:
    """Mark phrases in one part of segments."""
    table = part.read(columns=["segment_id", "text", "words"])
    ids, texts, lengths = (table[name].to_pylist() for name in ("segment_id", "text", "words"))
    found = mark_phrases(list(zip(texts, lengths, strict=True)), phrases, params, scratch)
    spans = pa.StructArray.from_arrays(
        [found.starts.astype(np.uint32), found.ends.astype(np.uint32)], fields=list(_SPANS.value_type)
    )
    lists = pa.ListArray.from_arrays(found.borders.astype(np.int32), spans, type=_SPANS)
    writer.write("phrase_segments", pa.table([ids, lists], schema=schemas.PHRASE_SEGMENTS))
    writer.count("phrases_marked", len(found.starts))


_SPANS = schemas.PHRASE_SEGMENTS.field("phrases").type


def mark_phrases(
    texts: Sequence[tuple[str, Sequence[int]]], phrases: Artifact, params: PhraseSegmentsParams, scratch: str
) -> CharacterSpans:
    """Return the phrases in some texts, which are given with the lengths of their words.

    Args:
        scratch: folder below which the program gets a working folder.

    Raises:
        UserError: the program fails, or its output does not match the text.
    """
    unit: Unit = phrases.manifest.params["unit"]
    vocabulary = Vocabulary(phrases.read_file(WORDS).decode().split("\n"), closed=True)
    laid_out = _laid_out(texts, unit, vocabulary)
    if phrases.manifest.params["engine"] == "autophrase":
        spans = _by_program(laid_out, phrases, vocabulary, params, scratch)
    else:
        spans = _embedded(laid_out, segmenter_of(phrases, vocabulary, params))
    return to_characters(spans, laid_out.starts, laid_out.ends, laid_out.words_before)


@dataclass(frozen=True)
class _LaidOut:
    """Texts as codes, with the positions of their words."""

    codes: np.ndarray
    """Words and marks of all texts, int (C,)."""
    borders: np.ndarray
    """Code at which each text begins, and the number of codes, int (T + 1,)."""
    words: np.ndarray
    """Words among the codes, int (W,)."""
    words_before: np.ndarray
    """Word at which each text begins, and the number of words, int (T + 1,)."""
    starts: np.ndarray
    """First character of each word in its text, int (W,)."""
    ends: np.ndarray
    """Character after its last, int (W,)."""


def _laid_out(texts: Sequence[tuple[str, Sequence[int]]], unit: Unit, vocabulary: Vocabulary) -> _LaidOut:
    flat, lengths, pieces_before = array("i"), array("i"), [0]
    for text, words in texts:
        pieces = cut_units(text, words, unit)
        flat.extend(vocabulary.codes(pieces))
        lengths.extend(map(len, pieces))
        pieces_before.append(len(lengths))
    codes = np.frombuffer(flat, dtype=np.int32) if flat else np.zeros(0, dtype=np.int32)
    # White space is left out of the codes, but counts for the positions of characters.
    is_word, is_solid = (codes >= 0) | (codes == Vocabulary.unknown), codes != BLANK
    stops = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    begins = np.repeat(stops[pieces_before[:-1]], np.diff(pieces_before))  # of the text, at each of its pieces
    return _LaidOut(
        codes=codes[is_solid],
        borders=np.concatenate([[0], np.cumsum(is_solid)])[pieces_before],
        words=codes[is_word],
        words_before=np.concatenate([[0], np.cumsum(is_word)])[pieces_before],
        starts=(stops[:-1] - begins)[is_word],
        ends=(stops[1:] - begins)[is_word],
    )


def _by_program(
    texts: _LaidOut, phrases: Artifact, vocabulary: Vocabulary, params: PhraseSegmentsParams, scratch: str
) -> np.ndarray:
    with working_folder(scratch) as folder:
        (folder / files.MODEL).write_bytes(phrases.read_file(files.MODEL))
        with (folder / files.TEXT).open("wb") as text:
            files.TextWriter(text, None, vocabulary).write(texts.codes, texts.borders)
        run_program(locate(SEGMENT), _arguments(params), folder, outputs=(files.MARKED,), timeout=params.timeout)
        try:
            return marked_words((folder / files.MARKED).read_bytes(), texts.words)
        except AlignmentError as error:
            raise UserError(
                f"The output of {SEGMENT} does not match its input: {error}. Use the program that mined the "
                "phrases, or the engine embedded."
            ) from error


def _arguments(params: PhraseSegmentsParams) -> list[str]:
    flags = {
        "--thread": 1,
        "--model": files.MODEL,
        "--highlight-multi": params.threshold,
        "--highlight-single": params.single_threshold,
        "--text_to_seg_file": files.TEXT,
        "--output_tokenized_degmented_sentences": files.MARKED,  # the program's own spelling
    }
    return [str(piece) for flag in flags.items() for piece in flag]


def segmenter_of(phrases: Artifact, vocabulary: Vocabulary, params: PhraseSegmentsParams) -> Segmenter:
    """Return the segmenter for phrases that the embedded engine mined."""
    table = phrases.to_table("phrases")
    columns = (table[name].to_pylist() for name in ("words", "frequency", "quality"))
    judged = {
        tuple(vocabulary[word] for word in words): (float(frequency), float(quality))
        for words, frequency, quality in zip(*columns, strict=True)
    }
    scores, unjudged = phrase_scores(judged, json.loads(phrases.read_file(PENALTY)))
    good = {
        words: score
        for words, score in scores.items()
        if judged[words][1] >= (params.threshold if len(words) > 1 else params.single_threshold)
    }
    lines = phrases.read_file(POSITIVES).decode().split("\n")
    positives = [tuple(map(int, line.split())) for line in lines if line]
    return Segmenter({**good, **dict.fromkeys(positives, unjudged)})


def _embedded(texts: _LaidOut, segmenter: Segmenter) -> np.ndarray:
    spans: list[tuple[int, int]] = []
    first = 0
    for sentence in _sentences(texts):
        spans += [(first + start, first + end) for start, end in segmenter.spans(sentence)]
        first += len(sentence)
    return np.array(spans, dtype=np.int64).reshape(-1, 2)


def _sentences(texts: _LaidOut) -> Iterator[list[int]]:
    """Yield the runs of words between marks and ends of texts."""
    is_mark = (texts.codes < 0) & (texts.codes != Vocabulary.unknown)
    cuts = np.union1d(np.flatnonzero(is_mark), texts.borders)
    codes = texts.codes.tolist()
    for start, end in itertools.pairwise(cuts.tolist()):
        begin = start + int(is_mark[start])
        if begin < end:
            yield codes[begin:end]
