"""Comparable form of a text: texts are equal, and duplicates, if their forms are.

The form is NFKC in lower case without white space. Nothing that carries meaning is removed: digits, signs and decimal
points stay (年龄18-75岁 and 年龄18~65岁 are two texts), a blank between two numbers or two words stays, and a raised,
circled or fractional digit does not become a plain one (10⁹ is not 109).

Time grows with the characters.
"""

from __future__ import annotations

import functools
import hashlib
import re
import unicodedata

GUARD = "\x02"
"""Character around digits that NFKC makes of something other than a plain digit."""

_PLAIN_DIGIT = ("<wide>", "<narrow>", "<font>")
"""Kinds of decomposition that leave a digit what it is: ５ is 5, but ⁵ is not."""
_LETTER = "a-z\u00df-\u024f\u0370-\u052f"
# matches: "5", "٣"
# not: "五"
DIGIT = re.compile(r"\d")
# matches: "a", "é", "α", "я"
# not: "A", "病"
LETTER = re.compile(f"[{_LETTER}]")
"""Lower-case letters. A blank matters between two digits, and between two letters."""
# matches: "血压 120", "mg /", "5 mg"
# not: "120 80", "lung cancer"
_NEEDLESS_BLANK = re.compile(rf" (?:(?<=\d )(?!\d)|(?<=[{_LETTER}] )(?![{_LETTER}])|(?<![\d{_LETTER}] ))")


def comparable(text: str) -> str:
    """Return the comparable form of a text."""
    plain = " ".join(unicodedata.normalize("NFKC", guarded(text)).lower().split())
    return _NEEDLESS_BLANK.sub("", plain)


def guarded(text: str) -> str:
    """Return the text with its raised, circled and fractional digits spelt out between guards: ½ as \\x021⁄2\\x02."""
    return text.translate(_guarded_digits())


def text_key(text: str) -> bytes:
    """Return 16 bytes that texts share if their `comparable` forms are equal."""
    return key_of(comparable(text))


def key_of(form: str) -> bytes:
    """Return the `text_key` of a text by its comparable form."""
    return hashlib.blake2b(form.encode("utf-8", "surrogatepass"), digest_size=16).digest()


@functools.cache
def _guarded_digits() -> dict[int, str]:
    """Return a map from the characters that NFKC makes digits of to these digits between guards."""
    spelled = {}
    for code in range(0x80, 0x20000):
        tag = unicodedata.decomposition(chr(code)).partition(" ")[0]
        if tag.startswith("<") and tag not in _PLAIN_DIGIT:
            plain = unicodedata.normalize("NFKC", chr(code))
            if any(character.isdecimal() for character in plain):
                spelled[code] = f"{GUARD}{plain}{GUARD}"
    return spelled
