"""Persons who speak in a chat, by what they are called at the beginnings of lines: 朵朵妈：谁啊.

A line of a record begins with a word and a colon too (主诉：). So a speaker must speak twice, and must be called as
people are: 老周, 茶茶, 嘟嘟爸, 孙东, Linda, but by no word of the dictionary. Surnames alone (晁：… and 冼：…) and
names in brackets (【阮】…【危】…) count where two of them speak. Time grows with the characters.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
import rjieba

from tasks.deidentify.forms.identifier import Span
from tasks.deidentify.forms.names import is_name, is_wordlike, surname_length
from tasks.deidentify.forms.places import words

# matches: "\n朵朵妈：", "\nLinda:"
# not: "患者的女儿小王说：", "\nBP:"
_LABEL = re.compile(r"\n[ \u3000]{0,4}(?P<name>[\u4e00-\u9fff]{2,4}|老[A-Z]|[A-Z][a-z]{2,11})(?=[：:])")
# matches: "\n晁：", "\n欧阳:"
# not: "\n左下肺："
_SURNAME_LABEL = re.compile(r"\n[ \u3000]{0,4}(?P<name>[\u4e00-\u9fff]{1,2})(?=[：:])")
# matches: "【阮】", "[晁盖]"
# not: "[CT]", "【现病史摘要】", "[1]"
_BRACKETED = re.compile(r"(?:(?<=【)(?P<wide>[\u4e00-\u9fff]{1,3})(?=】)|(?<=\[)(?P<plain>[\u4e00-\u9fff]{1,3})(?=\]))")
# matches: "嘟嘟爸", "老周", "阿珍"
# not: "血压", "医生"
_CALLED = re.compile(r"[\u4e00-\u9fff]{1,3}(?:妈|爸|妈妈|爸爸|姐|哥|叔|婶|嫂)|[小老阿][\u4e00-\u9fffA-Z]{1,2}")
_NO_PERSON = frozenset(
    words(
        "Plan Nurse Patient Doctor Note Name Date Time Diagnosis History Signed From Subject Impression Findings "
        "Allergies Medications Assessment Objective Subjective Exam Labs Sex Age Ref Tel Phone Email Address 宝妈 宝爸 "
        "孩妈 孩爸 大姐 大哥 大叔 大嫂 大婶 表姐 表哥 堂姐 堂哥 老人 小孩 老师 小朋友 老年 小便 小儿 "
        "爸爸 妈妈 爷爷 奶奶 哥哥 弟弟 姐姐 妹妹 叔叔 舅舅 姑姑 姨姨 伯伯 婶婶 公公 婆婆 姥姥 宝宝 太太"
    )
)
"""Words before colons that are headings, or roles rather than names."""
_LEAST = 2
"""Lines that begin with a speaker."""


def may_hold_speakers(texts: Sequence[str]) -> np.ndarray:
    """Return which texts have speakers: bool (T,)."""
    return np.array([bool(chat_speakers(text)) for text in texts], dtype=np.bool_)


def chat_speakers(text: str) -> list[Span]:
    """Return what speakers are called at the beginnings of their lines, in order."""
    found = _bracketed(text) if text.count("】") + text.count("]") >= _LEAST else []
    lines = text.count("\n") + 1
    if lines >= _LEAST:
        lines_text = f"\n{text}"  # a pattern that begins with a sign is searched for faster than one with ^
        alone = [label.span("name") for label in _SURNAME_LABEL.finditer(lines_text) if _is_surname(label["name"])]
        seen = alone if len(alone) >= _LEAST else []
        if lines > _LEAST:
            labels = list(_LABEL.finditer(lines_text))
            counts = Counter(label["name"] for label in labels)
            repeated = (label for label in labels if counts[label["name"]] >= _LEAST)
            seen += [label.span("name") for label in repeated if _is_speaker(label["name"])]
        found += [(start - 1, end - 1) for start, end in seen]
    return sorted(set(found))


def _bracketed(text: str) -> list[Span]:
    labels = [label.span() for label in _BRACKETED.finditer(text) if _is_surname(label[0]) or _is_bracketed(label[0])]
    return labels if len(labels) >= _LEAST else []


def _is_surname(word: str) -> bool:
    """Return True for a surname alone that is rarely a word: 晁, 欧阳, but not 左 or 方."""
    return surname_length(word, 0) == len(word) and not is_wordlike(word[0])


@functools.lru_cache(maxsize=4096)
def _is_bracketed(word: str) -> bool:
    return len(word) > 1 and not rjieba.has_word(word) and is_name(word)


@functools.lru_cache(maxsize=4096)
def _is_speaker(name: str) -> bool:
    if name in _NO_PERSON:
        return False
    if len(name) == 2 and name[0] == name[1]:
        return True  # 茶茶 is in the dictionary, too
    if rjieba.has_word(name):
        return False
    return name[0].isascii() or bool(_CALLED.fullmatch(name)) or is_name(name)
