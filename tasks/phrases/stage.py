"""Stage `phrases`: mines good phrases from the segments, with the AutoPhrase program or with our own engine.

EMBERT, appendix: "we leverage AutoPhrase to harvest a set of high-quality entities in the medical domain from the
training corpus". Both engines take the same text and the same distant labels (tasks/phrases/labels.py) and write the
same table; the embedded one needs no compiler. It judges phrases once, by raw counts, while the program counts again on
its own segmentation, `iterations` times.

The program runs in its length penalty mode, without parts of speech.

Memory: the vocabulary, the phrases, and one part of segments. The embedded engine counts and judges on all workers; the
program keeps the whole text in one process. For both, time grows with the text and with its frequent phrases.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field

from infra.arrays.batching import batches_of
from infra.artifacts import Artifact
from infra.errors import UserError
from infra.stage import Output, StageParams, stage
from tasks.phrases import autophrase_files as files
from tasks.phrases.autophrase import TRAIN, clear_working_folders, locate, run_program, working_folder
from tasks.phrases.candidates import CandidateParams
from tasks.phrases.corpus import MAX_WORDS, SEGMENT_END, STREAM, Corpus, chosen_share, is_chosen, stream_of, words_in
from tasks.phrases.engine import judge
from tasks.phrases.labels import Cut, LabelIds, Labels, label_ids, read_labels, too_few_labels
from tasks.phrases.patterns import Sequences, pieces_of
from tasks.phrases.segmenter import Judged, length_penalty
from tasks.phrases.steps import Steps
from tasks.phrases.votes import VoteParams
from tasks.phrases.words import Unit, Vocabulary, cut_units, join_words
from tasks.segment.words import words_of

logger = logging.getLogger(__name__)

WORDS, POSITIVES, PENALTY = "words.txt", "positives.txt", "penalty.json"
"""Files beside the table: the vocabulary; for the embedded engine also the names known to be good, and its penalty."""

ROWS_AT_ONCE = 50_000


class PhrasesParams(StageParams):
    """Parameters of phrase mining; names and defaults follow the program's where it has them."""

    engine: Literal["autophrase", "embedded"] = "autophrase"
    """Miner of phrases: the AutoPhrase program, or the one that is built in."""
    unit: Unit = Field(default="words", description="unit of phrases: the segments' words, or characters")
    min_support: int = Field(default=10, ge=1, description="minimum number of occurrences of a phrase")
    max_length: int = Field(default=6, ge=2, le=100, description="maximum number of words in a phrase")
    iterations: int = Field(default=2, ge=1, description="rounds of judging and segmenting (autophrase)")
    discard: float = Field(default=0.05, ge=0, lt=1, description="share of good phrases that segmentation may cut up")
    max_positives: int = Field(default=-1, ge=-1, description="number of names to use, drawn by the clock; -1: all")
    negatives: int = Field(
        default=1, ge=1, description="negatives per positive in a tree; autophrase 1.7 accepts it and always draws one"
    )
    threads: int = Field(default=1, ge=1, description="threads of autophrase; results are reproducible only with 1")
    timeout: float | None = Field(default=None, gt=0, description="seconds after which autophrase is stopped")
    trees: int = Field(default=1000, ge=1, description="number of trees of the embedded engine")
    seed: int = Field(default=42, description="seed of the sample, and of the embedded engine's trees")
    max_words: int = Field(default=MAX_WORDS, ge=1, le=MAX_WORDS, description="maximum number of words of text")
    sample: bool = Field(
        default=True, description="sample segments if there are more words; otherwise that is an error"
    )


@stage(name="phrases", version=1, params=PhrasesParams, tables=("phrases",), unit="step", heavy=True)
def phrases(inputs: Mapping[str, Any], params: PhrasesParams, out: Output) -> None:
    """Mine the phrases of `inputs["segments"]`; labels are `kg_entities`, `labels` and `wiki` (see `read_labels`).

    Raises:
        UserError: there is no text, there are no labels or too few of them in the text, or the program fails.
    """
    program = locate(TRAIN) if params.engine == "autophrase" else None
    labels = read_labels(inputs)
    segments: Artifact = inputs["segments"]
    clear_working_folders(out.scratch)
    with working_folder(out.scratch) as folder:
        steps = Steps(out, len(segments.parts("segments")) + (3 * params.iterations + 5 if program else 4))
        corpus = write_corpus(segments, params, folder, steps.advance)
        ids = label_ids(labels, name_cutter(segments, params.unit), corpus.vocabulary)
        _count_labels(out, labels, ids)
        if program is not None:
            found = _by_program(program, corpus, ids, params, steps)
            out.add_file(files.MODEL, folder / files.MODEL)
        else:
            mining = CandidateParams(min_support=params.min_support, max_length=params.max_length)
            voting = VoteParams(trees=params.trees, negatives=params.negatives, seed=params.seed)
            found = judge(corpus, ids, mining, voting, out, steps)
            steps.advance("Writing phrases")
            _add_segmenter(out, folder, found, ids, params)
        (folder / WORDS).write_text("\n".join(corpus.vocabulary.words), encoding="utf-8", newline="\n")
        out.add_file(WORDS, folder / WORDS)
        _write_table(out, found, ids, corpus.vocabulary)
        out.count("words_of_text", corpus.words)


