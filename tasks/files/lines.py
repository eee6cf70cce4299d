"""Text files as lines, decoded as a stream whatever their size, with each line checked.

Files are often pasted together from others. A line that is not in its file's encoding is accepted if it is in the
other one of UTF-8 and GB18030; otherwise its position is reported, so that its row can be rejected. If most lines fail,
the detected encoding is wrong and the whole file is rejected: wrongly decoded text would spoil the corpus in silence.

Old programs for the Mac end lines with returns. If the beginning of a file has returns and no line feed, every return
in the file is replaced by a line feed, byte for byte, so that positions in the file stay the same.

Memory holds one block and the longest line, its bytes and its characters up to twice each.
"""

from __future__ import annotations

import codecs
import io
from collections import Counter, deque
from collections.abc import Iterator
from typing import BinaryIO

from infra.limits import limits
from tasks.files.compression import DamagedArchiveError
from tasks.files.encodings import WIDE, decode_broken_line, decode_paired, line_encoding
from tasks.files.slices import Problem

UNREADABLE = "\udcff"
"""Replacement for undecodable bytes that no decoded text can contain."""

MOST_REPLACED = 100
"""Characters of which one may be undecodable where no line is whole: the limit at which `clean` drops a text."""

BEGINNING = 1 << 16
"""Bytes of a file from which its line ends are detected."""

_MARK = "\ufeff"
"""The byte order mark."""


def ends_in_returns(beginning: bytes) -> bool:
    """Return True if the first `BEGINNING` bytes of a text file show that its lines end in returns alone.

    Never True for UTF-16, where the bytes of a return are parts of characters.
    """
    return b"\r" in beginning and b"\n" not in beginning and b"\0" not in beginning


def with_line_feeds(data: bytes) -> bytes:
    """Return bytes with line feeds in place of returns."""
    return data.replace(b"\r", b"\n")


