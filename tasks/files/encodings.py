"""Detection of a file's encoding, UTF-8, UTF-16, GB18030 or Big5, from samples of its bytes."""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Callable

from tasks.files.slices import Slice

SAMPLE = 1 << 18
"""Bytes from which an encoding is detected."""

WINDOWS = 16
"""Positions in a big file from which the sample is taken."""

LINE_SAFE = (
    "utf-8",
    "utf-8-sig",
    "gb18030",
    "gbk",
    "gb2312",
    "big5",
    "big5hkscs",
    "cp950",
    "ascii",
    "latin-1",
    "cp1252",
)
"""Encodings in which the bytes of a line end and of a comma are not part of any other character."""

WIDE = ("utf-16", "utf-16-le", "utf-16-be")

BIG5 = ("big5hkscs", "cp950")
"""Variants of Big5, each with characters that the other lacks."""

KNOWN = {codecs.lookup(name).name: name for name in (*LINE_SAFE, *WIDE)}
"""The supported encodings, by Python's canonical names."""

_PAIRED = ("gb18030", "big5", "big5hkscs", "cp950")
"""Encodings with characters of two bytes."""

_WIDER = {"utf-8-sig": "utf-8", "gb2312": "gb18030", "gbk": "gb18030"}
"""Encodings by their subsets: a file that claims to be GB2312 is often GB18030, which contains it."""

_USUAL = re.compile("[\t\n\r -~\u00a0-\u04ff\u2000-\u27ff\u3000-\u9fff\uff00-\uffef]")
"""A character of common scripts: `痛`, `a` or `℃`, but not the `\\ue000` of the private use area."""

_UTF_8_HAN = re.compile(rb"[\xe0-\xf4][\x80-\xbf]{2}")
"""The first three bytes of a long UTF-8 character: `\\xe7\\x97\\x9b`, 痛."""

_FOREIGN = re.compile(r"[^\0-\x7f]")
"""A character outside ASCII: `痛`."""

_CHARSET = re.compile(rb"""<meta[^>]{0,200}?charset\s{0,9}=\s{0,9}["']?\s{0,9}([A-Za-z0-9_:.-]{1,40})""", re.IGNORECASE)
"""The encoding that a page declares: `gbk` of `<meta http-equiv=Content-Type content="text/html; charset=gbk">`."""


