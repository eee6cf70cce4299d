"""Stage `phrases`: good phrases of the segments, by the AutoPhrase program or by an engine of our own.

EMBERT, appendix: "we leverage AutoPhrase to harvest a set of high-quality entities in the medical domain from the
training corpus". Both engines take the same text and the same distant labels (tasks/phrase_labels.py) and give the same
table; the embedded one needs no compiler. It judges phrases once, by raw counts, where the program counts again along
its own segmentation, `iterations` times.

The program is run in its length penalty mode: it is given no parts of speech.

Memory: the vocabulary, the phrases, and a part of segments. The program itself keeps the whole text, and so does the
embedded engine. Both take time that grows with the text and with its frequent phrases.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field

from infra.artifacts import Artifact
from infra.batching import batches_of
from infra.errors import UserError
from infra.stage import Output, StageParams, stage
from tasks import autophrase_files as files
from tasks.autophrase_program import TRAIN, clear_working_folders, locate, run_program, working_folder
from tasks.phrase_classifier import Bagging, qualities
from tasks.phrase_corpus import MAX_WORDS, SEGMENT_END, chosen_share, is_chosen, stream_of, words_in
from tasks.phrase_features import features_of, word_facts
from tasks.phrase_labels import Cut, LabelIds, Labels, label_ids, read_labels
from tasks.phrase_patterns import Level, Sequences, mine, pieces_of
from tasks.phrase_segmenter import Words, length_penalty
from tasks.phrase_words import Unit, Vocabulary, cut_units, join_words
from tasks.words import words_of

logger = logging.getLogger(__name__)

WORDS, POSITIVES, PENALTY = "words.txt", "positives.txt", "penalty.json"
"""Files beside the table: the vocabulary; for the embedded engine names that are known to be good, and its penalty."""

STREAM = "stream.int32"

ROWS_AT_ONCE = 50_000


class PhrasesParams(StageParams):
    """Names and defaults are those of the program where it has them."""

    engine: Literal["autophrase", "embedded"] = "autophrase"
    unit: Unit = Field(default="words", description="what phrases are made of: the segments' words, or characters")
    min_support: int = Field(default=10, ge=1, description="occurrences below which nothing is a phrase")
    max_length: int = Field(default=6, ge=2, le=100, description="words of a phrase")
    iterations: int = Field(default=2, ge=1, description="rounds of judging and segmenting; autophrase")
    discard: float = Field(default=0.05, ge=0, lt=1, description="share of good phrases that segmentation may cut up")
    max_positives: int = Field(default=-1, ge=-1, description="names used of those given, drawn by the clock; -1: all")
    negatives: int = Field(
        default=1, ge=1, description="negatives of a tree for each positive; autophrase 1.7 reads it and draws one"
    )
    threads: int = Field(default=1, ge=1, description="autophrase gives the same result again with 1 only")
    timeout: float | None = Field(default=None, gt=0, description="seconds after which autophrase is stopped")
    trees: int = Field(default=1000, ge=1, description="embedded")
    seed: int = Field(default=42, description="of the sample, and of the embedded engine's trees")
    max_words: int = Field(default=MAX_WORDS, ge=1, le=MAX_WORDS, description="words of text at most")
    sample: bool = Field(default=True, description="draw segments where there are more words; else it is an error")


@dataclass(frozen=True)
class Corpus:
    """The text as numbers, in a working folder."""

    folder: Path
    vocabulary: Vocabulary
    words: int

    @property
    def stream(self) -> np.ndarray:
        """Codes of all segments, each closed by `SEGMENT_END`; int32, read from the disk."""
        return np.memmap(self.folder / STREAM, dtype=np.int32, mode="r")


@stage(name="phrases", version=1, params=PhrasesParams, tables=("phrases",), unit="step")
def phrases(inputs: Mapping[str, Any], params: PhrasesParams, out: Output) -> None:
    """Mine the phrases of `inputs["segments"]`; labels are `kg_entities`, `labels` and `wiki` (see `read_labels`).

    Raises:
        UserError: no text, no labels, too few of them in the text, or the program cannot do its work.
    """
    program = locate(TRAIN) if params.engine == "autophrase" else None
    labels = read_labels(inputs)
    segments: Artifact = inputs["segments"]
    clear_working_folders(out.build.scratch)
    with working_folder(out.build.scratch) as folder:
        steps = _Steps(out, len(segments.parts("segments")) + (3 * params.iterations + 5 if program else 4))
        corpus = write_corpus(segments, params, folder, steps.advance)
        ids = label_ids(labels, name_cutter(segments, params.unit), corpus.vocabulary)
        _tell_labels(out, labels, ids)
        if program is not None:
            found = _by_program(program, corpus, ids, params, steps)
            out.build.add_file(files.MODEL, folder / files.MODEL)
        else:
            found = _embedded(corpus, ids, params, steps)
            _add_segmenter(out, folder, found, ids, params)
        (folder / WORDS).write_text("\n".join(corpus.vocabulary.words), encoding="utf-8", newline="\n")
        out.build.add_file(WORDS, folder / WORDS)
        _write_table(out, found, ids, corpus.vocabulary)
        out.count("words_of_text", corpus.words)


def write_corpus(
    segments: Artifact, params: PhrasesParams, folder: Path, on_part: Callable[[], None] = lambda: None
) -> Corpus:
    """Write the segments as a stream and, for the program, as its text and case files; a part in memory at a time.

    Raises:
        UserError: they hold no word, too many of them, or a sentence is too long.
    """
    share = chosen_share(words_in(segments, params.unit), params.max_words, params.sample)
    chosen = partial(is_chosen, share=share, seed=params.seed)
    vocabulary, words = Vocabulary(), 0
    with (
        (folder / STREAM).open("wb") as stream,
        (folder / files.TEXT).open("wb") as text,
        (folder / files.CASE).open("wb") as case,
    ):
        writer = files.TextWriter(text, case, vocabulary) if params.engine == "autophrase" else None
        for part in segments.parts("segments"):
            codes = stream_of(part, params.unit, vocabulary, chosen)
            codes.tofile(stream)
            words += int((codes >= 0).sum())
            if writer is not None:
                ends = np.flatnonzero(codes == SEGMENT_END)
                writer.write(np.delete(codes, ends), np.concatenate([[0], ends - np.arange(len(ends))]))
            on_part()
    if not words:
        raise UserError("Empty corpus: the segments hold no word, so no phrase can be mined. Give more text.")
    return Corpus(folder, vocabulary, words)


def name_cutter(segments: Artifact, unit: Unit) -> Cut:
    """Cuts names as the segments were cut (a user dictionary that they were given is not known here)."""
    how = {name: value for name, value in segments.manifest.params.items() if name in ("engine", "hmm")}

    def cut(names: Sequence[str]) -> Iterator[list[str]]:
        for batch in batches_of(names):
            for name, words in zip(batch, words_of(batch, **how), strict=True):
                yield cut_units(name, list(map(len, words)), unit)

    return cut


class _Steps:
    """Tells the progress of a stage in steps."""

    def __init__(self, out: Output, total: int) -> None:
        self._out, self._total, self._done = out, total, 0
        out.on_progress("phrases", 0, total)

    def advance(self, note: str = "") -> None:
        self._done += 1
        self._out.on_progress("phrases", min(self._done, self._total), self._total, note)


def _tell_labels(out: Output, labels: Labels, ids: LabelIds) -> None:
    if not labels.kg:
        logger.warning("phrases: no knowledge graph and no list of names was given; names from Wikipedia stand alone")
    out.count("kg_names", len(labels.kg))
    out.count("kg_names_in_words_of_text", len(ids.kg))
    out.count("wiki_names", len(labels.wiki))
    out.count("wiki_names_in_words_of_text", len(ids.wiki))


@dataclass(frozen=True)
class _Judged:
    """A phrase as ids, with its quality and frequency."""

    words: Words
    quality: float
    frequency: int


_STEP_LINES = ("...", "Done.")


def _by_program(program: Path, corpus: Corpus, ids: LabelIds, params: PhrasesParams, steps: _Steps) -> list[_Judged]:
    files.write_labels(corpus.folder, ids)

    def listen(line: str) -> None:
        if line.startswith("[ERROR]"):
            raise _too_few_labels(ids, params)
        if line.endswith(_STEP_LINES):
            steps.advance(line.rstrip("."))

    outputs = (files.MULTI_WORD, files.SINGLE_WORD, files.MODEL)
    run_program(program, _arguments(params), corpus.folder, outputs=outputs, timeout=params.timeout, on_line=listen)
    found = list(files.read_qualities(corpus.folder))
    sequences = Sequences([words for words, _ in found], len(corpus.vocabulary.words))
    for piece in pieces_of(corpus.stream, SEGMENT_END):
        sequences.add(piece)
    return [_Judged(*each, count) for each, count in zip(found, sequences.counts(), strict=True)]


def _arguments(params: PhrasesParams) -> list[str]:
    flags = {
        "--iter": params.iterations,
        "--min_sup": params.min_support,
        "--max_len": params.max_length,
        "--discard": params.discard,
        "--thread": params.threads,
        "--max_positives": params.max_positives,
        "--negative_ratio": params.negatives,
        "--label_method": "DPDN",
        "--train_file": files.TEXT,
        "--train_capital_file": files.CASE,
        "--stopwords_file": files.STOP_WORDS,
        "--all_file": files.KNOWN,
        "--quality_file": files.QUALITY,
        "--tmp": ".",
    }
    return [str(piece) for flag in flags.items() for piece in flag]


def _too_few_labels(ids: LabelIds, params: PhrasesParams) -> UserError:
    return UserError(
        f"Of {len(ids.positives):,} names that are made of words of the text none is a phrase of 2 to "
        f"{params.max_length} words that occurs {params.min_support} times, so there is nothing to learn from. Give "
        "more text or more names, or lower phrases.min_support."
    )


def _embedded(corpus: Corpus, ids: LabelIds, params: PhrasesParams, steps: _Steps) -> list[_Judged]:
    stream, names = corpus.stream, corpus.vocabulary.words
    steps.advance("Mining frequent phrases")
    levels = mine(stream, len(names), params.min_support, params.max_length)
    steps.advance("Extracting features")
    stop_words = frozenset(names[word] for (word,) in ids.stop_words)
    facts = word_facts(stream, names, stop_words, SEGMENT_END)
    rows = [features_of(levels, number, stream, facts, SEGMENT_END) for number in range(len(levels))]
    steps.advance("Estimating phrase quality")
    if len(levels) < 2:
        raise _too_few_labels(ids, params)
    found: list[_Judged] = []
    for group, features in ((levels[1:], np.concatenate(rows[1:])), (levels[:1], rows[0])):
        found += _judged(group, features, stream, ids, params)
    steps.advance("Writing phrases")
    return found


def _judged(
    levels: list[Level], features: np.ndarray, stream: np.ndarray, ids: LabelIds, params: PhrasesParams
) -> Iterator[_Judged]:
    """Judge phrases of several lengths together."""
    sequences = [
        tuple(words) for level in levels for words in stream[level.first[:, None] + np.arange(level.length)].tolist()
    ]
    good = set(ids.positives) - set(ids.stop_words)
    positive = np.array([words in good for words in sequences])
    known = good.union(ids.known) - set(ids.stop_words)
    unlabelled = np.array([words not in known for words in sequences])
    bagging = Bagging(trees=params.trees, negatives=params.negatives, seed=params.seed, threads=params.threads)
    if positive.any() and unlabelled.any():
        quality = qualities(features, positive, unlabelled, bagging)
    elif levels[0].length > 1:
        raise _too_few_labels(ids, params)
    else:
        quality = positive.astype(np.float64)  # no single word to learn from
    counts = np.concatenate([level.counts for level in levels])
    return map(_Judged, sequences, quality.tolist(), counts.tolist())


def _add_segmenter(out: Output, folder: Path, found: list[_Judged], ids: LabelIds, params: PhrasesParams) -> None:
    """What segmentation needs beyond the table."""
    judged = {phrase.words: (float(phrase.frequency), phrase.quality) for phrase in found}
    penalty = length_penalty(judged, ids.positives, params.discard)
    (folder / PENALTY).write_text(json.dumps(penalty), encoding="ascii")
    lines = [" ".join(map(str, words)) for words in ids.positives]
    (folder / POSITIVES).write_text("\n".join(lines), encoding="ascii")
    for name in (PENALTY, POSITIVES):
        out.build.add_file(name, folder / name)


def _write_table(out: Output, found: list[_Judged], ids: LabelIds, vocabulary: Vocabulary) -> None:
    """The table, best phrases first."""
    kg, wiki = set(ids.kg), set(ids.wiki)

    def row(phrase: _Judged) -> dict[str, Any]:
        words = [vocabulary.words[word] for word in phrase.words]
        return {
            "surface": join_words(words),
            "words": words,
            "quality": phrase.quality,
            "frequency": phrase.frequency,
            "labelled_by": "kg" if phrase.words in kg else "wiki" if phrase.words in wiki else "none",
        }

    ordered = sorted(found, key=lambda phrase: (-phrase.quality, -phrase.frequency, phrase.words))
    with out.part() as part:
        for first in range(0, len(ordered), ROWS_AT_ONCE):
            part.write("phrases", [row(phrase) for phrase in ordered[first : first + ROWS_AT_ONCE]])
