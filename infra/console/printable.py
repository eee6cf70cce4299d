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


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
