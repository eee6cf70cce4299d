"""Streaming decompression: .gz, .bz2, .zst, and the members of zip archives.

A stream that ends too early yields all it holds before the error is raised. A stream that expands out of all
proportion is a bomb, and stops with an error before it fills memory or disk.

Memory holds a few blocks; with .zst up to 85 MiB, to which the densest 2 KiB can expand.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import zstandard

from infra.limits import limits

UNFOLDED_AT_ONCE = 1 << 14
"""Most bytes that one step of .gz and .bz2 returns; the step that meets damage returns none."""

ZSTD_BLOCK = 2048
"""Bytes of .zst that one step decompresses; the size of its output cannot be bounded."""

COPY_AGAIN = "copy or create the archive again"
"""Remedy for a damaged archive."""


class DamagedArchiveError(Exception):
    """A compressed file is cut short or not of its kind; everything readable was yielded before."""

    reason = "damaged_archive"


class ArchiveBombError(DamagedArchiveError):
    """A compressed file expands out of all proportion."""

    reason = "archive_bomb"


_ERRORS = (zlib.error, zstandard.ZstdError, lzma.LZMAError, OSError, EOFError, ValueError)


def unfold(blocks: Iterator[bytes], compression: str) -> Iterator[bytes]:
    """Yield the decompressed bytes of a .gz, .bz2 or .zst file, which may hold several streams in a row.

    Raises:
        DamagedArchiveError: after the last byte that could be decompressed, if a stream is incomplete.
    """
    stream: Any = None
    guard = _Guard()
    for block in _cut(blocks) if compression == ".zst" else blocks:
        guard.taken += len(block)
        # Tape tools pad with zeros behind a stream.
        while block := block if stream else block.lstrip(b"\0"):
            stream = stream or _STREAMS[compression]()
            for data in _steps(stream, block, f"the file cannot be read as {compression}"):
                yield guard.given(data)
            if not stream.eof:
                break
            block, stream = stream.unused_data, None
    if stream is not None:
        raise DamagedArchiveError("the compressed file ends too early; copy or compress it again")


def unfold_member(blocks: Iterator[bytes], method: int) -> Iterator[bytes]:
    """Yield the decompressed bytes of one member of a zip archive, from blocks that begin with it.

    Raises:
        DamagedArchiveError: after the last byte that could be decompressed, or for an unknown method.
    """
    if method == STORED:
        yield from blocks
        return
    if method not in _METHODS:
        raise DamagedArchiveError(f"zip compression method {method} is not supported; create the archive with deflate")
    stream = _METHODS[method]()
    guard = _Guard()
    for block in _cut(blocks) if method in _ZSTD_METHODS else blocks:
        guard.taken += len(block)
        for data in _steps(stream, block, "the member is damaged"):
            yield guard.given(data)
        if stream.eof:
            return
    raise DamagedArchiveError(f"the member ends too early; {COPY_AGAIN}")


class _Guard:
    """Comparison of the bytes that go into a stream with those that come out."""

    taken = _given = 0

    def __init__(self) -> None:
        self._free = limits().expanded_bytes

    def given(self, data: bytes) -> bytes:
        self._given += len(data)
        if self._given > self._free and limits().is_bomb(self.taken, self._given):
            raise ArchiveBombError(
                f"the content is more than {limits().expansion} times its compressed size; decompress the file "
                "yourself if you trust it"
            )
        return data


def _steps(stream: Any, block: bytes, damage: str) -> Iterator[bytes]:
    """Yield the content of one block in pieces of bounded size."""
    try:
        while True:
            data = stream.decompress(block, UNFOLDED_AT_ONCE)
            if data:
                yield data
            # zlib hands back the input that it has not taken; bz2 keeps it, and needs_input is False.
            block = getattr(stream, "unconsumed_tail", b"")
            if stream.eof or (not block and (getattr(stream, "needs_input", True) and len(data) < UNFOLDED_AT_ONCE)):
                return
    except _ERRORS as error:
        raise DamagedArchiveError(f"{damage}: {error}; {COPY_AGAIN}") from error


def _cut(blocks: Iterator[bytes]) -> Iterator[bytes]:
    for block in blocks:
        for start in range(0, len(block), ZSTD_BLOCK):
            yield block[start : start + ZSTD_BLOCK]


class _Zstd:
    """Decompressor of .zst with the interface of the others. It ignores `limit`, so its input is cut small."""

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
