"""Compressed bytes as a stream: .gz, .bz2, .zst, and what zip archives hold.

A stream that ends too early gives all it holds before it is reported. One that unfolds out of all proportion is
a bomb and is reported too, before it fills memory or disk.

Memory: a few blocks; of .zst up to 85 MiB, for what the densest 2 KiB of it can hold.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import zstandard

UNFOLDED_AT_ONCE = 1 << 14
"""Bytes that one step of .gz and .bz2 gives at most; the step that meets damage gives none."""

ZSTD_BLOCK = 2048
"""Bytes of .zst that are unfolded in one step, whose output cannot be bounded."""

SUSPECT_BYTES = 256 << 20
SUSPECT_RATIO = 200
"""What gives more than so many bytes, and so many times its own size, is a bomb. Text shrinks to a third or a tenth;
of the most repetitive logs a hundredth is left."""


class DamagedArchiveError(Exception):
    """A compressed file is cut short or is not of its kind; what could be read was given before."""

    reason = "damaged_archive"


class ArchiveBombError(DamagedArchiveError):
    """A compressed file unfolds out of all proportion."""

    reason = "archive_bomb"


_ERRORS = (zlib.error, zstandard.ZstdError, lzma.LZMAError, OSError, EOFError, ValueError)


def unfold(blocks: Iterator[bytes], compression: str) -> Iterator[bytes]:
    """The bytes of a .gz, .bz2 or .zst, which may be several streams one after the other; each must be whole.

    Raises:
        DamagedArchiveError: at the end of what could be decompressed.
    """
    stream: Any = None
    guard = _Guard()
    for block in _cut(blocks) if compression == ".zst" else blocks:
        guard.taken += len(block)
        while block := block if stream else block.lstrip(b"\0"):  # tape tools pad with zeros
            stream = stream or _STREAMS[compression]()
            for data in _steps(stream, block, f"not readable as {compression}"):
                yield guard.given(data)
            if not stream.eof:
                break
            block, stream = stream.unused_data, None
    if stream is not None:
        raise DamagedArchiveError("the compressed file ends too early")


def unfold_member(blocks: Iterator[bytes], method: int) -> Iterator[bytes]:
    """The bytes of one member of a zip archive from those that begin with it.

    Raises:
        DamagedArchiveError: at the end of what could be decompressed, or the method is not known.
    """
    if method == STORED:
        yield from blocks
        return
    if method not in _METHODS:
        raise DamagedArchiveError(f"compression method {method} of zip archives is not read; deflate is")
    stream = _METHODS[method]()
    guard = _Guard()
    for block in _cut(blocks) if method in _ZSTD_METHODS else blocks:
        guard.taken += len(block)
        for data in _steps(stream, block, "the member is damaged"):
            yield guard.given(data)
        if stream.eof:
            return
    raise DamagedArchiveError("the member ends too early")


class _Guard:
    """Compares what a stream gives with what it takes."""

    taken = _given = 0

    def given(self, data: bytes) -> bytes:
        self._given += len(data)
        if self._given > SUSPECT_BYTES and self._given > SUSPECT_RATIO * self.taken:
            raise ArchiveBombError(f"more than {SUSPECT_RATIO} times its size is inside")
        return data


def _steps(stream: Any, block: bytes, damage: str) -> Iterator[bytes]:
    """What one block gives, a bounded piece at a time."""
    try:
        while True:
            data = stream.decompress(block, UNFOLDED_AT_ONCE)
            if data:
                yield data
            # zlib hands back what it has not taken; bz2 keeps it and says so.
            block = getattr(stream, "unconsumed_tail", b"")
            if stream.eof or (not block and (getattr(stream, "needs_input", True) and len(data) < UNFOLDED_AT_ONCE)):
                return
    except _ERRORS as error:
        raise DamagedArchiveError(f"{damage}: {error}") from error


def _cut(blocks: Iterator[bytes]) -> Iterator[bytes]:
    for block in blocks:
        for start in range(0, len(block), ZSTD_BLOCK):
            yield block[start : start + ZSTD_BLOCK]


class _Zstd:
    """The decompressor of .zst under the interface of the others; it knows no bound, so its input is cut small."""

    def __init__(self) -> None:
        self._stream = zstandard.ZstdDecompressor().decompressobj()

    def decompress(self, data: bytes, limit: int) -> bytes:
        return self._stream.decompress(data) if data else b""

    @property
    def eof(self) -> bool:
        return bool(self._stream.eof)

    @property
    def unused_data(self) -> bytes:
        return bytes(self._stream.unused_data)


STORED = 0
_ZSTD_METHODS = (20, 93)
_STREAMS: dict[str, Callable[[], Any]] = {
    ".gz": lambda: zlib.decompressobj(wbits=31),
    ".bz2": bz2.BZ2Decompressor,
    ".zst": _Zstd,
}
_METHODS: dict[int, Callable[[], Any]] = {
    8: lambda: zlib.decompressobj(wbits=-15),
    12: bz2.BZ2Decompressor,
    **dict.fromkeys(_ZSTD_METHODS, _Zstd),
}
