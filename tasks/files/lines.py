"""Text files as lines: decoded as a stream, whatever their size, and each line checked.

Files are often pasted together from others: a line that is not in its file's encoding is taken if it is in the
other one of UTF-8 and GB18030, and else is told of by its place, so that the row it belongs to can be rejected.
Where most lines fail the encoding is wrong, and that costs the file: text decoded wrongly spoils a corpus without a
sound.

Where the beginning of a file has returns and no line feed, as old programs for the Mac write it, every return in the
file is a line feed: byte for byte, so that all places stay what they are.

Memory: one block and the longest line, its bytes and its characters up to twice each.
"""

from __future__ import annotations

import codecs
import io
from collections import Counter, deque
from collections.abc import Iterator
from typing import BinaryIO

from tasks.files.compression import DamagedArchiveError
from tasks.files.encodings import WIDE, decode_broken_line, decode_paired, line_encoding
from tasks.files.slices import Problem

MAX_LINE = 1 << 29
"""Bytes of the longest line that is read; a longer one has no place in memory and is rejected."""

UNREADABLE = "\udcff"
"""Stands for what could not be decoded; no text that was decoded holds it."""

MOST_REPLACED = 100
"""Of so many characters one may be undecodable where no line is whole: the bound of `clean` for what is no text."""

BEGINNING = 1 << 16
"""Bytes of a file that its line ends are told from."""

_MARK = "\ufeff"


def ends_in_returns(beginning: bytes) -> bool:
    """Whether the first `BEGINNING` bytes of a text file say that returns alone end its lines. In UTF-16, where the
    bytes of a return are parts of characters, they do not."""
    return b"\r" in beginning and b"\n" not in beginning and b"\0" not in beginning


def with_line_feeds(data: bytes) -> bytes:
    """Bytes of a file whose lines end in returns, with line feeds in their place."""
    return data.replace(b"\r", b"\n")


