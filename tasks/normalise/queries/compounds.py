"""Compound diagnoses, cut into the diseases they name.

    高血压3级、糖尿病伴视网膜病变  →  高血压3级, 糖尿病, 视网膜病变
    肝及胆囊结石                    →  one disease
    颈动脉闭塞和狭窄                →  one disease

The table `JOINTS` lists what joins two diseases. Some joints, such as ; + 伴, always cut. Others, such as , 及 和, also
join parts of the body. They cut only after the name of a disease, and not before something that cannot stand alone: a
qualifier (不可归类在他处者, 由于, 右眼, 偏执型 …) or a change without a site (狭窄).

Each part has at least two letters or digits, except for 痔, 疝 and 龋. Text in brackets is never cut.

Texts are expected in the normal form of kg/names.py. Time grows with the length of a text and its number of cuts.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

# Endings of disease names. Chosen by reading the last characters of names in ICD-10 (codes A to T) and CMeKG: those of
# at least five names, and of few parts of the body, examinations or substances. Short forms that doctors write are
# added (心梗, 上感). The comments show a name for each group.
_ENDINGS = (
    # 肺炎, 肺癌, 骨折
    "[病炎症征癌瘤伤折石疝衰栓死血痛肿疮疹癣毒热咳喘泻痔痫癎痹聋盲损裂缺形亢减竭孔阻疣斑变]",
    # 脑梗塞, 肛瘘, 黄疸, 心梗
    "[塞疽疡瘘障瘫痪疸挛迷厥颤痣痈痒痘癜藓龋秃疟痕晕吐嗽秘搐烂呆狂妄郁孕块迫梗搏扑速痿赘疾贫暑]",
    # 肺结核, 椎管狭窄
    "障碍|硬化|积液|感染|增生|结核|狭窄|脱位|扩张|不全|突出|变性|窒息|暂停|感冒|白喉|伤寒|鼠疫|疾患",
    # 高血压, 低血糖, 胃息肉, 气胸, 近视
    "血压|高压|[高低]血[脂糖]|[息胬]肉|[痛中伤麻癜]风|卒中|疏松|休克|[气血脓]胸|[积腹胸脱]水|[光沙干]眼|[近远弱斜老]视",
    # 尘肺, 脂肪肝, 多囊肾, 心律失常
    "[尘矽阻]肺|肪肝|[甲乙丙丁戊]肝|囊[肝肾]|[萎挛]缩|[脱下]垂|曲张|阻滞|[异失]常|[紊霍错]乱|不[良足育]|缺[乏陷如失]|发作|形成",
    # 肠粘连, 视网膜脱离, 上感, 失眠
    "扭转|套叠|闭锁|粘连|[脱剥分]离|夹层|[钙骨软维]化|[流早难死]产|[流上尿]感|失[调眠禁语明]|亢进|减退|[肿肥扩增]大|[过迟]缓",
    # 脊柱侧弯, 血尿, 血压升高, 二尖瓣反流, 室早, 慢支
    "侧弯|无力|困难|[血白]尿|危象|憩室|[膨脱]出|[内外]翻|结节|[升增]高|[增过]多|[减过]少|反流|未闭|丧失|损害|[室房]早|慢支|支扩",
    # 乙脑, COPD
    "[流乙结]脑|[a-z0-9]{2}",
)
# What may follow the name: 高血压3级, 肺癌术后, 肾炎急性期.
_STAGE = r"[a-z0-9]{1,3}[级期度型]|术后|(?:急性|慢性|晚)期"
# Matches 肺炎 and 高血压3级, but not 胆囊 or 脑血管.
_DISEASE = re.compile(f"(?:{'|'.join(_ENDINGS)})(?:{_STAGE})?$")

# Further endings, which join nothing: 肝转移, 胎膜早破, 肝硬化失代偿期, 痛经, COPD稳定期, 早产临产.
_NAMED = re.compile(
    f"{_DISEASE.pattern}|(?:转移|早破|代偿期|妊娠|流产|息肉|[痛闭]经|耳鸣|早产儿|加重|临产|睾|"
    "(?:[病炎症血死塞竭全衰]|[a-z0-9]{2})(?:稳定|缓解|活动|静止|急性|慢性|恢复|后遗症)期)$"
)


DISEASE_END = f"(?:{'|'.join(_ENDINGS[:-1])})"
"""Pattern of the last characters of a disease in Chinese."""


class Joint(NamedTuple):
    """What may join two diseases."""

    pattern: str
    always: bool
    """Cuts without regard to what is before and after."""
    cut: str
    """Example that it cuts in two."""
    whole: str = ""
    """Example that contains its characters and stays whole."""


JOINTS = (
    Joint("[;。]", True, cut="肺炎;肾炎"),
    Joint(r"(?<!\d)[+/]|[+/](?!\d)", True, cut="肺炎+肾炎", whole="腰4/5椎间盘突出"),  # nor 妊娠39+2周
    Joint(",?(?<![不未无])伴有", True, cut="膈疝,伴有肺炎", whole="溃疡,不伴有出血"),
    Joint(",?(?<![不未无])伴发", True, cut="肺炎伴发肾炎", whole="肺炎未伴发肾炎"),
    Joint(",?(?<![不未无])伴(?![侣或])", True, cut="肺炎伴肾炎", whole="唇裂伴或不伴有腭裂"),
    Joint(",?合并(?!症)", True, cut="肺炎合并肾炎", whole="糖尿病合并症"),
    Joint(",?并发(?!症)", True, cut="肺炎并发肾炎", whole="肺炎并发症"),
    Joint(",", False, cut="低血压,2型糖尿病", whole="精神分裂症,偏执型"),
    Joint("以及", False, cut="肺炎以及肾炎", whole="肺以及胆囊结石"),
    Joint("(?<![波累涉埃])及", False, cut="肺炎及肾炎", whole="胸膜炎累及肺炎"),
    Joint("(?<!饱)和", False, cut="痛风和肺炎", whole="颈动脉闭塞和狭窄"),
    Joint("与", False, cut="肺炎与肾炎", whole="脑血管与神经损伤"),
    Joint("并(?![指趾发])", False, cut="肺炎并胃炎", whole="并指畸形"),
)
"""In the order in which they are tried at a place."""


def _joined(always: bool) -> str:
    return "|".join(joint.pattern for joint in JOINTS if joint.always == always)


# Matches 伴 of 肺炎伴肾炎 as `always`, and 和 of 痛风和肺炎 as `between`, but nothing of 肺炎.
_CUT = re.compile(f"(?P<always>{_joined(True)})|(?P<between>{_joined(False)})")

_FIRST_OF_JOINT = ";。+/,伴并合及和与以"
"""First characters of all joints."""
_QUALIFIERS = "不可归类|不能归类|不伴|未特指|未提及|未造成|非由|由于|除外|无或|目前|意图|无诊断|其[他它]|有关|相关"
_CHANGES = (
    "狭窄|闭塞|闭锁|梗阻|缺如|缺失|破裂|断裂|撕裂|穿孔|溃疡|糜烂|坏死|炎症|出血|囊肿|积液|血栓形成|栓塞|扩张|畸形|损伤|损害|"
    "混浊|钙化|骨化|纤维化|硬化|硬变|增生|萎缩|挛缩|粘连|脱位|脱垂|移位|扑动|颤动|绞窄|缺陷|异常|紊乱|频繁|疾患|不发育|功能障碍"
)
# Side, type, degree or stage of the disease before: 右眼, 偏执型, 失代偿期.
_ASPECTS = r"[左右双单两]侧?[眼耳肺肾肢]?|[^,;]{1,4}[性型期度级]"
# What cannot be a disease of its own. Matches 不可归类在他处者, 狭窄 (but not 狭窄性腱鞘炎) and 右眼, but not 肾炎.
_DEPENDENT = re.compile(f"(?:{_QUALIFIERS})|(?:{_CHANGES})(?:[{_FIRST_OF_JOINT}]|$)|(?:{_ASPECTS})(?:[,;]|$)")

_MARKS = ",;。"
# Matches 不伴出血 and 偏执型, but not 狭窄 or 心功能3级,高血压.
_PART_OF_NAME = re.compile(f"(?:{_QUALIFIERS})|(?:{_ASPECTS})$")

# What does not begin a diagnosis after a blank: matches 不伴出血 of "肺炎 不伴出血", but not 狭窄性腱鞘炎.
_NO_START = re.compile(f"(?:{_QUALIFIERS})|(?:{_CHANGES})$")

_SHORT = {"痔", "疝", "龋"}
"""Diseases of one character."""

# Number of an item: matches "1." and "2、" of "1.肺炎 2、肾炎", and "(1)". A digit after it makes it a decimal, as in
# 1.5度烧伤, unless it begins a type or grade: in "2.2型糖尿病" the second item is 2型糖尿病.
_NUMBER = re.compile(r"(?:^|(?<=[\s;；,，。、]))[(（]?\d{1,2}[.．、)）](?!\d(?![型级期]\w\w))\s*")


def without_numbers(diagnosis: str) -> str:
    """Replace the numbers of an enumeration by ";", which cuts. Takes the text as written, before normalisation.

    A text of nothing but a number is returned as it is.
    """
    cut = _NUMBER.sub(";", diagnosis)
    return cut if _size(cut) else diagnosis


# A full stop or a blank between two pieces: matches the stop of 肺炎.肾炎 and the blank of 肺炎 肾炎.
_GAP = re.compile(
    r"(?<=[^\W\d_a-zA-Z)）])(?:[.．]|\s+)(?=[^\W\d_]|\d型)|(?<=[a-zA-Z0-9?？])\s+(?=[^\W\d_a-zA-Z]|\d型)"
    r"|(?<=[a-zA-Z0-9期级])\s+(?=[a-zA-Z]{2})"
)
_MARKED = re.compile("[;；,，、。]")
_NEXT = re.compile(rf"{_GAP.pattern}|[;；,，、。]")
# What doubts a disease at its end: matches the mark of 肺癌? and 待排 of 肺癌待排, but not 可能 of 可能肺癌.
_DOUBT = re.compile(r"(?:[?？]|待排[除查外]?|待除外|待鉴别|不除外|不能除外|可能性?大?)+$")
# Matches (继发孔型) of 房间隔缺损(继发孔型).
_BRACKETS = re.compile(r"[(（][^()（）]*[)）]$")
# The end of a disease in Chinese, without the Latin words that `_DISEASE` takes for abbreviations: 肺炎, not t2n0.
_RISK = r"(?:\s*[(（]?[很极]?[高中低]危组?)?"
_CHINESE_DISEASE = re.compile(f"(?:{'|'.join(_ENDINGS[:-1])}|[流乙]脑)(?:{_STAGE})?{_RISK}[)）]?$")


def separated(diagnosis: str, is_short: Callable[[str], bool] = lambda word: False) -> str:
    """Replace what separates diagnoses by marks: numbers of an enumeration by ";", and full stops and blanks by "、".

    A blank separates only the names of diseases: 高血压 糖尿病, but neither 高血压3级 很高危 nor 慢性 胃炎. Notes may
    stand between them, as in 肛裂 陈旧性 肛乳头肥大. Takes the text as written, before normalisation.

    Args:
        is_short: tells which Latin words are short forms of diseases: BPH of 膀胱结石 BPH.
    """
    text, start, pieces = without_numbers(diagnosis), 0, []
    for gap in _GAP.finditer(text):
        # What follows ends at the next mark: 很高危 of "高血压3级 很高危、肺炎" is no disease.
        before, after = (
            _BRACKETS.sub("", _DOUBT.sub("", _piece(one)))
            for one in (text[start : gap.start()], _NEXT.split(text[gap.end() :], 1)[0])
        )
        words = _MARKED.split(before)[-1].split()
        is_next = (_CHINESE_DISEASE.search(after) and not _NO_START.match(after)) or is_short(after)
        if is_next and any(_CHINESE_DISEASE.search(word) or is_short(word) for word in words):
            pieces.append(text[start : gap.start()])
            start = gap.end()
    return "、".join([*pieces, text[start:]])


def names_disease(text: str) -> bool:
    """Return True if a text ends with the name of a disease, or a short form: 肺炎, 肺Ca and COPD, not 冠状动脉."""
    return bool(_NAMED.search(text.rstrip(")）").lower()))


def are_two(before: str, after: str) -> bool:
    """Return True if a mark separates two diagnoses of which the first ends as no joint expects: 肝癌肝转移,胃溃疡."""
    is_unexpected = names_disease(before) and not ends_like_disease(before)
    return is_unexpected and names_disease(after) and not _DEPENDENT.match(after)


def _piece(text: str) -> str:
    """Return a text without marks at its ends, as in ",肺炎;"."""
    return text.strip(" \t\r\n;；,，、。.")


def ends_like_disease(text: str) -> bool:
    """Return True if a text ends like the name of a disease: 肺炎 and 高血压3级, not 胆囊 or 阿司匹林."""
    return _DISEASE.search(text) is not None


def parts_of(text: str) -> list[str]:
    """Return the parts of a compound in order, or an empty list if the text is one disease."""
    parts, start = [], 0
    for match in _CUT.finditer(text):
        before, after = text[start : match.start()], text[match.end() :]
        # A+B is one name; 肺炎(左肺及右肺) names one disease.
        if _is_too_short(before) or _is_too_short(after) or _in_brackets(text, match.start()):
            continue
        if match["between"] and not (_DISEASE.search(before.rstrip(")")) and not _DEPENDENT.match(after)):
            continue
        parts.append(before)
        start = match.end()
    return [part.strip(";, ") for part in (*parts, text[start:])] if parts else []


def segments_of(text: str) -> list[str]:
    """Return what marks separate in a text, without what cannot be a disease of its own: 右眼, 偏执型, 不伴出血.

    Unlike `parts_of`, this does not ask whether a disease stands before a mark: 血脂,高血压 has two segments.
    """
    depth, pieces = 0, [""]
    for character in text:
        depth = max(0, depth + (character == "(") - (character == ")"))
        if depth == 0 and character in _MARKS:
            pieces.append("")
        else:
            pieces[-1] += character
    return [one for piece in pieces if _size(one := piece.strip()) > 1 and not _PART_OF_NAME.match(one)]


def _is_too_short(text: str) -> bool:
    return _size(text) < 2 and text not in _SHORT


def _size(text: str) -> int:
    return sum(character.isalnum() for character in text)


def _in_brackets(text: str, place: int) -> bool:
    return text.count("(", 0, place) > text.count(")", 0, place)
