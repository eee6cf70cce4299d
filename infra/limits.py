"""Limits on what a file may ask of this machine, in one place, so that no file can hang a run or fill its memory.

They are far beyond what text and tables need. Who has more sets `YIWEN_LIMITS`, as in `row_bytes=1GiB,expansion=1000`,
for all processes of a run. What exceeds a limit is rejected or refused by name; other rows and files are read.
"""

from __future__ import annotations

import functools
import os
import re
from dataclasses import dataclass, fields
from pathlib import Path

from infra.errors import UserError

VARIABLE = "YIWEN_LIMITS"
"""Limits on what a file may ask of the machine, as in `row_bytes=1GiB,expansion=1000`; what exceeds one is rejected."""


@dataclass(frozen=True)
class Limits:
    """The limits, in bytes unless they say otherwise."""

    row_bytes: int = 128 << 20
    """One row: a line, an element of JSON, a page, a document, a row of Parquet. A run takes about thirteen times as
    much memory for it. A textbook has 2 MiB."""
    expansion: int = 200
    """Bytes out of one compressed byte, once there are `expanded_bytes` of them. Text is compressed to a third or a
    tenth of its size, the most repetitive logs to a hundredth."""
    expanded_bytes: int = 256 << 20
    """Bytes out of a compressed file that are not suspicious yet, whatever its size."""
    values: int = 1 << 20
    """Values of a column or list that need not be `expansion` times as many as the bytes they are stored in."""
    rows_per_byte: int = 20
    """Rows of a Parquet file out of each of its bytes, once there are more than `values`. A row with a text has many
    bytes; a file in which one row of a thousand has a text has some ten rows in a byte."""
    sheet_rows: int = 1 << 20
    """Largest number of a row in a spreadsheet; Excel's own limit."""
    sheet_cells: int = 50_000_000
    """Cells of a spreadsheet, those between filled ones included."""
    xml_elements: int = 1 << 19
    """Elements of a part of a workbook, apart from its rows and strings, that need not be in proportion to its bytes.
    Of rows and strings there may be four times as many, of all elements, also of a DOCX file, eight times."""
    pdf_seconds: int = 300
    """Seconds of computing for one PDF; a page takes some milliseconds."""
    pdf_bytes: int = 2 << 30
    """Memory for reading one PDF."""
    config_bytes: int = 16 << 20
    """A file of settings, such as a model's config.json."""
    layers: int = 1_000
    """Layers of a network."""
    width: int = 1 << 20
    """Size of a hidden state or of a layer's inner state, and number of heads, positions and types."""
    vocabulary: int = 1 << 24
    """Tokens of a vocabulary."""

    def is_bomb(self, taken: int, given: int) -> bool:
        """Return True if `given` bytes are out of all proportion to the `taken` bytes that they were read from."""
        return given > self.expanded_bytes and given > self.expansion * taken


@functools.cache
def _limits(text: str) -> Limits:
    known = {field.name for field in fields(Limits)}
    given: dict[str, int] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        found = _SETTING.fullmatch(part)
        if found is None or found[1] not in known:
            raise UserError(
                f"{VARIABLE}: {part!r} sets no limit. Give NAME=NUMBER, as in row_bytes=1GiB; the names are "
                f"{', '.join(sorted(known))}."
            )
        given[found[1]] = int(found[2]) << {"": 0, "K": 10, "M": 20, "G": 30}[found[3][:1]]
    return Limits(**given)


_SETTING = re.compile(r"(\w+) ?= ?([1-9][0-9]{0,14}) ?((?:[KMG]iB)?)")
"""`row_bytes=1GiB`, `layers = 2000`; not `layers=0`."""


def limits() -> Limits:
    """Return the limits in force; raises `UserError` if `YIWEN_LIMITS` cannot be read."""
    return _limits(os.environ.get(VARIABLE, ""))


def small_text(path: Path) -> str:
    """Return the text of a file of settings, in UTF-8.

    Raises:
        UserError: it is longer than `config_bytes`.
        OSError, UnicodeDecodeError: it cannot be read.
    """
    with path.open("rb") as file:
        data = file.read(limits().config_bytes + 1)
    if len(data) > limits().config_bytes:
        raise UserError(f"{path} is longer than {limits().config_bytes:,} bytes. Give a file of settings.")
    return data.decode("utf-8")
