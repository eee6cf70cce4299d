"""Text files as lines: decompressed and decoded as a stream, whatever their size.

The encoding is told from the first bytes, then held to: a byte that does not fit stops the run and is named
by its offset, because text decoded wrongly spoils a corpus without a sound. A compressed file that ends too
early gives all it holds before it is reported.

Memory: one block and the longest line.
"""

from __future__ import annotations

import codecs
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import zstandard

from infra.errors import UserError

BLOCK = 1 << 16
"""Bytes read at once; a compressed block may unfold to a thousand times its size."""

HEAD = 1 << 18
"""Bytes that the encoding is told from."""

COMPRESSIONS = (".gz", ".zst")


class DamagedArchiveError(Exception):
    """A compressed file is cut short or is not of its kind; what could be read was given before."""


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, /) -> bytes: ...


def read_blocks(path: Path, start: int = 0, end: int | None = None) -> Iterator[bytes]:
    """The bytes of a file, decompressed where its name ends in .gz or .zst.

    `start` and `end` cut out a range of an uncompressed file.

    Raises:
        DamagedArchiveError: at the end of what could be decompressed.
    """
    with path.open("rb") as file:
        if path.suffix.lower() in COMPRESSIONS:
            yield from _decompressed(path, iter(lambda: file.read(BLOCK), b""))
            return
        file.seek(start)
        left = path.stat().st_size - start if end is None else end - start
        while left > 0 and (block := file.read(min(BLOCK, left))):
            left -= len(block)
            yield block


def _decompressed(path: Path, blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Files may be several compressed streams one after the other; each must be whole."""
    open_stream: _Decompressor | None = None
    for block in blocks:
        while block := block if open_stream else block.lstrip(b"\0"):  # tape tools pad with zeros
            open_stream = open_stream or _decompressor(path)
            try:
                data = open_stream.decompress(block)
            except (zlib.error, zstandard.ZstdError) as error:
                raise DamagedArchiveError(f"not readable as {path.suffix}: {error}") from error
            if data:
                yield data
            if not open_stream.eof:
                break
            block, open_stream = open_stream.unused_data, None
    if open_stream is not None:
        raise DamagedArchiveError("the compressed file ends too early")


def _decompressor(path: Path) -> _Decompressor:
    if path.suffix.lower() == ".gz":
        return zlib.decompressobj(wbits=31)
    return zstandard.ZstdDecompressor().decompressobj()


def read_head(path: Path) -> bytes:
    """The first bytes after decompression, `HEAD` or a little more; fewer where there are no more."""
    head = b""
    try:
        for block in read_blocks(path):
            head += block
            if len(head) >= HEAD:
                break
    except DamagedArchiveError:
        pass  # the reading itself reports it
    return head


def detect_encoding(head: bytes) -> str:
    """UTF-8, UTF-16 (by its mark, or by zero bytes at every other place) or GB18030.

    UTF-8 is given up only where most of what is not ASCII fails: a UTF-8 file with a few broken bytes would
    pass for GB18030, and every character of it would be wrong.
    """
    if head.startswith(codecs.BOM_UTF8):
        return "utf-8-sig"
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    even, odd = head[::2].count(0), head[1::2].count(0)
    if even + odd > len(head) // 50 and max(even, odd) > 9 * min(even, odd):
        return "utf-16-be" if even > odd else "utf-16-le"
    text = codecs.getincrementaldecoder("utf-8")("replace").decode(head)
    broken = text.count("\ufffd")
    foreign = sum(not character.isascii() for character in text)
    if broken * 4 > foreign and _decodes(head, "gb18030"):
        return "gb18030"
    return "utf-8"


def _decodes(head: bytes, encoding: str) -> bool:
    try:
        codecs.getincrementaldecoder(encoding)().decode(head)
    except UnicodeDecodeError:
        return False
    return True


def read_lines(path: Path, name: str, encoding: str, start: int = 0, end: int | None = None) -> Iterator[str]:
    """The lines of a file or of a range of it, without their ends (\\n or \\r\\n).

    Raises:
        UserError: a byte does not fit the encoding; the message names file, offset and remedy.
        DamagedArchiveError: after the last readable line.
    """
    pending: list[str] = []
    damage = None
    try:
        for text in _decoded(path, name, encoding, start, end):
            first, *lines = text.split("\n")
            pending.append(first)
            for line in lines:
                yield "".join(pending).removesuffix("\r")
                pending = [line]
    except DamagedArchiveError as error:
        damage = error
    if last := "".join(pending):
        yield last.removesuffix("\r")
    if damage is not None:
        raise damage


def _decoded(path: Path, name: str, encoding: str, start: int, end: int | None) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder(encoding)()
    fed = start
    try:
        for block in read_blocks(path, start, end):
            fed += len(block)
            yield decoder.decode(block)
        yield decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        offset = fed - len(error.object) + error.start
        other = "gb18030" if encoding.startswith("utf-8") else "utf-8"
        raise UserError(
            f"{name} is not {encoding} throughout: byte {offset:,} ({error.reason}). Say its encoding with "
            f"ingest.encoding, such as {other}, or convert the file to UTF-8."
        ) from error
