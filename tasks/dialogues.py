"""Dialogues: a list of turns as one text, a line a turn, with the speaker before it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tasks.slices import Problem

TURNS_FIELDS = ("turns", "dialogue", "messages", "conversations", "conversation", "对话")
SPEAKER_FIELDS = ("role", "speaker", "from", "角色", "说话人")
TEXT_FIELDS = ("content", "text", "value", "utterance", "sentence", "内容")
"""Names a field is looked for under, in this order."""

ROLES: Mapping[str, str] = {
    **dict.fromkeys(("user", "human", "patient", "患者", "病人", "client"), "患者"),
    **dict.fromkeys(("ask", "question", "query", "问题", "提问", "问"), "患者"),
    **dict.fromkeys(("assistant", "gpt", "doctor", "医生", "bot", "counselor"), "医生"),
    **dict.fromkeys(("answer", "response", "reply", "回答", "回复", "答"), "医生"),
}
"""What the speakers of data sets, and the columns of questions and answers, are called; others keep their own names."""

_LINE_BREAKS = re.compile("[\r\n\v\f\x85\u2028\u2029]+")


def turns_field(row: Mapping[str, Any], wanted: str | None) -> str | None:
    """The field that holds the list of a row's turns; None where it is no dialogue. `wanted` need not hold a list."""
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


def is_without_turns(value: Any) -> bool:
    """Whether a cell is blank or a list that is cut short: a row among others that hold turns."""
    return value is None or (isinstance(value, str) and value.lstrip()[:1] in ("", "["))


def turns_of_fields(row: Mapping[str, Any], fields: Sequence[str]) -> list[dict[str, Any]]:
    """The turns of a row that has a field for each: who speaks is named as the field is."""
    return [{"role": name, "content": row[name]} for name in fields if name in row]


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
    texts = [turn[name] for name in TEXT_FIELDS if name in turn]
    text = next(filter(None, (_joined(text) for text in texts if isinstance(text, str))), "")
    if not text and (not texts or not all(isinstance(text, str | None) for text in texts)):
        return None
    speaker = next((turn[name] for name in SPEAKER_FIELDS if isinstance(turn.get(name), str)), "")
    speaker = roles.get(speaker.strip().lower(), _joined(speaker))
    return f"{speaker}：{text}" if speaker and text else text


def _joined(text: str) -> str:
    return _LINE_BREAKS.sub(" ", text).strip()