def detect_encoding(sample: bytes) -> str:
    """Return the encoding of most lines: UTF-8, GB18030, Big5 or UTF-16 with its byte order.

    UTF-16 is recognised by its byte order mark, or by zero bytes at every other position. UTF-8 is tried before
    GB18030: a line of GB18030 is hardly ever valid UTF-8, while most UTF-8 is also valid GB18030. Big5, which may be
    valid GB18030 too, shows by its marks.
    """
    if sample.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16-le" if sample.startswith(codecs.BOM_UTF16_LE) else "utf-16-be"
    # Latin letters, blanks and line ends have a zero byte in UTF-16: b"a\0" is the letter a, low byte first.
    even, odd = sample[::2].count(0), sample[1::2].count(0)
    if even + odd > len(sample) // 50 and max(even, odd) > 9 * min(even, odd):
        wide = "utf-16-be" if even > odd else "utf-16-le"
        text = sample.decode(wide, "replace")
        if len(_USUAL.findall(text)) > 0.9 * len(text):  # otherwise these are stray zeros
            return wide
    lines = without_cut_character(sample).split(b"\n")
    votes = Counter(line_encoding(line, "utf-8") for line in lines if not line.isascii())
    if votes[None] * 2 > votes.total() and (wide_without_zeros := _wide(sample[: SAMPLE // WINDOWS])):
        return wide_without_zeros
    if votes["utf-8"] >= votes["gb18030"]:
        return "utf-8"
    return _big5(sample) or "gb18030"


def _big5(sample: bytes) -> str | None:
    """Return the variant of Big5 that text with marks is in, or None.

    The marks ，、。 of Big5 are characters of the private use area in GB18030, which no text holds.
    """
    if not set("\ue4c7\ue4c8\ue4c9") & set(sample.decode("gb18030", "replace")):
        return None
    return next((name for name in BIG5 if decodes(sample, name)), None)


def _wide(beginning: bytes) -> str | None:
    """Return the byte order of UTF-16 text without line ends and letters, hence without zero bytes, or None."""
    for wide in ("utf-16-le", "utf-16-be"):
        text = beginning.decode(wide, "replace")
        # Two Latin letters look like one Chinese character, but not like one of these four.
        if len(_USUAL.findall(text)) > 0.9 * len(text) and any(mark in text for mark in "，。、的"):
            return wide
    return None


def line_encoding(line: bytes, of_file: str) -> str | None:
    """Return the encoding of a line, its file's or the other one of UTF-8 and GB18030, or None if it is in neither.

    A line of UTF-8 with a broken byte may be valid GB18030, with every character wrong. GB18030 is therefore accepted
    only if most of the line is not UTF-8. Two characters of GB18030 may look like one Greek or Arabic letter of UTF-8,
    but hardly like a character of three bytes: in a file of GB18030 those letters are no evidence of UTF-8.
    """
    if of_file not in ("utf-8", "gb18030"):
        return next((name for name in (of_file, "utf-8") if _is(line, name)), None)
    if of_file == "gb18030" and not _UTF_8_HAN.search(line) and _is(line, "gb18030"):
        return "gb18030"  # the usual case, found fast
    if _is(line, "utf-8") and (of_file == "utf-8" or max(line.decode()) >= "\u0800" or not _is(line, "gb18030")):
        return "utf-8"
    replaced, foreign = _replaced_of_foreign(line.decode("utf-8", "replace"))
    return "gb18030" if replaced * 4 >= foreign and _is(line, "gb18030") else None


def decode_paired(line: bytes) -> str | None:
    """Return a line of CESU-8 as text, or None for any other line.

    Oracle and Java write CESU-8: UTF-8 with pairs of surrogates for characters beyond U+FFFF.
    """
    if b"\xed" not in line:  # the first byte of every surrogate
        return None
    try:
        return line.decode("utf-8", "surrogatepass").encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeError:
        return None


def decode_broken_line(line: bytes, of_file: str) -> str:
    """Decode a line that is not valid in any encoding, with U+FFFD for what cannot be trusted.

    The line is decoded as UTF-8 if most of it is, else in its file's encoding. UTF-8 loses one character to a broken
    byte. In encodings of byte pairs the following bytes may be paired wrongly: the broken byte is skipped alone and
    with the next one, and the reading with fewer failures is used. Almost all UTF-8 is valid in these encodings, too:
    if more than one character and a tenth of those outside ASCII fail, none of these is trusted.
    """
    text = line.decode("utf-8", "replace")
    replaced, foreign = _replaced_of_foreign(text)
    if replaced * 2 <= foreign and (of_file == "utf-8" or _UTF_8_HAN.search(line)):
        return text
    ways = ("replace", _REPLACE_PAIR) if of_file in _PAIRED else ("replace",)
    text = min((line.decode(of_file, way) for way in ways), key=lambda text: text.count("\ufffd"))
    replaced, foreign = _replaced_of_foreign(text)
    return text if replaced <= 1 or replaced * 10 <= foreign else _FOREIGN.sub("\ufffd", text)


def _replace_pair(error: UnicodeError) -> tuple[str, int]:
    """Skip an undecodable byte and the next unless that is ASCII; an error handler for `bytes.decode`."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    # An error of two bytes has covered its pair already.
    is_paired = error.end - error.start == 1 and not error.object[error.end : error.end + 1].isascii()
    return "\ufffd", error.end + is_paired


_REPLACE_PAIR = "yiwen.replace_pair"
codecs.register_error(_REPLACE_PAIR, _replace_pair)


def _replaced_of_foreign(text: str) -> tuple[int, int]:
    """Return the numbers of undecodable characters, and of all characters outside ASCII, including these."""
    return text.count("\ufffd"), len(text) - len(text.encode("ascii", "ignore"))


def _is(data: bytes, encoding: str) -> bool:
    try:
        data.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


def decodes(data: bytes, encoding: str) -> bool:
    """Return True if bytes are text of an encoding; the last character may be incomplete."""
    try:
        codecs.getincrementaldecoder(encoding)().decode(data)
    except UnicodeDecodeError:
        return False
    return True


def encoding_of(piece: Slice, sample: Callable[[], bytes]) -> str:
    """Return the encoding of a slice: the one it names, else the one that its sample shows.

    An HTML page may declare its encoding, which is used if the sample is valid in it. UTF-16 is returned with its byte
    order, which only the beginning of a file shows.
    """
    named = _WIDER.get(piece.encoding, piece.encoding)
    if named and named != "utf-16":
        return named
    data = sample()
    if named == "utf-16":
        return "utf-16-be" if data.startswith(codecs.BOM_UTF16_BE) else "utf-16-le"
    declared = _CHARSET.search(data[:4096]) if piece.kind == "html" else None
    if declared and not data.startswith((codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        try:
            name = KNOWN[codecs.lookup(declared[1].decode()).name]
        except LookupError:
            return detect_encoding(data)
        name = _WIDER.get(name, name)
        # Any bytes are valid Latin-1, and many Chinese pages declare it by mistake.
        if name not in (*WIDE, "latin-1", "cp1252", "ascii") and decodes(data, name):
            return name
    return detect_encoding(data)


def sample_windows(read_at: Callable[[int, int], bytes], size: int) -> bytes:
    """Return whole lines from the beginning of a file and from positions all over it, whatever the file's slices.

    Args:
        read_at: returns the bytes at a position, given with their number.
        size: bytes of the file.
    """
    if size <= SAMPLE:
        return read_at(0, size)
    width = SAMPLE // WINDOWS
    head = read_at(0, width)
    if b"\0" in head:  # UTF-16: cutting at the byte of a line end would tear its byte pairs apart
        return read_at(0, SAMPLE)
    starts = (size * window // WINDOWS for window in range(1, WINDOWS))
    return b"\n".join([_to_last_end(head), *(_whole_characters(read_at(start, width)) for start in starts)])


def _whole_characters(window: bytes) -> bytes:
    """Return the part of a window that begins and ends with a whole character, in whatever encoding."""
    if window.count(b"\n") > 1:
        return _to_last_end(window.partition(b"\n")[2])
    # A long line: these bytes are characters of their own in every encoding.
    borders = [found.start() for found in _BORDER.finditer(window)]
    if len(borders) > 1:
        return window[borders[0] : borders[-1]]
    # Only UTF-8 shows where its characters begin: not with one of the bytes from 0x80 to 0xBF.
    inner = without_cut_character(window.lstrip(bytes(range(0x80, 0xC0))))
    return inner if _is(inner, "utf-8") else b""


def _to_last_end(window: bytes) -> bytes:
    return window.rpartition(b"\n")[0] or without_cut_character(window)


def without_cut_character(data: bytes) -> bytes:
    """Remove an incomplete character from the end of bytes that are UTF-8 or GB18030."""
    for encoding in ("utf-8", "gb18030"):
        decoder = codecs.getincrementaldecoder(encoding)()
        try:
            decoder.decode(data)
        except UnicodeDecodeError:
            continue
        return data[: len(data) - len(decoder.getstate()[0])]
    return data


_BORDER = re.compile(rb"[\t\n\r -/]")
"""A blank or a sign that is no byte of a longer character: `,`, but not `0`, a second byte in GB18030."""
