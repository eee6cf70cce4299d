"""Identifiers of persons in Chinese medical text: where they stand and of which type they are.

Three looks at a text: addresses of the net, runs of digits, then cue words (住院号, 微信, 患者, 医生 …) with what
stands beside them; names found so are looked for in the rest of the text. Time grows with the characters: every
pattern has bounded or possessive repeats, and each cue looks at a bounded stretch around it.
"""

from __future__ import annotations

import bisect
import datetime
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import rjieba

from tasks.deidentify.header_rows import DELIMITERS, OTHER_HEADERS, Below, headers_of, line_around, rows_below
from tasks.deidentify.names import (
    anonymous_start,
    field_name_end,
    listed_name_end,
    name_end,
    name_start,
    surname_length,
)
from tasks.deidentify.suspicions import NET, NUMBERS, ODD_FORMS, all_suspicions, suspicions_of
from tasks.text.phrase_glance import PhraseGlance

PLACEHOLDERS = {
    "mobile": "〔手机号〕",
    "landline": "〔电话号〕",
    "identity": "〔身份证号〕",
    "passport": "〔护照号〕",
    "bank_card": "〔银行卡号〕",
    "email": "〔邮箱〕",
    "url": "〔网址〕",
    "qq": "〔QQ号〕",
    "wechat": "〔微信号〕",
    "record": "〔编号〕",
    "address": "〔地址〕",
    "name": "〔姓名〕",
}
"""What stands for each type. The brackets are single tokens and words of their own, and no pattern crosses them."""


class Identifier(NamedTuple):
    """Characters `start` to `end` of a text are an identifier of a type."""

    start: int
    end: int
    type: str


MAX_NAMES = 64
"""Names of one text that are looked for in the rest of it; a bound on the time of lists of names."""

_PLAIN_FORMS = {
    **{wide: chr(wide - 0xFEE0) for wide in range(0xFF01, 0xFF5F) if chr(wide) not in "，：；（）！？"},
    **dict.fromkeys(range(0xD800, 0xE000), "\ufffd"),
}
"""Full-width forms as plain ones; halves of surrogate pairs, which jieba cannot read, as the sign for what is none."""

_NET = re.compile(
    r"(?P<url>(?:https?://|www\.)[\w\-./?%&=#:~+,;@!$'*]++)|@[A-Za-z0-9\-]{1,63}+(?:\.[A-Za-z0-9\-]{1,63}+)++",
    re.ASCII | re.IGNORECASE,
)
_MAILBOX = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+_\-]{0,63}$")

_RUN = re.compile(r"[0-9(+][0-9 \-–—－()（）*xX]{5,}+")
_LIKELY = re.compile(r"\d{7}|\d{3}[ )）–—-]{1,3}\d{3}|\*{4}")

_UNIT = r"(?!\.\d|\s?(?:IU|U/|mg|ml|mL|ng|μ|copies|拷贝|个|元|/|×|%))"
_PREFIX_86 = r"(?:\(?\+?(?:0086|86)\)?[ -]?)?"
_MOBILE = re.compile(rf"(?<![\d.]){_PREFIX_86}1[3-9]\d(?:([ -]?)\d{{4}}\1\d{{4}}|\*{{4}}\d{{4}})(?!\d){_UNIT}")
_AREA = r"(?:10|2\d|[3-9]\d\d)"
_LANDLINE = re.compile(
    rf"(?<![\d.\-])(?:\(?\+?86\)?[ -]{{0,2}}\(?0?{_AREA}[ )-]{{1,2}}\d{{3,4}}[ -]?\d{{4}}"
    rf"|[(（]?0{_AREA}[ )）–—-]{{1,3}}\d{{3,4}}[ -]?\d{{4}}"
    r"|[48]00-\d{3}-?\d{4}|[48]00-\d{4}-\d{3})(?!\d)"
    rf"(?:\s?(?:转|ext\.?)\s?\d{{1,6}}|-\d{{1,6}})?(?!\d){_UNIT}"
)
_TELEPHONE = re.compile(r"(?:电话|座机|固话|热线|传真|手机|致电|拨打|联系|[Tt]el|TEL|[Ff]ax|FAX)[^0-9，。；\n]{0,8}$")
_IDENTITY = re.compile(
    r"(?<![0-9A-Za-z.])(?:[1-8]\d{5} ?\d{8} ?\d{3}[\dXx]|[1-8]\d{14}|[1-8]\d{5}\*{6,10}\d{3}[\dXx])(?![0-9A-Za-z*])"
)
_CARD = re.compile(r"(?<![\d.\-])(?:62|4\d|5[1-5]|35)\d\d(?:([ -]?)\d{4}(?:\1\d{4}){2}(?:\1\d{1,3})?)(?![\d.])")
_PASSPORT = re.compile(r"(?<![0-9A-Za-z\-.])(?:[EGDSP]\d{8}|E[A-HJ-NP-Z]\d{7})(?![0-9A-Za-z\-])")

