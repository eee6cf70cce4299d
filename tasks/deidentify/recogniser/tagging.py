"""The recogniser at work: labels of tokens by a linear model with integer weights, and the spans they make.

The model is a file of weights beside this module, and all its sums are of integers. Where it finds a name, or nearly
finds something, a small encoder reads again; a large one may do so wherever it is not sure that a text names nobody.
Their scores are rounded, so that spans hardly ever depend on the machine. Time grows with the tokens, memory with the
longest piece of a text.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import NamedTuple

import numpy as np
import rjieba

from infra.arrays.compiled import compiled
from infra.errors import UserError
from tasks.deidentify.forms.identifier import Identifier
from tasks.deidentify.forms.institutions import institution_kind
from tasks.deidentify.forms.names import name_end, surname_length
from tasks.deidentify.recogniser.encoder import Encoder, shipped_encoder, shipped_reader
from tasks.deidentify.recogniser.features import KEY_BITS, LEXICON_BITS, Knowledge, features_of, term_key
from tasks.deidentify.recogniser.labels import KINDS_FOUND, LABELS, OUTSIDE, WIDTH
from tasks.deidentify.recogniser.paths import best_last, spans_of, walk_back
from tasks.deidentify.recogniser.tokens import shortened, tokens_of
from tasks.deidentify.recogniser.vetoes import stays

MODEL = Path(__file__).with_name("model.npz")
"""Weights that are shipped."""

Recogniser = Callable[[str], list[Identifier]]
"""Takes a text and returns identifiers in order, without overlaps."""

ReadingListener = Callable[[int, int], None]
"""Takes the characters of a text that are read, and all of them."""

_listener: ContextVar[ReadingListener | None] = ContextVar("reading listener", default=None)


@contextlib.contextmanager
def reading_told(listener: ReadingListener) -> Iterator[None]:
    """Tell a listener during the block, before each piece, how much of a text is read. A text may be read again."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


REASON, REASON_OF_ENCODER = "recogniser", "encoder"
"""Rules of its identifiers, and of those that only an encoder found."""

_HEAD_START = np.array([100 if label.endswith("record") else 0 for label in LABELS], dtype=np.int32)
"""What is added to the sums of numbers when doubt is measured, so that bare beds (3、8抽血) are read again."""
_BIAS = 128
"""What is added to the weights, so that no byte is negative: sums of bytes are then sums of integers of 64 bits."""
_PIECE = 400
"""Characters of a piece of a text that is read by itself, more or less. Found names change no piece but their own."""
PASSAGE = 60
"""The same, for the encoder: it learned from single lines, and its time grows with more than the length."""
NEAR_LEAD = 200
"""Like `Encoder.least_lead`, where the piece holds an identifier; passages that either lets pass are read."""
_REPLACED = frozenset("〔〓")
"""What marks identifiers that are replaced already."""
REFUTED_BELOW = 0.1
"""Probability that some character of a name belongs to an identifier, below which the encoder refutes the name."""
SURE_FROM = {"name": 0.9, "record": 0.6}
"""Probability that each character of a name or a number belongs to an identifier, from which on the encoder is sure."""
_PIECES_KEPT = 2048
"""Pieces of which the spans are kept in memory."""
# matches: "。", "\n"
# not: "，"
_PIECE_END = re.compile(r"[\n。！？!?；;]++")


class Labelled(NamedTuple):
    """Tokens of a text with what the model makes of them."""

    labels: np.ndarray
    """Label of each token, int8 (N,)."""
    leads: np.ndarray
    """How much more the weights of the label are than those of none, int32 (N,)."""
    greatest: np.ndarray
    """The same for the label that has most, numbers with 100 more, int32 (N,)."""
    starts: np.ndarray
    """First character of each token and the end of the last, int32 (N + 1,)."""


class _Span(NamedTuple):
    """A span of a piece of a text."""

    start: int
    end: int
    kind: str
    rule: str
    is_sure: bool = False
    """True where the encoder is sure: a name counts although its words mostly stay, a number although it is short."""


