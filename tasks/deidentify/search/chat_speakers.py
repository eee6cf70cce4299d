"""Persons who speak in a chat, by what they are called at the beginnings of lines: 朵朵妈：谁啊.

A line of a record begins with a word and a colon too (主诉：). So a speaker must speak twice, and must be called as
people are: 老周, 茶茶, 嘟嘟爸, 孙东, Linda, but by no word of the dictionary. Surnames alone (晁：… and 冼：…) and
names in brackets (【阮】…【危】…) count where two of them speak. Where lines are plainly talk (我, 您, 吗, 吧), whoever
speaks has a name, be it a word (荔枝：…) or a phrase (静待花开：…), unless it is a role or a heading. Time grows with
the characters.
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
# matches: "\n静待花开:我", "\nZhangWei_sz: 医生", "\n柠檬不萌：不"
# not: "\n患者的女儿昨天和小王说：", "\n头：我"
_TALKER = re.compile(
    r"\n[ \u3000]{0,4}(?P<name>(?=[\u4e00-\u9fff]{2}|[A-Za-z]{2})[\u4e00-\u9fffA-Za-z0-9_]{2,12})[：:]"
    r"(?P<said>[^\n]{1,200})"
)
# matches: "吃了半年了吗", "我就是", "谢谢大夫"
# not: "血压120/80，心率70"
_TALK = re.compile("[吗呢吧呀嘛啦咋哈我你您咱]|谢谢|别慌|[!！]$")
# matches: "医生", "霍大夫", "坐席", "现病史", "联系电话", "护理员", "匿名"
# not: "荔枝", "一米阳光", "过敏星人", "豆豆妈妈"
_ROLE_OR_HEADING = re.compile(
    "(?:医生|医师|大夫|主任|教授|院长|护士长?|护师|药师|技师|[医助]助|助理|助手|营养师|康复师|治疗师|老师|同志|先生|女士|小姐|患者|病人|患儿|家属|家长|本人"
    "|顾客|客户|客服|店员|店长|药店|骑手|坐席|来电|对方|群主|机器人|系统|管家|专家|医院|科室|中心|管理|匿名|用户|网友|楼主|群友|病友|提问|追问|提醒|回复|回答|答复|留言|房东|抬头|正文|微信"
    "|^[大二三四五六七小老]?[姐哥弟妹叔舅姑姨伯婶嫂爷奶爸妈]|^(?:Re|RE|Fw|FW|Dr)|^(?:爸爸|妈妈|爷爷|奶奶|哥哥|姐姐|弟弟|妹妹|老公|老婆|孩子|宝宝|宝妈|宝爸|女儿|儿子|母亲|父亲|丈夫|妻子|姥姥|姥爷|外公|外婆|公公|婆婆)"
    "|[系访办诊理录送患病申审核责主负报陪问答]人|[记作使患学读笔]者|[管理务护售检录收操调协人球队社保]员"
    "|[诊病史症查检治药术量期间号码话址名别龄科费额法式果因况注题文容目议见录单时日级度压率糖状断主诉述表格知告示求标准方案程次]"
    ")[一二三四五1-9]?$"
)
# matches: "骑手小杜", "护理员李桂芝", "药师惠"
# not: "小杜", "骑手"
_ROLE_FIRST = re.compile(
    "(?:骑手|坐席|客服|店员|药师|护士长?|护长|护理员|营养师|管理员|群主|患者|病人|家属|顾客|客户|医生|助理|用户|房东|司机|药店|医助|陪护|护工|同事|病友|群友)(?=[\u4e00-\u9fffA-Za-z])"
)
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
    # Two speakers have two colons, which most texts lack.
    if lines >= _LEAST and text.count("：") + text.count(":") >= _LEAST:
        lines_text = f"\n{text}"  # a pattern that begins with a sign is searched for faster than one with ^
        alone = [label.span("name") for label in _SURNAME_LABEL.finditer(lines_text) if _is_surname(label["name"])]
        seen = alone if len(alone) >= _LEAST else []
        if lines > _LEAST:
            labels = list(_LABEL.finditer(lines_text))
            counts = Counter(label["name"] for label in labels)
            repeated = (label for label in labels if counts[label["name"]] >= _LEAST)
            seen += [label.span("name") for label in repeated if _is_speaker(label["name"])]
        seen += _talkers(lines_text)
        found += [(start - 1, end - 1) for start, end in seen]
    return sorted(set(found))


def _talkers(text: str) -> list[Span]:
    """Return who speaks at the beginnings of lines of which at least half are plainly talk."""
    lines = list(_TALKER.finditer(text))
    if len(lines) < _LEAST or 2 * sum(_TALK.search(line["said"]) is not None for line in lines) < len(lines):
        return []
    found: list[Span] = []
    for line in lines:
        role = _ROLE_FIRST.match(line["name"])
        start = line.start("name") + (role.end() if role else 0)
        if not _is_role_or_heading(text[start : line.end("name")]):
            found.append((start, line.end("name")))
    return found


@functools.lru_cache(maxsize=4096)
def _is_role_or_heading(name: str) -> bool:
    return name in _NO_PERSON or bool(_ROLE_OR_HEADING.search(name)) or (name.isascii() and name.isupper())


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