_PROVINCE_CODES = (
    "11 12 13 14 15 21 22 23 31 32 33 34 35 36 37 41 42 43 44 45 46 50 51 52 53 54 61 62 63 64 65 71 81 82 83"
)
_PROVINCES = frozenset(_PROVINCE_CODES.split())
_WEIGHTS = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)


def is_identity_number(number: str) -> bool:
    """Whether 18 or 15 characters are a resident identity number: province, date, check digit (ISO 7064 MOD 11-2)."""
    if number[:2] not in _PROVINCES:
        return False
    if len(number) == 15:
        return _is_date("19" + number[6:12])
    check = "10X98765432"[sum(int(digit) * weight for digit, weight in zip(number[:17], _WEIGHTS, strict=True)) % 11]
    return _is_date(number[6:14]) and number[17].upper() == check


def _is_date(digits: str) -> bool:
    try:
        return datetime.date(int(digits[:4]), int(digits[4:6]), int(digits[6:])).year >= 1890
    except ValueError:
        return False


def is_card_number(digits: str) -> bool:
    """Whether the digits of a bank card end in the right one (Luhn)."""
    doubled = [sum(divmod(int(digit) * 2, 10)) for digit in digits[-2::-2]]
    return (sum(doubled) + sum(map(int, digits[-1::-2]))) % 10 == 0


def _mobile_fits(text: str, start: int, number: str) -> bool:
    """Letters right before make it a code, unless they are a cue."""
    before = text[max(0, start - 8) : start]
    if re.search(r"(?:批号|货号|编号|登录号|条码号?|ISBN|ISSN)[：: ]?$", before):
        return False
    return not re.search(r"[A-Za-z_]$", before) or bool(
        re.search(r"(?:tel|phone|mobile|[vw]x|weixin|wechat|qq|no)$", before, re.IGNORECASE)
    )


def _passport_fits(text: str, start: int, number: str) -> bool:
    """No batch, licence or record number, and no letter before a date."""
    before = text[max(0, start - 8) : start]
    if "护照" in before:
        return True
    return not (re.search(r"(?:号|准字|ID|批|No\.?)[：: ]{0,3}$", before) or _is_date(number[1:]))


def _identity_fits(text: str, start: int, number: str) -> bool:
    plain = number.replace(" ", "")
    return plain[:2] in _PROVINCES if "*" in plain else is_identity_number(plain)


def _card_fits(text: str, start: int, number: str) -> bool:
    if re.search("(?:身份证|证件|身份)(?:号码?)?[：: ]{0,3}$", text[max(0, start - 10) : start]):
        return False
    return is_card_number(re.sub(r"[ -]", "", number))


def _landline_fits(text: str, start: int, number: str) -> bool:
    """A bare 86 may be a pulse, and what follows other values: 86 28 335 4520."""
    bare = number.startswith("86") and not re.match(r"86-\d{2,4}-\d{3,4}[ -]?\d{4}(?!\d)", number)
    return not bare or bool(_TELEPHONE.search(text, max(0, start - 12), start))


Check = Callable[[str, int, str], bool]
_NUMBERS: tuple[tuple[str, re.Pattern[str], Check], ...] = (
    ("identity", _IDENTITY, _identity_fits),
    ("bank_card", _CARD, _card_fits),
    ("mobile", _MOBILE, _mobile_fits),
    ("landline", _LANDLINE, _landline_fits),
    ("passport", _PASSPORT, _passport_fits),
)


