"""Cuts of a document: at sentence ends, then at commas, then between words and numbers.

All cuts are positions in one text, so that the pieces always join to it. Lengths in tokens come from one object: they
are exact if a tokeniser has encoded the whole text, and estimated otherwise.

Time and memory grow with the characters.
"""

from __future__ import annotations

import functools
import itertools
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import regex

from infra.arrays.code_points import points_of
from infra.arrays.compiled import compiled


class Cost(Protocol):
    """Lengths in tokens of the pieces of one text."""

    def __call__(self, start: int, end: int) -> int:
        """Return the length of text[start:end]."""

    def up_to(self, places: np.ndarray) -> list[int]:
        """Return the length of the text up to each of some ascending positions, none of them inside a word."""


class CountedCost:
    """Lengths that a function counts in each piece."""

    def __init__(self, text: str, count: Callable[[str], int]) -> None:
        self._text, self._count = text, count

    def __call__(self, start: int, end: int) -> int:
        return self._count(self._text[start:end])

    def up_to(self, places: np.ndarray) -> list[int]:
        borders = [0, *places.tolist()]
        return list(itertools.accumulate(map(self, borders, borders[1:])))


MAX_BRACKET = 200
"""Most characters between two brackets that are kept together."""


class Span(NamedTuple):
    """A piece of a text and its length in tokens."""

    start: int
    end: int
    tokens: int


_ENDS = "。！？；!?;…"
_CLOSING_MARKS = r"""”’」』）)】\]》〉}"'"""
SENTENCE = regex.compile(rf"(?:[{_ENDS}]++|(?<=\p{{Ll}}{{2}})\.(?=\s))[{_CLOSING_MARKS}]*+\s*+|\n\s*+", regex.VERSION1)
"""The end of a sentence with the quotes and brackets that close after it: `！”` of `好！”他说`, but no point of 3.5."""

LINE = regex.compile(r"\n\s*+")
"""The end of a line, with the blanks that begin the next: `\\n  `."""

_NUMERAL = "[〇零一二两三四五六七八九十百千万亿半廿卅]"
_CLAUSE = regex.compile(
    rf"(?:(?<!\d)[，：∶,:]|[，：∶,:](?!\d)|(?<!\d|{_NUMERAL})、|、(?!\d|{_NUMERAL}))[”’」』）)】\]》〉]*+\s*+"
)
"""A comma or a colon: that of `头痛，`, but none inside `1,000`, `1：100`, `3、4` or `三、四`."""