class Model:
    """Weights of the features, integers."""

    def __init__(self, file: Path, encoder: Encoder | None = None) -> None:
        """Read the weights that `save` in training.py has written.

        Args:
            file: the weights.
            encoder: reads again the pieces of a text where names may be; finds some, and refutes others.
        """
        self._encoder = encoder
        with np.load(file) as held:
            keys = np.cumsum(held["gaps"].astype(np.int64))
            weights = np.zeros((len(keys), WIDTH), dtype=np.int8)
            weights[:, : len(LABELS)] = held["weights"].T
            self.weights = packed(weights)
            self.transitions: np.ndarray = held["transitions"].astype(np.int32)
            self.costs = costs_of_labels(held["costs"])
            self.doubt = int(held["doubt"])
            scores = np.full((3, 0x10000), -128, dtype=np.int8)
            scores[:, held["characters"]] = held["scores"]
            lexicon = np.zeros(1 << LEXICON_BITS, dtype=np.bool_)
            lexicon[np.cumsum(held["terms"].astype(np.int64))] = True
        self.knowledge = Knowledge(scores, lexicon)
        self.held, self.ranks = table_of(keys)
        # A text is searched again when something in it was replaced; most of its pieces are then as they were.
        self._spans = functools.lru_cache(maxsize=_PIECES_KEPT)(self._spans_of)

    def labels(self, text: str) -> Labelled:
        """Return the labels of the tokens of a text."""
        tokens = tokens_of(text)
        keys = features_of(tokens, self.knowledge)
        leads = np.zeros((2, len(keys)), dtype=np.int32)
        labels = np.zeros(len(keys), dtype=np.int8)
        best_labels(keys, self.held, self.ranks, self.weights, self.transitions, self.costs, labels, leads)
        return Labelled(labels, leads[0], leads[1], tokens.starts)

    def _doubt_of(self, words: str) -> int:
        """Return what a name must be worth that is a word too.

        It is twice as much for a word of medicine (连翘) and for one that begins with no surname (友谊).
        """
        if self.knowledge.lexicon[term_key(words)]:
            return 2 * self.doubt
        if not _is_common(words):
            return -(10**9)
        return self.doubt if surname_length(words, 0) else 2 * self.doubt

    def __call__(self, text: str) -> list[Identifier]:
        """Return the names, numbers, addresses, hospitals, schools and employers of a text."""
        found: list[Identifier] = []
        short, places = shortened(text)
        listener = _listener.get()
        for start, end in pieces(short):
            if listener is not None:
                listener(start, len(short))
            for first, last, kind, rule, is_sure in self._spans(short[start:end]):
                begin, stop = int(places[start + first]), int(places[start + last])
                if stays(text, begin, stop, kind, is_sure) or (found and begin < found[-1].end):
                    continue
                if not any(map(str.isalnum, text[begin:stop])):
                    continue  # the } behind a name in JSON
                if kind == "name" and stop - begin == 1:
                    stop = name_end(text, begin) or stop  # 王 of 王小明诉头痛, but not of 王医生
                if kind == "name":
                    begin, stop = whole_name(text, begin, stop, found[-1].end if found else 0)
                of_kind = institution_kind(text[begin:stop]) if kind == "institution" else kind
                if of_kind is not None:
                    found.append(Identifier(begin, stop, of_kind, rule))
        return found

    def forget(self) -> None:
        """Forget the pieces that were kept: for measurements of speed on texts that come again."""
        self._spans.cache_clear()

    def _spans_of(self, piece: str) -> tuple[_Span, ...]:
        """Return first character, end, kind and rule of each span of a piece, without doubtful names."""
        labels, leads, greatest, starts = self.labels(piece)
        found = [
            _Span(int(starts[first]), int(starts[last]), kind, REASON)
            for first, last, kind in spans_of(labels)
            if kind != "name" or leads[first:last].sum() >= self._doubt_of(piece[starts[first] : starts[last]])
        ]
        if self._encoder is not None:
            found = _read_again(self._encoder, piece, found, starts[:-1], greatest)
        return tuple(sorted(found))