def may_hold(texts: Sequence[str]) -> np.ndarray:
    """Which texts hold, at a glance, anything that an identifier could hang on: bool (T,). The others hold none."""
    found: np.ndarray = (all_suspicions(texts) > 0) | _cue_glance.may_hold(texts)
    return found


def find_identifiers(text: str, names: Collection[str] = ()) -> list[Identifier]:
    """The identifiers of a text, in order, none over another; `names` are looked for besides those found by cues."""
    plain, suspicions = text, suspicions_of(text)
    if suspicions & ODD_FORMS:
        plain = text.translate(_PLAIN_FORMS)
        suspicions = suspicions_of(plain)
    found: list[Identifier] = []
    for suspicion, look in ((NET, _net_addresses), (NUMBERS, _numbers), (None, _cued)):
        seen = look(plain) if suspicion is None or suspicions & suspicion else []
        if seen:
            plain = _cover(plain, seen)
            found = sorted([*found, *seen])
    again = _names_again(plain, {*names, *names_of(text, found)})
    return sorted([*found, *again]) if again else found


def names_of(text: str, found: Iterable[Identifier]) -> set[str]:
    """The names among the identifiers of a text, with and without the blanks that forms put into them."""
    written = {text[start:end] for start, end, kind in found if kind == "name"}
    return written | set(map(_unpadded, written))


def replace(text: str, found: Iterable[Identifier]) -> str:
    """The text with a placeholder for each identifier."""
    pieces, end = [], 0
    for identifier in found:
        pieces += [text[end : identifier.start], PLACEHOLDERS[identifier.type]]
        end = identifier.end
    return "".join([*pieces, text[end:]])


def _cover(text: str, found: Iterable[Identifier]) -> str:
    """Hide identifiers from the next look, at the same length: it must see there what it would see at a placeholder."""
    pieces, end = [], 0
    for start, stop, _ in found:
        pieces += [text[end:start], ("〔" + "〓" * (stop - start - 2) + "〕")[: stop - start]]
        end = stop
    return "".join([*pieces, text[end:]])


def _net_addresses(text: str) -> list[Identifier]:
    found: list[Identifier] = []
    end = 0
    for match in _NET.finditer(text):
        if match["url"]:
            stop = match.start() + len(match[0].rstrip(".,;:!?'*"))
            found.append(Identifier(match.start(), stop, "url"))
        else:
            mailbox = _MAILBOX.search(text[max(end, match.start() - 64) : match.start()])
            if not mailbox or not re.search(r"\.[A-Za-z]", match[0]):
                continue
            found.append(
                Identifier(match.start() - len(mailbox[0]), match.start() + len(match[0].rstrip("-.")), "email")
            )
        end = found[-1].end
    return found


def _numbers(text: str) -> list[Identifier]:
    found: list[Identifier] = []
    for run in _RUN.finditer(text):
        if not _LIKELY.search(text, *run.span()):
            continue  # a date, a time
        taken = [i for kind, pattern, fits in _NUMBERS for i in _in_run(text, run, kind, pattern, fits)]
        end = 0
        for identifier in sorted(taken, key=lambda i: (i.start, -i.end)):
            if identifier.start >= max(end, found[-1].end if found else 0):
                found.append(identifier)
                end = identifier.end
    return found


def _in_run(text: str, run: re.Match[str], kind: str, pattern: re.Pattern[str], fits: Check) -> Iterable[Identifier]:
    """Numbers of one type that begin in a run of digits, or with up to two letters before it."""
    for match in pattern.finditer(text, max(0, run.start() - 2), run.end() + 16):
        if match.start() < run.end() and fits(text, match.start(), match[0]):
            yield Identifier(match.start(), match.end(), kind)


