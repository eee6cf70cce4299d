"""The embedded engine of phrase mining: candidates, their features, and trees that judge them.

Counting the candidates and growing the trees are stages of their own (tasks/phrases/candidates.py,
tasks/phrases/votes.py), whose units run in all workers of the flow; the result does not depend on their number. Memory
of this process grows with the candidates, not with the text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from infra.stage import Output
from tasks.phrases.arrays import SharedArray
from tasks.phrases.candidates import CandidateParams, phrase_candidates, read_levels
from tasks.phrases.classifier import NEITHER, POSITIVE, UNLABELLED, qualities
from tasks.phrases.corpus import Corpus
from tasks.phrases.features import features_of, word_facts
from tasks.phrases.labels import LabelIds, too_few_labels
from tasks.phrases.patterns import Level
from tasks.phrases.segmenter import Judged
from tasks.phrases.steps import Steps
from tasks.phrases.votes import VoteParams, phrase_votes, read_votes


def judge(
    corpus: Corpus,
    ids: LabelIds,
    mining: CandidateParams,
    voting: VoteParams,
    out: Output,
    steps: Steps,
) -> list[Judged]:
    """Return the candidates with their quality: sequences by length and words, single words last.

    Counting candidates and growing trees run as inner stages of `out`.

    Raises:
        UserError: none of the candidates is labelled as good.
    """
    names = corpus.vocabulary.words
    steps.advance("Mining frequent phrases")
    stream = SharedArray.save(corpus.stream, out.scratch)
    levels = read_levels(out.run(phrase_candidates, mining, {"stream": stream}, on_progress=steps.show_inner))
    if len(levels) < 2:
        raise too_few_labels(ids, mining.min_support, mining.max_length)
    steps.advance("Extracting features")
    stop_words = frozenset(names[word] for (word,) in ids.stop_words)
    facts = word_facts(levels[0], names, stop_words, corpus.segments)
    rows = features_of(levels, facts, corpus.words)
    steps.advance("Estimating phrase quality")
    found: list[Judged] = []
    for group, features in ((levels[1:], np.concatenate(rows[1:])), (levels[:1], rows[0])):
        sequences = [tuple(words) for level in group for words in level.ids.tolist()]
        roles = _roles(sequences, ids)
        if {POSITIVE, UNLABELLED} <= set(roles.tolist()):
            given = {"features": features.astype(np.float32), "roles": roles}
            shared = {name: SharedArray.save(array, out.scratch) for name, array in given.items()}
            votes = read_votes(out.run(phrase_votes, voting, shared, on_progress=steps.show_inner))
            quality = qualities(votes, voting.trees)
        elif group[0].length > 1:
            raise too_few_labels(ids, mining.min_support, mining.max_length)
        else:
            quality = (roles == POSITIVE).astype(np.float64)  # no single word to learn from
        found += _judged(sequences, quality, group)
    return found


def _roles(sequences: Sequence[tuple[int, ...]], ids: LabelIds) -> np.ndarray:
    stop_words = set(ids.stop_words)
    roles = dict.fromkeys(ids.known, NEITHER) | dict.fromkeys(ids.positives, POSITIVE)
    return np.array(
        [UNLABELLED if words in stop_words else roles.get(words, UNLABELLED) for words in sequences], dtype=np.int8
    )


def _judged(sequences: Sequence[tuple[int, ...]], quality: np.ndarray, levels: Sequence[Level]) -> Iterator[Judged]:
    counts = np.concatenate([level.counts for level in levels])
    return map(Judged, sequences, quality.tolist(), counts.tolist())
