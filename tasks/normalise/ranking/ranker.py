"""Ranker of candidates: a classifier of pairs of diagnosis and standard term (eHealth, appendix E).

Each text is tokenised once, however many pairs it occurs in. Time grows with the number of tokens in all pairs, memory
with the distinct texts and one chunk of pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from models import inference
from models.heads.examples import HeadExample
from models.heads.task_model import TaskModel
from tasks.downstream.features.alignment import TextTokenizer, Tokens
from tasks.downstream.features.base import longest_first, sequence_of
from tasks.normalise.ranking.decision import Judged
from tasks.normalise.ranking.pairs import Pair
from tasks.retrieve.candidates import Candidate
from tasks.retrieve.fields import comparable_forms

MAX_LENGTH = 32
"""Maximum number of tokens per pair, including special tokens (eHealth, Table 9)."""
FRAME = 3
"""Number of special tokens: [CLS] diagnosis [SEP] term [SEP]."""


class PairEncoder:
    """Turns pairs of texts into token sequences."""

    def __init__(self, tokenizer: TextTokenizer, max_length: int = MAX_LENGTH) -> None:
        self._tokenizer = tokenizer
        self._room = max_length - FRAME
        self._cut: dict[str, Tokens] = {}

    def learn(self, texts: Iterable[str]) -> None:
        """Tokenise texts that will occur in pairs."""
        new = [text for text in dict.fromkeys(texts) if text not in self._cut]
        self._cut.update(zip(new, self._tokenizer.words(new), strict=True))

    def example(self, diagnosis: str, term: str, right: bool | None = None) -> HeadExample:
        """Return a pair as input for the head. If it is too long, the longer text is truncated first."""
        kept = longest_first([self._cut[diagnosis], self._cut[term]], self._room)
        return HeadExample((sequence_of(self._tokenizer, *kept),), None if right is None else int(right))

    def examples(self, pairs: Sequence[Pair]) -> list[HeadExample]:
        """Return labelled pairs as training examples."""
        self.learn(text for pair in pairs for text in (pair.diagnosis, pair.term))
        return [self.example(*pair) for pair in pairs]


class TermRanker:
    """A trained pair classifier over candidates.

    Args:
        model: a head `pair` with two classes; the second means that diagnosis and term belong together.
    """

    def __init__(self, model: TaskModel, tokenizer: TextTokenizer, max_length: int = MAX_LENGTH) -> None:
        self._model = model
        self._encoder = PairEncoder(tokenizer, max_length)

    def judge(
        self,
        diagnoses: Sequence[str],
        candidates: Sequence[Sequence[Candidate]],
        parts: Sequence[int],
        progress: Callable[[int], None] | None = None,
    ) -> list[Judged]:
        """Return the candidates of each diagnosis with the probability that each is one of its terms.

        The probability is 1 if the term differs from the diagnosis only in width, case or punctuation.

        Args:
            parts: number of parts of each diagnosis; see `Judged`.
            progress: called with the number of pairs done so far.
        """
        self._encoder.learn(diagnoses)
        self._encoder.learn(one.term for found in candidates for one in found)
        probabilities = inference.predict_stream(self._model, self._pairs(diagnoses, candidates), progress=progress)
        forms = comparable_forms(diagnoses)
        return [
            Judged(count, tuple(found), _certain(form, found, [next(probabilities)[1] for _ in found]))
            for count, form, found in zip(parts, forms, candidates, strict=True)
        ]

    def _pairs(self, diagnoses: Sequence[str], candidates: Sequence[Sequence[Candidate]]) -> Iterator[HeadExample]:
        for diagnosis, found in zip(diagnoses, candidates, strict=True):
            for one in found:
                yield self._encoder.example(diagnosis, one.term)


def _certain(form: Sequence[str], found: Sequence[Candidate], probabilities: Sequence[float]) -> np.ndarray:
    """Return the probabilities, replaced by 1 if the term equals the diagnosis in comparable form."""
    equal = [one == form for one in comparable_forms([candidate.term for candidate in found])]
    return np.where(equal, 1.0, np.asarray(probabilities, dtype=np.float64))
