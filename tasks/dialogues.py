"""Dialogues: a list of turns as one text, a line a turn, with the speaker before it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from tasks.slices import Problem

TURNS_FIELDS = ("turns", "dialogue", "messages", "conversations", "conversation", "对话")
SPEAKER_FIELDS = ("role", "speaker", "from", "角色", "说话人")
TEXT_FIELDS = ("content", "text", "value", "utterance", "sentence", "内容")
"""Names a field is looked for under, in this order."""

ROLES: Mapping[str, str] = {
    **dict.fromkeys(("user", "human", "patient", "患者", "病人", "client"), "患者"),
    **dict.fromkeys(("assistant", "gpt", "doctor", "医生", "bot", "counselor"), "医生"),
}
"""What the speakers of data sets are called; others keep their own names."""

_LINE_BREAKS = re.compile("[\r\n\v\f\x85\u2028\u2029]+")


def turns_field(row: Mapping[str, Any], wanted: str | None) -> str | None:
    """The field that holds the row's turns; None where it is no dialogue. `wanted` need not hold a list."""
    if wanted is not None:
        return wanted if row.get(wanted) is not None else None
    return next((name for name in TURNS_FIELDS if name in row and isinstance(_list_of(row[name]), list)), None)


def dialogue_text(value: Any, roles: Mapping[str, str]) -> tuple[str, int] | Problem:
    """A list of turns as text, with their number; turns without text are left out.

    Each turn is a string, or an object with a speaker (or none) and a text. `roles` go before `ROLES`. A table's
    cell may hold the list as JSON.
    """
    turns = _list_of(value)
    if not isinstance(turns, list):
        return Problem("malformed_turns", f"the turns are a {type(value).__name__}, not a list", str(value))
    known = {**ROLES, **{name.strip().lower(): shown for name, shown in roles.items()}}
    lines = []
    for number, turn in enumerate(turns, 1):
        line = _line(turn, known)
        if line is None:
            wanted = " or ".join(TEXT_FIELDS)
            detail = f"turn {number} is neither a string nor an object with a string under {wanted}"
            return Problem("malformed_turns", detail, str(turn))
        if line:
            lines.append(line)
    return "\n".join(lines), len(lines)


def _list_of(value: Any) -> Any:
    if not isinstance(value, str) or not value.lstrip().startswith("["):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _line(turn: Any, roles: Mapping[str, str]) -> str | None:
    """A turn's line, empty where it has no text; None where it is malformed."""
    if turn is None or isinstance(turn, str):
        return _joined(turn or "")
    if not isinstance(turn, Mapping):
        return None
    field = next((name for name in TEXT_FIELDS if name in turn), None)
    if field is None or not isinstance(turn[field], str | None):
        return None
    text = _joined(turn[field] or "")
    speaker = next((turn[name] for name in SPEAKER_FIELDS if isinstance(turn.get(name), str)), "")
    speaker = roles.get(speaker.strip().lower(), _joined(speaker))
    return f"{speaker}：{text}" if speaker and text else text


def _joined(text: str) -> str:
    return _LINE_BREAKS.sub(" ", text).strip()
