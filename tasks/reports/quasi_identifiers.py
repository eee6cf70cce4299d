"""A k-anonymity look at what is left in de-identified documents: how many share age, sex, place, date and diagnosis.

De-identification removes what names a person. A woman of 46 with a rare disease, admitted in one month in one town, may
still be the only one. So the documents are grouped by such attributes, and small groups are counted; no group is shown.

Memory is bounded: of a set of attributes at most `MOST_GROUPS` groups are kept, those with the smallest hashes, with
their exact sizes. Above that, numbers of groups are estimated from this sample. Time grows with the characters.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from tasks.deidentify.forms.dates import ANY_DATE, date_fits, read_date

ATTRIBUTES = ("age", "sex", "place", "month", "diagnosis")
SETS = (
    ("age", "sex"),
    ("age", "sex", "month"),
    ("age", "sex", "place", "month"),
    ("age", "sex", "diagnosis"),
    ATTRIBUTES,
)
"""Sets of attributes by which documents are grouped."""

MOST_GROUPS = 100_000
"""Groups of a set that are kept in memory."""

BEGINNING = 3_000
"""Characters of a document that are looked at: who the patient is stands at the beginning."""

SMALL = 5
"""Size below which a group counts as small: GB/T 42460 and usual practice ask for 5 or more."""

_HASHES = 2**64

# matches: "46岁", "3 岁"
# not: "46例"
_AGE = re.compile(r"(?<!\d)(\d{1,3})\s?岁")
# matches: "，女，", "性别 男 "
# not: "男性激素", "子女"
_SEX = re.compile(r"(?:^|[\s，,、：:（(])([男女])(?=性?(?:[\s，,、。；;）)\d]|患[者儿]|$))")
# matches: "来自湖北省", "在深圳打工"
# not: "本市"
_PLACE = re.compile(
    "北京|天津|上海|重庆|河北|山西|辽宁|吉林|黑龙江|江苏|浙江|安徽|福建|江西|山东|河南|湖北|湖南|广东|海南|四川|贵州|云南|陕西|"
    "甘肃|青海|台湾|内蒙古|广西|西藏|宁夏|新疆|香港|澳门|深圳|广州|武汉|成都|杭州|南京|西安|长沙|郑州|青岛|大连|沈阳|"
    "[\u4e00-\u9fff]{2,3}[县市](?=[\u4e00-\u9fff]{1,4}[镇乡村区]|[，。人])"
)
_DATE = re.compile(ANY_DATE)
# matches: "诊断：2型糖尿病，", "诊断为急性阑尾炎。"
# not: "诊断不明确"
_DIAGNOSIS = re.compile(r"诊断(?:为|[：:])\s{0,4}(?:1[.、．]\s?)?([\u4e00-\u9fffA-Za-z0-9]{2,20})")


def attributes_of(text: str) -> dict[str, str]:
    """Return the attributes of the person that a document is about, as far as its beginning has them."""
    beginning = text[:BEGINNING]
    found: dict[str, str] = {}
    for name, pattern in (("age", _AGE), ("sex", _SEX), ("diagnosis", _DIAGNOSIS)):
        if match := pattern.search(beginning):
            found[name] = match[1]
    if match := _PLACE.search(beginning):
        found["place"] = match[0]
    for match in _DATE.finditer(beginning):
        date = read_date(match[0]) if date_fits(beginning, match) else None
        if date is not None and date.year:
            found["month"] = f"{date.year}-{date.month}"
            break
    return found


class GroupSizes:
    """Sizes of groups of documents, in bounded memory: a sample of the groups by their hashes, each with its size.

    The sample does not depend on the order of the documents. Two groups share a hash of 64 bits hardly ever.
    """

    def __init__(self, most: int = MOST_GROUPS) -> None:
        self._most = most
        self._share = _HASHES
        self._sizes: Counter[int] = Counter()
        self.documents = 0

    def add(self, values: tuple[str, ...]) -> None:
        """Count a document with these values."""
        self.documents += 1
        digest = hashlib.blake2b("\0".join(values).encode("utf-8", "surrogatepass"), digest_size=8).digest()
        place = int.from_bytes(digest, "big")
        if place >= self._share:
            return
        self._sizes[place] += 1
        while len(self._sizes) > self._most:
            self._share //= 2
            self._sizes = Counter({key: size for key, size in self._sizes.items() if key < self._share})

    def figures(self) -> dict[str, Any]:
        """Return the numbers of documents, of groups, of documents in small groups, and the smallest size."""
        scale = _HASHES // self._share
        sizes = Counter(self._sizes.values())
        return {
            "documents": self.documents,
            "groups": sum(sizes.values()) * scale,
            "smallest": min(sizes, default=0),
            "alone": sizes[1] * scale,
            "small": sum(size * number for size, number in sizes.items() if size < SMALL) * scale,
            "is_estimated": scale > 1,
        }


def look_at(texts: Iterable[str]) -> list[dict[str, Any]]:
    """Return figures of the groups by each of `SETS`; only documents that have all attributes of a set count."""
    sizes: Mapping[tuple[str, ...], GroupSizes] = {names: GroupSizes() for names in SETS}
    for text in texts:
        found = attributes_of(text)
        for names, groups in sizes.items():
            if found.keys() >= set(names):
                groups.add(tuple(found[name] for name in names))
    return [{"attributes": ", ".join(names), **groups.figures()} for names, groups in sizes.items()]
