"""Later mentions of the names that a document has given: whole, with blanks or a line's end inside, or in part.

Partial mentions count where they can hardly be anything else: 老王 and 王总 behind 王建国, 雪琴 behind 谭雪琴. A name
that is a word too (白雪, 高峰) is searched for where only a person can be meant: 白雪自述咳嗽. Where a field of the
document tells that its person is called so, every mention counts that is a word of its own: 高峰 in 高峰来诊, but not
in 高峰期. Time grows with the characters, not with the number of names.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Set

import numpy as np
import rjieba

from infra.arrays.code_points import points_of
from tasks.deidentify.forms.identifier import Identifier, Span, mentions
from tasks.deidentify.forms.names import GIVEN, is_wordlike, surname_length
from tasks.deidentify.forms.places import words

# matches: " ", "\u3000", "\n"
# not: "王", ""
_BLANK = re.compile("[\t\n\r \xa0\u3000]++")
_BLANKS = points_of("\t\n\r \xa0\u3000")
_MOST_BLANKS = 3
"""Blanks between two characters of a mention."""
PART = "part of a name found before"
"""Rule of partial mentions. They are no names themselves, to be searched for elsewhere."""
_BEFORE, _BEHIND = "老小", "总工哥姐叔婶某"
"""Characters that make a short form of a surname: 老王, 王总."""

# matches: "王伟", "阿依古丽·买买提"
# not: "王", "李某"
_PLAIN_NAME = re.compile(r"[\u4e00-\u9fff·]{2,20}(?<!某)\Z")
# matches: "白雪", "安静"
# not: "王伟明", "王", "A1"
_WORD_AS_NAME = re.compile(r"[\u4e00-\u9fff]{2}\Z")
# matches: "佳佳", "小宝", "铁蛋", "二妞"
# not: "高明", "安静"
_PET_NAME = re.compile(r"(.)\1\Z|[小阿][\u4e00-\u9fff]\Z|[\u4e00-\u9fff][蛋娃妞丫崽宝]\Z")
_NO_PET_NAMES = frozenset(
    words(
        "小孩 小弟 小妹 小心 常常 天天 慢慢 渐渐 姐姐 弟弟 妹妹 叔叔 宝宝 娃娃 清清 女娃 男娃 小娃 珠宝 "
        "鸡蛋 鸭蛋 鹅蛋 皮蛋"
    )
)
"""Words of the same form: one that was taken for a name by mistake must not take the others along."""
# matches: "病", "a"
# not: "，"
_WORD_GOES_ON = re.compile(r"[\u4e00-\u9fffA-Za-z]")


# matches: "自述咳嗽", "诉头痛", "对青霉素过敏", "之女", "家属在场", "体温38", "先生"
# not: "入睡", "期", "的发作"
_PERSON_BEHIND = re.compile(
    '[自主]?[诉述称]|表示|说|要求|拒绝|否认|家属|本人|同意|签字|[体神][温志]|病情|因[\u4e00-\u9fff“"]|于(?:今|昨|前|\\d)'
    "|对[\u4e00-\u9fffA-Za-z]{1,10}过敏|之[子女父母妻夫弟妹]|先生|女士|的?(?:家人|爱人|丈夫|妻子|父亲|母亲|儿子|女儿|床位|病历)"
)
"""What only a person does, has or is."""
# matches: "10g", "12克", " 3片"
# not: "，10g"
_DOSE_BEHIND = re.compile(r"\s?\d+(?:\.\d+)?\s?(?:g|mg|克|片|粒|枚|钱|ml)")


def names_again(text: str, names: Set[str], certain: Set[str] = frozenset()) -> list[Identifier]:
    """Return other mentions of names, in order, and of parts of them.

    Args:
        text: any text.
        names: names found before; a word among them counts where only a person can be meant.
        certain: names that a field says the person has; a word among them counts wherever it stands by itself.
    """
    whole = {name for name in names if _is_whole(name)}
    called_by_words = {name for name in names if not _is_whole(name) and _WORD_AS_NAME.match(name)}
    if not whole and not called_by_words:
        return []
    again_words = [span for span in mentions(text, called_by_words) if _means_a_person(text, span, certain)]
    found = sorted({*mentions(text, whole), *_split(text, whole), *again_words})
    again: list[Identifier] = []
    for start, end in found:
        if not again or start >= again[-1].end:
            again.append(Identifier(start, end, "name", "found before"))
    hidden = "".join(_hidden(text, again))
    parts = {part for name in whole for part in _parts(name)}
    spans = (span for span in mentions(hidden, parts) if _is_part(text, span))
    return sorted([*again, *(Identifier(*span, "name", PART) for span in spans)])


def _means_a_person(text: str, span: Span, certain: Set[str]) -> bool:
    """Return True where a word that is a name, too, is the person: 白雪自述咳嗽, but not 高峰期 or 白术10g."""
    start, end = span
    if _DOSE_BEHIND.match(text, end):
        return False
    at = max(0, start - 2)
    for word in rjieba.cut(text[at : end + 2], False):
        if at == start and word == text[start:end]:
            break
        at += len(word)
    else:
        return False  # part of a longer word
    return text[start:end] in certain or _PERSON_BEHIND.match(text, end) is not None


def _hidden(text: str, found: list[Identifier]) -> Iterator[str]:
    end = 0
    for one in found:
        yield text[end : one.start]
        yield "〓" * (one.end - one.start)
        end = one.end
    yield text[end:]


def _unpadded(name: str) -> str:
    return "".join(name.split())


@functools.lru_cache(maxsize=4096)
def _is_whole(name: str) -> bool:
    """Return True for a name that can be searched for: 高明 and other pairs that are words would hit the words.

    What children and friends are called is searched for although the dictionary may hold it: 铁蛋, 佳佳.
    """
    name = _unpadded(name)
    is_word = len(name) == 2 and rjieba.has_word(name) and not _is_pet_name(name)
    return bool(_PLAIN_NAME.match(name)) and not is_word


def _is_pet_name(name: str) -> bool:
    """Return True for 佳佳, 小宝 and 铁蛋, but not for 小腿, 阵阵 and 鸡蛋."""
    if not _PET_NAME.match(name) or name in _NO_PET_NAMES:
        return False
    return name[1] in "蛋娃妞丫崽宝" or GIVEN.issuperset(name)


@functools.lru_cache(maxsize=4096)  # a text is searched several times with the same names
def _parts(name: str) -> tuple[str, ...]:
    """Return the forms in which a name may come again: 老王, 王总, and a given name that is no word."""
    return tuple(_forms(name))


def _forms(name: str) -> Iterator[str]:
    surname = surname_length(name, 0)
    given = name[surname:]
    if not surname or not 1 <= len(given) <= 2:
        return
    if surname == 1 and not is_wordlike(name[0]):
        yield from (before + name[0] for before in _BEFORE)
        yield from (name[0] + behind for behind in _BEHIND)
    if len(given) == 2 and GIVEN.issuperset(given) and not rjieba.has_word(given):
        yield given


def _is_part(text: str, span: Span) -> bool:
    """Return True where a part of a name stands by itself: not 老王家 or 王总结."""
    start, end = span
    last = text[end - 1]
    if text[start] in _BEFORE:
        return not rjieba.has_word(text[end - 1 : end + 1])
    if last in _BEHIND:
        return not _WORD_GOES_ON.match(text, end) and not rjieba.has_word(text[start:end])
    return not rjieba.has_word(text[start - 1 : start + 1]) and not rjieba.has_word(text[end - 1 : end + 1])


def _split(text: str, names: Set[str]) -> Iterator[Span]:
    """Yield mentions with blanks between the characters; across lines only those of three characters and more."""
    is_blank = np.isin(points_of(text), _BLANKS)
    if not is_blank.any():
        return
    places = np.flatnonzero(~is_blank)
    for first, last in mentions(_BLANK.sub("", text), names):
        at = places[first:last]
        start, end = int(at[0]), int(at[-1]) + 1
        gaps = np.diff(at)
        if end - start == last - first or gaps.max() > _MOST_BLANKS + 1:
            continue
        if last - first > 2 or "\n" not in text[start:end]:
            yield start, end
