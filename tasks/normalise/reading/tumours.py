"""Malignant tumours, written as their site: the primary of the site, and what it has spread to.

    胃窦低分化腺癌      →  胃窦癌
    升结肠Ca            →  升结肠癌
    肺癌脑转移          →  肺癌;脑转移癌
    肝癌骨转移伴肺转移  →  肝癌;骨转移癌;肺转移癌

ICD-10 codes a carcinoma by its site, whatever its histology, so 浸润性导管癌 of 左乳浸润性导管癌 says only that the
tumour is malignant. A primary is one unless 原位, 转移 or 继发 is said. The table tumour_sites.csv has the words for
sites, each with the site of its primary and that of its secondary tumour; a text with a site that the table lacks, or
with two, stays as it is. So do tumours whose code does not follow from the site: lymphomas, melanomas, sarcomas.

Time grows with the length of a text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from infra.errors import UserError
from kg.fusion.vocabularies import read_table

SITES = Path(__file__).parents[1] / "tables" / "tumour_sites.csv"
"""Default table."""


class Site(NamedTuple):
    """Sites of the tumours that a word stands for."""

    primary: str
    """胃窦, for 胃窦癌; empty if tumours there are not named after the site, as those of bones."""
    secondary: str
    """骨 for 腰椎, of 腰椎转移; empty if the word does not say where a tumour has spread to."""


# Matches 癌, ca of 升结肠ca and 恶性肿瘤, but neither 癌前病变 nor ca of ca125.
_MALIGNANT = re.compile(r"癌(?!前|胚|症?史|栓|痛|性)|(?<![a-z])ca(?![a-z\d])|恶性肿瘤|恶性占位", re.IGNORECASE)
# Matches 脑转移 of 肺癌脑转移, 转移性肝癌 and 骨继发恶性肿瘤, but not 未见转移.
_SPREAD = re.compile(r"(?:转移|继发)(?!性?(?:腹痛|右下腹))")
_OTHER = re.compile(r"术$|原位|上皮内|交界|良性|癌前|个人史|家族史|筛查|化疗$|放疗$|治疗$|体检")
_JOINTS = re.compile(r"[,;、+]|伴有?|合并|并发|并(?!殖)|及|和|与|\s+")


class Tumours:
    """Writes malignant tumours as their sites."""

    def __init__(self, sites: Mapping[str, Site] | None = None) -> None:
        """Take the sites by their words; by default those of the table."""
        self._sites = dict(read_sites() if sites is None else sites)
        longest_first = sorted(self._sites, key=lambda word: (-len(word), word))
        self._word = re.compile("|".join(map(re.escape, longest_first))) if self._sites else re.compile(r"(?!)")

    def written(self, text: str) -> str:
        """Return the tumours of a text, joined by ";"; the text itself if it has none, or one that is no carcinoma."""
        if not (_MALIGNANT.search(text) or _SPREAD.search(text)) or _OTHER.search(text):
            return text
        pieces = [each for piece in _JOINTS.split(text) if piece for each in _primary_and_spread(piece)]
        written = [self._tumour(piece) for piece in pieces]
        # 肺癌伴高血压 has a piece that is no tumour: it is left to the rules for compounds, with 肺癌 rewritten.
        return ";".join(one or piece for one, piece in zip(written, pieces, strict=True)) if any(written) else text

    def _tumour(self, piece: str) -> str:
        """Return the name of the tumour of a piece, or "" if it has no site, several, or is not malignant."""
        words = [match[0] for match in self._word.finditer(piece)]
        if _SPREAD.search(piece):
            sites = {self._sites[word].secondary for word in words}
            return f"{sites.pop()}转移癌" if len(sites) == 1 and "" not in sites else ""
        if not _MALIGNANT.search(piece):
            return ""
        sites = {self._sites[word].primary for word in words}
        return f"{sites.pop()}癌" if len(sites) == 1 and "" not in sites else ""


def read_sites(path: Path = SITES) -> dict[str, Site]:
    """Read a table of sites.

    Raises:
        UserError: the file is unreadable or lacks a column, or a row has no word or no site. The message names the row.
    """
    sites: dict[str, Site] = {}
    for number, row in enumerate(read_table(path, ("word", "site", "secondary")), start=2):
        if not row["word"] or not (row["site"] or row["secondary"]):
            raise UserError(f"{path}, row {number} needs a word, and a site or a secondary one. Fill it, or delete it.")
        sites[row["word"]] = Site(row["site"], row["secondary"])
    return sites


# Matches "癌脑转移" of 肺癌脑转移 and "ca术后多发骨转移": what comes after 癌 is another tumour.
_THEN_SPREAD = re.compile(
    r"(?P<first>.*(?:癌|(?<![a-z])ca|恶性肿瘤))(?:术后|化疗后|放疗后|综合治疗后|晚期|全身|多发|广泛|远处|侵犯)*"
    r"(?P<spread>[^癌]+(?:转移|继发).*)",
    re.IGNORECASE,
)


def _primary_and_spread(piece: str) -> list[str]:
    match = _THEN_SPREAD.fullmatch(piece)
    return [match["first"], match["spread"]] if match else [piece]
