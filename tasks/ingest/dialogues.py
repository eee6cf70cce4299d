"""Dialogues: a list of turns as one text, with one line per turn that begins with the speaker.

A list may also contain pairs of a question and its answer. Data for fine-tuning has such a list in the field `history`,
and the last question and its answer in fields of their own.
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
"""Default names of fields, tried in this order."""

HISTORY_FIELD = "history"
LAST_TURNS = (("instruction", "input", "output"), ("query", "response"), ("prompt", "response"))
"""Groups of fields that contain the last turns beside a history: a row uses its fields of the first group it has."""

ROLES: Mapping[str, str] = {
    **dict.fromkeys(("user", "human", "patient", "患者", "病人", "client"), "患者"),
    **dict.fromkeys(("ask", "question", "query", "问题", "提问", "问"), "患者"),
    **dict.fromkeys(("instruction", "input", "prompt"), "患者"),
    **dict.fromkeys(("assistant", "gpt", "doctor", "医生", "bot", "counselor"), "医生"),
    **dict.fromkeys(("answer", "response", "reply", "回答", "回复", "答", "output"), "医生"),
}
"""Names in the text for common speakers and for columns of questions and answers; other speakers keep their names."""

_LINE_BREAKS = re.compile("[\r\n\v\f\x85\u2028\u2029]+")
"""Line breaks inside a turn: the `\\r\\n` of `头痛\\r\\n三天`."""


def turns_field(row: Mapping[str, Any], wanted: str | None) -> str | None:
    """Return the field with the list of a row's turns, or None if the row is not a dialogue.

    A `wanted` field need not contain a list: `dialogue_text` reports one that does not.
    """
    if wanted is not None:
        return wanted if row.get(wanted) is not None else None
    return next((name for name in TURNS_FIELDS if name in row and isinstance(_list_of(row[name]), list)), None)


def dialogue_text(value: Any, roles: Mapping[str, str]) -> tuple[str, int] | Problem:
    """Return a list of turns as text, with the number of its lines; turns without text are left out.

    Each turn is a string, an object with a text and perhaps a speaker, or a pair of strings: a question of `user` and
    the answer of `assistant`.

    Args:
        value: the list; the cell of a table may contain it as JSON.
        roles: names for speakers, which take precedence over `ROLES`.
    """
    turns = _list_of(value)
    if not isinstance(turns, list):
        detail = f"the turns are a {type(value).__name__}; write them as a list"
        return Problem("malformed_turns", detail, str(value))
    known = {**ROLES, **{name.strip().lower(): shown for name, shown in roles.items()}}
    lines = []
    for number, turn in enumerate(turns, 1):
        for each in _of_pair(turn) if _is_pair(turn, known) else [turn]:
            line = _line(each, known)
            if line is None:
                detail = (
                    f"turn {number} cannot be read; write it as a string, as an object with a string under "
                    f"{' or '.join(TEXT_FIELDS)}, or as a pair of a question and an answer"
                )
                return Problem("malformed_turns", detail, str(turn))
            if line:
                lines.append(line)
    return "\n".join(lines), len(lines)


def is_without_turns(value: Any) -> bool:
    """Return True for a blank cell or a list that is cut short, as a row among others with turns may have."""
    return value is None or (isinstance(value, str) and value.lstrip()[:1] in ("", "["))


def turns_of_fields(row: Mapping[str, Any], fields: Sequence[str]) -> list[Any]:
    """Return the turns of a row with a field for each: the name of the field is the speaker.

    A field may also contain several turns, such as the earlier pairs, with speakers of their own.
    """
    turns: list[Any] = []
    for name in fields:
        if name in row:
            several = _several(row[name])
            role = name.column if isinstance(name, RepeatedColumn) else name
            turns += [{"role": role, "content": row[name]}] if several is None else several
    return turns


def fields_with_history(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the field of the earlier turns and those of the last ones, or nothing if the row lacks either.

    The history of an illness is a text, not a list of turns.
    """
    if HISTORY_FIELD not in row or (row[HISTORY_FIELD] and _several(row[HISTORY_FIELD]) is None):
        return ()
    for names in LAST_TURNS:
        last = tuple(name for name in names if name in row)
        # The question and the answer are needed; `input` between instruction and output is optional.
        if {names[0], names[-1]} <= set(last) and all(isinstance(row[name], str | None) for name in last):
            return (HISTORY_FIELD, *last)
    return ()


def _several(value: Any) -> list[Any] | None:
    """Return the turns of a field that contains a list of them, or None for a text."""
    turns = _list_of(value)
    if not isinstance(turns, list):
        return None
    # A text may look like a list of something else: [1] 高血压.
    return turns if turns is value or all(isinstance(turn, list | Mapping) for turn in turns) else None


def _is_pair(turn: Any, roles: Mapping[str, str]) -> bool:
    """Return True if a turn is a question and its answer, False if it may be a speaker and a text.

    Only the speaker's name distinguishes the two: `["user", "头痛"]` is not a pair.
    """
    if not isinstance(turn, list) or len(turn) != 2 or not all(isinstance(text, str | None) for text in turn):
        return False
    return (turn[0] or "").strip().lower() not in roles


def _of_pair(turn: list[str | None]) -> list[Any]:
    return [{"role": role, "content": text} for role, text in zip(("user", "assistant"), turn, strict=True)]


def _list_of(value: Any) -> Any:
    """Return the list that a string contains as JSON, or any other value unchanged."""
    if not isinstance(value, str) or not value.lstrip().startswith("["):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _line(turn: Any, roles: Mapping[str, str]) -> str | None:
    """Return a turn's line, empty if the turn has no text, or None if it is malformed."""
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
