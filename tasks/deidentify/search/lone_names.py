"""Names that no cue announces: a run of characters between two marks that is a name rather than words.

Half of the surnames are words too, and drugs and signs look like names (黄芩, 何首乌, 方颅). So a run counts only if
each of its characters is used in names, if jieba's dictionary holds no word in it, and if it has more than the least
likely surname and characters: 龙桂芝，T37.2℃ at the start of a note, 吴桂英、郑国华、冯宝宝 in a list.

Time grows with the characters.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

import numpy as np
import rjieba

from infra.arrays.code_points import code_points, points_of
from infra.arrays.compiled import compiled
from tasks.deidentify.forms.identifier import Span
from tasks.deidentify.forms.names import COMPOUND_SURNAMES, GIVEN, SURNAMES, is_stop, is_wordlike, surname_length

_SURNAME, _GIVEN, _LETTER = 1, 2, 4

# matches: "，", "：", "（", " 〔", "”", "、王", "/王", "三人"
# not: "的", "～", "a", "(+)"
_MARK_BEHIND = re.compile(
    r"\s{0,3}(?:[，,：:；;〔”]|[（(](?![+\-±＋－阳阴]))|[、/／](?=[\u4e00-\u9fff〔])|[两二三四五六七八九十]人|等\d?人"
)
"""Marks behind a name of three characters."""
# matches: "（床28", "（长子", "：VAS", "，左", "（夜班"
# not: "的", "、"
_DATA_BEHIND = re.compile(
    r"\s?(?:[：:]|[（(](?:床|[长次]?[子女]|[夜白早中晚]班|配偶|[父母]|儿|女儿|妻|夫|审|化名|\d)|，(?:[左右双男女]|术))"
)
"""Data of a person behind a name of two characters, which by itself might be a word."""
# matches: "。", "\n", "：", "“"
# not: "《", "-"
_MARK_BEFORE = re.compile(r"[，,。：:；;、/／\s〕）)】“]")
_RARE_SURNAMES = frozenset(
    "信展阴昝智幸奉植衡富尧闭居揭干尉冶斯元束檀衣玉银亢公哈湛戎勾茅利呼乌母那宿鲜印逯隆茹诺战慕危双"
    "党宫席项连车古艾阳时农官封谈满闻位权强帅豆盖计相初门云容普羊国百海黑青花木水火土石金白黄方安平和高常应全单"
)
"""Surnames that begin a word, a drug or a place more often than a name."""


def may_hold_lone_names(texts: Sequence[str]) -> np.ndarray:
    """Return False for texts without a run that could be a name: bool (T,)."""
    points, ends = code_points(texts)
    found = np.zeros(len(texts), dtype=np.bool_)
    _glance(points, ends, _classes(), found)
    return found


def lone_names(text: str) -> list[Span]:
    """Return the names between two marks, in order."""
    points = points_of(text)
    places = np.empty(len(points) // 2 + 1, dtype=np.int64)
    count = _runs(points, _classes(), places)
    ends = (
        (start, end)
        for start in places[:count].tolist()
        if start == 0 or _MARK_BEFORE.match(text[start - 1])
        for end in (start + 4, start + 3, start + 2)
    )
    return [(start, end) for start, end in ends if _is_lone_name(text, start, end)]


def _is_lone_name(text: str, start: int, end: int) -> bool:
    """Return True for a surname with two characters that are no words, with marks on both sides."""
    surname = surname_length(text, start)
    name = text[start:end]
    if (
        not surname
        or not 1 <= end - start - surname <= 2
        or name[0] in _RARE_SURNAMES
        or is_wordlike(name[0])
        or is_stop(name)
    ):
        return False
    if not GIVEN.issuperset(name[surname:]):
        return False
    if end - start - surname == 1 and not _DATA_BEHIND.match(text, end):
        return False
    if not _MARK_BEHIND.match(text, end):
        return False
    words: list[str] = rjieba.cut(name, False)
    return all(len(word) == 1 for word in words[1:]) and len(words[0]) == surname


@compiled
def _glance(points: np.ndarray, ends: np.ndarray, classes: np.ndarray, found: np.ndarray) -> None:
    places = np.empty(1, dtype=np.int64)
    for text in range(len(found)):
        found[text] = _runs(points[ends[text] : ends[text + 1]], classes, places) > 0


@compiled
def _runs(points: np.ndarray, classes: np.ndarray, places: np.ndarray) -> int:
    """Write where a surname and two characters of given names follow a mark, as many places as fit; return how many."""
    found, place, inside = 0, 0, False
    while place < len(points) and found < len(places):
        kind = classes[points[place]]
        if inside or not kind & _SURNAME:
            inside = (kind & _LETTER) != 0
            place += 1
            continue
        if place + 2 < len(points) and classes[points[place + 1]] & _GIVEN:
            places[found] = place
            found += 1
        inside = True
        place += 1
    return found


@functools.cache
def _classes() -> np.ndarray:
    """Return the classes of each code point as bits: uint8 (0x110000,)."""
    classes = np.zeros(0x110000, dtype=np.uint8)
    letters = [*range(0x3400, 0xA000), *range(0x30, 0x3A), *range(0x41, 0x5B), *range(0x61, 0x7B), *map(ord, "·〓")]
    for characters, kind in (
        (letters, _LETTER),
        ([ord(name[0]) for name in (*SURNAMES, *COMPOUND_SURNAMES)], _SURNAME),
        ([*map(ord, GIVEN), *(ord(name[1]) for name in COMPOUND_SURNAMES)], _GIVEN),
    ):
        classes[characters] |= np.uint8(kind)
    return classes
