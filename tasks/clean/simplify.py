"""Conversion of Traditional characters to Simplified ones by OpenCC's phrases (乾坤 stays, 乾燥 becomes 干燥)."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from infra.errors import UserError
from tasks.clean.characters import codes_of
from tasks.clean.profile import OPENCC_REMEDY

MAX_PASSES = 4
"""Conversions in a row; a second is needed only where the first makes a new phrase."""


def simplify(text: str) -> str:
    """Return the text in Simplified characters; doing it again changes nothing.

    Raises:
        UserError: the package is not installed.
    """
    convert, is_traditional = _converter()
    for _ in range(MAX_PASSES):
        if not any(is_traditional[codes].any() for codes in codes_of(text)):
            return text
        simplified = convert(text)
        if simplified == text:
            return text
        text = simplified
    return text


@functools.cache
def _converter() -> tuple[Callable[[str], str], npt.NDArray[np.bool_]]:
    """Return the conversion, and a table that marks the characters without which it changes nothing."""
    try:
        import opencc  # only here: most corpora are Simplified, and do not need the dictionary in memory
    except ImportError as error:
        raise UserError(f"Traditional text cannot be converted: {OPENCC_REMEDY}.") from error
    convert = opencc.OpenCC("t2s").convert
    characters = [chr(code) for code in (*range(0x3400, 0xA000), *range(0x20000, 0x32000))]
    converted = convert("\n".join(characters)).split("\n")
    is_traditional = np.zeros(0x110000, dtype=np.bool_)
    is_traditional[[ord(old) for old, new in zip(characters, converted, strict=True) if old != new]] = True
    return convert, is_traditional
