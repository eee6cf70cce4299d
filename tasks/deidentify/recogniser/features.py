"""Features of tokens for the recogniser: what stands around a token, hashed to keys.

Time grows with the tokens: each has the same number of keys, from the four tokens on either side of it, the words of
jieba's dictionary around it, how likely the characters are in names, whether a medical lexicon holds them, the label of
the field that it is in (参加：…、…), and what is beside it beyond blanks.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from infra.arrays.compiled import compiled
from tasks.deidentify.recogniser.tokens import BLANK, LINE_END, WIDE_BLANK, Tokens

KEY_BITS = 22
"""Bits of a key of a feature; the table of those that have weights then fits into a processor's second cache."""
FEATURES = 76
"""Features of a token; some may be absent, with the key 0."""
LONGEST_TERM = 6
"""Characters of the longest term of the lexicon."""
LEXICON_BITS = 20
"""Bits of a key of a term of the lexicon."""
LEVELS = 16
"""Levels of how likely characters are a name rather than words."""


Integer = int | np.integer[Any]


class Knowledge(NamedTuple):
    """What the features know of characters and terms."""

    name_scores: np.ndarray
    """How much likelier each character is in names than in text, as logarithms in tenths: int8 (3, 0x10000).

    Row 0 is of surnames, row 1 of the first and row 2 of the last character of given names; -128: in no name.
    """
    lexicon: np.ndarray
    """Which keys are those of medical terms: bool (2 ** LEXICON_BITS,)."""


def term_key(term: str) -> int:
    """Return the key of a term of the lexicon."""
    value = 2166136261
    for character in term:
        value = ((value ^ ord(character)) * 16777619) & 0xFFFFFFFF
    return (value ^ (value >> 12)) & ((1 << LEXICON_BITS) - 1)


def features_of(tokens: Tokens, knowledge: Knowledge) -> np.ndarray:
    """Return the keys of the features of each token: uint32 (N, FEATURES)."""
    keys = np.zeros((len(tokens.symbols), FEATURES), dtype=np.uint32)
    write_features(
        tokens.symbols, tokens.hashes, tokens.starts, tokens.words, tokens.word_hashes, tokens.word_starts,
        tokens.word_tags, knowledge.name_scores, knowledge.lexicon, keys,
    )  # fmt: skip
    return keys


