"""Triples of strings as pointers to tokens (eHealth, appendix E), and back.

CMeIE gives strings without offsets. In the targets, every occurrence of a subject or object is an entity. A triple is a
relation between the two occurrences of its subject and object that are closest to each other, the first of equal ones.
In the answers, a relation names the first tokens of two entities; where several entities begin at one token, each of
them is meant. The windows of a long text are decoded one by one and their triples joined in one set. A triple whose
ends no window holds together is counted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

from models.heads.examples import HeadExample, Pointers
from tasks.downstream.features.alignment import TextTokenizer, Tokens
from tasks.downstream.features.base import Prediction, sequence_of
from tasks.downstream.features.spans import FRAME
from tasks.downstream.features.windows import Window, cut_windows
from tasks.downstream.records import Record, Triple

At = tuple[int, int]
"""First and last token of an entity, both inclusive."""


@dataclass(frozen=True, slots=True)
class _Place:
    text: str
    tokens: Tokens
    window: Window


class PairTypes:
    """Types of the two ends of a predicate, learnt from the training triples.

    They are the types seen most often for this predicate with this subject, else with this object, else with any.
    """

    def __init__(self, known: Mapping[tuple[str, str, str], tuple[str, str]]) -> None:
        self._known = known

    @classmethod
    def of(cls, triples: Iterable[Triple]) -> PairTypes:
        """Count the types of the triples; ends are remembered only for predicates with several pairs of types."""
        counts: dict[tuple[str, str, str], Counter[tuple[str, str]]] = {}
        for triple in triples:
            for key in _keys(triple.predicate, triple.subject, triple.object):
                counts.setdefault(key, Counter())[triple.subject_type, triple.object_type] += 1
        several = {predicate for (predicate, *ends), seen in counts.items() if not any(ends) and len(seen) > 1}
        wanted = {key: seen for key, seen in counts.items() if key[0] in several or not any(key[1:])}
        return cls({key: min(seen, key=lambda types: (-seen[types], types)) for key, seen in wanted.items()})

    @classmethod
    def from_json(cls, rows: Sequence[Sequence[str]]) -> PairTypes:
        """Restore what `to_json` returned."""
        return cls({(predicate, subject, object_): (one, other) for predicate, subject, object_, one, other in rows})

    def to_json(self) -> list[list[str]]:
        """Return rows of predicate, subject, object (empty: any), subject type, object type."""
        return [[*key, *types] for key, types in sorted(self._known.items())]

    def __call__(self, predicate: str, subject: str, object_: str) -> tuple[str, str]:
        """Return the types of subject and object; empty for a predicate that was never seen."""
        for key in _keys(predicate, subject, object_):
            if key in self._known:
                return self._known[key]
        return "", ""


@dataclass
class Relations:
    """TRIPLES.

    Args:
        predicates: names of the relations, by number.
        types: types of a triple's ends, which the network does not predict.
        overlap: tokens that neighbouring windows share; by default half a window, as both ends must be in one.
    """

    predicates: Sequence[str]
    types: PairTypes
    tokenizer: TextTokenizer
    max_length: int
    overlap: int | None = None
    counters: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._numbers = {predicate: number for number, predicate in enumerate(self.predicates)}

    def cut(self, texts: Sequence[str]) -> list[Tokens]:
        return self.tokenizer.characters(texts)

    def encode(self, record: Record, tokens: Sequence[Tokens]) -> Iterator[tuple[HeadExample, _Place]]:
        (text,), (cut,) = record.texts, tokens
        room = self.max_length - FRAME
        windows = cut_windows(len(cut.ids), room, room // 2 if self.overlap is None else self.overlap)
        self.counters["windows"] += len(windows) - 1
        targets = [None] * len(windows) if record.answer is None else self._targets(record, cut, windows)
        for window, target in zip(windows, targets, strict=True):
            part = cut[window.start : window.end]
            yield HeadExample((sequence_of(self.tokenizer, part),), target), _Place(text, cut, window)

    def decode(self, record: Record, places: Sequence[Any], predictions: Sequence[Any]) -> Prediction:
        scores: dict[Triple, float] = {}
        for place, pointers in zip(places, predictions, strict=True):
            for triple, score in self._read(place, pointers):
                scores[triple] = max(score, scores.get(triple, 0.0))
        triples = tuple(sorted(scores))
        return Prediction(triples, tuple(scores[triple] for triple in triples))

    def _read(self, place: _Place, pointers: Pointers) -> Iterator[tuple[Triple, float]]:
        names: dict[int, list[str]] = {}
        shift = place.window.start - 1  # predictions count [CLS]
        for first, last in (np.asarray(pointers.entities).reshape(-1, 2) + shift).tolist():
            if place.window.start <= first and last < place.window.end:  # not [CLS] or [SEP]
                names.setdefault(first, []).append(place.text[place.tokens.starts[first] : place.tokens.ends[last]])
        relations = np.asarray(pointers.relations).reshape(-1, 3)
        scores = np.ones(len(relations)) if pointers.scores is None else pointers.scores
        for (subject_at, number, object_at), score in zip(relations.tolist(), scores, strict=True):
            for subject, object_ in product(names.get(subject_at + shift, []), names.get(object_at + shift, [])):
                predicate = self.predicates[number]
                subject_type, object_type = self.types(predicate, subject, object_)
                yield Triple(subject, subject_type, predicate, object_, object_type), float(score)

    def _targets(self, record: Record, tokens: Tokens, windows: Sequence[Window]) -> list[Pointers]:
        answer: tuple[Triple, ...] = record.answer  # type: ignore[assignment]
        names = {name for triple in answer for name in (triple.subject, triple.object)}
        places = {name: _occurrences(name, record.texts[0], tokens) for name in names}
        whole = [triple for triple in answer if places[triple.subject] and places[triple.object]]
        self.counters["triples_not_in_text"] += len(answer) - len(whole)
        found: set[Triple] = set()
        targets = []
        for window in windows:
            inside = {name: [at for at in seen if _within(at, window)] for name, seen in places.items()}
            joined = [triple for triple in whole if inside[triple.subject] and inside[triple.object]]
            found.update(joined)
            targets.append(self._pointers(joined, inside, window))
        self.counters["triples_across_windows"] += len(set(whole) - found)
        return targets

    def _pointers(self, triples: Sequence[Triple], inside: Mapping[str, Sequence[At]], window: Window) -> Pointers:
        entities = sorted({at for seen in inside.values() for at in seen})
        relations = set()
        for triple in triples:
            subject, object_ = _nearest(inside[triple.subject], inside[triple.object])
            relations.add((subject[0], self._numbers[triple.predicate], object_[0]))
        shift = 1 - window.start  # targets count [CLS]
        rows = np.array(sorted(relations), dtype=np.int64).reshape(-1, 3)
        return Pointers(
            entities=np.array(entities, dtype=np.int64).reshape(-1, 2) + shift,
            relations=rows + np.array([shift, 0, shift]),
        )


def _keys(predicate: str, subject: str, object_: str) -> Iterator[tuple[str, str, str]]:
    yield predicate, subject, ""
    yield predicate, "", object_
    yield predicate, "", ""


def _occurrences(name: str, text: str, tokens: Tokens) -> list[At]:
    """Token spans where a name occurs in the text as written, or else in other case.

    Occurrences whose ends are not the ends of tokens are left out.
    """
    # A lookahead also finds occurrences that overlap: 咳咳 occurs twice in 咳咳咳. A name such as C(10) is plain text.
    pattern = f"(?={re.escape(name)})"
    starts = [found.start() for found in re.finditer(pattern, text)] if name else []
    if name and not starts:
        starts = [found.start() for found in re.finditer(pattern, text, re.IGNORECASE)]
    spans = (tokens.span(start, start + len(name)) for start in starts)
    return [span for span in spans if span is not None]


def _within(at: At, window: Window) -> bool:
    return window.start <= at[0] and at[1] < window.end


def _nearest(subjects: Sequence[At], objects: Sequence[At]) -> tuple[At, At]:
    """Pair with the fewest tokens between them; two different places are preferred to one and the same."""

    def distance(pair: tuple[At, At]) -> tuple[bool, int, At, At]:
        one, other = pair
        return one == other, max(0, one[0] - other[1], other[0] - one[1]), one, other

    return min(product(subjects, objects), key=distance)
