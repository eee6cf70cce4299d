"""Words of segments as numbers, for phrase mining: words, marks that separate sentences, and skipped white space.

A phrase never extends across a punctuation mark. Signs inside terms (β-受体, CD4+T, 诺姆·乔姆斯基) are words of their
own, so that a phrase's words join to exactly the text; white space between words is skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Literal

Unit = Literal["words", "characters"]
"""Unit of phrases: the segments' words, or characters (runs of Latin letters and digits stay whole)."""

MARKS = (",", ".", '"', ";", "!", ":", "(", ")")
"""Sentence separators, as AutoPhrase writes them; quotes and brackets are features of the phrases that they enclose."""

BLANK = -1
"""Code of white space, which is skipped."""

SEPARATOR = -2
"""Codes of `MARKS` run downwards from here."""

_CONNECTORS = frozenset("-‐·•+/&'’")

_MARK_OF = {
    **dict.fromkeys(",，、", ","),
    **dict.fromkeys(".。?？\n\r", "."),
    **dict.fromkeys('"“”「」『』《》〈〉', '"'),
    **dict.fromkeys("!！", "!"),
    **dict.fromkeys(":：", ":"),
    **dict.fromkeys("(（[【〔{", "("),
    **dict.fromkeys(")）]】〕}", ")"),
}

_STOP_WORDS = """
的 地 得 了 着 过 和 与 及 或 而 并 且 但 是 为 在 于 对 从 向 由 以 被 把 将 使 让 给 有 无 不 没 没有
也 都 就 还 又 很 更 最
太 可 可以 能 能够 会 要 应 应该 需 需要 一 一个 一种 这 这个 这种 那 那个 其 其他
该 此 各 每 我 你 您 他 她 它 我们 你们 他们
什么 怎么 如何 吗 呢 吧 啊 等 等等 上 下 中 内 外 前 后 时 时候 因为 所以 如果 虽然 但是 以及 同时 主要 一般 进行
"""

STOP_WORDS = frozenset(_STOP_WORDS.split()) | _CONNECTORS
"""Words that no term begins or ends with; the user's list adds to them."""


def cut_units(text: str, lengths: Sequence[int], unit: Unit) -> list[str]:
    """Split a text into its words (`lengths` in characters) or their characters; the pieces join to the text."""
    ends = list(accumulate(lengths))
    pieces = [text[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    if unit == "words":
        return pieces
    return [one for piece in pieces for one in ([piece] if piece.isascii() else piece)]


def join_words(words: Sequence[str]) -> str:
    """Return a phrase as it is shown: its words joined, with a blank between Latin letters or digits."""
    text = ""
    for word in words:
        apart = text and _is_latin(text[-1]) and _is_latin(word[0])
        text += f" {word}" if apart else word
    return text


def _is_latin(character: str) -> bool:
    return character.isascii() and character.isalnum()


class Vocabulary(dict[str, int]):
    """Codes of pieces of text: 0, 1, … for words in the order of their first appearance, negative for the rest.

    Looking up a new word gives it the next number; if `closed`, a new word is `unknown`.
    """

    unknown = SEPARATOR - len(MARKS)

    def __init__(self, words: Iterable[str] = (), closed: bool = False) -> None:
        super().__init__((word, number) for number, word in enumerate(words))
        self.words = list(self)
        self._closed = closed

    def __missing__(self, piece: str) -> int:
        mark = _mark_of(piece)
        if mark is not None:
            self[piece] = BLANK if not mark else SEPARATOR - MARKS.index(mark)
            return self[piece]
        if self._closed:
            return self.unknown
        self[piece] = len(self.words)
        self.words.append(piece)
        return self[piece]

    def codes(self, pieces: Iterable[str]) -> list[int]:
        """Return the code of each piece."""
        return list(map(self.__getitem__, pieces))


def _mark_of(piece: str) -> str | None:
    """Return None for a word, an empty string for white space, and the separating mark for everything else."""
    if piece in _CONNECTORS or any(map(str.isalnum, piece)):
        return None
    marks = {_MARK_OF.get(character, ";") for character in piece if character in "\n\r" or not character.isspace()}
    if not marks:
        return ""
    return marks.pop() if len(marks) == 1 else ";"
