"""Surrogates: drawn names, numbers and places of the same form as an identifier.

Every draw comes from a keyed digest of the person or document and of the identifier. So the same name is the same
surrogate throughout a document, another one elsewhere, and nobody without the key can tell which. A surname has one
surrogate wherever it stands: 王芳 becomes 李敏, and 王医生 李医生. So has a character of a given name: where 欧阳晓丽
becomes 李敏洁, 晓丽 becomes 敏洁. A drawn number may be somebody's; it is not that of the person.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Sequence

from tasks.deidentify.forms.names import surname_length
from tasks.deidentify.forms.numbers import check_digit_of, is_card_number
from tasks.deidentify.forms.plain import simplified

Digest = Callable[..., bytes]
"""Takes some values and returns 32 bytes that only the holder of the key can compute."""

SURNAMES = "王李张刘陈杨赵黄周吴徐孙胡朱高林何郭马罗梁宋郑谢韩唐冯于董萧程曹袁邓许傅沈曾彭吕苏卢蒋蔡贾丁魏薛叶阎"
GIVEN = "伟芳娜敏静丽强磊军洋勇艳杰娟涛明超霞平刚桂英华文玉红云林海波峰宁辉飞鹏浩怡佳雨晨思雪梅琳玲燕春秋国建"
TRANSLITERATED = "阿巴迪尔古丽买买提江木合拉吐孙热依帕克什"
LATIN = ("Alex", "Bruno", "Carla", "Dana", "Erik", "Fiona", "Greta", "Hugo", "Irina", "Jonas", "Karin", "Lucas")
CITIES = ("安平市", "临川市", "永宁市", "东亭市", "南湖市", "长宁市", "清源市", "西峰市", "新安市", "广陵市")
DISTRICTS = ("城东区", "城西区", "河北区", "新城区", "江南区", "湖滨区")
ROADS = ("和平路", "建设路", "文化路", "解放路", "中山路", "新华路", "人民路", "朝阳路")
JOBS = ("工人", "教师", "职员", "司机", "农民", "会计", "厨师", "个体户")
PEOPLES = ("汉族", "回族", "满族", "壮族", "苗族", "土家族", "藏族", "彝族")
SYLLABLES = "安平康宁华新东南西北和明永长清江湖山海泰"
_PROVINCES = (
    "11",
    "12",
    "13",
    "21",
    "31",
    "32",
    "33",
    "34",
    "35",
    "36",
    "37",
    "41",
    "42",
    "43",
    "44",
    "50",
    "51",
    "61",
)
_TRIES = 8
"""Draws before a surrogate that equals the identifier is given up."""

# matches: "王 芳", "古丽·买买提"
# not: "Maria"
_HAN = re.compile("[\u4e00-\u9fff]")
# matches: "宜昌市第二人民医院", "招商银行"
# not: "工作"
_SUFFIX = re.compile(
    r"(?:有限公司|公司|集团|银行|厂|医院|卫生院|卫生服务中心|大学|学院|中学|小学|幼儿园|学校|附院|中心)$"
)
# matches: "Maria Gonzalez", "ZHANG^XIAOMING"
# not: "Maria"
_LATIN_GAP = re.compile("[ ^·]+")
_KEPT_IN_NAMES = frozenset("某×*xX")


def surrogate(kind: str, written: str, digest: Digest) -> str | None:
    """Return a drawn text of the same form as an identifier, never the identifier; None for kinds that have none."""
    draw = _DRAWS.get(kind, _code)
    for attempt in range(_TRIES):
        drawn = draw(written, _Draw(digest, attempt))
        if drawn != written:
            return drawn
    return None


class _Draw:
    """Deterministic choices: each depends on the key, on values and on how often the first draw was the identifier."""

    def __init__(self, digest: Digest, attempt: int) -> None:
        self._digest = digest
        self._attempt = str(attempt)

    def below(self, limit: int, *values: str) -> int:
        return int.from_bytes(self._digest(self._attempt, *values)[:8], "big") % limit

    def one(self, choices: Sequence[str], *values: str) -> str:
        return choices[self.below(len(choices), *values)]

    def other(self, choices: str, role: str, written: str) -> str:
        """A character other than what is written. The first draw serves, so a part and the whole name agree."""
        return self.one(choices.replace(written, ""), role, written)


def _name(written: str, draw: _Draw) -> str:
    plain = simplified("".join(written.split()))
    if not _HAN.search(plain):
        return " ".join(draw.one(LATIN, plain, str(place)) for place, _ in enumerate(_LATIN_GAP.split(written)))
    if "·" in plain:
        signs = (sign if sign == "·" else draw.one(TRANSLITERATED, plain, str(at)) for at, sign in enumerate(plain))
        return "".join(signs)
    length = surname_length(plain, 0)
    pieces = []
    if length:  # 欧阳锋 and 王芳 both get a surname of one character
        pieces.append(draw.other(SURNAMES, "surname", plain[:length]))
    for sign in plain[length:]:
        pieces.append(sign if sign in _KEPT_IN_NAMES else draw.other(GIVEN, "given", sign))
    # 王 芳 keeps the blanks with which a form pads it
    drawn = iter(pieces)
    filled = "".join(sign if sign.isspace() else next(drawn, "") for sign in written)
    return filled + "".join(drawn)


def _code(written: str, draw: _Draw) -> str:
    """Another digit for each digit and another letter for each letter; all other signs stay."""
    plain = "".join(sign for sign in written if sign.isalnum()).lower()
    signs = []
    for at, sign in enumerate(written):
        if sign.isascii() and sign.isdigit():
            signs.append(str(draw.below(10, plain, str(at))))
        elif sign.isascii() and sign.isalpha():
            letter = chr(ord("a") + draw.below(26, plain, str(at)))
            signs.append(letter.upper() if sign.isupper() else letter)
        else:
            signs.append(sign)
    return "".join(signs)


def _poured(written: str, digits: str) -> str:
    """Return digits with the gaps of what was written: 138-1234-5678."""
    drawn = iter(digits)
    return "".join(next(drawn, sign) if sign.isalnum() else sign for sign in written)


def _mobile(written: str, draw: _Draw) -> str:
    digits = [sign for sign in written if sign.isdigit()]
    if len(digits) < 11:
        return _code(written, draw)
    country, plain = digits[:-11], "".join(digits[-11:])
    tail = "".join(str(draw.below(10, plain, str(at))) for at in range(9))
    return _poured(written, "".join(country) + "1" + draw.one("356789", plain, "second") + tail)


# matches: "0871-", "021 ", "（0755）", "(010)"
# not: "138", "8567"
_AREA = re.compile(r"[（(]?0(?:10|2\d|[3-9]\d\d)[）)]?[ \-－—]{0,2}")


def _landline(written: str, draw: _Draw) -> str:
    """Another number of the same area: the code says no more than the city, and none begins with another digit."""
    area = _AREA.match(written)
    first = area.end() if area else 0
    return written[:first] + _code(written[first:], draw)


def _identity(written: str, draw: _Draw) -> str:
    plain = "".join(sign for sign in written if sign.isalnum()).upper()
    if len(plain) != 18 or not plain[:17].isdigit():
        return _code(written, draw)
    born = datetime.date(1935, 1, 1) + datetime.timedelta(days=draw.below(27_000, plain, "born"))
    place = draw.one(_PROVINCES, plain, "province") + f"{draw.below(9, plain, 'city') + 1:02d}01"
    first = f"{place}{born:%Y%m%d}{draw.below(1000, plain, 'number'):03d}"
    return _poured(written, first + check_digit_of(first))


def _card(written: str, draw: _Draw) -> str:
    drawn = _code(written, draw)
    digits = [sign for sign in drawn if sign.isdigit()]
    if "*" in written or len(digits) < 12:
        return drawn
    first = "62" + "".join(digits[2:-1])
    last = next(str(digit) for digit in range(10) if is_card_number(f"{first}{digit}"))
    return _poured(written, first + last)


def _address(written: str, draw: _Draw) -> str:
    city = draw.one(CITIES, written, "city")
    district = draw.one(DISTRICTS, written, "district")
    if not any(sign.isdigit() for sign in written):
        return city + district
    return f"{city}{district}{draw.one(ROADS, written, 'road')}{draw.below(300, written, 'number') + 1}号"


# matches: "@", "艾特", "#", " at ", "(at)"
# not: "at"
_AT = re.compile(r"@|艾特|#|[(\[（【 ](?:at|AT)[)\]）】 ]")


def _email(written: str, draw: _Draw) -> str:
    return _code(_AT.split(written)[0].strip(), draw) + "@example.com"


def _url(written: str, draw: _Draw) -> str:
    return f"https://example.com/{draw.below(10**8, written):08d}"


def _institution(written: str, draw: _Draw) -> str:
    suffix = _SUFFIX.search(written)
    return draw.one(SYLLABLES, written, "0") + draw.one(SYLLABLES, written, "1") + (suffix[0] if suffix else "单位")


def _ip(written: str, draw: _Draw) -> str:
    return "10." + ".".join(str(draw.below(256, written, str(at))) for at in range(3))


def _none_drawn(written: str, draw: _Draw) -> str:
    return written


_DRAWS: dict[str, Callable[[str, _Draw], str]] = {
    "name": _name,
    "mobile": _mobile,
    "landline": _landline,
    "identity": _identity,
    "bank_card": _card,
    "address": _address,
    "email": _email,
    "url": _url,
    "ip": _ip,
    "employer": _institution,
    "school": _institution,
    "hospital": _institution,
    "occupation": lambda written, draw: draw.one(JOBS, written),
    "ethnicity": lambda written, draw: draw.one(PEOPLES, written),
    # a drawn age over 89 or coordinate would be another statement about the person; a department another finding
    "age": _none_drawn,
    "gps": _none_drawn,
    "department": _none_drawn,
}
"""How a kind is drawn; all others as codes of digits and letters."""
