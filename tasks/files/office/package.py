"""What DOCX and XLSX have in common: a zip archive, or, with a password, a compound file of older formats."""

from __future__ import annotations

from typing import BinaryIO

COMPOUND_FILE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
"""First bytes of office files with a password, and of those of the formats before 2007."""
ENCRYPTED = "EncryptedPackage".encode("utf-16-le")
"""Name of the stream that contains an office file with a password."""

PROTECTED = "the file is protected by a password; save it without one"
"""Problem of a file with a password, and its remedy."""


class UnreadableDocumentError(Exception):
    """A document cannot be read; the message says why and what helps."""

    reason = "unreadable_file"


class EncryptedDocumentError(UnreadableDocumentError):
    """A document is protected by a password."""

    reason = "encrypted_file"

    def __init__(self) -> None:
        super().__init__(PROTECTED)


def refuse_other_formats(file: BinaryIO, kind: str) -> None:
    """Raise an error for a file with a password, or of the format that `kind` (docx, xlsx) has replaced.

    Raises:
        EncryptedDocumentError, UnreadableDocumentError: it is one of these.
    """
    file.seek(0)
    held = file.read(len(COMPOUND_FILE))
    if held == COMPOUND_FILE:
        while block := file.read(1 << 20):
            if ENCRYPTED in held + block:
                raise EncryptedDocumentError
            held = block[-len(ENCRYPTED) :]
        raise UnreadableDocumentError(f"the file has the format .{kind[:-1]} of before 2007; save it as .{kind}")
    file.seek(0)
