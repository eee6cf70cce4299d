"""Conversion of records into a head's inputs, and of its outputs into answers.

There is one class per shape of task. `encode` makes the pieces of a record: one, or one per window of a long text.
`decode` turns the predictions for them into an answer. Whatever had to be left out is counted by name in `counters`,
never dropped silently. Time and memory grow with the characters of the records that are encoded at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

import numpy as np

from models.heads.examples import HeadExample, TokenSequence
from tasks.downstream.features.alignment import TextTokenizer, Tokens
from tasks.downstream.records import Answer, Kind, Record

RECORDS_AT_ONCE = 1_000
"""Records tokenised in one call, which bounds the memory of their tokens."""
RIGHT, WRONG = "1", "0"
"""Labels of a right and of a wrong candidate in a ranking task."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One input of the head, and its origin."""

    record: int
    """Index of its record in the given sequence."""
    example: HeadExample
    place: Any = None
    """What `decode` must know about the piece, such as its window; None if nothing."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """Answer of a model to one record."""

    answer: Answer
    scores: tuple[float, ...] | None = None
    """Probability of each label or option, score of a candidate, or score of each triple; None for tagging."""


class Shape(Protocol):
    """Representation of one kind of task in tokens."""

    counters: Counter[str]

    def cut(self, texts: Sequence[str]) -> list[Tokens]:
        """Return the tokens of each text."""

    def encode(self, record: Record, tokens: Sequence[Tokens]) -> Iterable[tuple[HeadExample, Any]]:
        """Yield the pieces of a record, at least one; `tokens` are those of its texts. No answer, no targets."""

    def decode(self, record: Record, places: Sequence[Any], predictions: Sequence[Any]) -> Prediction:
        """Return the answer that the predictions for a record's pieces amount to."""


@dataclass
class Classes:
    """SINGLE, PAIR, MULTI_LABEL and RANKING: one sequence, one vector of probabilities."""

    kind: Kind
    labels: Sequence[str]
    tokenizer: TextTokenizer
    max_length: int
    counters: Counter[str] = field(default_factory=Counter)

    def cut(self, texts: Sequence[str]) -> list[Tokens]:
        return self.tokenizer.words(texts)

    def encode(self, record: Record, tokens: Sequence[Tokens]) -> Iterator[tuple[HeadExample, None]]:
        # [CLS], and a [SEP] after each text.
        kept = longest_first(tokens, self.max_length - 1 - len(tokens))
        if sum(map(len, kept)) < sum(map(len, tokens)):
            self.counters["truncated"] += 1
        yield HeadExample((sequence_of(self.tokenizer, *kept),), self._target(record)), None

    def decode(self, record: Record, places: Sequence[Any], predictions: Sequence[Any]) -> Prediction:
        found = np.asarray(predictions[0], dtype=np.float64).reshape(-1)
        scores = tuple(found.tolist())
        if self.kind is Kind.RANKING:
            odds = _log_odds(found)
            return Prediction(RIGHT if odds > 0.0 else WRONG, (odds,))
        if self.kind is Kind.MULTI_LABEL:
            return Prediction(tuple(self.labels[place] for place in np.flatnonzero(found > 0.5).tolist()), scores)
        return Prediction(self.labels[int(found.argmax())], scores)

    def _target(self, record: Record) -> Any:
        if record.answer is None:
            return None
        if self.kind is Kind.RANKING:
            return int(record.answer == RIGHT)
        if self.kind is Kind.MULTI_LABEL:
            assert isinstance(record.answer, tuple)
            return np.array([label in record.answer for label in self.labels], dtype=np.float32)
        return list(self.labels).index(str(record.answer))


@dataclass
class Choices:
    """CHOICE: one sequence per option, [CLS] option [SEP] question [SEP] evidence [SEP] (eHealth, appendix E).

    Where that is too long, the evidence is cut from its end, then the longer of the other two.
    """

    tokenizer: TextTokenizer
    max_length: int
    counters: Counter[str] = field(default_factory=Counter)

    def cut(self, texts: Sequence[str]) -> list[Tokens]:
        return self.tokenizer.words(texts)

    def encode(self, record: Record, tokens: Sequence[Tokens]) -> Iterator[tuple[HeadExample, None]]:
        evidence, question, *options = tokens
        sequences = tuple(self._option(option, question, evidence) for option in options)
        yield HeadExample(sequences, record.answer), None

    def decode(self, record: Record, places: Sequence[Any], predictions: Sequence[Any]) -> Prediction:
        scores = tuple(np.asarray(predictions[0], dtype=np.float64).tolist())
        return Prediction(int(np.argmax(scores)), scores)

    def _option(self, option: Tokens, question: Tokens, evidence: Tokens) -> TokenSequence:
        room = self.max_length - 4  # [CLS] and three [SEP]
        kept = longest_first([option, question], room)
        shortened = evidence[: room - sum(map(len, kept))]
        if len(shortened) < len(evidence) or sum(map(len, kept)) < len(option) + len(question):
            self.counters["truncated"] += 1
        return sequence_of(self.tokenizer, *kept, shortened)


