"""Answers as JSON, for the columns `answer` and `gold` and for the files that prediction writes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tasks.downstream.records import Answer, Entity, Kind, Triple


def answer_to_value(answer: Answer, text: str = "") -> Any:
    """Return an answer as JSON values: a label, a number, labels, or entities and triples as objects.

    Entities have their own text if `text`, that of the record, is given.
    """
    if isinstance(answer, tuple):
        return [_one(part, text) for part in answer]
    return answer


def answer_to_json(answer: Answer) -> str:
    """Return the answer as one line of JSON."""
    return to_json(answer_to_value(answer))


def marked(text: str, entities: Sequence[Entity]) -> str:
    """Return a text with its entities in brackets, as own tasks read them: `[高血压|疾病]病史`.

    Of two that overlap the first is marked. Brackets and bars that could be read as those of an entity get a backslash.
    """
    parts: list[str] = []
    done = 0
    for one in sorted(entities):
        if one.start >= done:
            parts.append(_plain(text[done : one.start]))
            parts.append(f"[{_escaped(text[one.start : one.end])}|{_escaped(one.type)}]")
            done = one.end
    return "".join([*parts, _plain(text[done:])])


def _plain(text: str) -> str:
    """Return text between entities; without a bar, as in [1], its brackets mark nothing."""
    return _escaped(text) if "|" in text else text.replace("\\", "\\\\")


def _escaped(text: str) -> str:
    return "".join(f"\\{one}" if one in "[]|\\" else one for one in text)


def to_json(value: Any) -> str:
    """Return one line of JSON that can be written as UTF-8; lone surrogates are escaped, and dates are text."""
    line = json.dumps(value, ensure_ascii=False, default=str)
    return line if line.isascii() or _is_whole(line) else json.dumps(value, default=str)


def answer_from_json(kind: Kind, line: str) -> Answer:
    """Return the answer that `answer_to_json` wrote."""
    value = json.loads(line)
    if kind in (Kind.TAGGING, Kind.NESTED_TAGGING):
        return tuple(Entity(**one) for one in value)
    if kind is Kind.TRIPLES:
        return tuple(Triple(**one) for one in value)
    return tuple(value) if isinstance(value, list) else value


def _one(part: str | Entity | Triple, text: str) -> Any:
    if isinstance(part, Entity):
        found = {"start": part.start, "end": part.end, "type": part.type}
        return found | {"text": text[part.start : part.end]} if text else found
    if isinstance(part, Triple):
        return {
            "subject": part.subject,
            "subject_type": part.subject_type,
            "predicate": part.predicate,
            "object": part.object,
            "object_type": part.object_type,
        }
    return part


def _is_whole(line: str) -> bool:
    try:
        line.encode()
    except UnicodeEncodeError:
        return False
    return True
