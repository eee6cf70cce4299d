"""Which of a row's fields make a document: its text or its turns, its title, its source and the rest."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any, Protocol

from infra.errors import UserError
from tasks.dialogues import dialogue_text, turns_field
from tasks.documents import make_document
from tasks.slices import Problem, Slice, kind_of
from tasks.sub_domains import first_sub_domain, source_called

TEXT_FIELDS = ("text", "content", "正文", "内容", "文本", "body")
TITLE_FIELDS = ("title", "标题", "题目")
"""Names a field is looked for under, in this order, when no parameter names it."""

MAX_META_VALUE = 500
"""Characters of another field of the row that are kept in a document's meta."""

_SURROGATE = re.compile("[\ud800-\udfff]")


class Fields(Protocol):
    """What of `IngestParams` matters here."""

    @property
    def source(self) -> str | None: ...
    @property
    def source_field(self) -> str | None: ...
    @property
    def source_of(self) -> Mapping[str, str]: ...
    @property
    def text_field(self) -> str | None: ...
    @property
    def title_field(self) -> str | None: ...
    @property
    def turns_field(self) -> str | None: ...
    @property
    def roles(self) -> Mapping[str, str]: ...


class DocumentMaker:
    """Makes documents of the rows of one slice of a file.

    Args:
        piece: the slice.
        params: which fields count.
    """

    def __init__(self, piece: Slice, params: Fields) -> None:
        self._piece, self._params = piece, params
        is_plain = piece.kind in ("txt", "html")  # these have no fields that could be named
        self._text_field = "text" if is_plain else params.text_field
        self._title_field = None if is_plain else params.title_field
        self._may_have_turns = self._text_field is None or bool(params.turns_field and not is_plain)
        self._sources = [source_of(piece, params, is_dialogue) for is_dialogue in (False, True)]
        self._file = readable(piece.name)

    def document_of(self, number: int, row: Mapping[str, Any]) -> dict[str, str] | Problem:
        """The document that a row holds, or why it holds none.

        Raises:
            UserError: a table lacks the column of the text.
        """
        params = self._params
        extra: dict[str, Any] = {"file": self._file, "row": number}
        turns = _turns_of(row, params) if self._may_have_turns else None
        name = turns or _field(row, self._text_field, TEXT_FIELDS)
        if name is None:
            return _without_text(self._piece, row, params)
        text = row[name]
        if turns is not None:
            read = dialogue_text(text, params.roles)
            if isinstance(read, Problem):
                return read
            text, extra["turns"] = read
        if text is None:
            return Problem("missing_text", f"field {name!r} is null")
        if not isinstance(text, str):
            return Problem("text_not_string", f"field {name!r} is a {type(text).__name__}", str(text))
        if not text or text.isspace():
            return Problem("empty_text", f"field {name!r} is blank")
        title_field = _field(row, self._title_field, TITLE_FIELDS)
        title = row[title_field] if title_field else ""
        source = row.get(params.source_field) if params.source_field else None
        if len(row) > 1:
            extra = {**_others(row, {name, title_field, params.source_field}), **extra}
        return make_document(
            source_called(readable(source))
            if isinstance(source, str) and source.strip()
            else self._sources[turns is not None],
            readable(title).strip() if title and isinstance(title, str) else "",
            readable(text),
            extra,
        )


def source_of(piece: Slice, params: Fields, is_dialogue: bool = False) -> str:
    """The sub-domain of a file's rows that do not say their own: by `source_of`, by `source`, or by the first of the
    folder that was given, the folders below it and the file itself that is named as one."""
    matching = [pattern for pattern in params.source_of if matches(piece.name, pattern)]
    if matching:
        return source_called(params.source_of[max(matching, key=lambda pattern: (len(pattern), pattern))])
    if params.source is not None:
        return source_called(params.source)
    named = piece.sub_domain or first_sub_domain(_without_kind(part) for part in piece.name.split("/"))
    return named or ("dialogue" if is_dialogue else "article")


def _without_kind(name: str) -> str:
    """The name of a file or an archive without what its kind and its compression are told by."""
    return name.partition(".")[0] if kind_of(name) else name


def readable(text: str) -> str:
    """Line ends as \\n; half of a surrogate pair, which no encoding can store, as the replacement character."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    try:
        text.encode()  # many times faster than looking for what hardly any text holds
    except UnicodeEncodeError:
        return _SURROGATE.sub("\ufffd", text)
    return text


def matches(name: str, pattern: str) -> bool:
    """Whether a relative name is that of `ingest.source_of`, lies in a folder of that name, or fits the pattern."""
    start = pattern.rstrip("/")
    return name == start or name.startswith(f"{start}/") or fnmatchcase(name, pattern)


def _turns_of(row: Mapping[str, Any], params: Fields) -> str | None:
    """The field of the turns; an empty list beside a text is none."""
    name = turns_field(row, params.turns_field)
    is_empty = name is not None and params.turns_field is None and not row[name]
    return None if is_empty and _field(row, params.text_field, TEXT_FIELDS) else name


def _without_text(piece: Slice, row: Mapping[str, Any], params: Fields) -> Problem:
    """A row of JSON may lack its text; a table without the column is read wrongly from its first row on."""
    named = params.text_field or params.turns_field
    wanted = repr(named) if named else " or ".join(TEXT_FIELDS)
    found = ", ".join(map(str, row)) or "none"
    if piece.kind in ("jsonl", "json"):
        return Problem("missing_text", f"no field {wanted}; fields are {found}", json.dumps(row, default=str))
    if params.turns_field in row:
        return Problem("missing_text", f"field {params.turns_field!r} is null")
    raise UserError(
        f"{piece.name} has no column {wanted}; its columns are {found}. "
        "Name the one that holds the text with ingest.text_field."
    )


def _field(row: Mapping[str, Any], wanted: str | None, candidates: Iterable[str]) -> str | None:
    for name in candidates if wanted is None else (wanted,):
        if name in row:
            return name
    return None


def _others(row: Mapping[str, Any], taken: set[str | None]) -> dict[str, str | int | float | bool]:
    """Short plain values of the row's other fields."""
    return {
        readable(str(name)): readable(value) if isinstance(value, str) else value
        for name, value in row.items()
        if name not in taken and isinstance(value, str | int | float) and len(str(value)) <= MAX_META_VALUE
        if not (isinstance(value, float) and not math.isfinite(value))
    }
