"""Fields of single files, of folders or of sources: the settings of `ingest.fields`.

"notes/*.csv": "病历"                              the column of the text
"qa": {"turns_field": ["ask", "answer"]}           one of several settings
"records.xlsx/说明": null                          a sheet that is left out
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from tasks.documents import source_called
from tasks.files.slices import Slice
from tasks.ingest.row_documents import Fields, longest_match, source_of

FieldNames = str | tuple[str, ...]


class FileFields(BaseModel):
    """Fields of the rows of some files. Those that are not given are the general ones."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    text_field: FieldNames | None = Field(default=None, description="Field with the text, or several joined.")
    title_field: str | None = Field(default=None, description="Field with the title.")
    turns_field: FieldNames | None = Field(default=None, description="Field with the turns, or several of one each.")
    source_field: str | None = Field(default=None, description="Field with the sub-domain of each row.")


class FieldsByFile(Fields, Protocol):
    """The parameters of `ingest` that are used here."""

    @property
    def fields(self) -> Mapping[str, FileFields | None]: ...
    def model_copy(self: P, *, update: Mapping[str, Any] | None = None) -> P: ...


P = TypeVar("P", bound=FieldsByFile)


def read_settings(given: Any) -> Any:
    """Return the settings of a file as given in a preset: the name of a column, or a list of them, is its text."""
    if isinstance(given, str) or (isinstance(given, Sequence) and not isinstance(given, Mapping)):
        return {"text_field": given}
    return given


def fields_for(piece: Slice, params: P) -> P | None:
    """Return the parameters for a file with its own fields, or None for a file that is left out.

    The longest pattern that matches the file counts, else the file's source.
    """
    key = longest_match(piece.name, params.fields)
    if key is None:
        source = source_of(piece, params)
        key = next((one for one in params.fields if source_called(one) == source), None)
    if key is None:
        return params
    own = params.fields[key]
    if own is None:
        return None
    given = {name: value for name, value in own if value is not None}
    if {"text_field", "turns_field"} & given.keys():  # a general field of turns must not hide the text of this file
        given = {"text_field": None, "turns_field": None} | given
    return params.model_copy(update=given)
