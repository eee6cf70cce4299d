"""Entities as BIOES tags of tokens, in one stream or several, over windows of long texts.

Every character is a token of its own, so that any entity has tokens. Nested entities go into separate streams (eHealth,
appendix E: symptoms in one of 5 classes, the other eight types in one of 33). Of two that overlap within a stream, the
longer one stays in the targets and the other is counted.

Shape legend: L tokens of a text or window.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from models.heads.examples import HeadExample
from tasks.downstream.features import bioes
from tasks.downstream.features.alignment import TextTokenizer, Tokens
from tasks.downstream.features.base import Prediction, sequence_of
from tasks.downstream.features.windows import Window, cut_windows
from tasks.downstream.records import Entity, Record

FRAME = 2
"""Special tokens around a window: [CLS] and [SEP]."""

IGNORED = -100
"""Target of a token that the loss ignores, as in torch's cross entropy."""


@dataclass(frozen=True, slots=True)
class _Place:
    tokens: Tokens
    window: Window


@dataclass
class Tags:
    """TAGGING and NESTED_TAGGING.

    Args:
        streams: entity types of each stream; one stream for TAGGING.
        overlap: tokens that neighbouring windows share; by default a quarter of a window.
    """

    streams: Sequence[Sequence[str]]
    tokenizer: TextTokenizer
    max_length: int
    overlap: int | None = None
    counters: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._of_type = {type_: (s, k) for s, types in enumerate(self.streams) for k, type_ in enumerate(types)}

    def cut(self, texts: Sequence[str]) -> list[Tokens]:
        return self.tokenizer.characters(texts)

    def encode(self, record: Record, tokens: Sequence[Tokens]) -> Iterator[tuple[HeadExample, _Place]]:
        (text,) = tokens
        room = self.max_length - FRAME
        windows = cut_windows(len(text.ids), room, room // 4 if self.overlap is None else self.overlap)
        self.counters["windows"] += len(windows) - 1
        tags = None if record.answer is None else self._tags(record.answer, text)
        for window in windows:
            part = text[window.start : window.end]
            target = None if tags is None else self._target(tags, window)
            yield HeadExample((sequence_of(self.tokenizer, part),), target), _Place(text, window)

    def decode(self, record: Record, places: Sequence[Any], predictions: Sequence[Any]) -> Prediction:
        """Take each token's tags from the window that answers for it, and read entities from the joined tags."""
        tokens: Tokens = places[0].tokens
        tags = np.full((len(self.streams), len(tokens.ids)), bioes.OUTSIDE, dtype=np.int64)
        for place, prediction in zip(places, predictions, strict=True):
            window = place.window
            found = np.atleast_2d(np.asarray(prediction))[:, 1 + window.kept_start - window.start :]
            kept = window.kept_end - window.kept_start
            tags[:, window.kept_start : window.kept_end] = found[:, :kept]
        entities = {
            Entity(int(tokens.starts[span.first]), int(tokens.ends[span.last]), types[span.type])
            for stream, types in zip(tags, self.streams, strict=True)
            for span in bioes.decode(stream)
        }
        return Prediction(tuple(sorted(entities)))

    def _tags(self, answer: Any, text: Tokens) -> np.ndarray:
        """Tags (streams, L) of a text's entities."""
        spans: list[list[bioes.Span]] = [[] for _ in self.streams]
        for entity in answer:
            at = text.span(entity.start, entity.end)
            if at is None:  # it begins or ends with a character that the tokeniser drops, such as a space
                self.counters["entities_without_tokens"] += 1
            else:
                stream, type_ = self._of_type[entity.type]
                spans[stream].append(bioes.Span(*at, type_))
        kept = [bioes.without_overlaps(stream) for stream in spans]
        self.counters["entities_overlapped"] += sum(map(len, map(set, spans))) - sum(map(len, kept))
        return np.stack([bioes.encode(stream, len(text.ids)) for stream in kept])

    def _target(self, tags: np.ndarray, window: Window) -> np.ndarray:
        """Targets int64 (L,), or (streams, L) if there are several."""
        target = np.full((len(tags), window.end - window.start + FRAME), IGNORED, dtype=np.int64)
        first = 1 + window.kept_start - window.start
        target[:, first : first + window.kept_end - window.kept_start] = tags[:, window.kept_start : window.kept_end]
        return target if len(tags) > 1 else target[0]
