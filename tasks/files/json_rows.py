"""JSON files as rows: an array of objects, one object, or several objects in a row, read as a stream.

A broken element costs only itself if its brackets still balance. If they do not, reading resumes at the next line that
looks like a new element. Memory holds a block of text, or the longest element up to four times.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from infra.limits import limits
from tasks.files.compression import DamagedArchiveError
from tasks.files.lines import UNREADABLE, Lines
from tasks.files.slices import Problem

TEXT_AT_ONCE = 1 << 18
"""Fewest characters per read."""

WASTE = 64
"""Number of times that a file may be searched for missing ends before it is given up as an attack."""

Row = tuple[int, Mapping[str, Any] | Problem]

NOT_YET, NEVER = -1, -2
_CLOSING = {"{": "}", "[": "]"}

_DECODER = json.JSONDecoder()
_BETWEEN = re.compile(r"[\s,\ufeff]*")
"""The characters between two elements: the comma and the line end of `},\\n{`."""
_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|(?=\\?\Z))|[\[\]{}]', re.DOTALL)
"""A bracket or a whole string, whose brackets do not count: `"血压]"`. A string without an end reaches to that of the
text."""
_SCALAR_END = re.compile(r"[,\]}\n]")
"""The end of an element that is not in brackets: the comma of `tru, {`."""
_NEW_ELEMENT = re.compile(r"(?<=[,\n])[ \t]{0,99}(?=\{)")
"""The position of an object at the beginning of a line or after a comma: before the brace of `,{`, not of `:{`."""


def json_object(text: str) -> Mapping[str, Any] | Problem:
    """Return the object that a text holds, or the problem with it."""
    try:
        return _as_row(json.loads(text), text)
    except RecursionError:
        return _invalid("nested too deeply", text)
    except ValueError as error:
        return _invalid(str(error), text)


def read_json(lines: Lines) -> Iterator[Row]:
    """Yield the elements of a file, counted from 1.

    Args:
        lines: the pieces between the file's commas.

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
            detail = "too many elements have no end, and the rest of the file was not read; close their brackets"
            yield number + 1, Problem("invalid_json", detail)
            return
    if text.damage is not None:
        raise text.damage
    if in_array:
        detail = "the array has no end, so the file may have been cut off; copy it again or add the missing ]"
        yield number + 1, Problem("invalid_json", detail)


def _invalid(failure: str, text: str) -> Problem:
    return Problem("invalid_json", f"the element cannot be parsed as JSON: {failure}; correct it", text)


class _Window:
    """The part of a text that is in memory, and the position up to which it has been read."""

    def __init__(self, lines: Lines) -> None:
        self.lines = lines
        self.text = ""
        self.place = 0
        self.read = self.wasted = 0
        """Characters read so far, and characters searched for an end that was missing."""
        self.damage: DamagedArchiveError | None = None
        """Damage to the archive, once met."""
        self._pieces: Iterator[str] | None = iter(lines)

    def grow(self) -> bool:
        """Read at least as many characters again as are left, and return False at the end of the file.

        Because the window doubles, looking at its text again takes no more than linear time.
        """
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
        comma = "," if self.read else ""  # the comma that separated the last piece from these
        more = comma + ",".join(pieces)
        self.text = self.text[self.place :] + more
        self.read += len(more)
        self.place = 0
        return True

    def skip(self) -> bool:
        """Move to the next element or bracket, and return False if there is none."""
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
    """Return the next element, or None for an element that is cut short in a damaged archive."""
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
        # A number at the end of the window may continue behind it: 12 of 120. Brackets and quotes are whole.
        is_whole = 0 <= end < len(text.text) or (end >= 0 and text.text[start] in "{[")
        if is_whole or end == NEVER or len(text.text) - start > limits().row_bytes or not text.grow():
            break
    start = text.place
    if not is_whole and text.damage is not None:
        text.place = len(text.text)
        return None
    if end < 0:
        text.wasted += len(text.text) - start
        following = _NEW_ELEMENT.search(text.text, start + 1)
        end = following.end() if following else len(text.text)
        failure = f"{failure}, and it has no end"
    raw = text.text[start:end]
    text.place = end
    if UNREADABLE in raw:
        return _unreadable(text.lines, raw)
    return _invalid(failure, raw) if failure else _as_row(value, raw)


def _as_row(value: Any, text: str) -> Mapping[str, Any] | Problem:
    if isinstance(value, dict):
        return value
    kind = _KINDS.get(type(value), "null")
    return Problem("not_an_object", f'a JSON {kind} is not a row; write an object such as {{"text": "…"}}', text)


_KINDS = {list: "array", str: "string", int: "number", float: "number", bool: "boolean"}
"""Names that JSON gives to Python's types."""


def _unreadable(lines: Lines, raw: str) -> Problem:
    """Return the first problem of the element's undecodable pieces, each of which left one, in order."""
    pieces = sum(UNREADABLE in piece for piece in raw.split(","))
    problems = [lines.problems.popleft() for _ in range(min(pieces, len(lines.problems)))]
    return Problem(problems[0].reason, problems[0].detail, raw) if problems else Problem("undecodable", "", raw)


def _end_of(text: str, start: int) -> int:
    """Return the position where a broken element's brackets balance, or a broken scalar ends.

    Returns:
        `NOT_YET` if that position is not in the text, `NEVER` if a bracket has the wrong partner: `{"text": "…"]`.
    """
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