def _read_again(
    encoder: Encoder, piece: str, found: Sequence[_Span], starts: np.ndarray, greatest: np.ndarray
) -> list[_Span]:
    """Return what was found, without names that the encoder refutes, and what it finds beside that.

    It reads the passages that hold names, or some character that may belong to one. Where a piece holds an identifier,
    there are often more: less doubt is enough there.
    """
    spans: list[_Span] = []
    unread = pieces(piece, PASSAGE)
    for least_lead in (encoder.least_lead, NEAR_LEAD):
        doubtful = starts[greatest >= least_lead]
        left = []
        for start, end in unread:
            here = [span for span in found if start <= span.start < end]
            is_doubtful = np.searchsorted(doubtful, start) < np.searchsorted(doubtful, end)
            if is_doubtful or any(span.kind == "name" for span in here):
                spans += _read_passage(encoder, piece, start, end, here)
            else:
                left.append((start, end))
        unread = left
        if not spans and _REPLACED.isdisjoint(piece) and all(span.kind == "name" for span in found):
            break
    return spans + [span for span in found if any(start <= span.start < end for start, end in unread)]


def _read_passage(encoder: Encoder, piece: str, start: int, end: int, found: Sequence[_Span]) -> Iterator[_Span]:
    """Yield what was found in a passage, without names that the encoder refutes, and what it finds beside that."""
    labels, likely = encoder.read(piece[start:end])
    taken = np.zeros(end - start, dtype=np.bool_)
    for span in found:
        first, last = span.start - start, span.end - start
        if span.kind != "name":
            yield span
        elif likely[first:last].max() >= REFUTED_BELOW:
            yield span._replace(is_sure=bool(likely[first:last].min() >= SURE_FROM["name"]))
        else:
            continue
        taken[first:last] = True
    for first, last, kind in spans_of(labels):
        if not taken[first:last].any():
            is_sure = bool(likely[first:last].min() >= SURE_FROM.get(kind, np.inf))
            yield _Span(start + first, start + last, kind, REASON_OF_ENCODER, is_sure)


# matches: "、", "\n", "妹"
# not: "方", "〕"
_BEGINS_BEHIND = re.compile(r"[^\u4e00-\u9fff〔〕〓]|[弟妹兄姐哥子女妻夫父母]")
"""What a name begins behind: marks, and what a relation ends with."""
# matches: "头", "汉"
# not: "头痛", "头晕"
_OLD_MAN = re.compile("(?:头|汉|爷子|太太|大爷|大娘)(?![痛晕昏部皮颅疼孢顶发])")
# matches: "g02", "_wu"
# not: "患", " "
_LOGIN_GOES_ON = re.compile(r"[A-Za-z0-9_]{1,20}")


# matches: "晴\"", "晴”"
# not: "晴明天\"", "\""
_QUOTE_CLOSES = re.compile("([\u4e00-\u9fff])[\"”']")
"""What is left of a name in a field: 晴 of \"汤雨晴\"."""


def whole_name(text: str, start: int, end: int, free_from: int) -> tuple[int, int]:
    """Return the span of a name with what belongs to it: 老李头 for 李, wangfang02 for wangfan, 向春花 for 春花.

    Args:
        text: the text.
        start: first character of what was found.
        end: the end of it.
        free_from: characters before this place belong to another identifier.
    """
    old = _OLD_MAN.match(text, end) if end - start == 1 and start > free_from and text[start - 1] == "老" else None
    if old:
        return start - 1, old.end()
    quoted = _QUOTE_CLOSES.match(text, end) if start > free_from and text[start - 1] in "\"“'" else None
    if quoted:
        return start, end + len(quoted[1])
    rest = _LOGIN_GOES_ON.match(text, end) if _LOGIN_GOES_ON.match(text[end - 1]) else None
    if rest and any(map(str.isdigit, rest[0])):
        return start, rest.end()
    return (with_surname(text, start, end) if start > free_from else start), end


