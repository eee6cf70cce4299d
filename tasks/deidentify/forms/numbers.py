"""Checks of numbers that name a person: what makes a run of digits an identity number, a bank card, a telephone.

The patterns that find the candidates are in `tasks/deidentify/identifier_types.py`.
"""

from __future__ import annotations

import datetime
import re

_PROVINCE_CODES = (
    "11 12 13 14 15 21 22 23 31 32 33 34 35 36 37 41 42 43 44 45 46 50 51 52 53 54 61 62 63 64 65 71 81 82 83"
)
_PROVINCES = frozenset(_PROVINCE_CODES.split())
"""First two digits of identity numbers (GB/T 2260)."""

_WEIGHTS = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
_CHECK_DIGITS = "10X98765432"
"""Check digit by the weighted sum of the other 17 digits modulo 11 (ISO 7064 MOD 11-2)."""

_EARLIEST_YEAR = 1890
"""Year before which no living person, and no person in a record, was born."""

_LATEST_YEAR = 2100
"""Year behind which eight digits are a number, such as the telephone 67550921."""

# matches: "货号：", "条码"
# not: "手机："
_CODE_CUE = re.compile(r"(?:批号|货号|编号|登录号|条码号?|ISBN|ISSN)[：: ]?$")
# matches: "ab", "img_"
# not: "电话", "12", "手机_"
_LETTER_BEFORE = re.compile(r"(?:[A-Za-z]|[A-Za-z0-9]_)$")
# matches: "my tel", "加vx", "FAX"
# not: "ab"
_CONTACT_BEFORE = re.compile(r"(?:tel|fax|phone|mobile|mob|[vw]x|weixin|wechat|qq|no)$", re.IGNORECASE)
# matches: "国药准字", "批 ", "No."
# not: "护照"
_OTHER_NUMBER_BEFORE = re.compile(r"(?:号|准字|ID|批|No\.?)[：: ]{0,3}$")
# matches: "身份证号：", "证件"
# not: "卡号："
_IDENTITY_CUE = re.compile("(?:身份证|证件|身份)(?:号码?)?[：:（( ]{0,3}$")
# matches: "6228 4801", "6228-4801"
# not: "62284801"
_CARD_GAP = re.compile(r"[ -]")
# matches: "86-10-62345678", "86-755-2673 4410"
# not: "86 28 335 4520"
_HYPHENATED_86 = re.compile(r"86-\d{2,4}-\d{3,4}[ -]?\d{4}(?!\d)")
# matches: "电话：", "请致电"
# not: "脉搏 "
_TELEPHONE_CUE = re.compile(
    r"(?:电话|座机|固话|热线|传真|手机|致电|拨打|联系|[Tt]el|TEL|[Ff]ax|FAX)[^0-9，。；\n]{0,8}$"
)


def is_identity_number(number: str) -> bool:
    """Return True for 18 or 15 characters that are a resident identity number.

    Its parts are a province, a date of birth and, with 18 characters, a check digit (ISO 7064 MOD 11-2).
    """
    if number[:2] not in _PROVINCES:
        return False
    if len(number) == 15:  # issued before 1999: two digits of the year, no check digit
        return is_date("19" + number[6:12])
    return is_date(number[6:14]) and number[17].upper() == check_digit_of(number[:17])


def check_digit_of(digits: str) -> str:
    """Return the check digit of the first 17 digits of an identity number: 0 to 9, or X."""
    return _CHECK_DIGITS[sum(int(digit) * weight for digit, weight in zip(digits, _WEIGHTS, strict=True)) % 11]


def is_date(digits: str) -> bool:
    """Return True for eight digits that are a date such as 20190506, of the years 1890 to 2100."""
    if len(digits) != 8:
        return False
    try:
        year = datetime.date(int(digits[:4]), int(digits[4:6]), int(digits[6:])).year
    except ValueError:
        return False
    return _EARLIEST_YEAR <= year <= _LATEST_YEAR


def is_card_number(digits: str) -> bool:
    """Return True for the digits of a bank card whose last one is the right check digit (Luhn)."""
    doubled = [sum(divmod(int(digit) * 2, 10)) for digit in digits[-2::-2]]
    return (sum(doubled) + sum(map(int, digits[-1::-2]))) % 10 == 0


def mobile_fits(text: str, start: int, number: str) -> bool:
    """Refuse codes: ISBN 13812345678, and letters right before the number that are no cue (ab13812345678)."""
    before = text[max(0, start - 8) : start]
    if _CODE_CUE.search(before):
        return False
    return not _LETTER_BEFORE.search(before) or bool(_CONTACT_BEFORE.search(before))


def uneven_mobile_fits(text: str, start: int, number: str) -> bool:
    """Require blanks where nobody groups values: 18956 03 2217, but not 135 120 118 76, which may be measured.

    A country code tells a telephone in any groups.
    """
    if " " not in number or text[max(0, start - 2) : start - 1].isdigit() or not mobile_fits(text, start, number):
        return False
    return number[0] in "+0" or max(map(len, number.split())) >= 4


