"""The normal form of a text: what is equal for the vocabulary, for every model and for `tokenizer.json`.

Full-width, enclosed and squared forms become plain ones (NFKC), circled and Roman numerals become digits, all in lower
case; invisible characters are removed (eHealth, section 4.1). No number changes its value, as it would in NFKC:

- Raised digits and signs and fractions stay: 10⁹/L is not 109/L, 1½ is not 11/2, ㎡ is m².
- A numeral beside a number is separated by a 、, as if listed: ⅡⅢ is 2、3, ①5㎎ is 1、5mg. So is a lowered digit beside
  a plain one (SpO₂98%). Elsewhere both are plain digits: Ⅱ型 is 2型, B₁₂ is b12. ⅩⅢ alone is one numeral, 13.

Everything is a step of the normaliser inside `tokenizer.json`, so whoever loads an exported folder gets what training
saw. Time grows with the characters times the steps; texts without any of these characters take two steps.
"""

from __future__ import annotations

from collections import defaultdict

import regex
from tokenizers import Regex, normalizers

INVISIBLE = r"[\p{Cc}\p{Cf}\p{Co}\x{FE00}-\x{FE0F}\x{E0100}-\x{E01EF}&&[^\t\n\x{0B}\x{0C}\r\x{85}]]"
"""Control, format and private-use characters and variation selectors, but not line ends: U+200B, not U+0009."""

NUMERALS = {
    **{chr(first + i): str(i + 1) for first in (0x2160, 0x2170) for i in range(12)},  # Ⅰ … Ⅻ, ⅰ … ⅻ
    **dict(zip("ⅬⅭⅮⅯⅼⅽⅾⅿ", ["50", "100", "500", "1000"] * 2, strict=True)),
    **{chr(first + i): str(i + 1) for first in (0x2776, 0x2780, 0x278A, 0x24F5) for i in range(10)},  # ❶ ➀ ➊ ⓵
    **{chr(0x24EB + i): str(i + 11) for i in range(10)},  # ⓫ … ⓴
    **dict.fromkeys("⓿🄋🄌", "0"),
}
"""Numerals that NFKC leaves alone or spells with letters (Ⅱ would become II)."""

SQUARED = {"㎟": "mm²", "㎠": "cm²", "㎡": "m²", "㎢": "km²", "㎣": "mm³", "㎤": "cm³", "㎥": "m³", "㎦": "km³"} | {
    "㍸": "dm²",
    "㍹": "dm³",
    "㎨": "m∕s²",
    "㎯": "rad∕s²",
}
"""Units with a power, which NFKC would spell with a plain digit."""

KEPT = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ" + "¼½¾⅐⅑⅒⅓⅔⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞⅟↉"
"""Raised digits and signs, and fractions: they stay as they are."""

LOWERED = "[₀-₉]"
"""Lowered digits: they become plain ones."""

COUNTING = r"Ⅰ-ⅿ①-⑳⒈-⒛⓪-⓿❶-➓㉑-㉟㊱-㊿🄀-🄌"
"""Characters that become digits, and at most a mark behind them: `Ⅱ`, `①`, `⒈`; not `⑴`, which brings its brackets."""

DATES = r"㋀-㋋㍘-㍰㏠-㏾"
"""Characters that become digits with a word behind them: `㏠` is 1日."""

SEPARATOR = "、"
"""What separates a numeral from a number beside it."""

SEAM = (
    rf"(?<=\p{{N}}|\p{{N}}[.．․﹒])(?=[{COUNTING}{DATES}])|(?<=[{COUNTING}])(?=\p{{N}}|[.．․﹒]\p{{N}})"
    rf"|(?<=\p{{Nd}})(?={LOWERED})|(?<={LOWERED})(?=\p{{Nd}})"
)
"""A place where two numbers would become one: within `ⅡⅢ`, `120①`, `1.Ⅱ`, `₂98`; not within `Ⅱ型`, `₁₂`, `1½`."""

_PRIVATE = 0xE000
"""First of the private-use characters that stand in for `KEPT` during NFKC; texts have none left by then."""


def _teens() -> list[normalizers.Normalizer]:
    """Replacements of two Roman characters that are one numeral by its circled form: ⅩⅢ by ⑬, but nothing in ⅨⅩⅪ."""
    return [
        normalizers.Replace(Regex(f"(?<![Ⅰ-ⅿ])[Ⅹⅹ][{chr(0x2160 + i)}{chr(0x2170 + i)}](?![Ⅰ-ⅿ])"), chr(0x246A + i))
        for i in range(9)
    ]


def _replacements() -> list[normalizers.Normalizer]:
    """One replacement per value: each is a pass over the text."""
    spellings: dict[str, str] = defaultdict(str)
    for character, form in (NUMERALS | SQUARED).items():
        spellings[form] += character
    return [normalizers.Replace(Regex(f"[{spelling}]"), form) for form, spelling in spellings.items()]


def _steps() -> list[normalizers.Normalizer]:
    away = [normalizers.Replace(kept, chr(_PRIVATE + i)) for i, kept in enumerate(KEPT)]
    back = [normalizers.Replace(chr(_PRIVATE + i), kept) for i, kept in enumerate(KEPT)]
    return [
        normalizers.Replace(Regex(INVISIBLE), ""),  # first, so that Ⅱ\u200bⅢ is ⅡⅢ
        *_teens(),
        normalizers.Replace(Regex(SEAM), SEPARATOR),
        *_replacements(),
        *away,
        _PLAIN,
        *back,
    ]


_PLAIN = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
NORMALISER = normalizers.Sequence(_steps())
"""The normaliser of `tokenizer.json`."""

# Few texts contain what the other steps look for; for the rest, two steps do the same in a fraction of the time. The
# pattern matches "Ⅳ期", "10⁹" and U+200B, and not "IV 期".
_NEEDS_ALL_STEPS = regex.compile(
    rf"[\p{{Cc}}\p{{Cf}}\p{{Co}}\uFE00-\uFE0F\U000E0100-\U000E01EF₀-₉{COUNTING}{DATES}{KEPT}{''.join(SQUARED)}"
    r"--[\t\n\r]]",
    regex.VERSION1,
)


def normalise(text: str) -> str:
    """Normalise a text as `tokenizer.json` does before it cuts words, by the same code."""
    steps = NORMALISER if _NEEDS_ALL_STEPS.search(text) else _PLAIN
    return steps.normalize_str(text)