class ReturnsAsLineFeeds:
    """A file whose lines end in returns, read with line feeds in their place."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def read(self, size: int) -> bytes:
        """Read up to `size` bytes from the current position."""
        return with_line_feeds(self._file.read(size))

    def readline(self) -> bytes:
        """Read the bytes up to and including the next line end."""
        pieces: list[bytes] = []
        while block := self.read(BEGINNING):
            end = block.find(b"\n") + 1
            pieces.append(block[:end] if end else block)
            if end:
                self._file.seek(end - len(block), io.SEEK_CUR)  # back to the beginning of the next line
                break
        return b"".join(pieces)

    def tell(self) -> int:
        """Return the current position."""
        return self._file.tell()


class Lines:
    """Iterator over the lines in blocks of bytes, without their ends (\\n or \\r\\n).

    With another `separator` it yields the unchanged text between separators. Iterating raises DamagedArchiveError
    as the blocks do, after the last readable line.

    Args:
        blocks: the bytes of the file.
        name: the file's name, for messages.
        encoding: the file's encoding, UTF-16 with its byte order.
        counts: where repairs are counted.
        start: position of the first byte in the file.
        separator: one character of ASCII.
    """

    def __init__(
        self,
        blocks: Iterator[bytes],
        name: str,
        encoding: str,
        counts: Counter[str] | None = None,
        start: int = 0,
        separator: str = "\n",
    ) -> None:
        self.cut_short = False
        """True once the last line yielded ends where its archive is damaged."""
        self.problems: deque[Problem] = deque()
        """Problems of the unreadable lines yielded so far, without those already taken by a reader of rows."""
        self._blocks, self._name, self._encoding = blocks, name, encoding
        self._counts = Counter[str]() if counts is None else counts
        self._offset, self._separator = start, separator
        self._end = separator.encode(encoding if encoding in WIDE else "ascii")
        self._held: list[bytes] = []
        """Bytes of the line whose end has not been read."""
        self._bad: dict[int, Problem] = {}
        """Problems of the current chunk's lines, by the line's index."""
        self._filled = self._failed = 0
        """Lines that are not blank, and those of them that cannot be decoded."""
        self._has_zeros = False
        self._replaced = self._characters_failed = 0
        """Characters in the latter: those that were replaced, and all."""
        self._first_failure = ""

    def __iter__(self) -> Iterator[str]:
        chunks, damage, is_first = self._chunks(), None, self._offset == 0
        while damage is None:
            try:
                chunk = next(chunks, None)
            except DamagedArchiveError as error:
                damage, chunk = error, self._whole_characters(self._rest())
                self.cut_short = True
            if chunk is None:
                return
            lines = self._decoded(chunk) if chunk else []
            if is_first and lines:
                lines[0], is_first = lines[0].removeprefix(_MARK), False
            for index, line in enumerate(lines):
                if index in self._bad:
                    self.problems.append(self._bad.pop(index))
                    line = line if UNREADABLE in line else line + UNREADABLE
                # A file that was pasted into this one may have brought its byte order mark.
                yield line.removesuffix("\r").removeprefix(_MARK) if self._separator == "\n" else line
        raise damage

    def take_problem(self) -> Problem | None:
        """Return the problem of the lines yielded since the last call, or None."""
        problem = self.problems[0] if self.problems else None
        self.problems.clear()
        return problem

    def take_text(self, text: str) -> str | Problem:
        """Return the text of the lines yielded since the last call, or their problem.

        Undecodable bytes become U+FFFD and are counted: a single one is no reason to lose a book.
        """
        if not self.problems:
            return text
        others = [problem for problem in self.problems if problem.reason != "undecodable"]
        self.problems.clear()
        if others:
            return Problem(others[0].reason, others[0].detail, text)
        self._counts["undecodable_characters"] += text.count(UNREADABLE)
        return text.replace(UNREADABLE, "\ufffd")

    def wrong_encoding(self, is_sample: bool = False) -> Problem | None:
        """Return a problem if most of the lines yielded so far that are not blank are in no supported encoding.

        Lines with few undecodable characters are tolerated. Lines of ASCII count as valid: a row may hold its text in
        escapes.

        Args:
            is_sample: the lines are a sample, so the positions of their bytes mean nothing.
        """
        if self._failed * 2 <= self._filled or self._replaced * MOST_REPLACED <= self._characters_failed:
            return None
        if self._has_zeros:
            return Problem(
                "wrong_encoding",
                f"{self._name} is no text: it holds zero bytes, as programs and pictures do. Take it out of the "
                "folder, or if it is UTF-16 or UTF-32 without a mark at its beginning, set ingest.encoding.",
            )
        where = "in a sample of it" if is_sample else f"at {self._first_failure}"
        return Problem(
            "wrong_encoding",
            f"{self._name} is not in {self._encoding}: most lines cannot be decoded, the first of them {where}. "
            "Convert the file to UTF-8, or if all files have one encoding (utf-16-le, big5 …) set ingest.encoding.",
        )

    def _chunks(self) -> Iterator[bytes]:
        """Yield the bytes in pieces that end with a line end, except perhaps the last one."""
        held, is_too_long = 0, False
        for block in self._aligned():
            self._has_zeros |= b"\0" in block
            if is_too_long:  # drop the rest of the line, up to its end
                end = self._first_end(block)
                self._offset += end
                block = block[end:]
            cut = self._after_last_end(block)
            if cut:
                self._held.append(block[:cut])
                yield self._rest()
                held, is_too_long = 0, False
            self._held.append(block[cut:])
            held += len(block) - cut
            if held > limits().row_bytes and not is_too_long:
                # Keep the beginning of the line in place of all of it.
                detail = f"the line at byte {self._offset:,} is longer than {limits().row_bytes:,} bytes; split it"
                self._bad[0] = Problem("line_too_long", detail)
                self._offset += held - len(self._held[0])
                self._held, held, is_too_long = [self._held[0]], len(self._held[0]), True
        if chunk := self._rest():
            yield self._whole_characters(chunk)

    def _rest(self) -> bytes:
        held, self._held = self._held, []
        return b"".join(held)

    def _whole_characters(self, chunk: bytes) -> bytes:
        """Remove a character from the end of a chunk that the file's end, or its damage, cuts in two."""
        decoder = codecs.getincrementaldecoder(self._encoding)()
        start = chunk.rfind(self._end) + len(self._end) if len(self._end) == 1 else 0
        if self._encoding == "gb18030" and line_encoding(chunk[start:], self._encoding) == "utf-8":
            return chunk  # whole, although an odd number of its bytes looks cut off in GB18030
        try:
            decoder.decode(chunk[start:])
        except UnicodeDecodeError:
            return chunk
        cut = len(decoder.getstate()[0])
        if cut:
            self._counts["cut_characters"] += 1
        return chunk[: len(chunk) - cut]

    def _aligned(self) -> Iterator[bytes]:
        """Yield the blocks, those of UTF-16 in whole pairs of bytes."""
        if len(self._end) == 1:
            yield from self._blocks
            return
        odd = b""
        for block in self._blocks:
            block = odd + block
            whole = len(block) & ~1
            odd = block[whole:]
            yield block[:whole]
        yield odd

    def _after_last_end(self, block: bytes) -> int:
        """Return the position after the last line end of a block, or 0 if it has none."""
        width = len(self._end)
        found = block.rfind(self._end)
        # In UTF-16 the bytes of a line end may belong to two characters: U+0A41 U+5600 are 41 0A 00 56.
        while found >= 0 and found % width:
            found = block.rfind(self._end, 0, found + width - 1)
        return found + width if found >= 0 else 0

    def _first_end(self, block: bytes) -> int:
        """Return the position of the first line end of a block, or its length if it has none."""
        found = block.find(self._end)
        while found >= 0 and found % len(self._end):
            found = block.find(self._end, found + 1)
        return found if found >= 0 else len(block)

    def _decoded(self, chunk: bytes) -> list[str]:
        """Return the lines of a chunk, and note the problems of those that cannot be decoded."""
        text = None
        # Most UTF-8 is valid GB18030, so a chunk that decodes proves nothing: each line is checked.
        if self._encoding != "gb18030" or chunk.isascii():
            try:
                text = chunk.decode(self._encoding)
            except UnicodeDecodeError:
                text = None
        if text is None:
            lines = [self._decoded_line(index, data) for index, data in enumerate(self._split(chunk))]
        else:
            self._offset += len(chunk)
            lines = text.removesuffix(self._separator).split(self._separator)
        self._filled += sum(not line.isspace() for line in lines if line)
        if b"\0" in chunk:
            zeros = sum(line.count("\0") for line in lines)
            if zeros:
                self._counts["nul_characters"] += zeros
                lines = [line.replace("\0", "") for line in lines]
        return lines

    def _split(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the lines of a chunk, each with its end."""
        start = found = 0
        while (found := chunk.find(self._end, found)) >= 0:
            found += 1
            if (found - 1) % len(self._end) == 0:  # see `_after_last_end`
                found += len(self._end) - 1
                yield chunk[start:found]
                start = found
        if start < len(chunk):
            yield chunk[start:]

    def _decoded_line(self, index: int, data: bytes) -> str:
        """Return one line as text; if it cannot be decoded, with `UNREADABLE`, and note its problem."""
        line, place = data.removesuffix(self._end), self._offset
        self._offset += len(data)
        if len(self._end) == 1 and line.isascii():
            return line.decode("ascii")
        encoding = line_encoding(line, self._encoding)
        if encoding != "utf-8" and self._encoding == "utf-8":
            paired = decode_paired(line)
            if paired is not None:
                self._counts["lines_in_other_encoding"] += 1
                return paired
        if encoding is not None:
            if encoding != self._encoding:
                self._counts["lines_in_other_encoding"] += 1
            return line.decode(encoding)
        self._failed += 1
        try:
            line.decode(self._encoding)
            # Valid GB18030, but most of the line is UTF-8; see `line_encoding`.
            where = f"byte {place:,} (the line is UTF-8 with broken characters)"
        except UnicodeDecodeError as error:
            where = f"byte {place + error.start:,} ({error.reason})"
        self._first_failure = self._first_failure or where
        detail = f"the line is not in the file's encoding, {self._encoding}, at {where}; write it in UTF-8"
        self._bad.setdefault(index, Problem("undecodable", detail))
        text = decode_broken_line(line, self._encoding).replace("\ufffd", UNREADABLE)
        self._replaced += text.count(UNREADABLE)
        self._characters_failed += len(text)
        return text