def foreign_telephone_fits(text: str, start: int, number: str) -> bool:
    """Require the digits of a telephone with its country: +852 6173 4928."""
    return 9 <= sum(map(str.isdigit, number)) <= 14


def landline_fits(text: str, start: int, number: str) -> bool:
    """Refuse values behind a bare 86, which may be a pulse: 86 28 335 4520 is a telephone only behind a cue."""
    before = text[max(0, start - 8) : start]
    if _LETTER_BEFORE.search(before) and not _CONTACT_BEFORE.search(before):
        return False  # of a bag of blood or a policy: D0612 1907 3345 11
    bare = number.startswith("86") and not _HYPHENATED_86.match(number)
    return not bare or bool(_TELEPHONE_CUE.search(text, max(0, start - 12), start))


def identity_fits(text: str, start: int, number: str) -> bool:
    """Require a province, a date of birth and the check digit; of a masked number (110101********1234) the province."""
    plain = number.replace(" ", "")
    return plain[:2] in _PROVINCES if "*" in plain else is_identity_number(plain)


def mistyped_identity_fits(text: str, start: int, number: str) -> bool:
    """Require a province and a date of birth alone: the check digit is wrong where somebody mistyped the number."""
    plain = number.replace(" ", "")
    return plain[:2] in _PROVINCES and is_date(plain[6:14])


def spaced_identity_fits(text: str, start: int, number: str) -> bool:
    """Require 18 characters with the check digit, or with a date of birth behind a cue, and a blank among them."""
    plain = number.replace(" ", "")
    if len(plain) != 18 or plain == number or plain[:2] not in _PROVINCES or not is_date(plain[6:14]):
        return False
    return is_identity_number(plain) or bool(_IDENTITY_CUE.search(text[max(0, start - 10) : start]))


def old_identity_fits(text: str, start: int, end: int, match: re.Match[str]) -> bool:
    """Require a province and a date of birth in a number of 15 digits behind its cue."""
    return is_identity_number(match["value"].replace(" ", ""))


# matches: "退至", "到账卡", "刷卡 ", "打款至"
# not: "，", "为"
_PAID_BEFORE = re.compile(r"(?:[退转付汇打存]款?[至到入给]|[卡行款]|账户?)[：: ]?$")


def grouped_card_fits(text: str, start: int, number: str) -> bool:
    """Require groups of a bank card, or a word of payment before; the check digit may be mistyped."""
    return " " in number or bool(_PAID_BEFORE.search(text[max(0, start - 4) : start]))


# matches: "at", "to", "ver", "mm"
# not: "hxp", "lm"
_BEFORE_A_DATE = re.compile(r"(?:mm|cm|at|on|to|by|in|of|from|ver|date|day|img|data|v|ct|mr|us|dr|ecg)$")


def born_login_fits(text: str, start: int, number: str) -> bool:
    """Refuse words before a date: at20240315, ct20240315."""
    return not _BEFORE_A_DATE.match(number.rstrip("0123456789"))


# matches: "6217****0071"
# not: "6217*****0071"
_CARD_IN_AN_APP = re.compile(r"62\d\d\*{4}\d{4}")


def masked_card_fits(text: str, start: int, number: str) -> bool:
    """Require the places of a bank card, 6228*********4417, or what apps show of one: 6217****0071."""
    return (
        bool(_CARD_IN_AN_APP.fullmatch(number))
        or 14 <= sum(character.isdigit() or character == "*" for character in number) <= 19
    )


def starred_fits(text: str, start: int, number: str) -> bool:
    """Refuse products such as 3*12345678*2. The stars of a bar code have no number before them: *690013377205*."""
    before = text[max(0, start - 2) : start - 1]
    return not (before.isascii() and before.isalnum())


def short_landline_fits(text: str, start: int, number: str) -> bool:
    """Refuse counts and dates in two groups: 计数6632 9981, 2024 0301."""
    return not is_date(number.replace(" ", "")) and not is_of_a_thing(text, start, number)


# matches: "YY0505-2012"
# not: "NB24-1178"
_ENDS_IN_A_YEAR = re.compile(r"-(?:19|20)\d\d$")
# matches: "准字", "注"
# not: "文字号"
_LICENSED_BEFORE = re.compile("[注准字]{1,2}$")


def short_code_fits(text: str, start: int, number: str) -> bool:
    """Refuse standards, which end in a year (YY0505-2012), few digits, and what numbers a thing."""
    digits = re.sub("[^0-9]", "", number)
    is_public = _ENDS_IN_A_YEAR.search(number) or _LICENSED_BEFORE.search(text[max(0, start - 2) : start])
    if len(digits) < 6 or is_public:
        return False
    return not is_of_a_thing(text, start, number.replace("ZL", "ZY"), is_code=True)