_LETTER = r"[\p{L}\p{N}\p{M}⁺⁻₊₋--\p{Han}]"
"""A letter or a digit that is not a Chinese character: `a`, `5` or `⁹`."""
_UNIT = (
    "(?:毫米汞柱|厘米水柱|[毫微纳]?摩尔|毫当量|国际单位|单位|[毫微纳千]?克|公斤|斤|[毫微分]?升|"
    "(?:平方|立方)?[毫厘分微纳千]?米|个?半?小时|分钟|刻钟|点钟?|时|分|秒|天|日|个?(?:星期|礼拜)|周|个?半?月|年|岁|"
    "个?疗程|千?卡|千?焦|千?帕|[毫千]?伏|赫兹|"
    "次|片|粒|丸|支|袋|瓶|滴|例|倍|度|个|枚|剂|付|帖|贴|针|颗|张|级|期|型|摄氏度|元|转(?=[/／])|"
    "钱匕?|铢|斗|升|盏|碗|杯|匙|勺|撮|茎|块|寸(?![口关])|尺(?!脉)|丈(?!夫)|条(?!件)|只(?![要有能是可])|根(?![据本治]))"
)
"""A unit in Chinese, such as `毫克`, or one from prescriptions in old books. Some units are also the beginnings of
words: 寸 is one of `三寸`, but not of `寸口`."""
_UNIT_SIGN = r"[%％‰℃℉°\u3380-\u33DF]"
"""A sign for a unit: `℃` or `㎎`."""
_PER = rf"(?:[/／](?:{_UNIT}|[a-zA-Zμµ]{{1,5}}+|[\u3380-\u33DF]|[(（][^()（）\n]{{1,16}}[)）]))*+"
"""What a quantity is divided by: `/L`, `/分` or `/（kg·d）`."""
_QUANTITY = (
    rf"{_LETTER}++"
    rf"(?:[.,:/+\-‐–—~～±×·^'’_%％‰．，：∶／－＋*]++{_LETTER}++"
    rf"|(?<=\d)、(?=\d){_LETTER}++"
    rf"|(?<=(?<!\d)\d{{1,3}})[ \xa0](?=\d{{3}}(?!\d)){_LETTER}++"
    rf"| ?[<>＜＞≤≥≦≧=＝≈]{{1,2}} ?[+\-−]?(?=\.?\d)\.?{_LETTER}++"
    r"|(?<=\d) [a-zA-Zμµ]++)*+"
    r"(?:分之\d[\d.]*+)?+"
    rf"(?:(?<=\d)[十百千万亿]++(?: ?[a-zA-Zμµ]++(?:[/／]{_LETTER}++)*+)?+)?+"
    rf"(?:(?<=[\d十百千万亿½¼¾⅓⅔IVXⅠ-ⅻ⁰¹²³⁴-⁹]) ?(?:{_UNIT_SIGN}C?|[余多几]?{_UNIT})"
    rf"(?:\d[\d.]*+{_UNIT}|(?<=[度米点])\d++(?=[\p{{Han}}，。；、！？）)]|$))*+)?+{_PER}"
)
"""A word of letters, or a number with all that belongs to it: `HbA1c`, `3.5mg/kg`, `120/80 mmHg`, `5 000`, `3/4`,
`P<0.05`, `10万`, `18岁`."""
_IN_NUMERALS = (
    rf"{_NUMERAL}++(?:(?:分之|点)(?:{_NUMERAL}++|\d[\d.]*+))*+(?:[余多几]?{_UNIT}(?:半(?![夏边枝身]))?+{_PER})?+"
)
"""A quantity in Chinese numerals: `三十二岁`, `百分之五`, `二两半`."""
_ATOM = regex.compile(
    rf"(?:(?:[<>＜＞≤≥≦≧=≈±] ?|[+\-−–~～])(?=\d))?+{_QUANTITY}(?: ?[~～±×—–\-−至到] ?(?=\d){_QUANTITY})*+\s*+"
    rf"|{_IN_NUMERALS}(?:[~～—–\-−至到、]?+(?!半[夏边枝身]){_IN_NUMERALS})*+\s*+|.\s*+",
    regex.VERSION1 | regex.DOTALL,
)
"""A unit that is cut only as a last resort: a number or a range with its sign and unit, a word, or a single character:
`±3.5`, `18~65岁`, `三至五天`, `痛`."""

_ANY_COMMA = regex.compile(r"[，、：∶,:\s]\s*+")
"""The separator at which a long list of numbers is cut: `、` of `3、4、5`."""

_OPENING, _CLOSING = "（(【[「『《“〈{", "）)】]」』》”〉}"


def cut(text: str, cost: Cost, max_tokens: int, min_tokens: int, keep_lines: bool = False) -> list[Span]:
    """Return pieces of at most `max_tokens` that join to the text, in whole sentences where these fit.

    A sentence that is too long is cut at commas, then between words, numbers and brackets, then anywhere. A piece
    shorter than `min_tokens` takes text from a neighbour if both can be long enough; otherwise it remains short.

    Args:
        text: the text.
        cost: lengths of its pieces.
        max_tokens: most tokens of a piece.
        min_tokens: fewest tokens of a piece, where possible.
        keep_lines: keep whole lines together where these fit, such as the turns of a dialogue.
    """
    tokens = cost(0, len(text))
    if tokens <= max_tokens:
        return [Span(0, len(text), tokens)] if text else []
    seams = _Seams(text)
    best = _LINES if keep_lines else _SENTENCES
    borders = _packed(seams, cost, max_tokens, best)
    # The length of a piece is not always the sum of its units': a run of letters cut in two has more tokens.
    pieces = [Span(start, end, cost(start, end)) for start, end in itertools.pairwise(borders)]
    for index in range(len(pieces)):
        if pieces[index].tokens < min_tokens:
            _lengthen(pieces, index, seams, cost, max_tokens, min_tokens, best)
    return pieces


