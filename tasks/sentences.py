"""Cutting a document at its seams: sentence ends, then commas, then between words and numbers.

All cuts are places in one text, so that the pieces always join to it, and lengths in tokens come from one
function of (start, end): exact where a tokeniser has gone over the whole text, estimated where there is none.

Time and memory grow with the characters.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import regex

Cost = Callable[[int, int], int]
"""Length in tokens of text[start:end]."""

MAX_BRACKET = 200
"""Characters between two brackets above which they no longer hold together what is inside."""


class Span(NamedTuple):
    """A piece of a text and its length in tokens."""

    start: int
    end: int
    tokens: int


_SENTENCE = regex.compile(
    r"""(?:[。！？；!?;…]++|(?<=\p{Ll}{2})\.(?=\s))[”’」』）)】\]》〉}"']*+\s*+|\n\s*+""", regex.VERSION1
)
"""The end of a sentence, with the quotes and brackets that close behind it."""

_LINE = regex.compile(r"\n\s*+")

_CLAUSE = regex.compile(r"(?:[，、：]|(?<!\d)[,:]|[,:](?!\d))[”’」』）)】\]》〉]*+\s*+")
"""A comma or a colon, but none inside 1,000 or 1:100."""

_LETTER = r"[\p{L}\p{N}\p{M}--\p{Han}]"
_UNIT = (
    "毫克|微克|千克|公斤|克|毫升|微升|升|万?单位|国际单位|毫米|厘米|米|小时|分钟|秒|天|日|周|个?月|年|岁|"
    "次|片|粒|丸|支|袋|瓶|滴|例|倍|度"
)
_ATOM = regex.compile(
    rf"{_LETTER}++(?:[.,:/+\-‐–—~～±×·^'’_%％‰．，：／－＋*]++{_LETTER}++|(?<=\d) [a-zA-Zμµ]++)*+"
    rf"(?:(?<=\d) ?[%％‰℃℉°]C?|(?<=\d)(?:{_UNIT}))?\s*+|.\s*+",
    regex.VERSION1 | regex.DOTALL,
)
"""What is cut only where nothing else helps: a number with its unit, a word, a single character."""

_BRACKETS = regex.compile(r"[（(【\[「『《“〈{）)】\]」』》”〉}\n]")
_CLOSING = dict(zip("）)】]」』》”〉}", "（(【[「『《“〈{", strict=True))


def cut(text: str, cost: Cost, max_tokens: int, min_tokens: int, keep_lines: bool = False) -> list[Span]:
    """Pieces of at most `max_tokens` that join to the text, in whole sentences where those fit.

    With `keep_lines` in whole lines where those fit, such as the turns of a dialogue. A sentence that is too long is
    cut at commas, then between words, numbers and brackets, then anywhere. A piece under `min_tokens` takes from a
    neighbour what it lacks if both can be long enough; the others stay short.
    """
    tokens = cost(0, len(text))
    if tokens <= max_tokens:
        return [Span(0, len(text), tokens)] if text else []
    seams = _Seams(text)
    best = _LINES if keep_lines else _SENTENCES
    units = [unit for unit in _units(seams, cost, 0, len(text), max_tokens, best) if unit.end > unit.start]
    # Units are not always as long together as each for itself: a run of letters cut in two has more tokens.
    pieces = [Span(start, end, cost(start, end)) for start, end, _ in _pack(units, max_tokens)]
    for index in range(len(pieces)):
        if pieces[index].tokens < min_tokens:
            _lengthen(pieces, index, seams, cost, max_tokens, min_tokens, best)
    return pieces


_LINES, _SENTENCES, _CLAUSES, _ATOMS, _IN_BRACKETS, _ANYWHERE = range(6)


class _Seams:
    """Where a text may be cut, from the best places to the worst."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._opened, self._closed = _bracket_pairs(text)

    def between(self, start: int, end: int, level: int) -> Iterator[int]:
        """Places of a level in (start, end), in order: line ends, sentence ends, clause ends, ends of words and
        numbers (all outside brackets), the same inside them, every character."""
        if level == _ANYWHERE:
            yield from range(start + 1, end)
            return
        pattern = (_LINE, _SENTENCE, _CLAUSE, _ATOM, _ATOM)[level]
        for match in pattern.finditer(self._text, start, end):
            place = match.end()
            if start < place < end and (level == _IN_BRACKETS or not self._inside_brackets(place)):
                yield place

    def _inside_brackets(self, place: int) -> bool:
        index = bisect_left(self._opened, place) - 1
        return index >= 0 and place <= self._closed[index]


def _bracket_pairs(text: str) -> tuple[list[int], list[int]]:
    """Places of the outermost brackets that close within `MAX_BRACKET` characters and on their line."""
    opened: list[int] = []
    closed: list[int] = []
    waiting: list[tuple[str, int]] = []
    for match in _BRACKETS.finditer(text):
        mark, place = match[0], match.start()
        if mark == "\n":
            waiting.clear()
        elif mark not in _CLOSING:
            waiting.append((mark, place))
        elif waiting and waiting[-1][0] == _CLOSING[mark]:
            start = waiting.pop()[1]
            if place - start <= MAX_BRACKET:
                while opened and opened[-1] > start:  # those inside
                    opened.pop()
                    closed.pop()
                opened.append(start)
                closed.append(place)
    return opened, closed


def _units(seams: _Seams, cost: Cost, start: int, end: int, max_tokens: int, level: int) -> Iterator[Span]:
    """Pieces that need no further cut, as large as the seams of the best level leave them."""
    for place in (*seams.between(start, end, level), end):
        tokens = cost(start, place)
        if tokens <= max_tokens or level == _ANYWHERE:
            yield Span(start, place, tokens)
        else:
            yield from _units(seams, cost, start, place, max_tokens, level + 1)
        start = place


def _pack(units: Sequence[Span], max_tokens: int) -> list[Span]:
    """Neighbours joined as long as they fit."""
    pieces: list[Span] = []
    for unit in units:
        if pieces and pieces[-1].tokens + unit.tokens <= max_tokens:
            pieces[-1] = Span(pieces[-1].start, unit.end, pieces[-1].tokens + unit.tokens)
        else:
            pieces.append(unit)
    return pieces


def _lengthen(
    pieces: list[Span], index: int, seams: _Seams, cost: Cost, max_tokens: int, min_tokens: int, best: int
) -> None:
    """Move the border to a neighbour, the one before first, as little as makes both long enough."""
    for left in (index - 1, index):
        if left < 0 or left + 1 >= len(pieces):
            continue
        start, border, end = pieces[left].start, pieces[left].end, pieces[left + 1].end
        for level in range(best, _IN_BRACKETS):
            places = seams.between(start, end, level)
            halves = [(Span(start, place, cost(start, place)), Span(place, end, cost(place, end))) for place in places]
            fitting = [pair for pair in halves if all(min_tokens <= half.tokens <= max_tokens for half in pair)]
            if fitting:
                nearest = min(fitting, key=lambda pair: (abs(pair[0].end - border), pair[0].end))
                pieces[left], pieces[left + 1] = nearest
                return
