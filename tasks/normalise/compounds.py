"""Where a diagnosis that names several diseases is cut into its parts.

    高血压3级、糖尿病伴视网膜病变  →  高血压3级, 糖尿病, 视网膜病变
    肝及胆囊结石                    →  one disease
    颈动脉闭塞和狭窄                →  one disease

; + / 伴 合并 并发 always cut. What also joins parts of the body (, 及 和 与 并) cuts only behind what ends like a
disease, and not before what cannot stand alone: a qualifier (不可归类在他处者, 由于, 右眼, 偏执型 …) or a change that
does not say of what (狭窄).
Every part but 痔, 疝 and 龋 has two letters or digits at least, and what stands in brackets stays whole.

Texts are in the form of kg/names.py. Time grows with a text's length and with its cuts.
"""

from __future__ import annotations

import re

# Chosen by reading what closes five names and more of ICD-10's codes A to T and CMeKG's diseases, and few parts of the
# body, examinations or substances; and what doctors write for short (心梗, 上感).
_ENDINGS = (
    "[病炎症征癌瘤伤折石疝衰栓死血痛肿疮疹癣毒热咳喘泻痔痫癎痹聋盲损裂缺形亢减竭孔阻疣斑变]",
    "[塞疽疡瘘障瘫痪疸挛迷厥颤痣痈痒痘癜藓龋秃疟痕晕吐嗽秘搐烂呆狂妄郁孕块迫梗搏扑速痿赘疾贫暑]",
    "障碍|硬化|积液|感染|增生|结核|狭窄|脱位|扩张|不全|突出|变性|窒息|暂停|感冒|白喉|伤寒|鼠疫|疾患",
    "血压|高压|[高低]血[脂糖]|[息胬]肉|[痛中伤麻癜]风|卒中|疏松|休克|[气血脓]胸|[积腹胸脱]水|[光沙干]眼|[近远弱斜老]视",
    "[尘矽阻]肺|肪肝|[甲乙丙丁戊]肝|囊[肝肾]|[萎挛]缩|[脱下]垂|曲张|阻滞|[异失]常|[紊霍错]乱|不[良足育]|缺[乏陷如失]|发作|形成",
    "扭转|套叠|闭锁|粘连|[脱剥分]离|夹层|[钙骨软维]化|[流早难死]产|[流上尿]感|失[调眠禁语明]|亢进|减退|[肿肥扩增]大|[过迟]缓",
    "侧弯|无力|困难|[血白]尿|危象|憩室|[膨脱]出|[内外]翻|结节|[升增]高|[增过]多|[减过]少|反流|未闭|丧失|损害|[室房]早|慢支|支扩",
    "[流乙结]脑|[a-z0-9]{2}",
)
_STATED = r"[a-z0-9]{1,3}[级期度型]|术后|(?:急性|慢性|晚)期"
"""What may stand behind the name: 高血压3级, 肺癌术后."""
_LIKE_A_DISEASE = re.compile(f"(?:{'|'.join(_ENDINGS)})(?:{_STATED})?$")

_JOINTS = ";。+/,伴并合及和与以"
"""What a cut begins with."""
_QUALIFIERS = "不可归类|不能归类|不伴|未特指|未提及|未造成|非由|由于|除外|无或|目前|意图|无诊断|其[他它]|有关|相关"
_CHANGES = (
    "狭窄|闭塞|闭锁|梗阻|缺如|缺失|破裂|断裂|撕裂|穿孔|溃疡|糜烂|坏死|炎症|出血|囊肿|积液|血栓形成|栓塞|扩张|畸形|损伤|损害|"
    "混浊|钙化|骨化|纤维化|硬化|硬变|增生|萎缩|挛缩|粘连|脱位|脱垂|移位|扑动|颤动|绞窄|缺陷|异常|紊乱|频繁|疾患|不发育|功能障碍"
)
_ASPECTS = r"[左右双单两]侧?[眼耳肺肾肢]?|[^,;]{1,4}[性型期度级]"
"""Of the disease that stands before: 右眼, 偏执型, 失代偿期."""
_STANDS_NOT_ALONE = re.compile(f"(?:{_QUALIFIERS})|(?:{_CHANGES})(?:[{_JOINTS}]|$)|(?:{_ASPECTS})(?:[,;]|$)")

# 4/5 is a disc of the spine, 39+2 weeks and days.
_ALWAYS = r"[;。]|(?<!\d)[+/]|[+/](?!\d)|,?(?:(?<![不未无])(?:伴有|伴发|伴(?![侣或]))|合并(?!症)|并发(?!症))"
_BETWEEN = r",|以及|(?<![波累涉埃])及|(?<!饱)和|与|并(?![指趾发])"
_CUT = re.compile(f"(?P<always>{_ALWAYS})|(?P<between>{_BETWEEN})")

_SHORT = {"痔", "疝", "龋"}
"""Diseases of one character."""

# A digit behind is a decimal's, but for that of a type or grade: 2.2型糖尿病 is the second, of type 2.
_NUMBER = re.compile(r"(?:^|(?<=[\s;；,，。、]))[(（]?\d{1,2}[.．、)）](?!\d(?![型级期]\w\w))\s*")


def without_numbers(diagnosis: str) -> str:
    """Between what an enumeration numbers stands a cut; a number alone stays. Takes a text as it is written."""
    cut = _NUMBER.sub(";", diagnosis)
    return cut if _size(cut) else diagnosis


def parts_of(text: str) -> list[str]:
    """The parts of a compound, in order; nothing where it is one disease."""
    parts, start = [], 0
    for match in _CUT.finditer(text):
        before, after = text[start : match.start()], text[match.end() :]
        if _is_too_short(before) or _is_too_short(after) or _in_brackets(text, match.start()):
            continue
        if match["between"] and not (_LIKE_A_DISEASE.search(before.rstrip(")")) and not _STANDS_NOT_ALONE.match(after)):
            continue
        parts.append(before)
        start = match.end()
    return [part.strip(";, ") for part in (*parts, text[start:])] if parts else []


def _is_too_short(text: str) -> bool:
    return _size(text) < 2 and text not in _SHORT


def _size(text: str) -> int:
    return sum(character.isalnum() for character in text)


def _in_brackets(text: str, place: int) -> bool:
    return text.count("(", 0, place) > text.count(")", 0, place)