@compiled
def _key(template: Integer, one: Integer, two: Integer, three: Integer) -> Any:
    # The products are shared by all features that hold the same number at the same place. Callers write the template as
    # np.int64(7), since Numba compiles a function anew for each literal: eight seconds of a first call's sixteen.
    value = np.uint64(one) * np.uint64(0xC2B2AE3D27D4EB4F)
    value += np.uint64(two) * np.uint64(0x94D049BB133111EB)
    value += np.uint64(three) * np.uint64(0xA0761D6478BD642F)
    value += np.uint64(template + 1) * np.uint64(0x9E3779B97F4A7C15)
    value = (value ^ (value >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    return np.int64(value >> np.uint64(64 - KEY_BITS))


@compiled
def _level(score: int) -> int:
    """Return the level of a score in tenths, 1 to LEVELS - 1."""
    return min(LEVELS - 1, max(1, (score + 40) // 10))


@compiled
def _name_level(symbols: np.ndarray, at: int, length: int, scores: np.ndarray) -> int:
    """Return how likely the characters from a place are a surname with `length - 1` characters; 0 without a surname."""
    if at < 0 or at + length > len(symbols):
        return 0
    for place in range(at, at + length):
        if symbols[place] < 0x3400 or symbols[place] >= 0x10000:
            return 0
    surname = scores[0, symbols[at]]
    if surname == -128:
        return 0
    total = np.int64(surname)
    if length == 3:
        total += scores[1, symbols[at + 1]]
    return _level(total + scores[2, symbols[at + length - 1]])


@compiled
def _mark(symbol: int) -> int:
    """Return the class of a token as a border of a name."""
    if symbol < 15:
        return 1 if symbol <= 1 else symbol
    if symbol < 0x3400 or symbol >= 0xFF00:  # marks
        return symbol
    return 15


@compiled
def write_features(
    symbols: np.ndarray,
    hashes: np.ndarray,
    starts: np.ndarray,
    words: np.ndarray,
    word_hashes: np.ndarray,
    word_starts: np.ndarray,
    word_tags: np.ndarray,
    name_scores: np.ndarray,
    lexicon: np.ndarray,
    keys: np.ndarray,
) -> None:
    """Write the keys of the features of all tokens."""
    count, last_word = len(symbols), len(word_hashes) - 1
    two = np.zeros(count + 6, dtype=np.int64)  # levels of names that begin at a token, shifted by 3
    three = np.zeros(count + 6, dtype=np.int64)
    terms = np.zeros(count + 6, dtype=np.int64)
    around = np.zeros(count + 10, dtype=np.int64)  # symbols, shifted by 5
    for at in range(count):
        around[at + 5] = symbols[at]
        two[at + 3] = _name_level(symbols, at, 2, name_scores)
        three[at + 3] = _name_level(symbols, at, 3, name_scores)
    labels = np.zeros(count + 1, dtype=np.int64)
    left, right = np.zeros(count + 4, dtype=np.int64), np.zeros(count + 4, dtype=np.int64)
    covered = 0
    for at in range(count):
        value, longest = np.uint64(2166136261), 0
        for length in range(1, min(LONGEST_TERM, count - at) + 1):
            value = ((value ^ np.uint64(symbols[at + length - 1])) * np.uint64(16777619)) & np.uint64(0xFFFFFFFF)
            if symbols[at + length - 1] < 0x3400:
                break
            if length > 1 and lexicon[(value ^ (value >> np.uint64(12))) & np.uint64((1 << LEXICON_BITS) - 1)]:
                longest = length
        if longest and at + longest > covered:
            for place in range(max(at, covered), at + longest):
                terms[place + 3] = longest * 4 + (1 if place == at else 2)
            covered = at + longest
    _read_lines(symbols, words, word_hashes, word_tags, labels, left, right)
    for at in range(count):
        c = at + 5
        a4, a3, a2, a1, s = around[c - 4], around[c - 3], around[c - 2], around[c - 1], around[c]
        b1, b2, b3, b4 = around[c + 1], around[c + 2], around[c + 3], around[c + 4]
        row = keys[at]
        row[0] = _key(np.int64(0), s, 0, 0)
        row[1] = _key(np.int64(1), a1, 0, 0)
        row[2] = _key(np.int64(2), a2, 0, 0)
        row[3] = _key(np.int64(3), a3, 0, 0)
        row[4] = _key(np.int64(4), a4, 0, 0)
        row[5] = _key(np.int64(5), b1, 0, 0)
        row[6] = _key(np.int64(6), b2, 0, 0)
        row[7] = _key(np.int64(7), b3, 0, 0)
        row[8] = _key(np.int64(8), b4, 0, 0)
        row[9] = _key(np.int64(9), a1, s, 0)
        row[10] = _key(np.int64(10), s, b1, 0)
        row[11] = _key(np.int64(11), a2, a1, 0)
        row[12] = _key(np.int64(12), b1, b2, 0)
        row[13] = _key(np.int64(13), a3, a2, 0)
        row[14] = _key(np.int64(14), b2, b3, 0)
        row[15] = _key(np.int64(15), a1, b1, 0)
        row[16] = _key(np.int64(16), a2, a1, s)
        row[17] = _key(np.int64(17), a1, s, b1)
        row[18] = _key(np.int64(18), s, b1, b2)
        row[19] = _key(np.int64(19), a3, a2, a1)
        row[20] = _key(np.int64(20), b1, b2, b3)
        row[21] = _key(np.int64(21), b2, b3, b4)
        row[22] = _key(np.int64(22), a4, a3, a2)
        # how likely the characters are a name that begins here, one before or two before
        n2, n3 = two[at + 3], three[at + 3]
        p2, p3, pp3 = two[at + 2], three[at + 2], three[at + 1]
        row[23] = _key(np.int64(23), n2, n3, 0)
        row[24] = _key(np.int64(24), p2, p3, 0)
        row[25] = _key(np.int64(25), pp3, two[at + 2], 0)
        row[26] = _key(np.int64(26), n3, a1, b3)
        row[27] = _key(np.int64(27), n2, a1, b2)
        row[28] = _key(np.int64(28), p2, a2, b1)
        row[29] = _key(np.int64(29), p3, a2, b2)
        row[30] = _key(np.int64(30), pp3, a3, b1)
        row[31] = _key(np.int64(31), n2 * 16 + n3, a1, a2)
        row[32] = _key(np.int64(32), n2, b2, b3)
        row[33] = _key(np.int64(33), n3, b3, b4)
        row[34] = _key(np.int64(34), p2, b1, b2)
        row[35] = _key(np.int64(35), p3, b2, b3)
        row[36] = _key(np.int64(36), pp3, b1, b2)
        row[37] = _key(np.int64(37), p2 * 16 + p3, a2, a3)
        row[38] = _key(np.int64(38), pp3, a3, a4)
        m1, m2, m3 = _mark(a1), _mark(a2), _mark(a3)
        e1, e2, e3 = _mark(b1), _mark(b2), _mark(b3)
        row[39] = _key(np.int64(39), n2, m1, e2)
        row[40] = _key(np.int64(40), n3, m1, e3)
        row[41] = _key(np.int64(41), p2, m2, e1)
        row[42] = _key(np.int64(42), p3, m2, e2)
        row[43] = _key(np.int64(43), pp3, m3, e1)
        # words of the dictionary
        word = words[at]
        first = starts[at] == word_starts[word]
        final = starts[at + 1] >= word_starts[word + 1]
        place = (1 if first else 0) + (2 if final else 0)
        tag = np.int64(word_tags[word])
        tag_before = np.int64(word_tags[word - 1]) if word > 0 else 0
        tag_behind = np.int64(word_tags[word + 1]) if word < last_word else 0
        length = min(5, word_starts[word + 1] - word_starts[word])
        row[44] = _key(np.int64(44), place, length, tag)
        here = np.int64(word_hashes[word])
        w1 = np.int64(word_hashes[word - 1]) if word > 0 else 0
        w2 = np.int64(word_hashes[word - 2]) if word > 1 else 0
        v1 = np.int64(word_hashes[word + 1]) if word < last_word else 0
        v2 = np.int64(word_hashes[word + 2]) if word + 1 < last_word else 0
        row[45] = _key(np.int64(45), place, here, 0)
        row[46] = _key(np.int64(46), place, w1, length)
        row[47] = _key(np.int64(47), place, v1, length)
        row[48] = _key(np.int64(48), place + 4 * length, tag_before, tag)
        row[49] = _key(np.int64(49), place + 4 * length, tag_behind, tag)
        row[50] = _key(np.int64(50), w1, w2, place)
        row[51] = _key(np.int64(51), v2, tag_behind, place)
        row[52] = _key(np.int64(52), w1, n2 * 16 + n3, place)
        # medical terms
        term = terms[at + 3]
        row[53] = _key(np.int64(53), term, n2 * 16 + n3, 0)
        row[54] = _key(np.int64(54), term, terms[at + 2], terms[at + 4])
        row[55] = _key(np.int64(55), term, a1, 0)
        row[56] = _key(np.int64(56), np.int64(hashes[at]), s, 0) if hashes[at] else 0
        row[57] = _key(np.int64(57), v1, w1, place)
        # a surname between what is before it and what is behind a name of two or three characters
        score = name_scores[0, s] if s < 0x10000 else -128
        surname = 0 if score == -128 else 1 if score < 0 else 2 if score < 20 else 3
        row[58] = _key(np.int64(58), w1, surname, e3)
        row[59] = _key(np.int64(59), w1, surname, e2)
        row[60] = _key(np.int64(60), a1, surname, e3)
        row[61] = _key(np.int64(61), a1, surname, e2)
        row[62] = _key(np.int64(62), a2 * 65536 + a1, surname, e3)
        row[63] = _key(np.int64(63), a2 * 65536 + a1, surname, e2)
        # the label of the field, and what is before and behind a name beyond blanks
        label, before = labels[at], left[at]
        row[64] = _key(np.int64(64), label, n2 * 16 + n3, m1)
        row[65] = _key(np.int64(65), label, s, 0)
        row[66] = _key(np.int64(66), label, m1, e2)
        row[67] = _key(np.int64(67), label, p2 * 16 + p3, m2)
        row[68] = _key(np.int64(68), before, n2 * 16 + n3, 0)
        row[69] = _key(np.int64(69), before, surname, right[at + 1])
        row[70] = _key(np.int64(70), before, n2, right[at + 2])
        row[71] = _key(np.int64(71), before, n3, right[at + 3])
        row[72] = _key(np.int64(72), n2, right[at + 2], 0)
        row[73] = _key(np.int64(73), n3, right[at + 3], 0)
        row[74] = _key(np.int64(74), before, s, right[at + 1]) if s < 15 else 0
        row[75] = _key(np.int64(75), label, before, length) if s < 15 else 0


@compiled
def _read_lines(
    symbols: np.ndarray,
    words: np.ndarray,
    word_hashes: np.ndarray,
    word_tags: np.ndarray,
    labels: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
) -> None:
    """Write for each token the label of its field, and the words before and from it on, beyond blanks.

    Args:
        symbols: tokens, int32 (N,).
        words: word of each token, int32 (N,).
        word_hashes: hash of each word, uint32 (W,).
        word_tags: class of each word, uint8 (W,).
        labels: result, hash of the word before the last colon of the line, if at most 24 tokens before; else 0.
        left: result, hash of the word before each token, blanks skipped; 1 at the start of a line.
        right: result, hash of the word that holds each token, or of the next one if it is a blank; 1 at a line's end.
    """
    count = len(symbols)
    none, edge = np.int64(0), np.int64(1)
    label, since, before = none, 0, edge
    for at in range(count):
        symbol = symbols[at]
        labels[at] = label if since < 24 else 0
        left[at] = before
        since += 1
        if symbol == LINE_END:
            label, since, before = none, 0, edge
        elif symbol == 0xFF1A:
            label, since = before, 0
        if symbol != BLANK and symbol != WIDE_BLANK and symbol != LINE_END:
            before = np.int64(word_hashes[words[at]])
    behind = edge
    for at in range(count, len(right)):
        right[at] = 1
    for at in range(count - 1, -1, -1):
        symbol = symbols[at]
        if symbol == LINE_END:
            behind = edge
        elif symbol != BLANK and symbol != WIDE_BLANK:
            behind = np.int64(word_hashes[words[at]])
        right[at] = behind
