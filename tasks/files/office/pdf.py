"""The text layer of a PDF, page by page, read by PDFium in a process of its own with limits on its memory and time.

A file that exceeds a limit is rejected whole: which of its pages come before that depends on the machine. Time is some
milliseconds a page, and a fraction of a second a file for the process. Memory is bounded by `Limits.pdf_bytes`.
"""

from __future__ import annotations

import importlib.util
import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from infra.extras import explained
from infra.limits import limits
from tasks.files.office.package import EncryptedDocumentError, UnreadableDocumentError

PROGRAM = Path(__file__).with_name("pdf_program.py")

FONTS = "pylopdf_fonts_zh_cn"
"""Package whose folder has the fonts for characters of fonts that a PDF names and does not bring."""

WAIT = 10
"""Seconds of waiting for each second that the program may compute: other work may keep the cores busy."""

REPAIR = "open it in a PDF reader and print it to a new PDF, or remove it"
"""Remedy for a damaged file."""


class NoTextLayerError(UnreadableDocumentError):
    """A PDF has pictures of text, and no text."""

    reason = "no_text_layer"


class DocumentBombError(UnreadableDocumentError):
    """A PDF asks for more time, memory or text than its size explains."""

    reason = "archive_bomb"


class Page(NamedTuple):
    """A page with text."""

    number: int
    text: str


def check_installed() -> None:
    """Raise `UserError` if the library that reads PDFs is not installed; it names the extra."""
    for package in ("pypdfium2", FONTS):
        if importlib.util.find_spec(package) is None:
            error = explained(ModuleNotFoundError(name=package))
            assert error is not None, "infra/extras.py names it"
            raise error


def _fonts() -> str:
    found = importlib.util.find_spec(FONTS)
    assert found is not None and found.origin is not None, "check_installed has looked"
    return str(Path(found.origin).parent)


def pdf_pages(path: Path) -> Iterator[Page]:
    """Yield the pages of a PDF that have text, in order.

    Raises:
        UserError: the library is not installed.
        UnreadableDocumentError: the file cannot be read, has no text layer, or asks for too much.
    """
    check_installed()
    with tempfile.TemporaryDirectory(prefix="yiwen-") as folder:
        output = Path(folder) / "pages.jsonl"
        _extract(path, output)
        pictures = pages = texts = 0
        with output.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                page = json.loads(line)
                if "error" in page:
                    raise _error_of(page["error"])
                pages += 1
                pictures += page["pictures"]
                if page["text"].strip():
                    texts += 1
                    yield Page(number, page["text"])
    if not texts:
        raise NoTextLayerError(_without_text(pages, pictures))


def _extract(path: Path, output: Path) -> None:
    known = limits()
    most = max(known.expanded_bytes, known.expansion * path.stat().st_size)
    values = (known.pdf_bytes, known.pdf_seconds, most)
    # -P: the folder of the program is no place to import from.
    command = [sys.executable, "-P", str(PROGRAM), str(path), str(output), _fonts(), *map(str, values)]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=WAIT * known.pdf_seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _too_slow() from None
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        raise _too_slow()
    if b"MemoryError" in done.stderr or done.returncode in (-signal.SIGSEGV, -signal.SIGABRT, -signal.SIGTRAP):
        raise DocumentBombError(
            f"reading the file takes more than {known.pdf_bytes:,} bytes of memory, or is impossible; {REPAIR}, or "
            f"raise pdf_bytes in YIWEN_LIMITS"
        )
    if done.returncode:
        last = (done.stderr.decode(errors="replace").strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        raise UnreadableDocumentError(f"the file cannot be read as PDF: {last[:200]}; {REPAIR}")


def _too_slow() -> DocumentBombError:
    return DocumentBombError(
        f"reading the file takes more than {limits().pdf_seconds:,} seconds; {REPAIR}, or raise pdf_seconds in "
        "YIWEN_LIMITS"
    )


def _error_of(message: str) -> UnreadableDocumentError:
    if "password" in message.lower():
        return EncryptedDocumentError()
    if message == "too long":
        return DocumentBombError(f"its text is more than {limits().expansion} times its size; remove the file")
    return UnreadableDocumentError(f"the file cannot be read as PDF: {message}; {REPAIR}")


def _without_text(pages: int, pictures: int) -> str:
    if pictures:
        return (
            f"the file has no text layer: {pictures:,} of its {pages:,} pages are pictures, as of a scan; recognise "
            "the text (for instance with ocrmypdf) and give the result"
        )
    return f"none of the {pages:,} pages of the file has text; remove it"
