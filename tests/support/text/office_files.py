"""Small files of office programs, written byte by byte: PDF, DOCX and XLSX, sound ones and hostile ones."""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import openpyxl

from tests.support.text.reading import zipped

WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
LEADING = 20
"""Points between two lines of a page."""


def docx(body: str, **parts: bytes) -> bytes:
    """A document with the XML of its body, and more parts or others in place of its own."""
    types = (
        '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Override PartName="/word/document'
        '.xml" ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>'
    )
    document = f'<w:document xmlns:w="{WORD}"><w:body>{body}</w:body></w:document>'
    own = {"[Content_Types].xml": types.encode(), "word/document.xml": document.encode()}
    return zipped(own | parts)


def paragraph(text: str, properties: str = "") -> str:
    return f"<w:p>{properties}<w:r><w:t>{text}</w:t></w:r></w:p>"


def table_row(*cells: str) -> str:
    return "<w:tr>" + "".join(f"<w:tc>{paragraph(cell)}</w:tc>" for cell in cells) + "</w:tr>"


def xlsx(sheets: Mapping[str, Sequence[Sequence[Any]]], merged: Iterable[str] = ()) -> bytes:
    """A workbook; `merged` are areas of its last sheet."""
    book = openpyxl.Workbook()
    book.remove(book.active)
    for title, rows in sheets.items():
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(list(row))
        for area in merged if title == [*sheets][-1] else ():
            sheet.merge_cells(area)
    sink = io.BytesIO()
    book.save(sink)
    return sink.getvalue()


Piece = tuple[str, float, float]
"""A text, its size in points, and how far it is raised."""


def pdf(*pages: Sequence[str | Sequence[Piece]], more: Mapping[int, bytes] | None = None, trailer: str = "") -> bytes:
    """A document whose pages have lines, in a Chinese font that is not embedded (CID, UniGB-UCS2-H).

    Args:
        pages: lines of each page; a line may be made of pieces.
        more: objects by number, from 900 on.
        trailer: more entries of the trailer.
    """
    kids = " ".join(f"{10 + 2 * number} 0 R" for number in range(len(pages)))
    objects: dict[int, bytes] = {
        1: b"<</Type/Catalog/Pages 2 0 R>>",
        2: f"<</Type/Pages/Count {len(pages)}/Kids[{kids}]>>".encode(),
        3: b"<</Type/Font/Subtype/Type0/BaseFont/STSong-Light/Encoding/UniGB-UCS2-H/DescendantFonts[4 0 R]>>",
        4: b"<</Type/Font/Subtype/CIDFontType0/BaseFont/STSong-Light/CIDSystemInfo<</Registry(Adobe)/Ordering(GB1)"
        b"/Supplement 4>>/DW 1000/FontDescriptor 5 0 R>>",
        5: b"<</Type/FontDescriptor/FontName/STSong-Light/Flags 6/FontBBox[-25 -254 1000 880]/ItalicAngle 0/Ascent 880"
        b"/Descent -120/CapHeight 880/StemV 93>>",
    }
    for number, lines in enumerate(pages):
        page = "<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Resources<</Font<</F 3 0 R>>/XObject<</X 900 0 R>>>>"
        objects[10 + 2 * number] = f"{page}/Contents {11 + 2 * number} 0 R>>".encode()
        objects[11 + 2 * number] = stream(b"\n".join(map(_line, range(len(lines)), lines)))
    return assembled(objects | dict(more or {}), trailer)


def _line(number: int, line: str | Sequence[Piece]) -> bytes:
    pieces: Sequence[Piece] = [(line, 12, 0)] if isinstance(line, str) else line
    left, drawn = 60.0, []
    for text, size, raised in pieces:
        if text == "DRAW":
            drawn.append("/X Do")
            continue
        code = text.encode("utf-16-be").hex()
        drawn.append(f"BT /F {size} Tf {left} {780 - LEADING * number + raised} Td <{code}> Tj ET")
        left += size * len(text)
    return " ".join(drawn).encode()


def stream(content: bytes, entries: str = "") -> bytes:
    packed = zlib.compress(content, 9)
    return f"<</Length {len(packed)}/Filter/FlateDecode{entries}>>stream\n".encode() + packed + b"\nendstream"


def assembled(objects: Mapping[int, bytes], trailer: str = "") -> bytes:
    """A PDF of numbered objects, of which the first is the catalogue."""
    data, places = bytearray(b"%PDF-1.5\n"), {}
    for number, content in sorted(objects.items()):
        places[number] = len(data)
        data += f"{number} 0 obj\n".encode() + content + b"\nendobj\n"
    start = len(data)
    data += b"xref\n0 1\n0000000000 65535 f \n"
    for number, place in places.items():
        data += f"{number} 1\n{place:010} 00000 n \n".encode()
    data += f"trailer\n<</Root 1 0 R/Size {max(objects) + 1}{trailer}>>\nstartxref\n{start}\n%%EOF\n".encode()
    return bytes(data)


def scanned_pdf(pages: int = 2) -> bytes:
    """Pages that are pictures."""
    picture = stream(
        bytes(64 * 64), "/Type/XObject/Subtype/Image/Width 64/Height 64/ColorSpace/DeviceGray/BitsPerComponent 8"
    )
    return pdf(*[[[("DRAW", 0, 0)]]] * pages, more={900: picture})


def locked_pdf() -> bytes:
    """A document that no empty password opens."""
    lock = f"<</Filter/Standard/V 1/R 2/P -4/O<{'ab' * 32}>/U<{'cd' * 32}>>>".encode()
    return pdf(["患者头痛。"], more={901: lock}, trailer=f"/Encrypt 901 0 R/ID[<{'00' * 16}><{'00' * 16}>]")


def nested_pdf(depth: int = 12, breadth: int = 30) -> bytes:
    """A page that draws forms which draw forms: a page of `breadth` to the power of `depth` drawings."""
    forms = {}
    for level in range(depth):
        inner = b"/X Do " * breadth if level < depth - 1 else b"BT ET"
        entries = f"/Type/XObject/Subtype/Form/BBox[0 0 9 9]/Resources<</XObject<</X {901 + level} 0 R>>>>"
        forms[900 + level] = stream(inner, entries)
    return pdf([[("DRAW", 0, 0)]], more=forms)


def locked_package() -> bytes:
    """The beginning of a DOCX or XLSX with a password: a compound file with one stream of that name."""
    return b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(1500) + "EncryptedPackage".encode("utf-16-le") + bytes(900)


def entity_docx() -> bytes:
    """A document with entities that stand for a billion characters."""
    declared = '<!ENTITY a "头头头头头头头头头头">' + "".join(
        f'<!ENTITY {chr(98 + n)} "{f"&{chr(97 + n)};" * 10}">' for n in range(8)
    )
    body = f'<!DOCTYPE w [{declared}]><w:document xmlns:w="{WORD}"><w:body>{paragraph("&i;")}</w:body></w:document>'
    return docx("", **{"word/document.xml": body.encode()})


def long_docx(mib: int = 400) -> bytes:
    """A document with a paragraph that is 1,000 times as long as the file."""
    start, end = f'<w:document xmlns:w="{WORD}"><w:body><w:p><w:r><w:t>', "</w:t></w:r></w:p></w:body></w:document>"
    return docx("", **{"word/document.xml": start.encode() + b"a" * (mib << 20) + end.encode()})
