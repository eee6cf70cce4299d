"""The recogniser at work: labels of tokens by a linear model with integer weights, and the spans they make.

The model is a file of weights beside this module. All sums are of integers, so that a text gives the same spans on any
machine. Time grows with the tokens, memory with the longest piece of a text.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import rjieba

from infra.arrays.compiled import compiled
from tasks.deidentify.identifier import Identifier
from tasks.deidentify.institutions import institution_kind
from tasks.deidentify.recogniser.features import KEY_BITS, LEXICON_BITS, Knowledge, features_of, term_key
from tasks.deidentify.recogniser.tokens import tokens_of
from tasks.deidentify.recogniser.vetoes import stays

MODEL = Path(__file__).with_name("model.npz")
"""Weights that are shipped."""

LABELS = (
    "O",
    *(f"{place}-{kind}" for kind in ("name", "record") for place in "BIES"),
    *(f"{place}-{kind}" for kind in ("address", "institution") for place in "BIE"),
)
"""Labels of tokens: the first, an inner or the last one of a span, or the only one, with its kind."""
_BEGINS = np.array([label[0] in "BS" for label in LABELS])
_ENDS = np.array([label[0] in "OES" for label in LABELS])
OUTSIDE = 0
"""Label of tokens outside of what is looked for."""

Recogniser = Callable[[str], list[Identifier]]
"""Takes a text and returns identifiers in order, without overlaps."""

REASON = "recogniser"
"""Rule of its identifiers."""

WIDTH = 16
"""Columns of the weights: the labels, and zeros that make a row fit into a vector."""

_NEVER = -(10**6)
"""Weight of a label that may not follow."""

_PIECE = 400
"""Characters of a piece of a text that is read by itself, more or less. Found names change no piece but their own."""
# matches: "。", "\n"
# not: "，"
_PIECE_END = re.compile(r"[\n。！？!?；;]++")


def follows(before: int, label: int) -> bool:
    """Return True where a label may follow another; a span begins with B, goes on with I and ends with E, or is S."""
    one, two = LABELS[before], LABELS[label]
    if one[0] in "BI":
        return two[0] in "IE" and two[1:] == one[1:]
    return two[0] in "OBS"


class Model:
    """Weights of the features, integers."""

    def __init__(self, file: Path) -> None:
        """Read the weights that `save` in training.py has written."""
        with np.load(file) as held:
            keys = np.cumsum(held["gaps"].astype(np.int64))
            self.weights = np.zeros((len(keys) + 1, WIDTH), dtype=np.int8)
            self.weights[1:, : len(LABELS)] = held["weights"]
            self.transitions: np.ndarray = held["transitions"].astype(np.int32)
            self.cost = int(held["cost"])
            self.doubt = int(held["doubt"])
            scores = np.full((3, 0x10000), -128, dtype=np.int8)
            scores[:, held["characters"]] = held["scores"]
            lexicon = np.zeros(1 << LEXICON_BITS, dtype=np.bool_)
            lexicon[np.cumsum(held["terms"].astype(np.int64))] = True
        self.knowledge = Knowledge(scores, lexicon)
        self.rows = np.zeros(1 << KEY_BITS, dtype=np.int32)
        self.rows[keys] = np.arange(1, len(keys) + 1, dtype=np.int32)
        self.held = np.packbits(self.rows > 0, bitorder="little")

    def labels(self, text: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the label of each token, int8 (N,), its lead over none, int32 (N,), and the starts (N + 1,)."""
        tokens = tokens_of(text)
        keys = features_of(tokens, self.knowledge)
        labels, leads = np.zeros(len(keys), dtype=np.int8), np.zeros(len(keys), dtype=np.int32)
        best_labels(keys, self.rows, self.held, self.weights, self.transitions, self.cost, labels, leads)
        return labels, leads, tokens.starts

    def _doubt_of(self, words: str) -> int:
        """Return what a name must be worth that is a word too: twice as much if it is one of medicine (连翘)."""
        if self.knowledge.lexicon[term_key(words)]:
            return 2 * self.doubt
        return self.doubt if _is_common(words) else -(10**9)

    def __call__(self, text: str) -> list[Identifier]:
        """Return the names, numbers, addresses, hospitals, schools and employers of a text."""
        found: list[Identifier] = []
        for start, end in _pieces(text):
            labels, leads, starts = self.labels(text[start:end])
            for first, last, kind in spans_of(labels):
                begin, stop = start + int(starts[first]), start + int(starts[last])
                if kind == "name" and leads[first:last].sum() < self._doubt_of(text[begin:stop]):
                    continue
                if stays(text, begin, stop, kind):
                    continue
                of_kind = institution_kind(text[begin:stop]) if kind == "institution" else kind
                if of_kind is not None:
                    found.append(Identifier(begin, stop, of_kind, REASON))
        return found


