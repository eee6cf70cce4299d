"""Which encoding a file is in: UTF-8, UTF-16 or GB18030, told from samples of its bytes."""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Callable

from tasks.files.slices import Slice

SAMPLE = 1 << 18
"""Bytes that an encoding is told from."""

WINDOWS = 16
"""Places of a big file that the sample is taken from."""

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
"""Encodings in which the bytes of a line end and of a comma occur in no other character."""

WIDE = ("utf-16", "utf-16-le", "utf-16-be")

KNOWN = {codecs.lookup(name).name: name for name in (*LINE_SAFE, *WIDE)}
"""The encodings that are read, by the name that Python gives them."""

_PAIRED = ("gb18030", "big5", "big5hkscs", "cp950")

_WIDER = {"utf-8-sig": "utf-8", "gb2312": "gb18030", "gbk": "gb18030"}
"""Who says the one often means the other, which holds it whole."""

_USUAL = re.compile("[\t\n\r -~\u00a0-\u04ff\u2000-\u27ff\u3000-\u9fff\uff00-\uffef]")

_UTF_8_HAN = re.compile(rb"[\xe0-\xf4][\x80-\xbf]{2}")

_FOREIGN = re.compile(r"[^\0-\x7f]")

_CHARSET = re.compile(rb"""<meta[^>]{0,200}?charset\s{0,9}=\s{0,9}["']?\s{0,9}([A-Za-z0-9_:.-]{1,40})""", re.IGNORECASE)


