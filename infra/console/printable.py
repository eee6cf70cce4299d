"""Text from outside on a terminal: control characters are shown, not obeyed.

The name of a file or an entity may contain them. Sent to a terminal as they are, `ESC ] 0 ;` renames its window, a
return or `ESC [ 2 K` hides what was logged, and marks of direction show another name than the one that is meant.
"""

from __future__ import annotations

import re

_OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Controls but for tabs and line feeds, marks of direction, halves of characters: `\\x1b`, `\\u202e`; not `痛`."""


def printable(text: object) -> str:
    """Return a text with escapes in place of what a terminal would obey: `\\x1b[31m` has ten letters."""
    return _OBEYED.sub(_escaped, str(text))


def one_line(text: object) -> str:
    """Return a text as `printable` does, with escapes for tabs and line feeds too: `a\\x0aerror: b`.

    It is for names: a line feed in one would begin a line that looks like a message of its own.
    """
    return _CONTROLS.sub(_escaped, printable(text))


def indented(text: object) -> str:
    """Return a message of several lines with the later ones indented, so that none looks like another message."""
    return str(text).replace("\n", "\n  ")


_CONTROLS = re.compile(r"[\t\n]")


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
