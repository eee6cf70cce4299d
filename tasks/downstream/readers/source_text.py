"""Text of a downstream file in UTF-8, UTF-16, GB18030 or Big5, with or without a byte order mark."""

from __future__ import annotations

import codecs
import io
from pathlib import Path

from infra.errors import UserError
from tasks.files.encodings import detect_encoding, sample_windows


def source_text(path: Path) -> str:
    """Return a file's characters, all in memory; line ends become line feeds.

    Raises:
        UserError: the file cannot be read, or some bytes are not in the encoding of the rest.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from error
    return decoded(data, path)


def decoded(data: bytes, path: Path) -> str:
    """Return the characters of a file's bytes; see `source_text`.

    Raises:
        UserError: some bytes are not in the encoding of the rest.
    """
    encoding = detect_encoding(sample_windows(lambda start, size: data[start : start + size], len(data)))
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UserError(
            f"{path}, line {line}: bytes that are not {encoding}, the encoding of the rest of the file. "
            "Save the file as UTF-8 and run again."
        ) from error
    return io.IncrementalNewlineDecoder(None, translate=True).decode(text.removeprefix(BOM), final=True)


BOM = codecs.BOM_UTF8.decode()