def with_surname(text: str, start: int, end: int) -> int:
    """Return the start of a given name together with the surname before it, which may be a word: 向 of 、向春花."""
    first = start - 1
    if end - start != 2 or first < 0 or surname_length(text, first) != 1 or surname_length(text, start):
        return start
    return first if first == 0 or _BEGINS_BEHIND.match(text[first - 1]) else start


# matches: "老周", "小许"
# not: "小麦", "老师"
_CALLED = re.compile(
    "[老小][王李张刘陈杨赵吴周徐孙朱郭罗郑梁谢宋唐许邓韩冯曹彭曾肖董潘袁蔡蒋余杜魏吕任卢姚沈钟崔谭陆范廖韦贾邹孟秦尹薛侯史贺顾郝"
    "龚邵严]$"
)
"""What people are called by a surname, which the dictionary holds as words of other classes."""


def _is_common(words: str) -> bool:
    """Return True for a short word of jieba's dictionary that is not the name of a person there."""
    if _CALLED.match(words):
        return False
    return len(words) < 3 and bool(rjieba.has_word(words)) and not rjieba.tag(words, False)[0][1].startswith("nr")


def pieces(text: str, size: int = _PIECE) -> list[tuple[int, int]]:
    """Return the pieces of a text, cut behind sentences and lines, of more or less so many characters."""
    pieces, start = [], 0
    while len(text) - start > size:
        end = _PIECE_END.search(text, start + size // 2, start + 2 * size)
        stop = end.end() if end else start + 2 * size
        pieces.append((start, min(stop, len(text))))
        start = pieces[-1][1]
    if start < len(text):
        pieces.append((start, len(text)))
    return pieces


def costs_of_labels(costs: np.ndarray) -> np.ndarray:
    """Return what a span must be worth more than none at each label, int32 (L,), from the costs of `KINDS_FOUND`."""
    return np.array(
        [int(costs[KINDS_FOUND.index(label[2:])]) if label[0] in "BS" else 0 for label in LABELS], dtype=np.int32
    )


def table_of(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return which keys have weights, a bit each, and how many have them before each 64 keys.

    The row of a key is the number of keys before it. The two tables fit into a processor's cache, which
    one of rows by key does not.

    Args:
        keys: keys with weights, in order, int64 (K,).

    Returns:
        Bits from the lowest on, uint64 (B,), and numbers of keys, int32 (B,).
    """
    is_held = np.zeros(1 << KEY_BITS, dtype=np.bool_)
    is_held[keys] = True
    ranks = np.searchsorted(keys, np.arange(0, 1 << KEY_BITS, 64)).astype(np.int32)
    return np.packbits(is_held, bitorder="little").view(np.uint64), ranks


@functools.cache
def shipped_recogniser(with_encoder: bool = False) -> Recogniser | None:
    """Return the recogniser whose weights are shipped, or None where they are absent.

    Args:
        with_encoder: the large encoder reads again, and more, in place of the small one.

    Raises:
        UserError: the encoder is asked for, and its weights or those of the recogniser are absent.
    """
    if MODEL.exists():
        return Model(MODEL, shipped_encoder() if with_encoder else shipped_reader())
    if with_encoder:
        raise UserError(f"deidentify.encoder needs the weights {MODEL.name}, which are not installed: install again.")
    return None


def packed(weights: np.ndarray) -> np.ndarray:
    """Return weights, int8 (K, WIDTH), plus `_BIAS` as integers of eight bytes, uint64 (K, 2), the first lowest."""
    return np.ascontiguousarray(weights.astype(np.int16) + _BIAS).astype("<u1").view("<u8").astype(np.uint64)


@compiled
def _ones(bits: np.uint64) -> np.uint64:
    """Return the number of ones, by sums of 2, 4 and 8 bits."""
    bits -= (bits >> np.uint64(1)) & np.uint64(0x5555555555555555)
    bits = (bits & np.uint64(0x3333333333333333)) + ((bits >> np.uint64(2)) & np.uint64(0x3333333333333333))
    bits = (bits + (bits >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (bits * np.uint64(0x0101010101010101)) >> np.uint64(56)


@compiled
def best_labels(
    keys: np.ndarray,
    held: np.ndarray,
    ranks: np.ndarray,
    weights: np.ndarray,
    transitions: np.ndarray,
    costs: np.ndarray,
    labels: np.ndarray,
    leads: np.ndarray,
) -> None:
    """Write the labels whose sum of weights is greatest, less the costs.

    Args:
        keys: features of the tokens, uint32 (N, F).
        held: bits for the keys that have weights, uint64 (B,), as `table_of` returns them.
        ranks: how many keys before each 64 have weights, int32 (B,).
        weights: weights of the keys in order, a byte for each label, uint64 (K, 2), as `packed` returns them.
        transitions: weight of label j behind label i, (L, L); `NEVER` and less where it may not follow.
        costs: what each label costs, int32 (L,).
        labels: result, int8 (N,).
        leads: result, how much more the weights of the label are than those of none, and then the greatest of all
            labels', numbers with their head start, int32 (2, N).
    """
    count = len(keys)
    if count == 0:
        return
    emissions = np.empty((count, WIDTH), dtype=np.int32)
    _sum_weights(keys, held, ranks, weights, emissions)
    back = np.empty((count, len(transitions)), dtype=np.int8)
    walk_back(best_last(emissions, transitions, costs, back), back, labels)
    for at in range(count):
        leads[0, at] = emissions[at, labels[at]] - emissions[at, OUTSIDE]
        greatest = np.int32(-(10**9))
        for label in range(1, len(transitions)):
            greatest = max(greatest, emissions[at, label] + _HEAD_START[label])
        leads[1, at] = greatest - emissions[at, OUTSIDE]


@compiled
def _sum_weights(
    keys: np.ndarray, held: np.ndarray, ranks: np.ndarray, weights: np.ndarray, emissions: np.ndarray
) -> None:
    """Write the sum of the weights of each token's features for each label, int32 (N, WIDTH)."""
    rows = np.zeros(keys.shape[1], dtype=np.uint64)
    every_second = np.uint64(0x00FF00FF00FF00FF)
    # Unsigned indexes, as others are compared with zero each time.
    for at in range(len(keys)):
        # The rows are gathered first, without a branch that a processor would have to guess: half of the features
        # have no weights. Then the weights are fetched all at once.
        found = np.uint64(0)
        for feature in range(keys.shape[1]):
            key = np.uint64(keys[at, feature])
            block, bit = held[key >> np.uint64(6)], key & np.uint64(63)
            rows[found] = np.uint64(ranks[key >> np.uint64(6)]) + _ones(block & ((np.uint64(1) << bit) - np.uint64(1)))
            found += (block >> bit) & np.uint64(1)
        # Four labels are summed at once, in 16 bits each, which hold 256 bytes: bytes 0, 2, 4, 6 and 1, 3, 5, 7.
        even_1 = odd_1 = even_2 = odd_2 = np.uint64(0)
        for place in range(found):
            one, two = weights[rows[place], np.uint64(0)], weights[rows[place], np.uint64(1)]
            even_1 += one & every_second
            odd_1 += (one >> np.uint64(8)) & every_second
            even_2 += two & every_second
            odd_2 += (two >> np.uint64(8)) & every_second
        bias = np.int64(found) * _BIAS
        for lane in range(4):
            shift = np.uint64(16 * lane)
            emissions[at, 2 * lane] = np.int64((even_1 >> shift) & np.uint64(0xFFFF)) - bias
            emissions[at, 2 * lane + 1] = np.int64((odd_1 >> shift) & np.uint64(0xFFFF)) - bias
            emissions[at, 2 * lane + 8] = np.int64((even_2 >> shift) & np.uint64(0xFFFF)) - bias
            emissions[at, 2 * lane + 9] = np.int64((odd_2 >> shift) & np.uint64(0xFFFF)) - bias
