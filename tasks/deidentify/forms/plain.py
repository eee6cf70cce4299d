"""Plain forms of a text, character by character: what rules and models are written for.

Full-width letters and digits become plain ones, halves of surrogate pairs, which jieba cannot read, the replacement
character, and traditional characters simplified ones. A text keeps its length, so that places in its plain form are
places in itself.
"""

from __future__ import annotations

import re
from pathlib import Path

TRADITIONAL: dict[str, str] = {
    pair[0]: pair[1] for pair in Path(__file__).with_name("traditional.txt").read_text(encoding="utf-8").split()
}
"""Simplified characters by the traditional ones that no simplified text holds (they are not in GB 2312)."""

FORMS: dict[int, str] = {
    **{wide: chr(wide - 0xFEE0) for wide in range(0xFF01, 0xFF5F) if chr(wide) not in "，：；（）！？"},
    **dict.fromkeys(range(0xD800, 0xE000), "\ufffd"),
}
"""Forms that are plain in any script, by code point."""

# matches: "１", "Ａ", "＠"
# not: "1", "，", "醫"
_ODD = re.compile(f"[{re.escape(''.join(map(chr, FORMS)))}]")
# matches: "醫", "體"
# not: "医", "体", "后", "１"
_TRADITIONAL = re.compile(f"[{''.join(TRADITIONAL)}]")


# matches: "1\u30002"
# not: "1 2", "男\u300036岁"
_WIDE_BLANK = re.compile("\u3000(?<=[0-9]\u3000)(?=[0-9])")  # it begins with the blank: a search for it alone is fast


def plain_form(text: str) -> str:
    """Return a text with plain letters, digits and blanks between digits, in the script that it is in."""
    return _WIDE_BLANK.sub(" ", _ODD.sub(lambda odd: FORMS[ord(odd[0])], text))  # translate looks at each character


def simplified(text: str) -> str:
    """Return a text whose traditional characters are simplified."""
    return _TRADITIONAL.sub(lambda one: TRADITIONAL[one[0]], text)
