"""Readers of what is written beside a cue: numbers behind 住院号 or 微信, names beside 患者, 医生 or 签名.

The cues themselves are in `tasks/deidentify/identifier_types.py`. A reader takes the text, the start and end of the
cue and the first character that is still free, and looks at a bounded stretch around the cue.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import rjieba

from tasks.deidentify.forms.identifier import Reader, Span
from tasks.deidentify.forms.names import (
    anonymous_start,
    field_name_end,
    latin_end,
    likely_end,
    listed_name_end,
    may_begin_person,
    name_end,
    name_start,
    role_name_end,
    surname_length,
)
from tasks.deidentify.forms.numbers import is_date
from tasks.deidentify.forms.role_fields import role_field_end
from tasks.deidentify.forms.word_names import label_name_end, person_end, role_word_end

SEPARATOR = (
    r"[\s(（|｜丨_]{0,12}+(?:号码|号|码|同号)?+\s{0,4}+(?:[\"”']?+[：:=])?+"
    r"\s{0,12}+[\"“']?+(?:分别)?+(?:还?是|为|加)?+[：:]?+\s?+"
)
"""Pattern of what may separate a cue from its value: "号码：", " （号 是：", "为", the marks of JSON, or nothing."""

# matches: "年", "/ml", " mg", "%", "单位"
# not: "，", " 单位："
_MEASURE = r"\s?(?:年|单位(?![：:])|元|/\s?[A-Za-zμ]|I?U(?![A-Za-z0-9])|[mμ]?g(?![A-Za-z])|m[lL]|[×%％])"
NO_MEASURE = rf"(?!{_MEASURE})"
"""Refuses a value with a unit: 123456，120000单位青霉素 is one number and a dose."""

# matches: "、201435398", "/ZY0045", "至FS-0713-22"
# not: "、120000单位", "、12"
_MORE = re.compile(rf"\s?[、,，/／;；和及至]\s?(?P<value>[A-Za-z0-9\-]{{5,24}}+){NO_MEASURE}")
"""One more value behind the first. It counts where it has as many digits at the same places."""

# matches: "2019-05-06", "2019 5 6"
# not: "2019 0506"
_DATE = re.compile(r"(?:19|20)\d\d([ -])(?:0?[1-9]|1[0-2])\1(?:0?[1-9]|[12]\d|3[01])(?!\d)")

# matches: "："
# not: "是"
_COLON = re.compile("[：:]")
# matches: "是", "："
# not: " "
_LINK = re.compile("[：:是为加]")
# matches: "a1", "rahman_cd"
# not: "Android"
_ACCOUNT_SIGN = re.compile(r"[0-9_\-]")
# matches: "a1"
# not: "Android"
_DIGIT = re.compile("[0-9]")

# matches: "基因", "Entrez ", "探针 "
# not: "，", "患者 "
_OTHER_ID = re.compile("[\u4e00-\u9fff]$|(?:[A-Za-z]|基因|蛋白|探针) $")

# matches: "：", " （", "\t", "|", "____", "\": \"", "="
# not: "芳"
FIELD_SEPARATOR = re.compile(
    r"\s{0,12}+(?:[\"”']\s?[：:=]|[：:=|｜丨]|_{1,12}+)\s{0,12}+[\"“']?|\s{0,12}+[(（]|\s{1,4}+"
)
"""Separator between the name of a field and its content."""

# matches: "，", " ", ""
# not: "明"
_CLAUSE_END = re.compile(r"[，,。；;\s！!]|$")
# matches: ". ", "."
# not: ", "
_AFTER_TITLE = re.compile(r"[. ] ?")
# matches: "古丽米热，", "果果，"
# not: "什么名字好呢？"
_CALLED = re.compile(r"[\u4e00-\u9fff]{2,5}(?=[，,。；;、\s]|$)")
# matches: "不出", "什么"
# not: "古丽米热"
_NO_CALL = re.compile(r"[不什么他她它我你您的了着过做是有个人]")
_FIELD_MARKS = frozenset("：:|｜丨_")
_COLONS = frozenset("：:")
_COMMAS = frozenset("，,；;/／")
_PATIENTS = frozenset(("患者", "病人", "患儿", "产妇", "孕妇", "死者", "伤者", "本人", "受试者"))
"""Persons behind whom findings follow: 患者Urine protein."""
_ANONYMOUS = ("某某", "某甲", "某乙", "某丙")


# matches: ":lanlan_0917", "头像是向日葵,号afen_1122", "直接搜sunlp_yx@aliyun"
# not: "发的CT-2023结果", "搜12345678"
LOGIN_IN_THE_CLAUSE = re.compile(
    r"[^A-Za-z0-9@/。；;！!？?\n〔〕]{0,14}(?![A-Z][a-z]{1,20}-?\d{1,6}(?![A-Za-z0-9_\-]))(?P<value>(?=[A-Za-z\-]{0,24}[0-9_]|[a-z]{2,10}-[a-z])(?=(?:[A-Z0-9_\-]*[a-z]){3})"
    r"[A-Za-z][A-Za-z0-9_\-]{4,24}+(?:@[a-z]{3,12}(?!\.))?)(?![A-Za-z0-9_@.\-]|[%％])"
)
"""A login that a clause tells behind the name of a service: letters in lower case with digits or _ among them."""


@dataclass(frozen=True)
class Values:
    """Reader of numbers and account names behind a cue."""

    pattern: re.Pattern[str]
    """Pattern of all that follows the cue; its group `value` is the identifier."""
    fits: Callable[[str, int, int, re.Match[str]], bool] | None = None
    """Check of a match: takes the text, the start and end of the cue, and the match."""
    from_cue: bool = False
    """True where the cue is the beginning of the identifier: 粤A0J2H5."""

    def __call__(self, text: str, start: int, end: int, free_from: int) -> list[Span]:
        """Read the value behind a cue, and those of the same shape in a list behind it."""
        # Behind an identifier a cue begins a word, too: QQ in QQ123456QQ654321. Were it refused there, each round of a
        # treatment would find one of them, and a text of nothing else would take quadratic time.
        begins_a_word = start in (0, free_from) or not (text[start - 1].isascii() and text[start - 1].isalnum())
        if text[start].isascii() and not begins_a_word:
            return []  # the cue is the end of another word: rsID, invx
        match = self.pattern.match(text, end)
        if match is None or (self.fits is not None and not self.fits(text, start, end, match)):
            return []
        if self.from_cue:
            return [(start, match.end("value"))]
        found: list[Span] = []
        shape = _shape(match["value"])
        # The list ends at a value of another shape and at a date: 住院号：20190871，20190305入院
        while match and _shape(match["value"]) == shape and not (found and is_date(match["value"])):
            found.append(match.span("value"))
            match = _MORE.match(text, match.end())
        return found


def first_of(*readers: Reader) -> Reader:
    """Return a reader that finds what the first of some readers finds that finds anything."""

    def read(text: str, start: int, end: int, free_from: int) -> list[Span]:
        return next(filter(None, (reader(text, start, end, free_from) for reader in readers)), [])

    return read


def _shape(value: str) -> str:
    """A value with 0 for every digit."""
    return _DIGIT.sub("0", value)


def account_fits(text: str, start: int, end: int, match: re.Match[str]) -> bool:
    """Refuse mere words behind 微信, unless a link announces them, or 号 a word in lower case: 微信 Android."""
    value, between = match["value"], text[end : match.start("value")]
    return bool(_ACCOUNT_SIGN.search(value) or _LINK.search(between) or ("号" in between and value.islower()))


def named_account(text: str, start: int, end: int, match: re.Match[str]) -> bool:
    """Accept what `account_fits` does, and words behind a cue that ends in 号: 抖音号zhongyi_xiaobai."""
    return text[end - 1] == "号" or account_fits(text, start, end, match)


def telephone_fits(text: str, start: int, end: int, match: re.Match[str]) -> bool:
    """Refuse dates behind 电话: 电话2019-05-06随访."""
    value = match["value"]
    if _DATE.match(value):
        return False
    return not is_date(value) or bool(_COLON.search(text[end : match.start("value")]))


# matches: "批", "方案", "准字", "型", "3", "第0412287"
# not: "预约"
_NO_NUMBER_BEFORE = re.compile(
    r"(?:(?<!审)批|准字|文|货|型|方案|批件|登录|注册|专利|标准|系列|序列|产品|规格|卷|刊|门牌|代|符|星|暗|信|称|句|引|逗|括|问|加|减|等|正|负"
    r"|药|穴|色|编|类|单|军官证|证书|执照|件|账|房|门|楼|第|[0-9A-Za-z一二三四五六七八九十])$"
)
# matches: "约"
# not: "，", "〕", "D"
_HAN_BEFORE = re.compile(r"[\u4e00-\u9fff]")


def number_fits(text: str, start: int, end: int, match: re.Match[str]) -> bool:
    """Refuse numbers of things behind 号 (批号, 型号, 3号) and short ones: those of papers are long or have letters."""
    # Behind a placeholder 号 is the rest of a word: 〔编号〕号123456
    if not _HAN_BEFORE.match(text[start - 1 : start]) or _NO_NUMBER_BEFORE.search(text[max(0, start - 3) : start]):
        return False
    return len(_DIGIT.findall(match["value"])) >= (4 if match["value"][0].isalpha() else 5)


# matches: "一三八七一二零四四五六", "一三八 七一二零 四四五六", "一三八,七一二零,四四五六"
# not: "一三五七九"
_SPELLED = re.compile(
    r"[一幺][三四五六七八九](?:[ ,，]?[零〇一二三四五六七八九幺]){9,10}(?![ ,，]?[零〇一二三四五六七八九幺])"
)


def spelled_mobile(text: str, start: int, end: int, free_from: int) -> list[Span]:
    """A mobile number in Chinese numerals, which begins with the cue: 一三八七一二零四四五六."""
    match = _SPELLED.match(text, start)
    before = text[start - 1 : start]
    return [match.span()] if match and before not in tuple("零〇一二三四五六七八九幺") else []


# matches: "血液科12", "，加3", "留观5", "，康8", "儿-22", "调到20", "病区-09", "EICU 4", "重症2", "监6", "患者19-1"
# matches: "9、10", "12/13/14", "待产2", "B区8", "抢救室1"
# not: "开放120", "每3", "室3", "1至20", "增至320"
_BED_NUMBER = re.compile(
    r"(?:(?<![\d.\-A-Za-z共设放有每约室备增缺×/~～至到])|(?<=[^\d增扩加大][至到])"
    r"|(?<=[\u4e00-\u9fff]-)|(?<=[^\d][/])|(?<=[救护察观醒产]室))"
    r"(?P<value>(?:\d{1,3}[、,，和及/]){0,6}"
    r"(?:加|急诊抢|抢救|抢|产房|留|重症|监护|监|急|特|待产|虚拟|预留|留观|(?:(?<![\u4e00-\u9fff])|(?<=科))(?:产|康|隔)-?"
    r"|[儿内外妇骨眼隔]-|[东西南北]区|[+＋]|(?<![A-Za-z])[A-Z]{1,5}(?:区|[ \-])?)?"
    r"(?:\d{1,3}|0\d{3})(?:-\d{1,3})?)$"
)
# matches: "十一", "和三十一"
# not: "共三十", "开放二十", "七", "第十"
_BED_IN_WORDS = re.compile(
    r"(?<![共设放有约第每备各增一二三四五六七八九])(?P<value>[二三四五]?十[一二三四五六七八九]?)$"
)
# matches: "被", "位"
# not: "家属", "的"
_NO_BED_IN_WORDS = re.compile("[被褥棉单位日铺]")


def bed_in_words(text: str, start: int, end: int, free_from: int) -> list[Span]:
    """The number of a bed in Chinese numerals before 床, from ten on: 十一床. Of fewer there may be quilts: 七床."""
    match = _BED_IN_WORDS.search(text, max(free_from, start - 5), start)
    return [] if match is None or _NO_BED_IN_WORDS.match(text, end) else [(match.start("value"), end)]


# matches: "位数", "日", "/护士", "左右"
# not: "王", "患者"
_NO_BED = re.compile(
    "位(?!患者|病人)|日|[头边单铺架垫栏挡档尾面次型]|[/：:]护|左右|以[上下]|规模|旁(?=化验|检测|超声|心电|胸片|彩超|监护|盲插|血滤|透析|胃镜|气管)"
)


# matches: "411", "，1103"
# not: "共411", "2024.411", "L4411", "9-205"
_ROOM_NUMBER = re.compile(r"(?<![\d.\-A-Za-z共约有第¥￥/~～至到])[1-9]\d{2,3}$")
# matches: "房", "房的", "房李老师"
# not: "房颤", "房间", "房价"
_ROOM_BEHIND = re.compile("房(?![颤间室早扑速率价缺型产费屋子租源水角])")


def room_of_a_ward(text: str, start: int, end: int, free_from: int) -> list[Span]:
    """The number of a room before 房, and before 那位 or 那个, by which staff call its patient: 1103房, 205那位."""
    number = _ROOM_NUMBER.search(text, max(free_from, start - 5), start)
    if number is None or (text[start] == "房" and not _ROOM_BEHIND.match(text, start)):
        return []
    # With the word, as for beds: else 房 would be a surname in 1103房李老师.
    return [(number.start(), end if text[start] == "房" else start)]


# matches: "4 母", "-05，", "6房", "2）"
# not: "2天", "3.5", "12%", "1-2", "4级", "123"
_BED_OF_UNIT = re.compile(
    r"-?\d{1,2}(?=[\s，,。；;：:、)）(（/|\u4e00-\u9fff]|$)"
    r"(?!\s?(?:[天日周月年小时分h个例级名人次楼层张万元度期型对]|[-~～至到/]\s?\d))"
)


def bed_of_unit(text: str, start: int, end: int, free_from: int) -> list[Span]:
    """The bed of an intensive-care unit or a VIP ward, with the unit: CCU4, PICU2, VIP6房. Not ICU2天."""
    bed = None if text[start - 1 : start].isalnum() and text[start - 1].isascii() else _BED_OF_UNIT.match(text, end)
    return [(start, bed.end())] if bed else []


def bed_before(text: str, start: int, end: int, free_from: int) -> list[Span]:
    """The number of a bed before 床, with the word: 血液科12床, 加3床. Not a number of beds: 开放120床."""
    left = max(free_from, start - 30)
    match = _BED_NUMBER.search(text[left:start].rstrip(" "))
    if match is None or _NO_BED.match(text, end) or (match["value"] == "1" and text[end : end + 1] in "1一"):
        return []
    return [(left + match.start("value"), end)]


# matches: "1207", "群021"
# not: "30", "共120", "≥120"
_SUBJECT = re.compile(r"(?<![\d.\-A-Za-z共约有第名入组至到~～/≥])(?:0\d{2,3}|[1-9]\d{3})$")


def subject_before(text: str, start: int, end: int, free_from: int) -> list[Span]:
    """The number of a subject of a trial before the word: 1207号受试者, 021受试者."""
    number = _SUBJECT.search(text, max(free_from, start - 5), start)
    return [number.span()] if number else []


# matches: "（8021", "电话6602", "拨打：6602"
# not: "由300", "WBC12000"
_EXCHANGE = re.compile(r"(?:[（(：:]|电话|拨打?|内线|分机|热线|总机|座机)\s?(?P<number>[2-9]\d{3,7}) ?$")
# matches: "转6632", "室6712（", "主任 6712 ("
# not: "共6632", "2024", "转3"
_EXTENSION_BEFORE = re.compile(r"(?:转|内线|电话|[室台科任长士生师]) ?(?P<number>[2-9]\d{3,4}) ?[（(]?$")


def extension_before(text: str, start: int, end: int, free_from: int) -> list[Span]:
    """A telephone within a house before 分机 or 短号: 转6632分机, 武副主任 6712（短号）."""
    before = _EXTENSION_BEFORE.search(text, max(free_from, start - 12), start)
    return [before.span("number")] if before else []


# matches: "yunduo", "lu", "guxiaowei"
# not: "A", "B2", "covid", "mir"
_LOGIN_BEFORE = re.compile(
    r"(?<![A-Za-z0-9_\-.@/])(?!(?:"
    r"age|anti|arm|atp|batch|beta|case|chr|class|covid|day|exon|fig|figure|file|gene|grade|group|hsa|"
    r"image|img|interleukin|item|level|line|lnc|lncrna|mir|mirna|model|month|ncov|node|omega|page|"
    r"part|patient|phase|pre|post|sample|score|sect|section|seq|serum|stage|step|table|test|train|"
    r"type|update|ver|version|visit|week|year"
    r")$)[a-z]{2,16}$"
)
# matches: "1127", "aiyi1956", "ra62"
# not: "ra", "1127.5"
_LOGIN_BEHIND = re.compile(r"[a-z]{0,12}(?P<digits>[0-9]{2,4})(?![A-Za-z0-9_.%])")


def login_around(text: str, start: int, end: int, free_from: int) -> list[Span]:
    """A login around _ or -, by its form alone: guxiaowei_0921, lu-aiyi1956.

    Behind the mark come four digits, or two with letters before them where more than two stand before the mark: else
    hs_crp12 would be a login. What may follow - is the cue's part: letters and a year.
    """
    before = _LOGIN_BEFORE.search(text, max(free_from, start - 17), start)
    behind = _LOGIN_BEHIND.match(text, end)
    if before is None or behind is None:
        return []
    digits = behind["digits"]
    is_login = len(digits) == 4 or (len(before[0]) > 2 and behind.start("digits") > end) or len(before[0]) > 5
    return [(before.start(), behind.end())] if is_login else []


# matches: "3）", "8。"
# not: "3片"
_EXTENSION = re.compile(r" ?\d{1,4}(?=[，,。；;、）)\s]|$)")


def extension_around(text: str, start: int, end: int, free_from: int) -> list[Span]:
    """A telephone within a house around 转: （8021转3）."""
    left = max(free_from, start - 14)
    before, behind = _EXCHANGE.search(text[left:start]), _EXTENSION.match(text, end)
    return [(left + before.start("number"), behind.end())] if before and behind else []


# matches: "ICD-10", "CD20", "COVID-19", "GB35273-2020"
# not: "LL-0891", "NB24-1178"
_PUBLIC_CODE = re.compile(
    r"(?:ICD|CD|COVID|GB|YY|WS|ISO|IEC|NCT|CTR|ChiCTR|GSE|GSM|SRR|CYP|HLA|IL|NM|NP|NG|ENS|CAS|rs)[\d\-]"
)


def coded_fits(text: str, start: int, end: int, match: re.Match[str]) -> bool:
    """Refuse codes of classifications, standards, studies and genes, and too few digits: 编码ICD-10."""
    value = match["value"]
    return not _PUBLIC_CODE.match(value) and len(_DIGIT.findall(value)) >= 4


def long_enough(text: str, start: int, end: int, match: re.Match[str]) -> bool:
    """Refuse short numbers, and codes of classifications, standards, studies and genes."""
    value = match["value"]
    has_letters = any(character.isalpha() for character in value)
    return not _PUBLIC_CODE.match(value) and len(_DIGIT.findall(value)) >= (2 if has_letters else 5)


def plain_id_fits(text: str, start: int, end: int, match: re.Match[str]) -> bool:
    """Refuse IDs of something else: 基因ID, Entrez ID."""
    return not _OTHER_ID.search(text, max(0, start - 3), start)


# matches: "基因", "转录本"
# not: "随访", "（"
_ID_OF_A_THING = re.compile(r"(?:基因|蛋白|探针|序列|转录本|通路|化合物|位点|文献|药物|项目|设备|产品|变异)$")


def id_of_somebody(text: str, start: int, end: int, match: re.Match[str]) -> bool:
    """Refuse IDs of genes and other things: 基因ID 7730021."""
    return not _ID_OF_A_THING.search(text, max(0, start - 3), start)


# matches: "6", "A12", "，11", "B3", "C-6"
# not: "第3", "共6", "CT1", "1.3"
_PLACE_BEFORE = re.compile(r"(?<![\d.\-A-Za-z第共有各每约/~～至×])(?P<value>[A-Z]?-?\d{1,2})$")
# matches: "机械", "机器人", "机房"
# not: "机，", "机位", "箱"
_NO_PLACE = re.compile(r"号?机(?:[械器房动型构制舱头做扫]|位?数)")


def place_before(text: str, start: int, end: int, free_from: int) -> list[Span]:
    """The machine or incubator of a patient before its word: 6号机, A12机位, 3号箱. Not 3号机械臂."""
    before = _PLACE_BEFORE.search(text, max(free_from, start - 5), start)
    return [] if before is None or _NO_PLACE.match(text, start) else [before.span("value")]


def names_behind(text: str, start: int, end: int, free_from: int) -> list[Span]:
    """Names behind a cue: 患者王伟因腹痛入院, 签名：王伟、李强."""
    return _names(text, end, anybody=False)


def anybody_behind(text: str, start: int, end: int, free_from: int) -> list[Span]:
    """Names behind 姓名, which is a field even without a colon and takes names without a Chinese surname."""
    label = label_name_end(text, end)
    return [(end, label)] if label is not None else _names(text, end, anybody=True)


def names_behind_role(text: str, start: int, end: int, free_from: int) -> list[Span]:
    """Names behind a role that only a person has: 督导员金大坚, 参加人员：汤隆、杜兴."""
    found = _names(text, end, anybody=False, is_role=True)
    stop = None if found else person_end(text, end) or role_word_end(text, end, text[start:end])
    return [(end, stop)] if stop is not None else found


def names_of_kin(text: str, start: int, end: int, free_from: int) -> list[Span]:
    """Names behind a patient or a relation, and before 之: 患者闵慧本人, 其侄向家宝, 梁敏之女."""
    if text[start] != "之" and not may_begin_person(text, end):
        return []  # 病人能吃…, what a patient mostly stands before, in a fifth of the time
    found = _names(text, end, anybody=False) or _likely(text, end)
    if not found and (stop := person_end(text, end)) is not None:
        found = [(end, stop)]
    latin = None if found or text[start:end] in _PATIENTS else latin_end(text, end)
    if latin is not None:
        return [(end, latin)]
    before = name_start(text, start) if text[start] == "之" else None
    if before is not None and before >= free_from and _is_newborn(text, before, end):
        return [(before, end)]
    return [(before, start), *found] if before is not None and before >= free_from else found


# matches: "新生儿：", "患儿", "暂名"
# not: "陪同人："
_NEWBORN_BEFORE = re.compile(
    r"(?:新生儿[\u4e00-\u9fff]{0,8}|[患女男活]婴?儿?|婴儿?|暂名|召回|疾病筛查|死亡报告)[：:，, （(]{0,2}$"
)
# matches: "，日龄3天", "，早产儿", "：出生时间"
# not: "，陪同"
_NEWBORN_BEHIND = re.compile(
    r"[，,：:；; （(]{0,2}(?:日龄|胎龄|早产|足月|出生|生于|生后|体重|Apgar|新生儿|男婴|女婴|[，,]?藏历"
    r"|\d{4}[.年\-/]\d{1,2}[.月\-/]\d{1,2}日?[早出足])"
)


def _is_newborn(text: str, start: int, end: int) -> bool:
    """Return True for a child without a name of its own, whom a hospital calls 王芳之女."""
    is_child = text[end - 1] in "子女"
    return is_child and bool(
        _NEWBORN_BEFORE.search(text[max(0, start - 8) : start]) or _NEWBORN_BEHIND.match(text, end)
    )


def latin_behind(text: str, start: int, end: int, free_from: int) -> list[Span]:
    """A Latin name behind its title: Dr. Chen, Mr. Liu Guoqiang."""
    mark = _AFTER_TITLE.match(text, end)
    first = mark.end() if mark else end
    stop = latin_end(text, first)
    return [(first, stop)] if stop is not None else []


_NOBODY_GREETED = frozenset(
    (
        "Colleague",
        "Colleagues",
        "Doctor",
        "Sir",
        "Madam",
        "All",
        "Team",
        "Patient",
        "Parents",
        "Dr",
        "Mr",
        "Mrs",
        "Ms",
        "Prof",
    )
)
# matches: " Hannah,", "\nAnton"
# not: ": fine"
_GREETED = re.compile(r"\s{1,3}(?P<word>[A-Z][A-Za-zÀ-ỹ'’\-]{1,20})")


def greeted(text: str, start: int, end: int, free_from: int) -> list[Span]:
    """A Latin name in the greeting or the signature of a letter, or behind a relation: Dear Hannah, wife Claire."""
    word = _GREETED.match(text, end)
    if word is None or word["word"] in _NOBODY_GREETED:
        return []
    stop = latin_end(text, word.start("word"))
    return [(word.start("word"), stop)] if stop is not None else []


_ENGLISH_LABEL = (
    r"(?:Policy|Member|Sex|Age|Date|Gender|Phone|Tel|Mobile|Address|Diagnosis|Dept|Department|Ward|Bed|Room|Title|Claim"
    r"|Group|Plan|Insured|Patient|Report|Signed|Time|No|Number|Birth|Email|Contact|Relationship|Passport|Nationality)\b"
)
"""Words that begin the next field behind a name."""
# matches: ": Maria Fernanda Silva", "：M. F. Silva", ": ZHAO GUOQIANG"
# not: ": denies pain", ": Denies pain"
_LATIN_FIELD = re.compile(
    rf"\s?[:：]\s{{0,4}}(?P<name>(?:[A-Z]\. ?){{1,3}}[A-Z][a-z]{{1,14}}"
    rf"|[A-Z][a-z]{{1,14}}(?: (?!{_ENGLISH_LABEL})[A-Z](?:[a-z]{{1,14}}|\.)){{1,3}}"
    r"|[A-Z]{2,15} [A-Z]{2,15}(?: [A-Z]{2,15})?)(?![A-Za-z0-9])"
)


def latin_field(text: str, start: int, end: int, free_from: int) -> list[Span]:
    """A Latin name of two parts and more that fills a field: Physician: M. F. Silva."""
    match = _LATIN_FIELD.match(text, end)
    return [match.span("name")] if match else []


def called(text: str, start: int, end: int, free_from: int) -> list[Span]:
    """A name behind 叫, which may have no Chinese surname where it fills its clause: 我老婆叫古丽米热，."""
    found = names_behind(text, start, end, free_from) or _likely(text, end)
    filled = None if found or text[start] == "，" else _CALLED.match(text, end)
    if filled and len(rjieba.cut(filled[0], False)) >= len(filled[0]) - 1 and not _NO_CALL.search(filled[0]):
        return [filled.span()]
    return found


def _likely(text: str, end: int) -> list[Span]:
    stop = likely_end(text, end)
    return [(end, stop)] if stop is not None else []


def names_around(text: str, start: int, end: int, free_from: int) -> list[Span]:
    """Names before a title and behind it: 王伟医生, 主治医师：王伟."""
    before = name_start(text, start)
    if before is not None and before >= free_from:
        return [(before, start), *names_behind(text, start, end, free_from)]
    return names_behind(text, start, end, free_from)


def anonymous_name(text: str, start: int, end: int, free_from: int) -> list[Span]:
    """A surname with 某 behind it: 王某, 李某某."""
    begin = anonymous_start(text, start)
    if begin is None or begin < free_from:
        return []
    return [(begin, start + (2 if text[start : start + 2] in _ANONYMOUS else 1))]


def surname_alone(text: str, start: int, end: int, free_from: int) -> list[Span]:
    """A surname behind 姓 that ends its clause: 姓苏，请回电."""
    length = surname_length(text, end)
    alone = length and _CLAUSE_END.match(text[end + length : end + length + 1])
    return [(end, end + length)] if alone else []


def _names(text: str, end: int, anybody: bool, is_role: bool = False) -> list[Span]:
    """Names behind a cue that ends at `end`. Behind a colon they fill a field, which may hold a list of them."""
    separator = FIELD_SEPARATOR.match(text, end)
    is_field = separator is not None and (anybody or not _FIELD_MARKS.isdisjoint(separator[0]))
    start = separator.end() if separator else end
    found: list[Span] = []
    while True:
        stop = field_name_end(text, start, anybody) if is_field else name_end(text, start)
        if stop is None and is_role:
            stop = role_name_end(text, start)
        if stop is None and separator is not None and not _COLONS.isdisjoint(separator[0]):
            stop = role_field_end(text, end, start)
        if stop is None:
            return found
        found.append((start, stop))
        mark = text[stop : stop + 1]
        # Behind a comma the list may end and another word follow: 姓名：王小明，汉族
        if not (mark in "、/／" or (is_field and mark in _COMMAS)) or not mark:
            return found
        is_pair = mark in "/／" and is_field and role_field_end(text, end, stop + 1)
        if not (is_field and mark == "、") and not is_pair and not listed_name_end(text, stop + 1):
            return found
        start = stop + 1
