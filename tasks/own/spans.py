"""Entities of a text in three ways of writing them, one syntax each. In a row of a table:

- offsets: 高血压病史, and `[{"start": 0, "end": 3, "type": "疾病"}]` in the column of entities. Characters count from
  0, the end is exclusive, and `text` may name the entity, which is then compared;
- bio: 高血压病史, and `B-疾病 I-疾病 I-疾病 O O` in that column, a tag per character, with blanks between them; BIOES
  and BMES too;
- brackets: `[高血压|疾病]病史`, and no other column. `\\[`, `\\|` and `\\]` are brackets and bars of the text itself,
  where they could be read as an entity's.

A mistake is an error that names file, row and column: a span beyond the text or over another one, tags that are not as
many as the characters, a bracket that is not closed.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Sequence
from typing import Any

from tasks.downstream.readers.tagged import spans_of_tags
from tasks.downstream.records import Entity
from tasks.own.cells import Cell, quoted

# Matches "B-dis", "I_sym" and "O"; not "dis" or "X-dis".
_TAG = re.compile(r"O|[BIMES][-_].+")
# Matches what may stand in an entity: "高血压", and "a\|b" with an escaped bar; not "a|b".
_INNER = r"(?:\\[\[\]|\\]|[^\[\]|\\]|\\(?![\[\]|\\]))+"
# Matches in turn "\[", the entity "[高血压|疾病]" with its two parts, and other text; "[1]" is other text.
_PIECE = re.compile(
    rf"\\(?P<escaped>[\[\]|\\])|\[(?P<text>{_INNER})\|(?P<type>{_INNER})\]|(?P<other>[^\\\[]+|.)", re.DOTALL
)
# Matches "\[", "\]", "\|" and "\\"; not "\n" of two characters.
_ESCAPED = re.compile(r"\\([\[\]|\\])")
# Matches what is left of brackets that were not closed, or nested: "[高血压|疾病" and "[[肺|部位]炎|疾病]"; not "[1]".
_BROKEN = re.compile(r"\[[^\[\]]*\||\|[^\[\]|]*\]")


def offsets(cell: Cell, text: str) -> tuple[Entity, ...]:
    """Return the entities of a list of objects, or of such a list as JSON.

    Raises:
        UserError: it is not such a list, a span is outside the text or is not what it says, or two overlap.
    """
    given = cell.value
    if isinstance(given, str):
        try:
            given = json.loads(given) if given.strip() else []
        except (ValueError, RecursionError) as error:
            raise cell.error(f"not JSON ({error}). {_OFFSETS}") from error
    if given is None:
        return ()
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        raise cell.error(f"expected a list of entities, got {quoted(given)}. {_OFFSETS}")
    found = [_placed(cell, number, one, text) for number, one in enumerate(given, 1)]
    return _flat(cell, found, text)


_OFFSETS = 'Write [{"start": 0, "end": 3, "type": "疾病"}], or [] for a text without entities.'


def _placed(cell: Cell, number: int, given: dict[str, Any], text: str) -> Entity:
    missing = [name for name in ("start", "end", "type") if name not in given]
    if missing:
        raise cell.error(f"entity {number} has no {missing[0]!r}; it has {', '.join(map(repr, given))}. {_OFFSETS}")
    start, end, kind = given["start"], given["end"], given["type"]
    if not all(isinstance(one, int) and not isinstance(one, bool) for one in (start, end)):
        raise cell.error(f"entity {number}: start and end must be whole numbers, got {start!r} and {end!r}.")
    if not isinstance(kind, str) or not kind.strip():
        raise cell.error(f"entity {number}: the type must be a name, got {kind!r}.")
    if not 0 <= start < end <= len(text):
        raise cell.error(
            f"entity {number} from {start} to {end} is not within the text of {len(text)} characters. Count characters "
            "from 0, and give the place behind the last one as end."
        )
    named = given.get("text")
    if isinstance(named, str) and named and text[start:end] != named:
        raise cell.error(
            f"entity {number}: the text has {text[start:end]!r} from {start} to {end}, and not {named!r}. Correct the "
            "offsets; if they are too large by one, end may count the last character."
        )
    return Entity(start, end, kind.strip())


def _flat(cell: Cell, entities: Sequence[Entity], text: str) -> tuple[Entity, ...]:
    ordered = sorted(set(entities))
    for one, other in itertools.pairwise(ordered):
        if other.start < one.end:
            raise cell.error(
                f"{text[one.start : one.end]!r} ({one.type}, {one.start} to {one.end}) and "
                f"{text[other.start : other.end]!r} ({other.type}, {other.start} to {other.end}) overlap. Keep one of "
                "them, or train a model for each kind of entity."
            )
    return tuple(ordered)


def tags(cell: Cell, text: str) -> tuple[Entity, ...]:
    """Return the entities that tags mark, one per character of the text.

    Raises:
        UserError: a tag is malformed, or their number is not that of the characters.
    """
    given = cell.value if isinstance(cell.value, list) else cell.text.split()
    for number, tag in enumerate(given, 1):
        if not isinstance(tag, str) or not _TAG.fullmatch(tag):
            raise cell.error(f"tag {number}, {quoted(tag)}, is not a tag. Use B-type, I-type and O.")
    if len(given) != len(text):
        raise cell.error(
            f"{len(given)} tags do not match a text of {len(text)} characters. Give every character a tag, blanks and "
            "punctuation too."
        )
    found = spans_of_tags(list(text), [(tag[0], tag[2:]) for tag in given])
    return tuple(Entity(one["start"], one["end"], one["type"]) for one in found)


def brackets(cell: Cell) -> tuple[str, tuple[Entity, ...]]:
    """Return the text without its brackets, and the entities that they mark: `[高血压|疾病]病史` has one.

    Raises:
        UserError: a bracket is not closed, or one is within another.
    """
    entities: list[Entity] = []
    parts: list[str] = []
    outside: list[list[str]] = [[]]
    place = 0
    for piece in _PIECE.finditer(cell.text):
        if piece["text"] is not None:
            parts.append(_ESCAPED.sub(r"\1", piece["text"]))
            kind = _ESCAPED.sub(r"\1", piece["type"]).strip()
            if not kind:
                raise cell.error(f"the entity {quoted(parts[-1])} has no type. Write an entity as [高血压|疾病].")
            entities.append(Entity(place, place + len(parts[-1]), kind))
            outside.append([])
        else:
            parts.append(piece["escaped"] or piece["other"])
            outside[-1].append(piece["other"] or "_")  # an escaped bracket is not one that is left open
        place += len(parts[-1])
    for between in map("".join, outside):
        if broken := _BROKEN.search(between):
            raise cell.error(
                f"a bracket is not closed or is within another: {quoted(broken[0])}. Write an entity as [高血压|疾病], "
                "and a bracket or bar of the text itself with a backslash before it."
            )
    return "".join(parts), tuple(entities)
