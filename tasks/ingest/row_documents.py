"""Documents from rows: the fields of the text or the turns, of the title and of the source, and all others."""

from __future__ import annotations

import json
import logging
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple, Protocol

from infra.console.printable import one_line
from infra.errors import UserError
from tasks.deidentify.document_persons import harmless_path
from tasks.deidentify.forms.names import is_name
from tasks.deidentify.search.find import PLACEHOLDERS, find_identifiers, replace
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
"""Default names of fields, tried in this order if no parameter names one."""

MAX_META_VALUE = 500
"""Characters of the longest value of another field that is kept in a document's meta."""

MAX_COLUMN_SHOWN = 40
"""Most characters of a column's name that a message shows."""

WITHOUT_FIELDS = ("txt", "html", "docx", "pdf")
"""Kinds whose rows have no fields that could be named."""

PAGE_LINES = "page_lines"
"""Field of the meta of a document whose lines end where those of a page did, as those of a .pdf; `clean` joins them."""

_OF_OBJECTS = ("jsonl", "json")
"""Kinds in which each row names its own fields."""

_SURROGATE = re.compile("[\ud800-\udfff]")
"""Half of a surrogate pair: `\\ud83d`, which a row of JSON may write as an escape."""


class Fields(Protocol):
    """The fields of `IngestParams` that are used here."""

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
    """Maker of documents from the rows of one slice.

    Args:
        piece: the slice.
        params: names of the fields.
        counts: where values left out of the documents' meta are counted.
    """

    def __init__(self, piece: Slice, params: Fields, counts: Counter[str]) -> None:
        self._piece, self._params, self._counts = piece, params, counts
        is_plain = piece.kind in WITHOUT_FIELDS
        self._text_field = "text" if is_plain else params.text_field
        self._title_field = None if is_plain else params.title_field
        self._may_have_turns = self._text_field is None or bool(params.turns_field and not is_plain)
        self._sources = [source_of(piece, params, is_dialogue) for is_dialogue in (False, True)]
        self._file = readable(piece.name)
        self._repeated: Mapping[str, tuple[str, ...]] | None = {} if is_plain or piece.kind in _OF_OBJECTS else None
        """Repeated columns by the name of the first of them; None before the first row."""

    def document_of(self, number: int, row: Mapping[str, Any]) -> dict[str, str] | Problem:
        """Return the document of a row, or the reason why it has none.

        Raises:
            UserError: a table lacks the column of the text.
        """
        params = self._params
        if self._repeated is None:
            self._repeated = self._look_for_repeated(row)
        read = self._read(row)
        if isinstance(read, Problem):
            return read
        if not read.text or read.text.isspace():
            return Problem("empty_text", f"field {_shown(read.fields)} is blank")
        extra: dict[str, Any] = {"file": self._file, "row": number}
        if read.turns is not None:
            extra["turns"] = read.turns
        if self._piece.kind == "pdf":
            extra[PAGE_LINES] = True
        title_field = _field(row, self._title_field, TITLE_FIELDS)
        if title_field in read.fields:
            title_field = None
        title = row[title_field] if title_field else ""
        if len(row) > 1:
            extra = {**self._others(row, {*read.fields, title_field, params.source_field}), **extra}
        own_source = row.get(params.source_field) if params.source_field else None
        source = self._sources[read.turns is not None]
        if isinstance(own_source, str) and own_source.strip():
            source = source_called(readable(own_source))
        return make_document(
            source,
            readable(title).strip() if title and isinstance(title, str) else "",
            readable(read.text),
            extra,
        )

    def _read(self, row: Mapping[str, Any]) -> _Read | Problem:
        """Return the text of a row, from its turns if it has any, or the reason why it has none."""
        turns = self._turns_of(row) if self._may_have_turns else None
        if turns is not None:
            fields, listed = turns
            read = dialogue_text(listed, self._params.roles)
            return read if isinstance(read, Problem) else _Read(fields, *read)
        fields = self._text_fields(row)
        if not fields:
            return self._without_text(row)
        text = _text_of(row, fields)
        return text if isinstance(text, Problem) else _Read(fields, text)

    def _turns_of(self, row: Mapping[str, Any]) -> tuple[tuple[str, ...], Any] | None:
        """Return the fields of the turns, and the turns, or None; an empty list beside a text does not count."""
        wanted = self._params.turns_field
        if isinstance(wanted, tuple):
            self._check_columns(row, wanted)
            wanted = self._with_repeated(wanted)
            is_there = any(row.get(name) is not None for name in wanted)
            return (wanted, turns_of_fields(row, wanted)) if is_there else None
        name = turns_field(row, wanted)
        # A history is used only without a text: {"text": "…", "history": [[…]]} is an article.
        if name is None and wanted is None and not _field(row, None, TEXT_FIELDS):
            names = fields_with_history(row)
            return (names, turns_of_fields(row, names)) if names else None
        if name is None or (wanted is None and not row[name] and _field(row, None, TEXT_FIELDS)):
            return None
        return (name,), row[name]

    def _text_fields(self, row: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the fields of the row's text, or nothing if it has none of them."""
        if isinstance(self._text_field, tuple):
            self._check_columns(row, self._text_field)
            return self._with_repeated(name for name in self._text_field if name in row)
        name = _field(row, self._text_field, TEXT_FIELDS)
        return () if name is None else self._with_repeated((name,))

    def _with_repeated(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return names of columns, each followed by the columns of the same name, whose texts count as well."""
        return tuple(dict.fromkeys(one for name in names for one in (name, *(self._repeated or {}).get(name, ()))))

    def _look_for_repeated(self, row: Mapping[str, Any]) -> Mapping[str, tuple[str, ...]]:
        """Return the repeated columns of a table, and report them once per file."""
        found = repeated_columns(row)
        named = {name: others for name, others in found.items() if name.strip()}
        if named and self._piece.first_row == 1:
            self._counts["repeated_columns"] += sum(map(len, named.values()))
            listed = ", ".join(f"{_harmless(name)!r} {len(others) + 1} times" for name, others in named.items())
            logger.warning(
                "%s has columns with equal names: %s. Their texts are joined with a line feed if they differ, and "
                "other values are kept under numbered names. Rename the columns if this is not intended.",
                harmless_path(self._file),
                listed,
            )
        return found

    def _check_columns(self, row: Mapping[str, Any], names: Iterable[str]) -> None:
        """Raise an error if a table lacks a column; a row of JSON may lack fields."""
        missing = [name for name in names if name not in row]
        if missing and self._piece.kind not in _OF_OBJECTS:
            raise self._lacks(row, _shown(missing))

    def _without_text(self, row: Mapping[str, Any]) -> Problem:
        """Return the problem of a row without text.

        Raises:
            UserError: a table lacks the column of the text.
        """
        named = self._params.text_field or self._params.turns_field
        wanted = _shown(_listed(named)) if named else " or ".join(TEXT_FIELDS)
        if self._piece.kind in _OF_OBJECTS:
            found = ", ".join(_harmless(str(name)) for name in row) or "none"
            content = json.dumps(row, ensure_ascii=False, default=str)
            detail = (
                f"the row has no field {wanted}; its fields are {found}. Set ingest.text_field, or ingest.fields for "
                "this file, to one of them"
            )
            return Problem("missing_text", detail, content)
        turns = _listed(self._params.turns_field or ())
        if any(name in row for name in turns):
            return Problem("missing_text", f"field {_shown(turns)} is null")
        if not named:
            for name in (*TURNS_FIELDS, *([HISTORY_FIELD] if row.get(HISTORY_FIELD) else [])):
                if name in row and is_without_turns(row[name]):
                    detail = f"field {name!r} is not a complete list of turns"
                    return Problem("missing_text", detail, str(row[name] or ""))
        raise self._lacks(row, wanted)

    def _lacks(self, row: Mapping[str, Any], wanted: str) -> UserError:
        given = json.dumps({**self._fields_of_others(), self._file: "COLUMN"}, ensure_ascii=False)
        columns = ", ".join(map(_harmless, row)) or "none"
        return UserError(
            f"{one_line(self._piece.name)} has no column {wanted}; its columns are {columns}. "
            "Set ingest.text_field to the column that contains the text, or for this file alone "
            f"--param 'ingest.fields={given}' (null in place of a column leaves the file out)."
        )

    def _fields_of_others(self) -> dict[str, Any]:
        """Return `ingest.fields` as given for other files: what a command line gives replaces all of them."""
        given: Mapping[str, Any] = getattr(self._params, "fields", {})
        own = longest_match(self._piece.name, given)
        others = {key: one and one.model_dump(exclude_none=True) for key, one in given.items() if key != own}
        # A column alone is its text, as users write it.
        return {key: one["text_field"] if one and one.keys() == {"text_field"} else one for key, one in others.items()}

    def _others(self, row: Mapping[str, Any], taken: set[str | None]) -> dict[str, str | int | float | bool]:
        """Return the short plain values of the row's other fields, and count the long ones."""
        others = {
            readable(str(name)): readable(value) if isinstance(value, str) else value
            for name, value in row.items()
            if name not in taken and isinstance(value, str | int | float) and len(str(value)) <= MAX_META_VALUE
            if not (isinstance(value, float) and not math.isfinite(value))
            if value != "" or not isinstance(name, RepeatedColumn)  # commas at the end of a table's lines
        }
        # Long values are rare: look for them only if some field is neither in the document nor in its meta.
        if len(others) + sum(name in row for name in taken) < len(row):
            left = (value for name, value in row.items() if name not in taken)
            if long := sum(isinstance(value, str) and len(value) > MAX_META_VALUE for value in left):
                self._counts["meta_values_left_out"] += long
        return others


class _Read(NamedTuple):
    """The text of a row."""

    fields: tuple[str, ...]
    """Fields that it comes from."""
    text: str
    turns: int | None = None
    """Number of turns; None if the row is not a dialogue."""


def _text_of(row: Mapping[str, Any], names: Sequence[str]) -> str | Problem:
    """Return the texts of a row's fields, joined with line feeds, or the reason why there is none."""
    texts = []
    for name in names:
        value = row[name]
        if isinstance(name, RepeatedColumn) and (not isinstance(value, str | bytes) or value in texts):
            continue
        if isinstance(value, bytes):  # a Parquet file whose text is not declared as text
            encoding = line_encoding(value, "utf-8")
            if encoding is None:
                detail = f"field {name!r} contains bytes that are neither UTF-8 nor GB18030; write it in UTF-8"
                return Problem("undecodable", detail)
            value = value.decode(encoding)
        if isinstance(value, str):
            texts.append(value)
        elif value is not None:
            detail = f"field {name!r} is a {type(value).__name__}; write it as a string"
            return Problem("text_not_string", detail, str(value))
    if not texts:
        return Problem("missing_text", f"field {_shown(names)} is null")
    return texts[0] if len(texts) == 1 else "\n".join(text for text in texts if text and not text.isspace())


def _harmless(column: str) -> str:
    """Return a column's name without identifiers: in a table without a header it is a value of the first row."""
    if is_name(column):
        return PLACEHOLDERS["name"]
    shown = replace(column, find_identifiers(column))
    return shown if len(shown) <= MAX_COLUMN_SHOWN else shown[:MAX_COLUMN_SHOWN] + "…"


def _listed(names: str | tuple[str, ...]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else names


def _shown(names: Iterable[str]) -> str:
    return " and ".join(map(repr, names))


def source_of(piece: Slice, params: Fields, is_dialogue: bool = False) -> str:
    """Return the sub-domain of a file's rows that do not name their own.

    It is set by `source_of`, else by `source`, else by the first name of a sub-domain among the given folder, the
    folders below it and the file.
    """
    pattern = longest_match(piece.name, params.source_of)
    if pattern is not None:
        return source_called(params.source_of[pattern])
    if params.source is not None:
        return source_called(params.source)
    named = piece.sub_domain or first_sub_domain(_without_kind(part) for part in piece.name.split("/"))
    return named or ("dialogue" if is_dialogue else "article")


def _without_kind(name: str) -> str:
    """Return the name of a file or an archive without the endings of its kind and compression."""
    return name.partition(".")[0] if kind_of(name) else name


def readable(text: str) -> str:
    """Return a text with \\n as line end, and U+FFFD for half a surrogate pair, which no encoding can store."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    try:
        text.encode()  # many times faster than a search for surrogates, which hardly any text has
    except UnicodeEncodeError:
        return _SURROGATE.sub("\ufffd", text)
    return text


def matches(name: str, pattern: str) -> bool:
    """Return True if a relative name equals the name in a parameter, is below it, or matches it as a pattern."""
    start = pattern.rstrip("/")
    return name == start or name.startswith(f"{start}/") or fnmatchcase(name, pattern)


def longest_match(name: str, patterns: Iterable[str]) -> str | None:
    """Return the longest pattern that a relative name matches, or None."""
    matching = [pattern for pattern in patterns if matches(name, pattern)]
    return max(matching, key=lambda pattern: (len(pattern), pattern), default=None)


def _field(row: Mapping[str, Any], wanted: str | None, candidates: Iterable[str]) -> str | None:
    for name in candidates if wanted is None else (wanted,):
        if name in row:
            return name
    return None