def _packed(seams: _Seams, cost: Cost, max_tokens: int, best: int) -> list[int]:
    """Return the borders of pieces of whole units, lines or sentences, as many as fit into each piece."""
    found = seams.all(best)
    sums, places = cost.up_to(found), found.tolist()
    borders = [0]
    done, spent = 0, 0  # the text before `done` is in pieces, and the tokens before the last, open one are `spent`
    index = 0  # the first of `places` after `done`
    while index < len(places):
        # Put all units into the open piece that fit and do not end inside brackets.
        fitting = seams.last_outside_brackets(places, index, bisect_right(sums, spent + max_tokens, lo=index) - 1)
        if fitting >= index:
            done, index = places[fitting], fitting + 1
            if index == len(places):
                break
        following = seams.first_outside_brackets(places, index)
        before = sums[index - 1] if index else 0
        if sums[following] - before <= max_tokens:  # the next unit fits into a new piece
            borders.append(done)
            spent = before
            continue
        # The next unit is too long for any piece: cut it at the seams of the next levels.
        for unit in _units(seams, cost, done, places[following], max_tokens, best + 1):
            if before + unit.tokens - spent > max_tokens and unit.start > borders[-1]:
                borders.append(unit.start)
                spent = before
            before += unit.tokens
        spent += sums[following] - before  # the difference between the sum of the units and the whole
        done, index = places[following], following + 1
    return [*borders, done]


_LINES, _SENTENCES, _CLAUSES, _ATOMS, _IN_BRACKETS, _IN_LISTS, _ANYWHERE = range(7)
_PATTERNS = (LINE, SENTENCE, _CLAUSE, _ATOM, _ATOM, _ANY_COMMA)


def ends_in(text: str, only_lines: bool = False) -> list[int]:
    """Return the positions where matches of `SENTENCE`, or of `LINE`, end in a text, in a quarter of their time."""
    found: list[int] = _ends(points_of(text), only_lines).tolist()
    return found


def _ends(points: np.ndarray, only_lines: bool) -> np.ndarray:
    places = np.empty(len(points), dtype=np.int64)
    return places[: _find_ends(points, _marks(), only_lines, places)]


_END, _CLOSES, _BLANK, _POINT, _LOWER, _LINE_END = 1, 2, 4, 8, 16, 32


@compiled
def _find_ends(points: np.ndarray, marks: np.ndarray, only_lines: bool, places: np.ndarray) -> int:
    """Fill in the ends that `SENTENCE` (or `LINE`) finds in a whole text, and return their number."""
    found, place, size = 0, 0, len(points)
    while place < size:
        mark = marks[points[place]]
        if mark & _LINE_END:
            place += 1
        elif only_lines:
            place += 1
            continue
        elif mark & _END:
            while place < size and marks[points[place]] & _END:
                place += 1
        elif (  # the point after two small letters and before a blank, as in "in vitro. Then"
            mark & _POINT
            and 2 <= place < size - 1
            and marks[points[place + 1]] & _BLANK
            and marks[points[place - 1]] & marks[points[place - 2]] & _LOWER
        ):
            place += 1
        else:
            place += 1
            continue
        if not mark & _LINE_END:
            while place < size and marks[points[place]] & _CLOSES:
                place += 1
        while place < size and marks[points[place]] & _BLANK:
            place += 1
        places[found] = place
        found += 1
    return found


@functools.cache
def _marks() -> np.ndarray:
    """Return the role of each code point at the end of a sentence, in bits: uint8 (0x110000,)."""
    everything = "".join(map(chr, range(0x110000)))
    marks = np.zeros(len(everything), dtype=np.uint8)
    for pattern, mark in (
        (f"[{_ENDS}]", _END),
        (f"[{_CLOSING_MARKS}]", _CLOSES),
        (r"\s", _BLANK),
        (r"\.", _POINT),
        (r"\p{Ll}", _LOWER),
        (r"\n", _LINE_END),
    ):
        for match in regex.finditer(f"(?:{pattern})+", everything):
            marks[match.start() : match.end()] |= np.uint8(mark)
    return marks