# What stands behind a cue, by type: what may lie between, and the value.
_SEPARATOR = r"[\s(（]{0,12}+(?:号码|号|码|同号)?+\s{0,4}+[：:]?+\s{0,12}+(?:是|为|加)?+[：:]?+\s?+"
_NO_STUDY = r"(?!NCT|CTR|ChiCTR|ICD|GSE|GSM|SRR|PMID|rs\d)"
"""Numbers of studies, samples and genes, which are published."""
_NO_MEASURE = r"(?!\s?(?:年|单位|元|/\s?[A-Za-zμ]|I?U(?![A-Za-z0-9])|[mμ]?g(?![A-Za-z])|m[lL]|[×%％]))"
_NUMBER_SIGN = r"(?:(?:[Nn][Oo]\.?|№|[#＃])\s?+)?+"
_VALUES = {
    "identity": re.compile(rf"{_SEPARATOR}(?P<value>[0-9*]{{16,17}}[0-9Xx*]|\d{{15}})(?![0-9A-Za-z*])"),
    "passport": re.compile(rf"{_SEPARATOR}(?P<value>[A-Za-z]{{1,2}}\d{{6,9}}|\d{{9}})(?![0-9A-Za-z])"),
    "bank_card": re.compile(rf"{_SEPARATOR}(?P<value>\d(?:[ -]?\d){{11,18}})(?!\d)"),
    "landline": re.compile(rf"{_SEPARATOR}(?P<value>\d(?:[ -]?\d){{6,11}}(?:转\d{{1,6}})?)(?![\d.])"),
    "qq": re.compile(rf"{_SEPARATOR}(?P<value>[1-9]\d{{4,11}})(?![\d.])"),
    "wechat": re.compile(rf"{_SEPARATOR}(?P<value>[A-Za-z][A-Za-z0-9_\-]{{5,19}}|[1-9]\d{{4,11}})(?![A-Za-z0-9.])"),
    "record": re.compile(
        rf"{_SEPARATOR}{_NUMBER_SIGN}(?P<value>\+?[A-Za-z]{{0,5}}-?\d[A-Za-z0-9]{{0,23}}+(?:-[A-Za-z0-9]{{1,12}}+){{0,3}}"
        r"(?:\.\d{1,4}(?![\d.年月日岁]))?)"
    ),
    "case": re.compile(
        rf"{_SEPARATOR}{_NUMBER_SIGN}{_NO_STUDY}(?P<value>[A-Za-z]{{0,5}}-?\d[A-Za-z0-9]{{3,23}}+)"
        rf"(?![~～—–\-至到例个次]|\.\d){_NO_MEASURE}"
    ),
    "id": re.compile(rf"\s?[：:]\s?{_NO_STUDY}(?P<value>[A-Za-z]{{0,3}}\d{{5,18}})(?![A-Za-z0-9_.~～\-])"),
}
_TYPES = {"case": "record", "id": "record"}
"""Kinds of values that are of another type's."""

_MORE = re.compile(rf"\s?[、,，/／;；和及]\s?(?P<value>[A-Za-z0-9\-]{{5,24}}+){_NO_MEASURE}")
"""What may stand behind a value: one more, which has as many digits at the same places."""

_DATE = re.compile(r"(?:19|20)\d\d([ -])(?:0?[1-9]|1[0-2])\1(?:0?[1-9]|[12]\d|3[01])(?!\d)")

