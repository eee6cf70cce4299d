"""Zip archives: the list of members and the bytes of one member, without unpacking the archive.

The list of members is stored at the end of an archive. If the end is cut off, the remaining members are found from the
front. Memory holds the list of members and one block of one of them.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import BinaryIO, NamedTuple

from tasks.files.access import BLOCK
from tasks.files.compression import COPY_AGAIN, DamagedArchiveError, unfold_member
from tasks.files.slices import ARCHIVES, Member

_LOCAL = struct.Struct("<4s5H3I2H")
"""The header before a member's data: signature, version, flags, method, time, date, CRC, packed size, size, bytes of
the name and of the extra field."""
_LOCAL_SIGNATURE = b"PK\3\4"
_DEFLATED = 8
_ENCRYPTED, _SIZES_FOLLOW, _UTF_8 = 0x1, 0x8, 0x800
"""Bits of the flags."""
_ZIP64 = 0xFFFFFFFF
"""A packed size that is given in the extra field instead."""

_IS_ENCRYPTED = "the member is encrypted; store it without a password"


def list_members(file: BinaryIO) -> tuple[list[tuple[str, Member]], str]:
    """Return the files of a zip by name, and the damage to the archive as a whole (empty if there is none).

    Folders and hidden names are left out. Members that must not be read carry their refusal. Repeated names are
    numbered: the second `a.txt` becomes `2~/a.txt`.
    """
    size = file.seek(0, 2)
    damage = ""
    try:
        with zipfile.ZipFile(file) as archive:
            found = [(_name_of(info), _member_of(info)) for info in archive.infolist()]
        found = _without_overlaps(found, size)
    except (
        zipfile.BadZipFile,
        zlib.error,
        NotImplementedError,
        ValueError,
        EOFError,
        OverflowError,
        struct.error,
    ) as error:
        found, is_reported = _found_from_the_front(file)
        damage = "" if is_reported else f"its list of members is unreadable: {error}; copy or create the archive again"
    seen: Counter[str] = Counter()
    members = []
    for name, member in found:
        if name.endswith("/") or any(part.startswith(".") for part in name.split("/")):
            continue
        seen[name] += 1
        members.append((f"{seen[name]}~/{name}" if seen[name] > 1 else name, _checked(name, member)))
    return members, damage


def member_blocks(file: BinaryIO, member: Member) -> Iterator[bytes]:
    """Yield the decompressed bytes of a member, checked against the size and checksum that its archive gives.

    Raises:
        DamagedArchiveError: after the last readable byte.
    """
    file.seek(_start_of_data(file, member))
    crc = size = 0
    for block in unfold_member(_packed_blocks(file, member.packed), member.method):
        crc, size = zlib.crc32(block, crc), size + len(block)
        if 0 <= member.size < size:
            raise DamagedArchiveError(f"the member is larger than its archive says; {COPY_AGAIN}")
        yield block
    if 0 <= member.size != size:
        raise DamagedArchiveError(f"the member ends too early; {COPY_AGAIN}")
    if 0 <= member.crc != crc:
        raise DamagedArchiveError(f"the member does not match its checksum; {COPY_AGAIN}")


def _packed_blocks(file: BinaryIO, left: int) -> Iterator[bytes]:
    """Yield `left` bytes of a file, or all up to its end if `left` is negative."""
    while left and (block := file.read(BLOCK if left < 0 else min(BLOCK, left))):
        left -= len(block) if left > 0 else 0
        yield block


def _start_of_data(file: BinaryIO, member: Member) -> int:
    file.seek(member.offset)
    header = file.read(_LOCAL.size)
    if len(header) < _LOCAL.size or not header.startswith(_LOCAL_SIGNATURE):
        raise DamagedArchiveError(f"there is no member at the position given in the archive's list; {COPY_AGAIN}")
    name_bytes, extra_bytes = _LOCAL.unpack(header)[-2:]
    return member.offset + _LOCAL.size + name_bytes + extra_bytes


def _member_of(info: zipfile.ZipInfo) -> Member:
    member = Member(info.header_offset, info.compress_type, info.compress_size, info.file_size, info.CRC)
    return _refused(member, "damaged_archive", _IS_ENCRYPTED) if info.flag_bits & _ENCRYPTED else member


def _name_of(info: zipfile.ZipInfo) -> str:
    return info.filename if info.flag_bits & _UTF_8 else _decoded_name(info.orig_filename.encode("cp437", "replace"))


def _decoded_name(raw: bytes) -> str:
    """Decode a name without the UTF-8 flag: it is in the encoding of its machine, on Windows in China GB18030."""
    for encoding in ("utf-8", "gb18030"):
        try:
            return raw.decode(encoding).replace("\\", "/").replace("\0", "")
        except UnicodeDecodeError:
            continue
    return raw.decode("cp437")


def _checked(name: str, member: Member) -> Member:
    if name.lower().rpartition(".")[2] in ARCHIVES and not member.refusal:
        return _refused(member, "nested_archive", "archives within an archive are not opened; unpack the outer archive")
    return member


def _refused(member: Member, reason: str, detail: str) -> Member:
    return replace(member, refusal=reason, detail=detail)


def _without_overlaps(found: list[tuple[str, Member]], size: int) -> list[tuple[str, Member]]:
    """Refuse members that share bytes of the archive, which is how a zip bomb multiplies its content."""
    end = 0
    checked = list(found)
    for index in sorted(range(len(found)), key=lambda index: found[index][1].offset):
        name, member = found[index]
        if member.offset < end or member.offset + member.packed > size:
            if member.offset >= end:
                refused = _refused(member, "damaged_archive", f"the member lies beyond the archive's end; {COPY_AGAIN}")
            else:
                refused = _refused(member, "archive_bomb", "the member shares bytes with another; remove the archive")
            checked[index] = (name, refused)
        else:
            end = member.offset + _LOCAL.size + member.packed
    return checked


def _found_from_the_front(file: BinaryIO) -> tuple[list[tuple[str, Member]], bool]:
    """Return members in the order of their bytes, and whether reading the last of them will report the damage."""
    found: list[tuple[str, Member]] = []
    offset = 0
    archive_size = file.seek(0, 2)
    while (header := _header_at(file, offset)) is not None:
        found.append((header.name, header.member))
        if header.has_sizes:
            offset = header.start + header.member.packed
            if offset > archive_size:
                return found, True
            continue
        # The sizes follow the data. Only a deflated stream shows its own end.
        if header.member.method != _DEFLATED or header.member.refusal:
            detail = f"its end was given only in the archive's list, which is missing; {COPY_AGAIN}"
            found[-1] = (header.name, _refused(header.member, "damaged_archive", detail))
            return found, False
        end = _end_of_stream(file, header.start)
        if end is None:
            return found, True
        offset = end
    return found, False


class _Header(NamedTuple):
    """The header before a member's data."""

    name: str
    member: Member
    start: int
    """Position of the data."""
    has_sizes: bool
    """False if the sizes follow the data, or are in the extra field."""