class Features:
    """Encoder and decoder of one task's records.

    Args:
        shape: representation of the task in tokens; see `tasks.downstream.features.shapes.shape_of`.
    """

    def __init__(self, shape: Shape) -> None:
        self._shape = shape

    @property
    def counters(self) -> Counter[str]:
        """Counts of what had to be left out so far, by name."""
        return self._shape.counters.copy()

    def encode(self, records: Sequence[Record]) -> list[Piece]:
        """Return the pieces of all records, in order; every record has at least one."""
        pieces: list[Piece] = []
        for first in range(0, len(records), RECORDS_AT_ONCE):
            slab = records[first : first + RECORDS_AT_ONCE]
            tokens = iter(self._shape.cut([text for record in slab for text in record.texts]))
            for number, record in enumerate(slab, start=first):
                of_record = [next(tokens) for _ in record.texts]
                pieces += (Piece(number, example, place) for example, place in self._shape.encode(record, of_record))
        return pieces

    def decode(
        self, records: Sequence[Record], pieces: Sequence[Piece], predictions: Sequence[Any]
    ) -> list[Prediction]:
        """Return one prediction per record, in order; `predictions` belong to the pieces that `encode` returned."""
        by_record: list[tuple[list[Any], list[Any]]] = [([], []) for _ in records]
        for piece, prediction in zip(pieces, predictions, strict=True):
            by_record[piece.record][0].append(piece.place)
            by_record[piece.record][1].append(prediction)
        return [self._shape.decode(record, *found) for record, found in zip(records, by_record, strict=True)]

    def predict(
        self, records: Sequence[Record], predict: Callable[[Sequence[HeadExample]], Sequence[Any]]
    ) -> list[Prediction]:
        """Encode, let the model predict, decode. Answers in the records are ignored."""
        return self.asked(records)(predict)

    def asked(
        self, records: Sequence[Record]
    ) -> Callable[[Callable[[Sequence[HeadExample]], Sequence[Any]]], list[Prediction]]:
        """Return `predict` for records that are predicted many times: they are encoded once."""
        pieces = self.encode([replace(record, answer=None) for record in records])
        examples = [piece.example for piece in pieces]
        return lambda predict: self.decode(records, pieces, predict(examples))


Text = TypeVar("Text", np.ndarray, Tokens)
"""Ids of a text, or its tokens."""


def longest_first(texts: Sequence[Text], room: int) -> list[Text]:
    """Cut one or two texts to `room` tokens in all, from the end of the longer one first.

    The result is that of transformers' `longest_first`.
    """
    if len(texts) == 1:
        return [texts[0][:room]]
    first, second = texts
    short, long = sorted((len(first), len(second)))
    if short + long > room:
        short = min(short, room // 2)
        long = room - short
    lengths = (long, short) if len(first) > len(second) else (short, long)
    return [first[: lengths[0]], second[: lengths[1]]]


def sequence_of(tokenizer: TextTokenizer, *texts: Tokens) -> TokenSequence:
    """Return [CLS] text [SEP] text [SEP] …, with the mentions of all texts if they were linked."""
    input_ids, type_ids = tokenizer.frame(*(text.ids for text in texts))
    linked = [text.mentions for text in texts if text.mentions is not None]
    if not linked:
        return TokenSequence(input_ids, type_ids)
    firsts = 1 + np.cumsum([0, *(len(text) + 1 for text in texts[:-1])])
    moved = [mentions + np.array([at, at, 0, 0]) for mentions, at in zip(linked, firsts, strict=True)]
    return TokenSequence(input_ids, type_ids, np.concatenate(moved))


def _log_odds(found: np.ndarray) -> float:
    """Return the log-odds that a candidate is right; 0 is a probability of one half.

    `found` has the probabilities of wrong and right. Models of before November 2026 give the log-odds themselves.
    """
    if len(found) == 1:
        return float(found[0])
    # Log-odds keep candidates apart whose probabilities both round to 1; a probability of 0 gets the least above it.
    wrong, right = np.log(np.maximum(found, np.finfo(np.float32).tiny))
    return float(right - wrong)