def write_corpus(
    segments: Artifact, params: PhrasesParams, folder: Path, on_part: Callable[[], None] = lambda: None
) -> Corpus:
    """Write the segments as a stream and, for the program, as its text and case files, one part in memory at a time.

    Raises:
        UserError: they contain no words or too many, or a sentence is too long.
    """
    share = chosen_share(words_in(segments, params.unit), params.max_words, params.sample)
    chosen = partial(is_chosen, share=share, seed=params.seed)
    vocabulary, words, ended = Vocabulary(), 0, 0
    with (
        (folder / STREAM).open("wb") as stream,
        (folder / files.TEXT).open("wb") as text,
        (folder / files.CASE).open("wb") as case,
    ):
        writer = files.TextWriter(text, case, vocabulary) if params.engine == "autophrase" else None
        for part in segments.parts("segments"):
            codes = stream_of(part, params.unit, vocabulary, chosen)
            codes.tofile(stream)
            # The program ends segments by line breaks instead, so its files leave these codes out.
            ends = np.flatnonzero(codes == SEGMENT_END)
            words += int((codes >= 0).sum())
            ended += len(ends)
            if writer is not None:
                writer.write(np.delete(codes, ends), np.concatenate([[0], ends - np.arange(len(ends))]))
            on_part()
    if not words:
        raise UserError("Empty corpus: the segments contain no words, so no phrases can be mined. Add more text.")
    return Corpus(folder, vocabulary, words, ended)


def name_cutter(segments: Artifact | None, unit: Unit) -> Cut:
    """Return a function that cuts names as the segments were cut, except that a user dictionary is not known here."""
    given = {} if segments is None else segments.manifest.params
    how = {name: value for name, value in given.items() if name in ("engine", "hmm")}

    def cut(names: Sequence[str]) -> Iterator[list[str]]:
        for batch in batches_of(names):
            for name, words in zip(batch, words_of(batch, **how), strict=True):
                yield cut_units(name, list(map(len, words)), unit)

    return cut


def _count_labels(out: Output, labels: Labels, ids: LabelIds) -> None:
    if not labels.kg:
        logger.warning("phrases: no knowledge graph or list of names was given; only names from Wikipedia are used")
    out.count("kg_names", len(labels.kg))
    out.count("kg_names_in_words_of_text", len(ids.kg))
    out.count("wiki_names", len(labels.wiki))
    out.count("wiki_names_in_words_of_text", len(ids.wiki))


_STEP_LINES = ("...", "Done.")


def _by_program(program: Path, corpus: Corpus, ids: LabelIds, params: PhrasesParams, steps: Steps) -> list[Judged]:
    files.write_labels(corpus.folder, ids)

    def listen(line: str) -> None:
        if line.startswith("[ERROR]"):
            raise too_few_labels(ids, params.min_support, params.max_length)
        if line.endswith(_STEP_LINES):
            steps.advance(line.rstrip("."))

    outputs = (files.MULTI_WORD, files.SINGLE_WORD, files.MODEL)
    run_program(program, _arguments(params), corpus.folder, outputs=outputs, timeout=params.timeout, on_line=listen)
    found = list(files.read_qualities(corpus.folder))
    sequences = Sequences([words for words, _ in found], len(corpus.vocabulary.words))
    for piece in pieces_of(corpus.stream, SEGMENT_END):
        sequences.add(piece)
    return [Judged(*each, count) for each, count in zip(found, sequences.counts(), strict=True)]


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


def _add_segmenter(out: Output, folder: Path, found: list[Judged], ids: LabelIds, params: PhrasesParams) -> None:
    """Add the files that segmentation needs besides the table."""
    judged = {phrase.words: (float(phrase.frequency), phrase.quality) for phrase in found}
    penalty = length_penalty(judged, ids.positives, params.discard)
    (folder / PENALTY).write_text(json.dumps(penalty), encoding="ascii")
    lines = [" ".join(map(str, words)) for words in ids.positives]
    (folder / POSITIVES).write_text("\n".join(lines), encoding="ascii")
    for name in (PENALTY, POSITIVES):
        out.add_file(name, folder / name)


def _write_table(out: Output, found: list[Judged], ids: LabelIds, vocabulary: Vocabulary) -> None:
    """Write the table, best phrases first."""
    kg, wiki = set(ids.kg), set(ids.wiki)

    def row(phrase: Judged) -> dict[str, Any]:
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