def _is_common(words: str) -> bool:
    """Return True for a short word of jieba's dictionary that is not the name of a person there."""
    return len(words) < 3 and bool(rjieba.has_word(words)) and not rjieba.tag(words, False)[0][1].startswith("nr")


def _pieces(text: str) -> list[tuple[int, int]]:
    """Return the pieces of a text, cut behind sentences and lines."""
    pieces, start = [], 0
    while len(text) - start > _PIECE:
        end = _PIECE_END.search(text, start + _PIECE // 2, start + 2 * _PIECE)
        stop = end.end() if end else start + 2 * _PIECE
        pieces.append((start, min(stop, len(text))))
        start = pieces[-1][1]
    if start < len(text):
        pieces.append((start, len(text)))
    return pieces


def spans_of(labels: np.ndarray) -> list[tuple[int, int, str]]:
    """Return the first token, the end and the kind of each span."""
    spans, first = [], 0
    for at in np.flatnonzero(labels).tolist():
        label = LABELS[labels[at]]
        if label[0] in "BS":
            first = at
        if label[0] in "ES":
            spans.append((first, at + 1, label[2:]))
    return spans


@functools.cache
def shipped_recogniser() -> Recogniser | None:
    """Return the recogniser whose weights are shipped, or None where they are absent."""
    return Model(MODEL) if MODEL.exists() else None


@compiled
def best_labels(
    keys: np.ndarray,
    rows: np.ndarray,
    held: np.ndarray,
    weights: np.ndarray,
    transitions: np.ndarray,
    cost: int,
    labels: np.ndarray,
    leads: np.ndarray,
) -> None:
    """Write the labels whose sum of weights is greatest; each span costs `cost`.

    Args:
        keys: features of the tokens, uint32 (N, F).
        rows: row of the weights by key, int32.
        held: bit for each key that has a row, from the lowest bit of the first byte on, uint8.
        weights: integers (K, WIDTH), a column for each label, then zeros; row 0 is zero.
        transitions: weight of label j behind label i, (L, L); `_NEVER` and less where it may not follow.
        cost: what a span must be worth more than none.
        labels: result, int8 (N,).
        leads: result, how much more the weights of the label are than those of none, int32 (N,).
    """
    count, many = len(keys), len(transitions)
    if count == 0:
        return
    back = np.zeros((count, many), dtype=np.int8)
    emissions = np.zeros((count, WIDTH), dtype=np.int32)
    for at in range(count):
        emission = emissions[at]
        for feature in range(keys.shape[1]):
            key = keys[at, feature]
            if held[key >> 3] >> (key & 7) & 1:  # most features have no weights; this table fits into the cache
                row = rows[key]
                for label in range(WIDTH):  # a constant, for which whole vectors are added
                    emission[label] += weights[row, label]
    # labels that may be before each label: a few, so that not all pairs are looked at
    many_before = np.zeros(many, dtype=np.int32)
    may_be_before = np.zeros((many, many), dtype=np.int32)
    for label in range(many):
        for other in range(many):
            if transitions[other, label] > _NEVER:
                may_be_before[label, many_before[label]] = other
                many_before[label] += 1
    before = np.full(many, -(10**9), dtype=np.int32)
    before[OUTSIDE] = 0
    score = np.zeros(many, dtype=np.int32)
    for at in range(count):
        for label in range(many):
            best, best_from = np.int32(-(10**9)), 0
            for place in range(many_before[label]):
                other = may_be_before[label, place]
                total = before[other] + transitions[other, label]
                if total > best:
                    best, best_from = total, other
            score[label] = best + emissions[at, label] - (cost if _BEGINS[label] else 0)
            back[at, label] = best_from
        greatest = score[0]
        for label in range(many):
            greatest = max(greatest, score[label])
        for label in range(many):  # only differences count; long texts must not leave the range of integers
            before[label] = max(score[label] - greatest, -(10**8))
    # a text ends outside of a span, or with the end of one
    last, greatest = 0, before[0]
    for label in range(1, many):
        if _ENDS[label] and before[label] > greatest:
            last, greatest = label, before[label]
    for at in range(count - 1, -1, -1):
        labels[at] = last
        leads[at] = emissions[at, last] - emissions[at, OUTSIDE]
        last = back[at, last]
