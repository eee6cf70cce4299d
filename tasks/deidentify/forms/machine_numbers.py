"""Checks of numbers of machines and places: addresses of a network, coordinates, devices."""

from __future__ import annotations

import re

# matches: "IP ", "主机："
# not: "见"
_NETWORK_CUE = re.compile(r"(?:[iI][pP]v?4?|主机|地址|服务器|网关)[^0-9，。；\n]{0,4}$")
# matches: "关节假体条码：X，", "接种狂犬疫苗（"
# not: "质控"
_IMPLANT = re.compile(r"疫苗|假体|支架|导管|起搏|植入|瓣膜|钢板|晶体|双J管|补片|球囊|透析器|缝线|封堵器")

_LEAST_DIGITS = 7
"""Digits of an IP address without a cue: 3.1.2.1 is the number of a section."""

_IMPLANT_WINDOW = 40
"""Characters before 批号 in which the device must be named."""


def ip_fits(text: str, match: re.Match[str]) -> bool:
    """Refuse numbers over 255 or with a 0 before them, and short ones without a cue: 3.1.2.1 is a section."""
    octets = match["value"].split(".")
    if any(int(octet) > 255 or (octet[0] == "0" and len(octet) > 1) for octet in octets):
        return False
    return sum(map(len, octets)) >= _LEAST_DIGITS or bool(
        _NETWORK_CUE.search(text[max(0, match.start() - 10) : match.start()])
    )


def plate_fits(text: str, start: int, end: int, match: re.Match[str]) -> bool:
    """Refuse more than two letters behind the first one: 沪EGFR123 is no plate."""
    return sum(sign.isalpha() and sign.isascii() for sign in match["value"][1:]) <= 2


def coordinates_fit(text: str, match: re.Match[str]) -> bool:
    """Require a latitude and a longitude of East Asia, in either order: 30.5928,114.3055."""
    low, high = sorted((float(match["first"]), float(match["second"])))
    return 3 <= low <= 54 and 73 <= high <= 136


def batch_of_implant(text: str, start: int, end: int, match: re.Match[str]) -> bool:
    """Require an implant, a catheter or a vaccine before 批号; the batches of reagents and drugs are no person's."""
    return bool(_IMPLANT.search(text[max(0, start - _IMPLANT_WINDOW) : start]))
