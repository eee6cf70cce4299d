"""Dialogues: a list of turns as one text, a line a turn, with the speaker before it.

A list may also hold pairs of a question and its answer, as data for fine-tuning does: `history` beside the last
question and its answer, which stand in fields of their own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tasks.files.columns import RepeatedColumn
from tasks.files.slices import Problem

TURNS_FIELDS = ("turns", "dialogue", "messages", "conversations", "conversation", "对话")
SPEAKER_FIELDS = ("role", "speaker", "from", "角色", "说话人")
TEXT_FIELDS = ("content", "text", "value", "utterance", "sentence", "内容")
"""Names a field is looked for under, in this order."""

HISTORY_FIELD = "history"
LAST_TURNS = (("instruction", "input", "output"), ("query", "response"), ("prompt", "response"))
"""The fields beside the pairs that came before: of the first of these that a row has, all that it has are its last
turns."""

ROLES: Mapping[str, str] = {
    **dict.fromkeys(("user", "human", "patient", "患者", "病人", "client"), "患者"),
    **dict.fromkeys(("ask", "question", "query", "问题", "提问", "问"), "患者"),
    **dict.fromkeys(("instruction", "input", "prompt"), "患者"),
    **dict.fromkeys(("assistant", "gpt", "doctor", "医生", "bot", "counselor"), "医生"),
    **dict.fromkeys(("answer", "response", "reply", "回答", "回复", "答", "output"), "医生"),
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

    Each turn is a string, or an object with a speaker (or none) and a text; or a pair of strings, a question of `user`
    and the answer of `assistant`. `roles` go before `ROLES`. A table's cell may hold the list as JSON.
    """
    turns = _list_of(value)
    if not isinstance(turns, list):
        return Problem("malformed_turns", f"the turns are a {type(value).__name__}, not a list", str(value))
    known = {**ROLES, **{name.strip().lower(): shown for name, shown in roles.items()}}
    lines = []
    for number, turn in enumerate(turns, 1):
        said = _of_pair(turn) if _is_pair(turn, known) else [turn]
        for line in (_line(each, known) for each in said):
            if line is None:
                wanted = " or ".join(TEXT_FIELDS)
                detail = (
                    f"turn {number} is neither a string, an object with a string under {wanted}, nor a pair of a "
                    "question and an answer"
                )
                return Problem("malformed_turns", detail, str(turn))
            if line:
                lines.append(line)
    return "\n".join(lines), len(lines)


def is_without_turns(value: Any) -> bool:
    """Whether a cell is blank or a list that is cut short: a row among others that hold turns."""
    return value is None or (isinstance(value, str) and value.lstrip()[:1] in ("", "["))


def turns_of_fields(row: Mapping[str, Any], fields: Sequence[str]) -> list[Any]:
    """The turns of a row that has a field for each: who speaks is named as the field is. A field of several turns, such
    as the pairs that came before, has its own."""
    turns: list[Any] = []
    for name in fields:
        if name in row:
            several = _several(row[name])
            role = name.column if isinstance(name, RepeatedColumn) else name
            turns += [{"role": role, "content": row[name]}] if several is None else several
    return turns


def fields_with_history(row: Mapping[str, Any]) -> tuple[str, ...]:
    """The fields of a row that has pairs of turns and, in fields of their own, the last ones; none of any other row.

    The history of an illness, a text, is no such field.
    """
    if HISTORY_FIELD not in row or (row[HISTORY_FIELD] and _several(row[HISTORY_FIELD]) is None):
        return ()
    for names in LAST_TURNS:
        last = tuple(name for name in names if name in row)
        if {names[0], names[-1]} <= set(last) and all(isinstance(row[name], str | None) for name in last):
            return (HISTORY_FIELD, *last)
    return ()


def _several(value: Any) -> list[Any] | None:
    """The turns of a field that holds a list of them; None for a text, also one that looks like another list."""
    turns = _list_of(value)
    if not isinstance(turns, list):
        return None
    return turns if turns is value or all(isinstance(turn, list | Mapping) for turn in turns) else None


def _is_pair(turn: Any, roles: Mapping[str, str]) -> bool:
    """Whether a turn is a question and its answer; a speaker and a text are not told apart from one by anything but
    the speaker's name."""
    if not isinstance(turn, list) or len(turn) != 2 or not all(isinstance(text, str | None) for text in turn):
        return False
    return (turn[0] or "").strip().lower() not in roles


def _of_pair(turn: list[str | None]) -> list[Any]:
    return [{"role": role, "content": text} for role, text in zip(("user", "assistant"), turn, strict=True)]


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