def detect_encoding(sample: bytes) -> str:
    """UTF-8, UTF-16 (by its mark, or by zero bytes at every other place) or GB18030, by what most lines are.

    A line of GB18030 is hardly ever valid UTF-8, while most of UTF-8 passes for GB18030: UTF-8 is asked first.
    """
    if sample.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16-le" if sample.startswith(codecs.BOM_UTF16_LE) else "utf-16-be"
    even, odd = sample[::2].count(0), sample[1::2].count(0)
    if even + odd > len(sample) // 50 and max(even, odd) > 9 * min(even, odd):
        wide = "utf-16-be" if even > odd else "utf-16-le"
        text = sample.decode(wide, "replace")
        if len(_USUAL.findall(text)) > 0.9 * len(text):  # else they are stray zeros
            return wide
    lines = without_cut_character(sample).split(b"\n")
    votes = Counter(line_encoding(line, "utf-8") for line in lines if not line.isascii())
    if votes[None] * 2 > votes.total() and (wide_without_zeros := _wide(sample[: SAMPLE // WINDOWS])):
        return wide_without_zeros
    return "gb18030" if votes["gb18030"] > votes["utf-8"] else "utf-8"


def _wide(beginning: bytes) -> str | None:
    """The byte order of UTF-16 without line ends and letters, so that no byte of it is zero; None for no such."""
    for wide in ("utf-16-le", "utf-16-be"):
        text = beginning.decode(wide, "replace")
        # Two letters of an alphabet pass for one Chinese character, but for none of these.
        if len(_USUAL.findall(text)) > 0.9 * len(text) and any(mark in text for mark in "，。、的"):
            return wide
    return None


def line_encoding(line: bytes, of_file: str) -> str | None:
    """What a line is in: UTF-8 or GB18030 whatever of the two its file is in; None where it is in neither.

    A line of UTF-8 with a broken byte may pass for GB18030, and every character of it would be wrong; so GB18030
    is believed only where most of the line is no UTF-8. Two letters of GB18030 may pass for one Greek or Arabic
    letter of UTF-8, but hardly for a character of three bytes; so in a file of GB18030 those letters do not count.
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
    """A line of UTF-8 with pairs of surrogates for characters beyond U+FFFF, as Oracle and Java write it (CESU-8);
    None for any other."""
    if b"\xed" not in line:
        return None
    try:
        return line.decode("utf-8", "surrogatepass").encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeError:
        return None


def decode_broken_line(line: bytes, of_file: str) -> str:
    """A line that is in no encoding, with U+FFFD for what is not believed: UTF-8 where most of it is, else its file's.

    UTF-8 loses one character to a broken byte. In encodings of pairs the bytes behind it may be paired wrongly, so it
    is passed over alone and with the next, and the reading that fails less is taken. UTF-8 passes for them but for a
    byte here and there: where more than one spot and a tenth of what is not ASCII fails, none of that is believed.
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
    """Passes over a byte that is no character and the next, unless that is ASCII: a way to handle decoding errors."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    is_paired = error.end - error.start == 1 and not error.object[error.end : error.end + 1].isascii()
    return "\ufffd", error.end + is_paired


_REPLACE_PAIR = "yiwen.replace_pair"
codecs.register_error(_REPLACE_PAIR, _replace_pair)


def _replaced_of_foreign(text: str) -> tuple[int, int]:
    """How many characters could not be decoded, and how many are not ASCII, those among them."""
    return text.count("\ufffd"), len(text) - len(text.encode("ascii", "ignore"))


def _is(data: bytes, encoding: str) -> bool:
    try:
        data.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


def decodes(data: bytes, encoding: str) -> bool:
    """Whether bytes, which may end within a character, are text of an encoding."""
    try:
        codecs.getincrementaldecoder(encoding)().decode(data)
    except UnicodeDecodeError:
        return False
    return True


def encoding_of(piece: Slice, sample: Callable[[], bytes]) -> str:
    """The encoding of a slice: the one it names, else that of the sample, of HTML what its head says if that fits.

    UTF-16 is given with its byte order, as only a file's beginning tells it.
    """
    said = _WIDER.get(piece.encoding, piece.encoding)
    if said and said != "utf-16":
        return said
    data = sample()
    if said == "utf-16":
        return "utf-16-be" if data.startswith(codecs.BOM_UTF16_BE) else "utf-16-le"
    told = _CHARSET.search(data[:4096]) if piece.kind == "html" else None
    if told and not data.startswith((codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        try:
            name = KNOWN[codecs.lookup(told[1].decode()).name]
        except LookupError:
            return detect_encoding(data)
        name = _WIDER.get(name, name)
        if name not in (*WIDE, "latin-1", "cp1252", "ascii") and decodes(data, name):
            return name
    return detect_encoding(data)


def sample_windows(read_at: Callable[[int, int], bytes], size: int) -> bytes:
    """Whole lines from the beginning of a file and from places all over it: the same for any cut of the file."""
    if size <= SAMPLE:
        return read_at(0, size)
    width = SAMPLE // WINDOWS
    head = read_at(0, width)
    if b"\0" in head:  # cutting at line ends would tear the byte pairs of UTF-16 apart
        return read_at(0, SAMPLE)
    starts = (size * window // WINDOWS for window in range(1, WINDOWS))
    return b"\n".join([_to_last_end(head), *(_whole_characters(read_at(start, width)) for start in starts)])


def _whole_characters(window: bytes) -> bytes:
    """What of a window begins and ends with a line; with long lines, between bytes that are characters of their own in
    every encoding; else what of it is UTF-8, which alone tells where its characters begin."""
    if window.count(b"\n") > 1:
        return _to_last_end(window.partition(b"\n")[2])
    borders = [found.start() for found in _BORDER.finditer(window)]
    if len(borders) > 1:
        return window[borders[0] : borders[-1]]
    inner = without_cut_character(window.lstrip(bytes(range(0x80, 0xC0))))
    return inner if _is(inner, "utf-8") else b""


def _to_last_end(window: bytes) -> bytes:
    return window.rpartition(b"\n")[0] or without_cut_character(window)


def without_cut_character(data: bytes) -> bytes:
    """Bytes that end with a whole character, if they are UTF-8 or GB18030."""
    for encoding in ("utf-8", "gb18030"):
        decoder = codecs.getincrementaldecoder(encoding)()
        try:
            decoder.decode(data)
        except UnicodeDecodeError:
            continue
        return data[: len(data) - len(decoder.getstate()[0])]
    return data


_BORDER = re.compile(rb"[\t\n\r -/]")