class ReturnsAsLineFeeds:
    """A file whose lines end in returns, read as if they were line feeds."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def read(self, size: int) -> bytes:
        """Bytes from where the file stands."""
        return with_line_feeds(self._file.read(size))

    def readline(self) -> bytes:
        """The bytes up to the next line end, that included."""
        pieces: list[bytes] = []
        while block := self.read(BEGINNING):
            end = block.find(b"\n") + 1
            pieces.append(block[:end] if end else block)
            if end:
                self._file.seek(end - len(block), io.SEEK_CUR)
                break
        return b"".join(pieces)

    def tell(self) -> int:
        """Where the file stands."""
        return self._file.tell()


class Lines:
    """Iterates over the lines of some blocks of bytes, without their ends (\\n or \\r\\n).

    With another `separator` it iterates over what stands between those, byte for byte. Iterating raises
    DamagedArchiveError as the blocks do, after the last readable line.
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
        """Whether the line given last ends where its archive is damaged."""
        self.problems: deque[Problem] = deque()
        """Of the lines given so far, those that could not be read; who takes care of them takes them out."""
        self._blocks, self._name, self._encoding = blocks, name, encoding
        self._counts = Counter[str]() if counts is None else counts
        self._offset, self._separator = start, separator
        self._end = separator.encode(encoding if encoding in WIDE else "ascii")
        self._held: list[bytes] = []
        self._bad: dict[int, Problem] = {}
        self._filled = self._failed = self._replaced = self._characters_failed = 0
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
                # The mark of a file that was pasted in is no text.
                yield line.removesuffix("\r").removeprefix(_MARK) if self._separator == "\n" else line
        raise damage

    def take_problem(self) -> Problem | None:
        """Why the lines given since the last call cannot be read, or None where they can."""
        problem = self.problems[0] if self.problems else None
        self.problems.clear()
        return problem

    def take_text(self, text: str) -> str | Problem:
        """The text of the lines given since the last call, with U+FFFD for what could not be decoded, which is counted:
        one spot is no reason to lose a book. Or why it cannot be had."""
        if not self.problems:
            return text
        others = [problem for problem in self.problems if problem.reason != "undecodable"]
        self.problems.clear()
        if others:
            return Problem(others[0].reason, others[0].detail, text)
        self._counts["undecodable_characters"] += text.count(UNREADABLE)
        return text.replace(UNREADABLE, "\ufffd")

    def wrong_encoding(self, is_sample: bool = False) -> Problem | None:
        """Look back at the lines given so far: whether most of those that are not blank fit no encoding, and more of
        them than a few spots. The detail names the first, and a remedy; of a sample, the places of its bytes mean
        nothing. Lines of ASCII count: a row with its text in escapes is as good as any."""
        if self._failed * 2 <= self._filled or self._replaced * MOST_REPLACED <= self._characters_failed:
            return None
        where = "in a sample of it" if is_sample else self._first_failure
        return Problem(
            "wrong_encoding",
            f"{self._name} is not {self._encoding} throughout: {where}, and most other lines. Convert the file to "
            "UTF-8, or where all files are in one encoding (utf-16-le, big5 …) say it with ingest.encoding.",
        )

    def _chunks(self) -> Iterator[bytes]:
        """The bytes up to a line end, again and again; the last ones need not have one."""
        held = 0
        for block in self._aligned():
            cut = self._after_last_end(block)
            if cut:
                self._held.append(block[:cut])
                yield self._rest()
                held = 0
            self._held.append(block[cut:])
            held += len(block) - cut
            if held > MAX_LINE:
                # What is left of the line goes; its beginning stands for it, and is no text.
                detail = f"the line at byte {self._offset:,} is longer than {MAX_LINE:,} bytes"
                self._bad[0] = Problem("line_too_long", detail)
                self._offset += held - len(self._held[0])
                self._held, held = [self._held[0]], len(self._held[0])
        if chunk := self._rest():
            yield self._whole_characters(chunk)

    def _rest(self) -> bytes:
        held, self._held = self._held, []
        return b"".join(held)

    def _whole_characters(self, chunk: bytes) -> bytes:
        """Without a character that the file's end, or its damage, cuts in two."""
        decoder = codecs.getincrementaldecoder(self._encoding)()
        start = chunk.rfind(self._end) + len(self._end) if len(self._end) == 1 else 0
        if self._encoding == "gb18030" and line_encoding(chunk[start:], self._encoding) == "utf-8":
            return chunk  # whole, though it looks cut to GB18030 where its bytes are odd in number
        try:
            decoder.decode(chunk[start:])
        except UnicodeDecodeError:
            return chunk
        cut = len(decoder.getstate()[0])
        if cut:
            self._counts["cut_characters"] += 1
        return chunk[: len(chunk) - cut]

    def _aligned(self) -> Iterator[bytes]:
        """The blocks; those of UTF-16 in whole pairs of bytes."""
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
        """The place after the last line end of a block; 0 where it has none."""
        width = len(self._end)
        found = block.rfind(self._end)
        while found >= 0 and found % width:
            found = block.rfind(self._end, 0, found + width - 1)
        return found + width if found >= 0 else 0

    def _decoded(self, chunk: bytes) -> list[str]:
        text = None
        # GB18030 takes most of UTF-8 for its own: there every line is looked at.
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
        """The lines of a chunk, each with its end."""
        start = found = 0
        while (found := chunk.find(self._end, found)) >= 0:
            found += 1
            if (found - 1) % len(self._end) == 0:
                found += len(self._end) - 1
                yield chunk[start:found]
                start = found
        if start < len(chunk):
            yield chunk[start:]

    def _decoded_line(self, index: int, data: bytes) -> str:
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
            detail = f"byte {place:,} (the line is UTF-8 with broken characters)"
        except UnicodeDecodeError as error:
            detail = f"byte {place + error.start:,} ({error.reason})"
        self._first_failure = self._first_failure or detail
        self._bad.setdefault(index, Problem("undecodable", detail))
        text = decode_broken_line(line, self._encoding).replace("\ufffd", UNREADABLE)
        self._replaced += text.count(UNREADABLE)
        self._characters_failed += len(text)
        return text
