"""Which of a row's fields make a document: its text or its turns, its title, its source and the rest."""

from __future__ import annotations

import json
import logging
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Protocol

from infra.errors import UserError
from tasks.deidentify.find import PLACEHOLDERS, find_identifiers, replace
from tasks.deidentify.names import is_name
from tasks.documents import first_sub_domain, make_document, source_called
from tasks.files.columns import RepeatedColumn, repeated_columns
from tasks.files.encodings import line_encoding
from tasks.files.slices import Problem, Slice, kind_of
from tasks.ingest.dialogues import (
    HISTORY_FIELD,
    TURNS_FIELDS,
    dialogue_text,
    fields_with_history,
    is_without_turns,
    turns_field,
    turns_of_fields,
)

logger = logging.getLogger(__name__)

TEXT_FIELDS = ("text", "content", "正文", "内容", "文本", "body")
TITLE_FIELDS = ("title", "标题", "题目")
"""Names a field is looked for under, in this order, when no parameter names it."""

MAX_META_VALUE = 500
"""Characters of another field of the row that are kept in a document's meta."""

MAX_COLUMN_SHOWN = 40
"""Characters of a column's name that a message shows."""

_OF_OBJECTS = ("jsonl", "json")
"""Kinds whose rows have names of their own each."""

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
    def text_field(self) -> str | tuple[str, ...] | None: ...
    @property
    def title_field(self) -> str | None: ...
    @property
    def turns_field(self) -> str | tuple[str, ...] | None: ...
    @property
    def roles(self) -> Mapping[str, str]: ...


class DocumentMaker:
    """Makes documents of the rows of one slice of a file.

    Args:
        piece: the slice.
        params: which fields count.
        counts: where values that were left out of the documents' meta are counted.
    """

    def __init__(self, piece: Slice, params: Fields, counts: Counter[str]) -> None:
        self._piece, self._params, self._counts = piece, params, counts
        is_plain = piece.kind in ("txt", "html")  # these have no fields that could be named
        self._text_field = "text" if is_plain else params.text_field
        self._title_field = None if is_plain else params.title_field
        self._may_have_turns = self._text_field is None or bool(params.turns_field and not is_plain)
        self._sources = [source_of(piece, params, is_dialogue) for is_dialogue in (False, True)]
        self._file = readable(piece.name)
        self._repeated: Mapping[str, tuple[str, ...]] | None = {} if is_plain or piece.kind in _OF_OBJECTS else None
        """Columns by the name of an earlier one, once a row has told them."""

    def document_of(self, number: int, row: Mapping[str, Any]) -> dict[str, str] | Problem:
        """The document that a row holds, or why it holds none.

        Raises:
            UserError: a table lacks the column of the text.
        """
        params = self._params
        if self._repeated is None:
            self._repeated = self._look_for_repeated(row)
        extra: dict[str, Any] = {"file": self._file, "row": number}
        turns = self._turns_of(row) if self._may_have_turns else None
        if turns is not None:
            names, listed = turns
            read = dialogue_text(listed, params.roles)
            if isinstance(read, Problem):
                return read
            text, extra["turns"] = read
        else:
            names = self._text_fields(row)
            if not names:
                return self._without_text(row)
            found = _text_of(row, names)
            if isinstance(found, Problem):
                return found
            text = found
        if not text or text.isspace():
            return Problem("empty_text", f"field {_shown(names)} is blank")
        title_field = _field(row, self._title_field, TITLE_FIELDS)
        if title_field in names:
            title_field = None
        title = row[title_field] if title_field else ""
        source = row.get(params.source_field) if params.source_field else None
        if len(row) > 1:
            extra = {**self._others(row, {*names, title_field, params.source_field}), **extra}
        return make_document(
            source_called(readable(source))
            if isinstance(source, str) and source.strip()
            else self._sources[turns is not None],
            readable(title).strip() if title and isinstance(title, str) else "",
            readable(text),
            extra,
        )

    def _turns_of(self, row: Mapping[str, Any]) -> tuple[tuple[str, ...], Any] | None:
        """The fields of the turns, and the turns; an empty list beside a text is none."""
        wanted = self._params.turns_field
        if isinstance(wanted, tuple):
            self._check_columns(row, wanted)
            wanted = self._with_repeated(wanted)
            is_there = any(row.get(name) is not None for name in wanted)
            return (wanted, turns_of_fields(row, wanted)) if is_there else None
        name = turns_field(row, wanted)
        if name is None and wanted is None and not _field(row, None, TEXT_FIELDS):
            names = fields_with_history(row)
            return (names, turns_of_fields(row, names)) if names else None
        if name is None or (wanted is None and not row[name] and _field(row, None, TEXT_FIELDS)):
            return None
        return (name,), row[name]

    def _text_fields(self, row: Mapping[str, Any]) -> tuple[str, ...]:
        """The fields of the row that make its text; none where it has none."""
        if isinstance(self._text_field, tuple):
            self._check_columns(row, self._text_field)
            return self._with_repeated(name for name in self._text_field if name in row)
        name = _field(row, self._text_field, TEXT_FIELDS)
        return () if name is None else self._with_repeated((name,))

    def _with_repeated(self, names: Iterable[str]) -> tuple[str, ...]:
        """Names of columns, each with those that a table calls the same: their text is no less one."""
        return tuple(dict.fromkeys(one for name in names for one in (name, *(self._repeated or {}).get(name, ()))))

    def _look_for_repeated(self, row: Mapping[str, Any]) -> Mapping[str, tuple[str, ...]]:
        """The columns of a table that are called as others are; they are told of once a file."""
        found = repeated_columns(row)
        named = {name: others for name, others in found.items() if name.strip()}
        if named and self._piece.first_row == 1:
            self._counts["repeated_columns"] += sum(map(len, named.values()))
            told = ", ".join(f"{_harmless(name)!r} {len(others) + 1} times" for name, others in named.items())
            logger.warning(
                "%s: columns of one name, %s. Of texts all that differ are read, a line feed between them; other "
                "values are kept with a number behind the name. Rename one where that is not meant.",
                self._file,
                told,
            )
        return found

    def _check_columns(self, row: Mapping[str, Any], names: Iterable[str]) -> None:
        """A row of JSON may lack fields; a table without a column is read wrongly from its first row on."""
        missing = [name for name in names if name not in row]
        if missing and self._piece.kind not in _OF_OBJECTS:
            raise self._lacks(row, _shown(missing))

    def _without_text(self, row: Mapping[str, Any]) -> Problem:
        named = self._params.text_field or self._params.turns_field
        wanted = _shown(_listed(named)) if named else " or ".join(TEXT_FIELDS)
        if self._piece.kind in _OF_OBJECTS:
            found = ", ".join(map(str, row)) or "none"
            told = json.dumps(row, ensure_ascii=False, default=str)
            return Problem("missing_text", f"no field {wanted}; fields are {found}", told)
        turns = _listed(self._params.turns_field or ())
        if any(name in row for name in turns):
            return Problem("missing_text", f"field {_shown(turns)} is null")
        if not named:
            for name in (*TURNS_FIELDS, *([HISTORY_FIELD] if row.get(HISTORY_FIELD) else [])):
                if name in row and is_without_turns(row[name]):
                    return Problem("missing_text", f"field {name!r} holds no list of turns", str(row[name] or ""))
        raise self._lacks(row, wanted)

    def _lacks(self, row: Mapping[str, Any], wanted: str) -> UserError:
        return UserError(
            f"{self._piece.name} has no column {wanted}; its columns are {', '.join(map(_harmless, row)) or 'none'}. "
            "Name the one that holds the text with ingest.text_field."
        )

    def _others(self, row: Mapping[str, Any], taken: set[str | None]) -> dict[str, str | int | float | bool]:
        """Short plain values of the row's other fields."""
        others = {
            readable(str(name)): readable(value) if isinstance(value, str) else value
            for name, value in row.items()
            if name not in taken and isinstance(value, str | int | float) and len(str(value)) <= MAX_META_VALUE
            if not (isinstance(value, float) and not math.isfinite(value))
            if value != "" or not isinstance(name, RepeatedColumn)  # commas at the end of a table's lines
        }
        if len(others) + sum(name in row for name in taken) < len(row):
            left = (value for name, value in row.items() if name not in taken)
            if long := sum(isinstance(value, str) and len(value) > MAX_META_VALUE for value in left):
                self._counts["meta_values_left_out"] += long
        return others