# matches: "SNOMED CT ", "HBV-DNA ", "国药准字", "批号：", "约"
# not: "号", "："
_NO_PERSON_BEFORE = re.compile(
    r"(?:DNA|RNA|载量|拷贝数?|计数|定量|滴度|准字[A-Z]?|批号|批件号?|批次|文号|PMID|ISBN|ISSN|[Dd][Oo][Ii]|GenBank|登录号|登记号|注册号?"
    r"|货号|型号|规格|基因|(?:GB|YY|WS|DB|ISO|IEC|JJG)(?:/[TZ])?|序列|[Rr]eads|比对|本位码|注准|注进|注许|DI|组合码|项目码|收费码|编码|物价[\d、,，]{0,40}|标准|专利号?|方案号?|代码|军字第|CAS"
    r"|SNOMED(?:[ -]CT)?|LOINC|[元￥¥$约达至~～±+(（第*/])[：:]?\s?$"
)
# matches: " IU/ml", "拷贝", "元"
# not: "，"
_UNIT_BEHIND = re.compile(
    r"\s?(?:m?IU|U(?![A-Za-z])|[mμn]?[gG](?![A-Za-z])|m[lL]|ng|μ|cop|拷贝|CFU|cfu|bp|kb|个|元|例|人|次|万|亿|条|株|步|倍|年|岁|单位"
    r"|[/×%％‰~～到至(（])"
)
# matches: "NCT01234567", "CTR20190001", "H20054321"
# not: "ZY20190871"
_PUBLISHED = re.compile(
    r"(?:NCT|CTR|CRD|ChiCTR|ICD|GSE|GSM|SRR|PMID|ISO|GB|YY|WS|DB|CN|ZL|CAS|HLA|CYP|IL|CD|[HZSJB](?=\d{8}$))", re.ASCII
)


# matches: "CT2019-03-12", "MRI2023-11-02"
# not: "CT2019-03-3912", "CT201903"
_IMAGE_OF_A_DAY = re.compile(r"(?:CT|MRI?|DR|CR|DSA|US)(?:19|20)\d\d-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])")
# matches: "250306008", "330100005-1", "C03110200001000", "C02030207200006061890000006", "XA10BAE010A010010178843"
# not: "0250306008", "C0203020", "912345678"
CATALOGUED = re.compile(
    r"(?:1[1-4]|2[1-7]|3[1-4]|4[1-8])(?:0[1-9]|1\d)\d{5}(?:-\d{1,2})?|C(?:0[1-9]|1\d)\d{11,24}|X[A-Z]\d\d[A-Z]{2,3}[A-Z0-9]{10,20}"
)
"""Codes of the national catalogues of medical services (nine digits), consumables and drugs, as bills have them."""


def code_form_fits(text: str, start: int, number: str) -> bool:
    """Refuse what numbers a thing: 组合码LB0048712."""
    return not is_of_a_thing(text, start, number, is_code=True)


def long_number_fits(text: str, start: int, number: str) -> bool:
    """Refuse dates, measured values, licences of drugs, and what is published; the rest names a case or a person."""
    digits = re.sub("[^0-9]", "", number)
    if CATALOGUED.fullmatch(number) or _IMAGE_OF_A_DAY.match(number):
        return False
    if len(digits) < (8 if number[0].isdigit() or "-" in number else 6) or digits.endswith("00000"):
        return False
    if number[-14:].isdigit() and is_date(digits[:8]) and len(digits) in (8, 12, 14):
        return False
    return not (_LETTER_BEFORE.search(text[max(0, start - 1) : start]) or is_of_a_thing(text, start, number))


def image_fits(text: str, start: int, number: str) -> bool:
    """Refuse dates behind the name of a method: CT 20230918."""
    return not is_date(re.sub("[^0-9]", "", number)) and not _UNIT_BEHIND.match(text, start + len(number))


def is_of_a_thing(text: str, start: int, number: str, is_code: bool = False) -> bool:
    """Return True for a measured value, the licence or batch of a drug, and what is published.

    Around a value a bracket or a slash tells that it is one: 12345678(↑). Around a code with letters it tells nothing:
    冰冻报告（F240905-03）, P24-03917(胃窦).
    """
    behind = _UNIT_BEHIND.match(text, start + len(number))
    before = text[max(0, start - 48) : start]
    return bool(
        _PUBLISHED.match(number)
        or (behind and not (is_code and behind[0][-1] in "(（/"))
        or _NO_PERSON_BEFORE.search(before.rstrip("(（/") if is_code else before)
    )


def passport_fits(text: str, start: int, number: str) -> bool:
    """Refuse batch, licence and record numbers (国药准字S20063105), and a letter before a date (S20190506)."""
    before = text[max(0, start - 8) : start]
    if "护照" in before:
        return True
    return not (_OTHER_NUMBER_BEFORE.search(before) or is_date(number[1:]))


def card_fits(text: str, start: int, number: str) -> bool:
    """Require the check digit, and refuse what an identity card is said to be."""
    if _IDENTITY_CUE.search(text[max(0, start - 10) : start]):
        return False
    return is_card_number(_CARD_GAP.sub("", number))
