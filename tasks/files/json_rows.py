"""JSON files as rows: an array of objects, one object, or objects one after the other, read as a stream.

An element that is broken is told of alone where its brackets still balance; where they do not, reading goes on at the
next line that looks like a new element. Memory: a block of text, or the longest element up to four times.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from tasks.files.compression import DamagedArchiveError
from tasks.files.lines import UNREADABLE, Lines
from tasks.files.slices import Problem

TEXT_AT_ONCE = 1 << 18
"""Characters that are read on at least."""

MAX_ELEMENT = 1 << 27
"""Characters of the longest element; one that has no end before is given up."""

WASTE = 64
"""How often a file may be gone through in search of ends that are not there, before it is given up as an attack."""

Row = tuple[int, Mapping[str, Any] | Problem]

NOT_YET, NEVER = -1, -2
_CLOSING = {"{": "}", "[": "]"}

_DECODER = json.JSONDecoder()
_BETWEEN = re.compile(r"[\s,\ufeff]*")
_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|(?=\\?\Z))|[\[\]{}]', re.DOTALL)
_SCALAR_END = re.compile(r"[,\]}\n]")
_NEW_ELEMENT = re.compile(r"(?<=[,\n])[ \t]{0,99}(?=\{)")


def json_object(text: str) -> Mapping[str, Any] | Problem:
    """The object that a text holds, or why it holds none."""
    try:
        return _as_row(json.loads(text), text)
    except RecursionError:
        return Problem("invalid_json", "nested too deeply", text)
    except ValueError as error:
        return Problem("invalid_json", str(error), text)


def read_json(lines: Lines) -> Iterator[Row]:
    """The elements of a file, counted from 1; `lines` are the pieces between its commas.

    Raises:
        DamagedArchiveError: after the last whole element.
    """
    text = _Window(lines)
    number, in_array = 0, False
    while text.skip():
        if text.startswith("]" if in_array else "["):
            in_array = not in_array
            text.place += 1
            continue
        number += 1
        row = _element(text)
        if row is not None:
            yield number, row
        if text.wasted > WASTE * text.read + TEXT_AT_ONCE:
            yield number + 1, Problem("invalid_json", "too many elements without an end; the rest is not read")
            return
    if text.damage is not None:
        raise text.damage
    if in_array:
        yield number + 1, Problem("invalid_json", "the array has no end")


class _Window:
    """The part of a text that lies in memory, and the place in it up to which it is read."""

    def __init__(self, lines: Lines) -> None:
        self.lines = lines
        self.text = ""
        self.place = 0
        self.read = self.wasted = 0
        """Characters that came in, and that were gone through in search of an end that was not there."""
        self.damage: DamagedArchiveError | None = None
        self._pieces: Iterator[str] | None = iter(lines)

    def grow(self) -> bool:
        """Read on, at least as much again as is there: what is looked at twice grows no faster than the text."""
        wanted = max(TEXT_AT_ONCE, len(self.text) - self.place)
        pieces = []
        while wanted > 0 and self._pieces is not None:
            try:
                piece = next(self._pieces, None)
            except DamagedArchiveError as error:
                self.damage, piece = error, None
            if piece is None:
                self._pieces = None
            else:
                pieces.append(piece)
                wanted -= len(piece) + 1
        if not pieces:
            return False
        comma = "," if self.read else ""
        more = comma + ",".join(pieces)
        self.text = self.text[self.place :] + more
        self.read += len(more)
        self.place = 0
        return True

    def skip(self) -> bool:
        """Go on to the next element or bracket; whether there is one."""
        while True:
            found = _BETWEEN.match(self.text, self.place)
            self.place = found.end() if found else self.place
            if self.place < len(self.text):
                return True
            if not self.grow():
                return False

    def startswith(self, start: str) -> bool:
        return self.text.startswith(start, self.place)


def _element(text: _Window) -> Mapping[str, Any] | Problem | None:
    """The next element; None for one that a damaged archive cuts short."""
    while True:
        start = text.place
        value: Any = None
        failure = ""
        try:
            value, end = _DECODER.raw_decode(text.text, start)
        except RecursionError:
            failure, end = "nested too deeply", _end_of(text.text, start)
        except ValueError as error:
            failure, end = str(error), _end_of(text.text, start)
        # A number may go on behind the window; brackets and quotes do not.
        is_whole = 0 <= end < len(text.text) or (end >= 0 and text.text[start] in "{[")
        if is_whole or end == NEVER or len(text.text) - start > MAX_ELEMENT or not text.grow():
            break
    start = text.place
    if not is_whole and text.damage is not None:
        text.place = len(text.text)
        return None
    if end < 0:
        text.wasted += len(text.text) - start
        following = _NEW_ELEMENT.search(text.text, start + 1)
        end = following.end() if following else len(text.text)
        failure = f"{failure}; it has no end"
    raw = text.text[start:end]
    text.place = end
    if UNREADABLE in raw:
        return _unreadable(text.lines, raw)
    return Problem("invalid_json", failure, raw) if failure else _as_row(value, raw)


def _as_row(value: Any, text: str) -> Mapping[str, Any] | Problem:
    return value if isinstance(value, dict) else Problem("not_an_object", f"a JSON {type(value).__name__}", text)


def _unreadable(lines: Lines, raw: str) -> Problem:
    """The pieces of the element that could not be decoded: each left its problem, in order."""
    pieces = sum(UNREADABLE in piece for piece in raw.split(","))
    problems = [lines.problems.popleft() for _ in range(min(pieces, len(lines.problems)))]
    return Problem(problems[0].reason, problems[0].detail, raw) if problems else Problem("undecodable", "", raw)


def _end_of(text: str, start: int) -> int:
    """Where the brackets of a broken element balance, or a broken scalar ends; NOT_YET where that is not in the text,
    NEVER where a bracket does not fit."""
    if text[start] not in "{[":
        found = _SCALAR_END.search(text, start + 1)
        return found.start() if found else len(text)
    closing: list[str] = []
    for token in _TOKEN.finditer(text, start):
        sign = token[0]
        if sign in _CLOSING:
            closing.append(_CLOSING[sign])
        elif sign in ("}", "]"):
            if closing.pop() != sign:
                return NEVER
            if not closing:
                return token.end()
    return NOT_YET
