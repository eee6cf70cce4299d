"""The form of a text in which equal texts are equal.

Equal are texts after NFKC, in lower case and but for white space. Nothing that carries meaning is taken away:
digits, signs and decimal points stay (年龄18-75岁 and 年龄18~65岁 are two texts), a blank between two numbers or two
words stays, and a raised, circled or fractional digit does not become a plain one (10⁹ is not 109).

Time grows with the characters.
"""

from __future__ import annotations

import functools
import hashlib
import re
import unicodedata

GUARD = "\x02"
"""Stands around digits that NFKC makes of something that is no plain digit."""

_PLAIN_DIGIT = ("<wide>", "<narrow>", "<font>")
_LETTER = "a-z\u00df-\u024f\u0370-\u052f"
DIGIT, LETTER = re.compile(r"\d"), re.compile(f"[{_LETTER}]")
"""Characters between which a blank matters."""
# A blank goes unless it is all that parts two numbers or two words.
_NEEDLESS_BLANK = re.compile(rf" (?:(?<=\d )(?!\d)|(?<=[{_LETTER}] )(?![{_LETTER}])|(?<![\d{_LETTER}] ))")


def comparable(text: str) -> str:
    """The form of a text in which equal texts are equal."""
    plain = " ".join(unicodedata.normalize("NFKC", guarded(text)).lower().split())
    return _NEEDLESS_BLANK.sub("", plain)


def guarded(text: str) -> str:
    """The text with its raised, circled and fractional digits spelt out between guards."""
    return text.translate(_guarded_digits())


def text_key(text: str) -> bytes:
    """16 bytes that texts share when their `comparable` forms are equal."""
    return key_of(comparable(text))


def key_of(form: str) -> bytes:
    """`text_key` of a text whose comparable form is at hand."""
    return hashlib.blake2b(form.encode("utf-8", "surrogatepass"), digest_size=16).digest()


@functools.cache
def _guarded_digits() -> dict[int, str]:
    spelled = {}
    for code in range(0x80, 0x20000):
        tag = unicodedata.decomposition(chr(code)).partition(" ")[0]
        if tag.startswith("<") and tag not in _PLAIN_DIGIT:
            plain = unicodedata.normalize("NFKC", chr(code))
            if any(character.isdecimal() for character in plain):
                spelled[code] = f"{GUARD}{plain}{GUARD}"
    return spelled