_DIGITS_CUES = {
    "identity": "身份证 公民身份 身份号码 证件号 证件号码 老身份证",
    "passport": "护照",
    "bank_card": "银行卡 银行卡号 卡号 账号 帐号 账户 帐户",
    "landline": "电话 座机 固话 热线 传真 Tel TEL tel Fax",
    "qq": "QQ qq Qq 扣扣 企鹅号 QQ群 qq群 Qq群 扣扣群",
    "wechat": "微信 薇信 威信 V信 v信 weixin Weixin wechat WeChat Wechat vx VX Vx wx WX",
    "record": (
        "住院号 门诊号 病历号 病案号 就诊卡 就诊卡号 就诊号 诊疗卡号 登记号 床号 检查号 检验号 病理号 影像号 "
        "放射号 超声号 标本号 样本号 医保卡 医保卡号 医保号 医保编号 社保号 社保卡 社保卡号 健康卡号 一卡通号 "
        "条码号 条形码 ID号 挂号单号 处方号 申请单号 流水号 急诊号 体检号 腕带号 患者ID 病人ID 就诊ID 病历编号 "
        "参合号 合作医疗号 MRN 住院ID 门诊ID 病案ID 社会保障号 社会保障卡号 医疗保险号 医疗证号 医保证号 新农合证号 "
        "农合证号 合疗证号"
    ),
    "case": "患者编号 病人编号 住院编号 门诊编号 病案编号 就诊编号 登记编号 受试者编号",
    "id": "ID",
}
_FIELD_CUES = (
    "签名 签字 联系人 收件人 记录者 记录人 主诉者 陈述者 供史者 病史陈述者 随访人 开户人 户名 术者 主刀 一助 "
    "二助 三助 助手 一助手 二助手 三助手 麻醉者 主治 法定代理人 代理人 申请人 监护人 持卡人 陪护 陪护人 通信作者 "
    "通讯作者 举报人 复印人 责任组长 经治 主管 组长 核对 责任护士"
)
_CUES_OF_ANYBODY = "姓名 名字 病人姓名 患者姓名"
_ROLES = (
    "患者 病人 患儿 产妇 孕妇 死者 伤者 家属 之子 之女 之妻 之夫 之母 之父 之弟 之兄 之妹 之姐 其子 其女 其妻 "
    "其夫 其父 其母 其兄 其弟 其姐 其妹 儿子 女儿 妻子 丈夫 父亲 母亲 爱人 配偶 老公 老婆 我叫 名叫 本人 受试者"
)
_TITLES = (
    "医生 医师 主任 主任医师 副主任 副主任医师 主治医师 住院医师 大夫 教授 副教授 护士 护士长 护师 院长 博士 "
    "先生 女士 小姐 阿姨 大爷 大妈 奶奶 老师 师傅"
)
_PLACES = (
    "住址 家庭住址 现住址 地址 家庭地址 联系地址 通讯地址 通信地址 户籍 户籍地址 户籍所在地 户口 户口地址 "
    "户口所在地 居住地 籍贯 出生地 现住 家住 住在 我家在 家在 患者系 原籍"
)
_PADDED_KINDS = frozenset(("identity", "passport", "landline", "record", "case", "field", "anybody"))
_PADDED_PLACES_AND_TITLES = "住址 家庭住址 现住址 地址 家庭地址 联系地址 户籍 籍贯 出生地 医生 医师 护士"
"""Kinds of cues, and further cues, that forms write with a blank between the characters: 姓 名, 住 院 号."""
_CUES: dict[str, str] = {
    **{cue: kind for kind, cues in _DIGITS_CUES.items() for cue in cues.split()},
    **dict.fromkeys(_ROLES.split(), "role"),
    **dict.fromkeys(_TITLES.split(), "title"),
    **dict.fromkeys(_FIELD_CUES.split(), "field"),
    **dict.fromkeys(_CUES_OF_ANYBODY.split(), "anybody"),
    **dict.fromkeys(_PLACES.split(), "place"),
    "患者系": "place",
    "某": "anonymous",
    "姓": "surname",
}
_CUES |= {
    " ".join(cue): kind
    for cue, kind in _CUES.items()
    if (kind in _PADDED_KINDS or cue in _PADDED_PLACES_AND_TITLES.split()) and not re.search("[A-Za-z]", cue)
}
_HAN = "\u4e00-\u9fff"
_OTHER_ID = re.compile(rf"[{_HAN}]$|(?:[A-Za-z]|基因|蛋白|探针)\s$")
_ANCHORS = {
    **{place: f"{place}(?<=[{_HAN}]{{{len(place) + 3}}})" for place in ("镇", "乡", "街道", "村", "社区", "小区")},
    **{road: f"{road}(?=[0-9]{{1,5}}[号弄])" for road in "路街道巷弄段"},
    **{word: f"{word}(?=[：:])" for word in "人者师员"},
    "床": r"床(?<=\d床)",
}
"""More cues, with what must stand around them: villages, roads with a number, 送检人：, 麻醉师：, 23床."""


def _alternatives(patterns: Iterable[str]) -> str:
    """One pattern for all, the longest first. By their first characters, which is what makes the search fast."""
    groups: dict[str, list[str]] = {}
    for pattern in sorted(patterns, key=lambda pattern: (-len(pattern), pattern)):
        groups.setdefault(pattern[0], []).append(pattern[1:])
    return "|".join(f"{first}(?:{'|'.join(rest)})" for first, rest in groups.items())