def _text_of(row: Mapping[str, Any], names: Sequence[str]) -> str | Problem:
    """The text of a row: what its fields hold, a line feed between them."""
    texts = []
    for name in names:
        value = row[name]
        if isinstance(name, RepeatedColumn) and (not isinstance(value, str | bytes) or value in texts):
            continue
        if isinstance(value, bytes):  # what wrote the Parquet file did not say that its text is text
            encoding = line_encoding(value, "utf-8")
            if encoding is None:
                return Problem("undecodable", f"field {name!r} holds bytes that are neither UTF-8 nor GB18030")
            value = value.decode(encoding)
        if isinstance(value, str):
            texts.append(value)
        elif value is not None:
            return Problem("text_not_string", f"field {name!r} is a {type(value).__name__}", str(value))
    if not texts:
        return Problem("missing_text", f"field {_shown(names)} is null")
    return texts[0] if len(texts) == 1 else "\n".join(text for text in texts if text and not text.isspace())


def _harmless(column: str) -> str:
    """A column's name as a log may show it: where a table has no header it is what its first row holds of a person."""
    if is_name(column):
        return PLACEHOLDERS["name"]
    shown = replace(column, find_identifiers(column))
    return shown if len(shown) <= MAX_COLUMN_SHOWN else shown[:MAX_COLUMN_SHOWN] + "…"


def _listed(names: str | tuple[str, ...]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else names


def _shown(names: Iterable[str]) -> str:
    return " and ".join(map(repr, names))


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


def _field(row: Mapping[str, Any], wanted: str | None, candidates: Iterable[str]) -> str | None:
    for name in candidates if wanted is None else (wanted,):
        if name in row:
            return name
    return None
