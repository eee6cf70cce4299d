"""Program: the text of a PDF's pages, one JSON line each. Run by `tasks.files.office.pdf` in a process of its own.

A PDF can ask for any amount of time and memory, and its library is not written in Python. So it is read where the
system ends the process that takes too much. It imports nothing of the project, which would take longer than most files.

    pdf_program.py FILE OUTPUT FONTS MEMORY SECONDS CHARACTERS

FONTS is a folder of fonts with Chinese characters. OUTPUT receives {"text": …, "pictures": …} for each page. A file
that cannot be read has {"error": …} instead.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import resource
import sys
from typing import Any, NamedTuple

DIGITS = re.compile(r"[0-9+\-\u2212\u2013]{1,8}")
"""What may be raised or lowered: the `9` of 10⁹, the `-3` of 10⁻³, the `2+` of Ca²⁺."""

RAISED = str.maketrans("0123456789+-\u2212\u2013", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁻")
LOWERED = str.maketrans("0123456789+-\u2212\u2013", "₀₁₂₃₄₅₆₇₈₉₊₋₋₋")

SMALL = 0.9
"""Largest height of a raised or lowered character, of that of the character before it."""
SHIFT = 0.12
"""Least distance of their baselines, of the height of the character before it."""

BREAKS = "\r\n"
"""What PDFium writes where a line ends, and around characters that are raised far."""

SIGNS = str.maketrans({"\x02": "-\n", "\ufffe": "-\n", "\xad": None})
"""The sign that PDFium puts in place of a hyphen and the line end after it; and soft hyphens."""

PICTURE = 3
"""FPDF_PAGEOBJ_IMAGE."""


def main(path: str, output: str, fonts: str, memory: int, seconds: int, characters: int) -> None:
    """Write the text of a PDF's pages."""
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    import pypdfium2  # type: ignore[import-untyped]

    _take_fonts(pypdfium2.raw, fonts)
    with open(output, "w", encoding="utf-8", errors="surrogatepass") as file:
        try:
            document = pypdfium2.PdfDocument(path)
            pages = len(document)
        except (pypdfium2.PdfiumError, OSError) as error:
            file.write(json.dumps({"error": str(error)}))
            return
        for number in range(pages):
            page = _page(pypdfium2, document, number)
            characters -= len(page["text"])
            if characters < 0:
                page = {"error": "too long"}
            file.write(json.dumps(page) + "\n")
            if characters < 0:
                return


def _take_fonts(raw: Any, folder: str) -> None:
    """Start the library anew, with one folder of fonts in place of the machine's.

    For a font that the PDF does not bring, PDFium takes another. If that lacks a character, as DejaVu lacks Chinese
    ones, the character has no height, and lines of equal width are taken for one line drawn twice. With fonts of our
    own, a file has the same text on every machine.
    """
    raw.FPDF_DestroyLibrary()
    byte = ctypes.POINTER(ctypes.c_char)
    path = ctypes.create_string_buffer(os.fsencode(folder))
    config = raw.FPDF_LIBRARY_CONFIG()
    config.version = 2
    config.m_pUserFontPaths = (byte * 2)(ctypes.cast(path, byte))  # ends with a null pointer
    raw.FPDF_InitLibraryWithConfig(config)


def _page(pypdfium2: Any, document: Any, number: int) -> dict[str, Any]:
    try:
        page = document[number]
        text = _text(pypdfium2.raw, page.get_textpage())
        pictures = not text.strip() and any(each.type == PICTURE for each in page.get_objects(max_depth=3))
        page.close()
    except pypdfium2.PdfiumError:  # of a damaged page: the others are read
        return {"text": "", "pictures": False, "damaged": True}
    return {"text": text, "pictures": pictures}


def _text(raw: Any, page: Any) -> str:
    """Return the text of a page, with raised and lowered digits as such, and without the line breaks around them."""
    count = raw.FPDFText_CountChars(page)
    text = "".join(_character(raw.FPDFText_GetUnicode(page, index)) for index in range(count))
    shown = list(text)
    for found in DIGITS.finditer(text):
        place = found.start()
        while place < found.end():  # the raised digits of 10⁹ begin inside the run 109
            before = place - 1
            while before >= 0 and text[before] in BREAKS:
                before -= 1
            shift = _shift(raw, page, before, place) if before >= 0 else 0
            if not shift:
                place += 1
                continue
            end = place + 1
            while end < found.end() and _is_like(raw, page, place, end):
                end += 1
            shown[place:end] = text[place:end].translate(RAISED if shift > 0 else LOWERED)
            shown[before + 1 : place] = [""] * (place - before - 1)
            after = end
            while after < count and text[after] in BREAKS:
                after += 1
            if after < count and _is_like(raw, page, before, after):
                shown[end:after] = [""] * (after - end)
            place = end
    return "".join(shown).translate(SIGNS).replace("\r\n", "\n").replace("\r", "\n")


def _character(unit: int) -> str:
    return chr(unit) if unit < 0x110000 else "\ufffd"


class _Place(NamedTuple):
    """Position of a character, in points."""

    left: float
    right: float
    height: float
    baseline: float


def _shift(raw: Any, page: Any, before: int, index: int) -> int:
    """Return 1 for a character that is raised beside the one before it, -1 for a lowered one, 0 for any other."""
    one, other = _place(raw, page, index), _place(raw, page, before)
    distance = one.baseline - other.baseline
    is_beside = -0.2 * other.height < one.left - other.right < 0.5 * other.height
    if not is_beside or not 0 < one.height <= SMALL * other.height or not SHIFT <= abs(distance) / other.height < 1:
        return 0
    return 1 if distance > 0 else -1


def _is_like(raw: Any, page: Any, one: int, other: int) -> bool:
    """Return True if two characters are of about one size and on one line."""
    first, second = _place(raw, page, one), _place(raw, page, other)
    slack = 0.1 * first.height
    return abs(first.height - second.height) < 3 * slack and abs(first.baseline - second.baseline) < slack


def _place(raw: Any, page: Any, index: int) -> _Place:
    box = raw.FS_RECTF()
    raw.FPDFText_GetLooseCharBox(page, index, box)
    x, y = ctypes.c_double(), ctypes.c_double()
    raw.FPDFText_GetCharOrigin(page, index, x, y)
    return _Place(box.left, box.right, box.top - box.bottom, y.value)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], *map(int, sys.argv[4:7]))