_CUE = re.compile(_alternatives([*_CUES, *_ANCHORS.values()]))
_BEFORE_COLONS = [word + colon for word in "人者师员" for colon in ":："]
_cue_glance = PhraseGlance([*_CUES, *_ANCHORS.keys() - set("人者师员"), *_BEFORE_COLONS])

_HEADER_KINDS = {
    **dict.fromkeys(_DIGITS_CUES, "number"),
    **dict.fromkeys(("field", "anybody", "title"), "name"),
    "place": "place",
}
_BESIDE_HEADERS = frozenset(" \u3000" + DELIMITERS)
_LINE_ENDS = frozenset(("\n", "\r", ""))
_NEXT_HEADER = re.compile(rf"[ \u3000{DELIMITERS}]{{1,20}}(.[^\n]?)")
_HEADER_STARTS = {
    start
    for header in (*OTHER_HEADERS, "患者", "病人", *(cue for cue, kind in _CUES.items() if kind in _HEADER_KINDS))
    for start in (header[:2], f"{header[0]} ")
}

_COMMAS = frozenset("，,；;/／")
_SPACE = re.compile(r"\s{0,12}+[：:]\s{0,12}+|\s{0,12}+[(（]|\s{1,4}+")


def _cued(text: str) -> list[Identifier]:
    found: list[Identifier] = []
    below: list[Identifier] = []
    end = after = seen = 0
    for place in _cue_glance.places(text):
        match = _CUE.match(text, place) if place >= after else None
        if match is None:
            continue
        after = match.end()
        if place < end:
            continue
        if place >= seen and _may_be_header(text, place, after):
            first, seen = line_around(text, place)
            headers = headers_of(text, first, seen, _header_kind) if seen < len(text) else None
            if headers:
                end = seen
                for row in rows_below(text, first, seen, headers, _header_kind):
                    below += (one for cell in row for one in _below(text, cell))
                    seen = row[-1].end
                continue
        for identifier in _beside(text, match.start(), match.end(), end):
            found.append(identifier)
            end = identifier.end
    return sorted([*below, *(one for one in found if not _overlaps(one, below))]) if below else found


def _may_be_header(text: str, start: int, end: int) -> bool:
    """At a glance, whether a cue stands among others with nothing else between."""
    if start and text[start - 1] not in _BESIDE_HEADERS and text[start - 1] != "\n":
        return False
    if text[end : end + 1] in _LINE_ENDS:
        return end < len(text)
    following = _NEXT_HEADER.match(text, end) if text[end] in _BESIDE_HEADERS else None
    return following is not None and (following[1] in _HEADER_STARTS or following[1][0] == "\r")


def _header_kind(header: str) -> str | None:
    """Of what tells a person the kind that stands below a header; None for other words."""
    return "name" if header in ("患者", "病人") else _HEADER_KINDS.get(_CUES.get(header, ""))


def _below(text: str, cell: Below) -> Iterator[Identifier]:
    """The identifiers of a cell, which is read as if its header stood before it with a colon."""
    cue = f"{cell.header}："
    for start, end, kind in _cued(cue + text[cell.start : cell.end]):
        if start >= len(cue):
            yield Identifier(cell.start + start - len(cue), cell.start + end - len(cue), kind)


def _overlaps(one: Identifier, others: Sequence[Identifier]) -> bool:
    """Whether an identifier lies over one of others, which are in order."""
    place = bisect.bisect(others, one)
    return any(other.start < one.end and one.start < other.end for other in others[max(0, place - 1) : place + 1])


def _beside(text: str, start: int, end: int, floor: int) -> list[Identifier]:
    """What stands beside a cue from `start` to `end`, nothing of it before `floor`."""
    cue = text[start:end]
    kind = _CUES.get(cue)
    if kind in _VALUES:
        return _value(text, start, end, kind)
    if kind == "anonymous":
        begin = anonymous_start(text, start)
        stop = start + (2 if text[start : start + 2] in ("某某", "某甲", "某乙", "某丙") else 1)
        return [] if begin is None or begin < floor else [Identifier(begin, stop, "name")]
    if kind == "surname":
        length = surname_length(text, end)
        alone = length and re.match(r"[，,。；;\s！!]|$", text[end + length : end + length + 1])
        return [Identifier(end, end + length, "name")] if alone else []
    if kind == "place":
        return _place(text, end, cue)
    if kind is None and cue not in "床人者师员":
        return _place_around(text, start, end, floor)
    before = name_start(text, start) if kind == "title" else None
    if before is not None and before >= floor:
        return [Identifier(before, start, "name"), *_names_after(text, end, kind)]
    return _names_after(text, end, kind)


