"""Answers as JSON: the form of the columns `answer` and `gold`, and of what prediction writes for users."""

from __future__ import annotations

import json
from typing import Any

from tasks.downstream.records import Answer, Entity, Kind, Triple


def answer_to_value(answer: Answer, text: str = "") -> Any:
    """Plain JSON values: a label, a number, labels; entities and triples as objects, with the entity's own text where
    the text is given."""
    if isinstance(answer, tuple):
        return [_one(part, text) for part in answer]
    return answer


def answer_to_json(answer: Answer) -> str:
    """The answer as one line of JSON."""
    return to_json(answer_to_value(answer))


def to_json(value: Any) -> str:
    """One line of JSON that can be written as UTF-8; half characters are escaped."""
    line = json.dumps(value, ensure_ascii=False)
    return line if line.isascii() or _is_whole(line) else json.dumps(value)


def answer_from_json(kind: Kind, line: str) -> Answer:
    """What `answer_to_json` wrote."""
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
