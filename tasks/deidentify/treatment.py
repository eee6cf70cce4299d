"""De-identification of one document: identifiers are replaced by typed placeholders.

A name that is found in one text of the document is known in the others: title, text and the values of `meta`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tasks.deidentify.document_persons import OF_ANYTHING, cue_of, in_path, is_path, speakers
from tasks.deidentify.find import find_identifiers, names_of, replace
from tasks.deidentify.identifier import Identifier

# matches: "13812345678.0"
# not: "61.0", "13812345678"
_WHOLE_NUMBER = re.compile(r"\d{5,20}\.0$")
"""A number as a table writes it in a column with gaps."""


def deidentify(text: str) -> tuple[str, dict[str, int]]:
    """Replace the identifiers of a text by placeholders such as 〔手机号〕.

    Doing it again changes nothing.

    Args:
        text: any text.

    Returns:
        The text with placeholders, and the number of identifiers of each type that occurs. The types are the names in
        `tasks.deidentify.identifier_types.TYPES`.
    """
    treatment = Treatment()
    return treatment.of(text), dict(treatment.counts)


@dataclass
class Treatment:
    """Replaces identifiers in the texts of one document; a name found in one of them is known in the others."""

    counts: Counter[str] = field(default_factory=Counter)
    """Number of identifiers replaced so far, by type."""
    names: set[str] = field(default_factory=set)
    """Names found so far."""

    def of(self, text: str) -> str:
        """Return a text with placeholders."""
        if not text:
            return text
        # Replacing an identifier may reveal another beside it. The loop ends, as each round leaves less text.
        while found := find_identifiers(text, self.names):
            text = self._replaced(text, found)
        return text

    def of_value(self, key: str, value: Any) -> Any:
        """Return a value of `meta` with placeholders. Keys stay, and are read as cues: {"姓名": …}, {"住院号": …}."""
        if isinstance(value, dict):
            return {name: self.of_value(name, inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [self.of_value(key, inner) for inner in value]
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            return value
        clear = str(value)
        if is_path(key):
            found = in_path(clear)
            # A folder may be called 平片, which could be a name; the file of a person has a number beside the name.
            treated = self._replaced(clear, found, known=any(one.type != "name" for one in found))
        else:
            cue = cue_of(key)
            if _WHOLE_NUMBER.match(clear):
                clear = clear.removesuffix(".0")
            found = tuple(i for i in find_identifiers(cue + clear, self.names) if i.start >= len(cue))
            treated = self._replaced(cue + clear, found, known=cue != OF_ANYTHING)[len(cue) :]
        treated = self.of(treated)
        return value if treated == clear else treated

    def of_turns(self, text: str) -> str:
        """Return a dialogue with placeholders; persons may be named before their lines as speakers."""
        return self.of(self._replaced(text, speakers(text)))

    def _replaced(self, text: str, found: Sequence[Identifier], known: bool = True) -> str:
        """Replace some identifiers of a text and count them.

        Their names are searched for in the other texts too, where they are `known` to be names.
        """
        self.counts.update(identifier.type for identifier in found)
        if known:
            self.names |= names_of(text, found)
        return replace(text, found)