def _value(text: str, start: int, end: int, kind: str) -> list[Identifier]:
    if text[start].isascii() and start and text[start - 1].isascii() and text[start - 1].isalnum():
        return []  # the cue is the end of another word
    if kind == "id" and _OTHER_ID.search(text, max(0, start - 3), start):
        return []  # 基因ID, Entrez ID
    match = _VALUES[kind].match(text, end)
    if match is None or (
        kind == "wechat"
        and not re.search("[0-9]", match["value"])
        and not re.search("[：:是为加]", text[end : match.start("value")])
    ):
        return []  # "微信 Android"
    if kind == "landline" and (
        _DATE.match(match["value"])
        or (_is_date(match["value"]) and not re.search("[：:]", text[end : match.start("value")]))
    ):
        return []  # 电话2019-05-06随访
    found: list[Identifier] = []
    shape = _shape(match["value"])
    while match and _shape(match["value"]) == shape and not (found and _is_date(match["value"])):
        found.append(Identifier(match.start("value"), match.end("value"), _TYPES.get(kind, kind)))
        match = _MORE.match(text, match.end())
    return found


def _shape(value: str) -> str:
    """A value with 0 for every digit."""
    return re.sub("[0-9]", "0", value)


def _names_after(text: str, end: int, kind: str | None) -> list[Identifier]:
    """Names behind a cue; with a colon, or behind 姓名, it is a field and a list of them may stand there."""
    separator = _SPACE.match(text, end)
    field = separator is not None and (kind == "anybody" or ":" in separator[0] or "：" in separator[0])
    start = separator.end() if separator else end
    found: list[Identifier] = []
    while True:
        stop = field_name_end(text, start, kind == "anybody") if field else name_end(text, start)
        if stop is None:
            return found
        found.append(Identifier(start, stop, "name"))
        mark = text[stop : stop + 1]
        if not (field and (mark == "、" or (mark in _COMMAS and listed_name_end(text, stop + 1)))):
            return found
        start = stop + 1


_LEVEL = (
    "自治区|特别行政区|自治州|自治县|街道|社区|小区|大道|胡同|花园|公寓|大厦|广场|新村|省|州|盟|市|区|县|旗|镇|乡|"
    "村|屯|庄|路|街|道|巷|弄|里|苑|园|段|湾|洼"
)
_STEP = rf"[{_HAN}]{{1,8}}?(?:{_LEVEL})"
_DOOR = (
    r"第?[0-9A-Za-z一二三四五六七八九十#\-]{1,6}+"
    r"(?:号院|号楼|号|弄|栋|幢|座|单元|室|户|层|楼|组|队)"
)
_CHAIN = re.compile(
    rf"(?:{_STEP}){{1,12}}+(?:[中东西南北上下]?(?:{_DOOR}){{1,6}}+(?:[{_HAN}]{{2,8}}?(?:小区|花园|苑|公寓|大厦|新村|家园))?+(?:{_DOOR}){{0,6}}+)?+"
)
_FILLED = re.compile(rf"[{_HAN}0-9A-Za-z#\-－—·]{{2,60}}+")
_NO_PLACE = re.compile(r"不详|同上|未|无|本地|本市|本院|当地|农|非农|城镇|城市|乡村|见|保密|原籍|居民|集体|院|如下|〔")
_PLAIN_NAME = re.compile(rf"[{_HAN}·]{{2,20}}(?<![某])")
_NEXT_FIELD = re.compile(r"邮编|邮政|电话|联系|手机|职业|民族|病史|因|人$|身份")
_LEFT = re.compile(rf"[^{_HAN}0-9]|[在于住至到址是从往位为由即系籍贯]")
_PROVINCE = re.compile(
    "(?:北京|天津|上海|重庆)市|(?:河北|山西|辽宁|吉林|黑龙江|江苏|浙江|安徽|福建|江西|山东|河南|湖北|湖南|广东|"
    "海南|四川|贵州|云南|陕西|甘肃|青海|台湾)省"
    "|内蒙古|(?:广西|西藏|宁夏|新疆).{0,3}自治区"
)
_BODY_WAY = "静脉通路|[旁尿管回气]路"
_OF_THE_BODY = re.compile(f"段|[窦体底部叶肺胃肾肝脾心脑腰骶颈胸腹额顶枕颞野灶疡变肿]区|(?<![大街])道|{_BODY_WAY}")
"""Levels of an address that are parts of the body too, or of what is put into it."""
_SECTION = re.compile(r"(?:路|街|道|线)[^路街道线]{0,3}段$")
_WIDE_LEVEL = re.compile("[省市县区州]")


