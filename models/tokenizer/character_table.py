"""Table of what each character becomes, learnt from the tokeniser itself, one code point at a time.

When a character is first seen, the normaliser and the pre-tokeniser of `tokenizer.json` are asked for its normalised
form and whether it is a token by itself, so the table cannot differ from them. That is valid for characters whose
normalised form does not depend on their neighbours. The others (combining marks, Hangul vowels and finals) are marked,
and texts that contain one are left to the tokeniser. So are texts with a numeral beside a number, which the normaliser
separates: Ⅱ is 2, but ⅡⅢ is 2、3.

Learning takes about 20 µs per distinct character, a look-up a few ns; the table takes 10 MB of memory.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np
from tokenizers import Tokenizer, normalizers

BLANK, LETTER = -1, -2
"""Marks in place of an id: a character that belongs to no token, and one that belongs to a run of letters."""

LAST = 0x10FFFF
"""Highest code point; higher values in the column `form` are the marks below."""

SEVERAL, DEPENDS, UNSEEN = LAST + 1, LAST + 2, LAST + 3
"""Becomes several characters or none, or is a numeral (see `several`); is normalised with its neighbours; is not learnt
yet."""

NUMERAL, NUMBER = 1, 2
"""Is separated from a number beside it (Ⅱ, ₂); a numeral beside it may have to be separated (Ⅱ, 5, ½, a point, U+200B).
"""

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
        beside: uint8 (0x110000,): `NUMERAL` and `NUMBER`, or 0.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._normalizer = tokenizer.normalizer
        self._pre_tokenizer = tokenizer.pre_tokenizer
        self._ids: dict[str, int] = tokenizer.get_vocab(with_added_tokens=False)
        self._unknown = self._ids["[UNK]"]
        self.form = np.full(LAST + 1, UNSEEN, dtype=np.uint32)
        self.token = np.full(LAST + 1, BLANK, dtype=np.int32)
        self.several: dict[int, np.ndarray] = {}
        self.beside = np.zeros(LAST + 1, dtype=np.uint8)

    def learn(self, codes: np.ndarray) -> None:
        """Fill the rows of the given code points (integers, any shape)."""
        unique = np.unique(codes).tolist()
        characters = [REPLACEMENT if 0xD800 <= code < 0xE000 else chr(code) for code in unique]
        settled = [is_settled(character) for character in characters]
        self.form[[code for code, each in zip(unique, settled, strict=True) if not each]] = DEPENDS
        known = [(code, one) for code, one, each in zip(unique, characters, settled, strict=True) if each]
        forms = forms_of([character for _, character in known], self._normalizer.normalize_str)
        for (code, _), (form, beside) in zip(known, forms, strict=True):
            for each in form:
                self.token[ord(each)] = self._token(each)
            self.beside[code] = beside
            is_plain = len(form) == 1 and not beside & NUMERAL
            if not is_plain:
                self.several[code] = np.array([ord(each) for each in form], dtype=np.uint32)
            # Last, as it marks the row as complete for the next look-up.
            self.form[code] = ord(form) if is_plain else SEVERAL

    def separated(self, points: np.ndarray, places: np.ndarray) -> np.ndarray:
        """Return those of the places (int64, any length) that may have a numeral to be separated from its neighbour.

        The code points begin and end with one that is neither a numeral nor a number.
        """
        numerals = places[self.beside[points[places]] & NUMERAL > 0]
        neighbours = self.beside[points[numerals - 1]] | self.beside[points[numerals + 1]]
        found: np.ndarray = numerals[neighbours & NUMBER > 0]
        return found

    def _token(self, character: str) -> int:
        # "xyx" stays one piece, "x x" splits into two, "x医x" into three.
        pieces = len(self._pre_tokenizer.pre_tokenize_str(f"x{character}x"))
        if pieces == 1:
            return LETTER
        return BLANK if pieces == 2 else self._ids.get(character, self._unknown)


def forms_of(characters: Sequence[str], normalise: Callable[[str], str]) -> list[tuple[str, int]]:
    """Return the normalised form of each character by itself, and its `NUMERAL` and `NUMBER`.

    Args:
        characters: characters that are settled (see `is_settled`).
        normalise: normalises a text; it is called a few times only, as each call has many steps.
    """

    def between(neighbour: str) -> list[str]:
        # A line each. The line end itself, the only character with one in its form, gives two empty lines.
        lines = [f"{neighbour}{character}{neighbour}" for character in characters if character != "\n"]
        found = iter(normalise("\n".join(lines)).split("\n"))
        return [next(found) if character != "\n" else f"{neighbour}\n{neighbour}" for character in characters]

    found = []
    for form, in_digits, in_numerals in zip(between(""), between("5"), between("Ⅱ"), strict=True):
        is_numeral = in_digits != f"5{form}5"
        is_number = in_numerals.replace("Ⅱ", "2") != f"2{form}2" or not form  # without it its neighbours meet
        found.append((form, NUMERAL * is_numeral + NUMBER * is_number))
    return found


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