class _Seams:
    """Positions at which a text may be cut, from the best to the worst."""

    def __init__(self, text: str) -> None:
        self._text, self._points = text, points_of(text)
        enclosed = np.zeros(len(text) + 1, dtype=np.bool_)
        _find_enclosed(self._points, _brackets(), enclosed)
        self._enclosed = enclosed.tobytes()  # faster than an array when read one by one

    def all(self, level: int) -> np.ndarray:
        """Return the positions of lines or sentences in order, also in brackets, and the end of the text: int64."""
        found = _ends(self._points, only_lines=level == _LINES)
        size = len(self._points)
        return found if len(found) and found[-1] == size else np.append(found, size)

    def between(self, start: int, end: int, level: int) -> Iterator[int]:
        """Yield the positions of a level in (start, end), in order.

        The levels are line ends, sentence ends, clause ends, ends of words and numbers (all outside brackets), the
        latter inside brackets, commas in lists of numbers, and every character.
        """
        if level == _ANYWHERE:
            yield from range(start + 1, end)
            return
        for match in _PATTERNS[level].finditer(self._text, start, end):
            place = match.end()
            if start < place < end and (level >= _IN_BRACKETS or not self._enclosed[place]):
                yield place

    def last_outside_brackets(self, places: Sequence[int], first: int, last: int) -> int:
        """Return the index of the last of `places[first : last + 1]` outside brackets, or first - 1 without any."""
        return next((index for index in range(last, first - 1, -1) if not self._enclosed[places[index]]), first - 1)

    def first_outside_brackets(self, places: Sequence[int], first: int) -> int:
        """Return the index of the first position outside brackets from `first` on; the end of the text is outside."""
        return next(index for index in range(first, len(places)) if not self._enclosed[places[index]])


@compiled
def _find_enclosed(points: np.ndarray, brackets: np.ndarray, enclosed: np.ndarray) -> None:
    """Mark the positions inside pairs of brackets, which are in one line and at most `MAX_BRACKET` characters apart.

    In 甲（乙）, the positions before and after 乙 are inside: a cut there would part the brackets.
    """
    waiting, depth = np.empty(len(points), dtype=np.int64), 0
    for place in range(len(points)):
        bracket = brackets[min(points[place], _BRACKETS_END)]
        if bracket == 0:
            if points[place] == _LINE_FEED:
                depth = 0
        elif bracket > 0:
            waiting[depth] = place
            depth += 1
        elif depth and brackets[points[waiting[depth - 1]]] == -bracket:
            depth -= 1
            if place - waiting[depth] <= MAX_BRACKET:
                enclosed[waiting[depth] + 1 : place + 1] = True


_LINE_FEED = ord("\n")
_BRACKETS_END = 0xFFFF


@functools.cache
def _brackets() -> np.ndarray:
    """Return by code point the kind of an opening bracket, minus that of a closing one, or 0: int8."""
    brackets = np.zeros(_BRACKETS_END + 1, dtype=np.int8)
    for kind, (opening, closing) in enumerate(zip(_OPENING, _CLOSING, strict=True), 1):
        brackets[ord(opening)], brackets[ord(closing)] = kind, -kind
    return brackets


def _units(seams: _Seams, cost: Cost, start: int, end: int, max_tokens: int, level: int) -> Iterator[Span]:
    """Yield pieces that need no further cut, each between the best seams that make it fit."""
    for place in (*seams.between(start, end, level), end):
        tokens = cost(start, place)
        if tokens <= max_tokens or level == _ANYWHERE:
            yield Span(start, place, tokens)
        else:
            yield from _units(seams, cost, start, place, max_tokens, level + 1)
        start = place


def _lengthen(
    pieces: list[Span], index: int, seams: _Seams, cost: Cost, max_tokens: int, min_tokens: int, best: int
) -> None:
    """Move the border to a neighbour, first to the one before, as little as is needed to make both long enough."""
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
