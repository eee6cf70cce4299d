"""Table of what each character becomes, learnt from the tokeniser itself, one code point at a time.

When a character is first seen, the normaliser and the pre-tokeniser of `tokenizer.json` are asked for its normalised
form and whether it is a token by itself, so the table cannot differ from them. That is valid for characters whose
normalised form does not depend on their neighbours. The others (combining marks, Hangul vowels and finals) are marked,
and texts that contain one are left to the tokeniser.

Learning takes about 20 µs per distinct character, a look-up a few ns; the table takes 9 MB of memory.
"""

from __future__ import annotations

import functools

import numpy as np
from tokenizers import Tokenizer, normalizers

BLANK, LETTER = -1, -2
"""Marks in place of an id: a character that belongs to no token, and one that belongs to a run of letters."""

LAST = 0x10FFFF
"""Highest code point; higher values in the column `form` are the marks below."""

SEVERAL, DEPENDS, UNSEEN = LAST + 1, LAST + 2, LAST + 3
"""Becomes several characters or none (see `several`); is normalised with its neighbours; is not learnt yet."""

REPLACEMENT = "\ufffd"
"""Replacement of a lone surrogate, which UTF-8, and so the tokeniser, cannot represent."""


class CharacterTable:
    """Columns of the table, filled by `learn`.

    Args:
        tokenizer: the tokeniser of `tokenizer.json`.

    Attributes:
        form: uint32 (0x110000,): the one character that a code point becomes, or a mark above `LAST`.
        token: int32 (0x110000,): of a normalised character, its id, `BLANK` or `LETTER`.
        several: forms of the code points marked `SEVERAL`, uint32 (any length).
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._normalizer = tokenizer.normalizer
        self._pre_tokenizer = tokenizer.pre_tokenizer
        self._ids: dict[str, int] = tokenizer.get_vocab(with_added_tokens=False)
        self._unknown = self._ids["[UNK]"]
        self.form = np.full(LAST + 1, UNSEEN, dtype=np.uint32)
        self.token = np.full(LAST + 1, BLANK, dtype=np.int32)
        self.several: dict[int, np.ndarray] = {}

    def learn(self, codes: np.ndarray) -> None:
        """Fill the rows of the given code points (integers, any shape)."""
        for code in np.unique(codes).tolist():
            character = REPLACEMENT if 0xD800 <= code < 0xE000 else chr(code)
            if not is_settled(character):
                self.form[code] = DEPENDS
                continue
            form = self._normalizer.normalize_str(character)
            for each in form:
                self.token[ord(each)] = self._token(each)
            if len(form) != 1:
                self.several[code] = np.array([ord(each) for each in form], dtype=np.uint32)
            # Last, as it marks the row as complete for the next look-up.
            self.form[code] = ord(form) if len(form) == 1 else SEVERAL

    def _token(self, character: str) -> int:
        # "xyx" stays one piece, "x x" splits into two, "x医x" into three.
        pieces = len(self._pre_tokenizer.pre_tokenize_str(f"x{character}x"))
        if pieces == 1:
            return LETTER
        return BLANK if pieces == 2 else self._ids.get(character, self._unknown)


_decomposed = normalizers.NFD().normalize_str
_fully_decomposed = normalizers.NFKD().normalize_str


def is_settled(character: str) -> bool:
    """True if a character's normalised form does not depend on the one before: they neither merge nor swap places."""
    first = _fully_decomposed(character)[:1]
    if first in _melting():
        return False
    # Marks are sorted by class: any class but 1 comes after U+0334, any but 230 before U+0301.
    return all(_decomposed(frame) == frame for frame in (f"x{first}\u0334", f"x\u0301{first}"))


@functools.cache
def _melting() -> frozenset[str]:
    """Characters that follow another one in some canonical decomposition, such as the accent of é."""
    found: set[str] = set()
    for begin in range(0, LAST + 1, 256):
        if 0xD800 <= begin < 0xE000:
            continue
        block = "".join(map(chr, range(begin, begin + 256)))
        if _decomposed(block) != block:
            found.update(*(_decomposed(character)[1:] for character in block))
    return frozenset(found)
