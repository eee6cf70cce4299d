"""Phrasal segmentation: the best cut of all, and the cut of the real program."""

from __future__ import annotations

import random
import struct
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.artifacts import Artifact, ArtifactStore
from infra.stage import run
from tasks.phrases.autophrase_files import MODEL
from tasks.phrases.segmenter import Segmenter, Words, length_penalty, phrase_scores
from tasks.phrases.segments import PhraseSegmentsParams, phrase_segments
from tasks.phrases.stage import WORDS, PhrasesParams, phrases
from tasks.phrases.words import Vocabulary, cut_units
from tests.support.text.phrase_texts import NAMES, list_of, need_program, segments_of, texts

SCORES = st.dictionaries(
    st.lists(st.integers(0, 3), min_size=1, max_size=3).map(tuple), st.floats(-20, -0.1), max_size=8
)


def plain_best(sentence: list[int], scores: dict[Words, float]) -> float:
    """Return the best score over all cuts; a single word costs nothing where no phrase begins."""
    best = -np.inf
    for count in range(len(sentence) + 1):
        for inner in combinations(range(1, len(sentence)), max(0, count - 1)):
            borders = [0, *inner, len(sentence)]
            total = 0.0
            for start, end in pairwise(borders):
                free = end == start + 1 and not any(
                    tuple(sentence[start:stop]) in scores for stop in range(start + 1, len(sentence) + 1)
                )
                total += 0.0 if free else scores.get(tuple(sentence[start:end]), -np.inf)
            best = max(best, total)
    return best


@settings(max_examples=300, deadline=None)
@given(sentence=st.lists(st.integers(0, 3), min_size=1, max_size=8), scores=SCORES)
def test_cut_is_the_best_of_all(sentence: list[int], scores: dict[Words, float]) -> None:
    spans = Segmenter(scores).spans(sentence)
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))
    total = sum(scores[tuple(sentence[start:end])] for start, end in spans)
    assert total == pytest.approx(plain_best(sentence, scores))


def test_scores_equal_the_papers_formula() -> None:
    judged = {(0, 1): (30.0, 0.9), (1, 2): (10.0, 0.5), (0,): (100.0, 1.0)}
    scores, unjudged = phrase_scores(judged, penalty=4.0)
    total = 1 + 1 / 4 + 1 / 16
    assert np.exp(scores[(0, 1)]) == pytest.approx(0.75 * (1 / 4 / total) * 0.9, rel=1e-6)
    assert np.exp(scores[(1, 2)]) == pytest.approx(0.25 * (1 / 4 / total) * 0.5, rel=1e-6)
    assert np.exp(scores[(0,)]) == pytest.approx(1 / total, rel=1e-6)
    assert np.exp(unjudged) == pytest.approx(1.0)


def test_penalty_cuts_up_the_requested_share_of_good_phrases() -> None:
    drawn = random.Random(1)
    pairs: dict[Words, tuple[float, float]] = {
        (number, number + 1): (float(drawn.randint(1, 100)), drawn.random()) for number in range(0, 200, 2)
    }
    singles: dict[Words, tuple[float, float]] = {(n,): (float(drawn.randint(1, 5000)), 0.9) for n in range(202)}
    judged = {**pairs, **singles}

    def cut_up(penalty: float) -> int:
        segmenter = Segmenter(phrase_scores(judged, penalty)[0])
        return sum(segmenter.spans(words) != [(0, 2)] for words in pairs)

    loose, strict = (length_penalty(judged, pairs, discard) for discard in (0.5, 0.05))
    assert cut_up(strict * 0.99) <= 5 < cut_up(loose * 0.99) <= 50


@pytest.fixture(scope="module")
def mined(tmp_path_factory: pytest.TempPathFactory) -> tuple[ArtifactStore, Artifact, Artifact]:
    need_program()
    folder = tmp_path_factory.mktemp("mined")
    store = ArtifactStore(folder / "store")
    segments = segments_of(store, texts(1, 500), texts(2, 200))
    inputs = {"segments": segments, "labels": list_of(folder, NAMES[::2])}
    return store, segments, run(phrases, store, PhrasesParams(), inputs).artifact


class Model:
    """The model of `segphrase_train`: a flag, the penalty, then phrases with frequency, quality and words, twice."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0
        (self.with_parts_of_speech,) = self._read("<?")
        (self.penalty,) = self._read("<d")
        self.judged, self.good = self._phrases(), self._phrases()

    def _read(self, form: str) -> tuple:
        values = struct.unpack_from(form, self._data, self._at)
        self._at += struct.calcsize(form)
        return values

    def _phrases(self) -> list[tuple[Words, int, float]]:
        found = []
        for _ in range(self._read("<Q")[0]):
            frequency, quality = (*self._read("<i"), *self._read("<d"))
            words = self._read(f"<{self._read('<Q')[0]}i")
            found.append((words, frequency, quality))
        return found


def test_segmenter_cuts_like_the_program(mined: tuple[ArtifactStore, Artifact, Artifact]) -> None:
    """With the program's phrases and penalty, every sentence is cut as by the program."""
    store, segments, found = mined
    params = PhraseSegmentsParams(threshold=0.3, single_threshold=0.6)
    inputs = {"segments": segments, "phrases": found}
    rows = run(phrase_segments, store, params, inputs).artifact.to_table().to_pylist()
    model = Model(found.read_file(MODEL))
    scores, unjudged = phrase_scores({words: (freq, quality) for words, freq, quality in model.judged}, model.penalty)
    good = {
        words: scores[words]
        for words, _, quality in model.judged
        if quality >= (params.threshold if len(words) > 1 else params.single_threshold)
    }
    segmenter = Segmenter({**good, **{words: unjudged for words, _, _ in model.good}})
    vocabulary = Vocabulary(found.read_file(WORDS).decode().split("\n"), closed=True)
    table = segments.to_table().to_pylist()
    assert [row["segment_id"] for row in rows] == [row["segment_id"] for row in table]
    marked = 0
    for row, segment in zip(rows, table, strict=True):
        wanted = []
        sentence: list[int] = []
        places: list[tuple[int, int]] = []
        at = 0
        for piece in [*cut_units(segment["text"], segment["words"], "words"), "。"]:
            code = vocabulary[piece]
            if code >= 0:
                sentence.append(code)
                places.append((at, at + len(piece)))
            elif code != -1:
                wanted += [(places[a][0], places[b - 1][1]) for a, b in segmenter.spans(sentence)]
                sentence, places = [], []
            at += len(piece)
        assert [(span["start"], span["end"]) for span in row["phrases"]] == wanted
        marked += len(wanted)
    assert marked > 500