def _header_at(file: BinaryIO, offset: int) -> _Header | None:
    """Return the header of the member that begins at a position, or None if there is no whole one."""
    file.seek(offset)
    header = file.read(_LOCAL.size)
    if len(header) < _LOCAL.size or not header.startswith(_LOCAL_SIGNATURE):
        return None
    _, _, flags, method, _, _, crc, packed, size, name_bytes, extra_bytes = _LOCAL.unpack(header)
    raw = file.read(name_bytes)
    if len(raw) < name_bytes:
        return None
    name = raw.decode("utf-8", "replace") if flags & _UTF_8 else _decoded_name(raw)
    has_sizes = not flags & _SIZES_FOLLOW and packed != _ZIP64
    member = Member(offset, method, packed, size, crc) if has_sizes else Member(offset, method)
    if flags & _ENCRYPTED:
        member = _refused(member, "damaged_archive", _IS_ENCRYPTED)
    return _Header(name, member, offset + _LOCAL.size + name_bytes + extra_bytes, has_sizes)


def _end_of_stream(file: BinaryIO, start: int) -> int | None:
    """Return the position of the header after a deflated member without sizes, or None if the member is cut off."""
    file.seek(start)
    stream = zlib.decompressobj(wbits=-15)
    try:
        while not stream.eof and (block := stream.unconsumed_tail or file.read(BLOCK)):
            stream.decompress(block, 1 << 20)
    except zlib.error:
        return None
    if not stream.eof:
        return None
    end = file.tell() - len(stream.unused_data)
    file.seek(end)
    # The sizes follow in 12 to 24 bytes: with a signature or without, of 32 bits or of 64.
    tail = file.read(24 + 4)
    return next((end + at for at in (12, 16, 20, 24) if tail[at:].startswith(_LOCAL_SIGNATURE)), end + 16)
