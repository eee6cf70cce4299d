"""Zip archives as files: what members there are, and the bytes of one, without unpacking the archive.

The list of members stands at an archive's end. Where that is cut off, the members are found from the front, as far as
they are there. Memory: the list of members, and one block of one of them.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import BinaryIO

from tasks.files.access import BLOCK
from tasks.files.compression import DamagedArchiveError, unfold_member
from tasks.files.slices import ARCHIVES, Member

_LOCAL = struct.Struct("<4s5H3I2H")
_LOCAL_SIGNATURE, _DESCRIPTOR_SIGNATURE = b"PK\3\4", b"PK\7\10"
_DEFLATED = 8
_ENCRYPTED, _SIZES_FOLLOW, _UTF_8 = 0x1, 0x8, 0x800
_ZIP64 = 0xFFFFFFFF


def list_members(file: BinaryIO) -> tuple[list[tuple[str, Member]], str]:
    """The files of a zip by name, and what is wrong with the archive as a whole (empty where nothing is).

    Folders and hidden names are left out; members that must not be read carry their refusal. A name that comes
    again gets a number.
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
        damage = "" if is_reported else f"its list of members is not readable: {error}"
    seen: Counter[str] = Counter()
    members = []
    for name, member in found:
        if name.endswith("/") or any(part.startswith(".") for part in name.split("/")):
            continue
        seen[name] += 1
        members.append((f"{seen[name]}~/{name}" if seen[name] > 1 else name, _checked(name, member)))
    return members, damage


def member_blocks(file: BinaryIO, member: Member) -> Iterator[bytes]:
    """The bytes of a member, decompressed and held to the size and checksum that its archive gives.

    Raises:
        DamagedArchiveError: at the end of what could be read.
    """
    file.seek(_start_of_data(file, member))
    crc = size = 0
    for block in unfold_member(_packed_blocks(file, member.packed), member.method):
        crc, size = zlib.crc32(block, crc), size + len(block)
        if 0 <= member.size < size:
            raise DamagedArchiveError("the member holds more than its archive says")
        yield block
    if 0 <= member.size != size:
        raise DamagedArchiveError("the member ends too early")
    if 0 <= member.crc != crc:
        raise DamagedArchiveError("the member does not fit its checksum")


def _packed_blocks(file: BinaryIO, left: int) -> Iterator[bytes]:
    while left and (block := file.read(BLOCK if left < 0 else min(BLOCK, left))):
        left -= len(block) if left > 0 else 0
        yield block


def _start_of_data(file: BinaryIO, member: Member) -> int:
    file.seek(member.offset)
    header = file.read(_LOCAL.size)
    if len(header) < _LOCAL.size or not header.startswith(_LOCAL_SIGNATURE):
        raise DamagedArchiveError("there is no member at the place that the archive's list says")
    name_bytes, extra_bytes = _LOCAL.unpack(header)[-2:]
    return member.offset + _LOCAL.size + name_bytes + extra_bytes


def _member_of(info: zipfile.ZipInfo) -> Member:
    member = Member(info.header_offset, info.compress_type, info.compress_size, info.file_size, info.CRC)
    return _refused(member, "damaged_archive", "the member is encrypted") if info.flag_bits & _ENCRYPTED else member


def _name_of(info: zipfile.ZipInfo) -> str:
    return info.filename if info.flag_bits & _UTF_8 else _decoded_name(info.orig_filename.encode("cp437", "replace"))


def _decoded_name(raw: bytes) -> str:
    """Names without a mark are in what their machine spoke; Windows in China speaks GB18030."""
    for encoding in ("utf-8", "gb18030"):
        try:
            return raw.decode(encoding).replace("\\", "/").replace("\0", "")
        except UnicodeDecodeError:
            continue
    return raw.decode("cp437")


def _checked(name: str, member: Member) -> Member:
    if name.lower().rpartition(".")[2] in ARCHIVES and not member.refusal:
        return _refused(member, "nested_archive", "archives within an archive are not opened; unpack the outer one")
    return member


def _refused(member: Member, reason: str, detail: str) -> Member:
    return replace(member, refusal=reason, detail=detail)


def _without_overlaps(found: list[tuple[str, Member]], size: int) -> list[tuple[str, Member]]:
    """Members that share bytes of the archive unfold to more than it can hold: the mark of a bomb."""
    end = 0
    checked = list(found)
    for index in sorted(range(len(found)), key=lambda index: found[index][1].offset):
        name, member = found[index]
        if member.offset < end or member.offset + member.packed > size:
            reason = "damaged_archive" if member.offset >= end else "archive_bomb"
            checked[index] = (name, _refused(member, reason, "the member lies where another one or nothing is"))
        else:
            end = member.offset + _LOCAL.size + member.packed
    return checked


def _found_from_the_front(file: BinaryIO) -> tuple[list[tuple[str, Member]], bool]:
    """Members in the order in which they lie, and whether the last of them will report the damage."""
    found: list[tuple[str, Member]] = []
    offset = 0
    while True:
        file.seek(offset)
        header = file.read(_LOCAL.size)
        if len(header) < _LOCAL.size or not header.startswith(_LOCAL_SIGNATURE):
            return found, False
        _, _, flags, method, _, _, crc, packed, size, name_bytes, extra_bytes = _LOCAL.unpack(header)
        raw = file.read(name_bytes)
        if len(raw) < name_bytes:
            return found, False
        name = raw.decode("utf-8", "replace") if flags & _UTF_8 else _decoded_name(raw)
        start = offset + _LOCAL.size + name_bytes + extra_bytes
        member = Member(offset, method)
        if flags & _ENCRYPTED:
            member = _refused(member, "damaged_archive", "the member is encrypted")
        if not flags & _SIZES_FOLLOW and packed != _ZIP64:
            member = replace(member, packed=packed, size=size, crc=crc)
            offset = start + packed
            found.append((name, member))
            if offset > file.seek(0, 2):
                return found, True
            continue
        if method != _DEFLATED or flags & _ENCRYPTED:
            found.append((name, _refused(member, "damaged_archive", "where it ends was told in the lost list only")))
            return found, False
        found.append((name, member))
        end = _end_of_stream(file, start)
        if end is None:
            return found, True
        offset = end


def _end_of_stream(file: BinaryIO, start: int) -> int | None:
    """Where the header after a deflated member begins that does not say its size; None where it is cut."""
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
    tail = file.read(24 + 4)
    return next((end + at for at in (12, 16, 20, 24) if tail[at:].startswith(_LOCAL_SIGNATURE)), end + 16)