def _place(text: str, end: int, cue: str) -> list[Identifier]:
    """The address behind a cue: a chain of places, or whatever fills the field."""
    separator = _SPACE.match(text, end)
    start = separator.end() if separator else end
    if _NO_PLACE.match(text, start):
        return []
    chain = _CHAIN.match(text, start)
    if chain and (separator or _address_like(chain[0], cue)):
        return [Identifier(start, chain.end(), "address")]
    filled = _FILLED.match(text, start) if separator and not chain else None
    if filled is None:
        return []
    cut = _NEXT_FIELD.search(filled[0])
    stop = start + cut.start() if cut else filled.end()
    return [Identifier(start, stop, "address")] if stop - start >= 2 else []


def _address_like(chain: str, cue: str) -> bool:
    """Whether a chain without a field around it is one: two levels at least, not all of the body, or a door.

    Behind 患者系 a diagnosis may stand: 胃窦区2号溃疡 needs more than the door.
    """
    of_a_place = len(_OF_THE_BODY.findall(chain)) < len(re.findall(_LEVEL, chain))
    if re.search(_DOOR, chain):
        return of_a_place or cue != "患者系"
    return of_a_place and len(re.findall(_LEVEL, chain)) >= 2


def _place_around(text: str, start: int, end: int, floor: int) -> list[Identifier]:
    """The address around a road with a number, or around a village below two wider places."""
    road = text[end : end + 1].isdigit()
    left = max(floor, start - 40)
    window = text[left:start]
    if not road and len(_WIDE_LEVEL.findall(window)) < 2:
        return []
    province = _PROVINCE.search(window)
    if province:
        left += province.start()
    elif not road:
        return []
    else:
        left += max((match.end() for match in _LEFT.finditer(window)), default=0)
    chain = _CHAIN.match(text, left)
    if chain is None or chain.end() < end or (road and not re.search(r"\d", chain[0])):
        return []
    if road and text[start] == "道" and not re.search("[大中东西南北]$", text[left:start]):
        return []  # 呼吸道
    if road and not _is_road(text[left:end]):
        return []
    if not road and len(_WIDE_LEVEL.findall(chain[0])) < 2:
        return []
    return [Identifier(left, chain.end(), "address")]


def _is_road(way: str) -> bool:
    """Whether what ends in 路 or 段 is a way in a place: not 静脉通路, 十二指肠降段."""
    placed = re.search("[省市县镇乡]", way)
    if way.endswith("段"):
        return bool(placed or (_SECTION.search(way) and not _OF_THE_BODY.search(way[:-1])))
    return bool(placed or _WIDE_LEVEL.search(way) or not re.search(f"(?:{_BODY_WAY})$", way))


def _unpadded(name: str) -> str:
    return re.sub(r"\s", "", name)


def _is_whole(name: str) -> bool:
    return bool(_PLAIN_NAME.fullmatch(name)) and not (len(name) == 2 and rjieba.has_word(name))


def _names_again(text: str, names: set[str]) -> list[Identifier]:
    """Other mentions of the names found: of whole names that are no words."""
    whole = sorted(name for name in names if _is_whole(_unpadded(name)))
    there = [re.escape(name) for name in whole[:MAX_NAMES] if name in text]
    if not there:
        return []
    pattern = re.compile("|".join(sorted(there, key=len, reverse=True)))
    return [Identifier(*match.span(), "name") for match in pattern.finditer(text)]
