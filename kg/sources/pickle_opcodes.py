"""What the opcodes of a pickle ask for, looked at before an unpickler obeys them.

Python's unpickler makes its memo as long as the highest place that a pickle names: 7 bytes take 4 GB. Some opcodes take
as many bytes as they announce, whether or not those follow. So each place and each length is compared with the length
of the pickle, in one pass of machine code over its opcodes.
"""

from __future__ import annotations

import pickletools

import numpy as np
import numpy.typing as npt

from infra.arrays.compiled import compiled

PLACES = (b"r", b"q")
"""Opcodes that store an object at a place of the memo: LONG_BINPUT, with four bytes, and BINPUT, with one."""

_UNKNOWN, _LINE, _LINES, _STOP = -1, -2, -3, -4
_COUNTED = {pickletools.TAKEN_FROM_ARGUMENT1: 1, pickletools.TAKEN_FROM_ARGUMENT4: 4}
_COUNTED |= {pickletools.TAKEN_FROM_ARGUMENT4U: 4, pickletools.TAKEN_FROM_ARGUMENT8U: 8}


def _table() -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return, by opcode, the bytes of its argument, and how many of them count the bytes that follow."""
    sizes, counts = np.full(256, _UNKNOWN, np.int64), np.zeros(256, np.int64)
    for opcode in pickletools.opcodes:
        number = 0 if opcode.arg is None else opcode.arg.n
        place = ord(opcode.code)
        if opcode.name in ("GLOBAL", "INST"):  # two lines: module and name
            sizes[place] = _LINES
        elif opcode.name == "STOP":
            sizes[place] = _STOP
        elif number in _COUNTED:
            sizes[place] = counts[place] = _COUNTED[number]
        else:
            sizes[place] = _LINE if number == pickletools.UP_TO_NEWLINE else number
    return sizes, counts


_SIZES, _COUNTS = _table()


def misplaced(data: bytes) -> int:
    """Return the position of the first opcode that asks for more than a pickle's own length can account for; else -1.

    Opcodes that are cut off or unknown are left to the unpickler, which reports them.
    """
    return int(_misplaced(np.frombuffer(data, np.uint8), _SIZES, _COUNTS))


@compiled
def _misplaced(data, sizes, counts):  # type: ignore[no-untyped-def]
    end = len(data)
    place = 0
    while place < end:
        opcode = data[place]
        size = sizes[opcode]
        following = place + 1
        if size == -4 or size == -1:
            return -1
        if size == -2 or size == -3:
            number = 0
            for _ in range(-1 - size):
                while following < end and data[following] != 10:
                    if opcode == 112 and 48 <= data[following] <= 57 and number <= end:  # PUT, its place in digits
                        number = number * 10 + data[following] - 48
                    following += 1
                following += 1
            if number > end:
                return place
        else:
            if following + size > end:
                return -1
            counted = 0
            for byte in range(min(size, 8) - 1, -1, -1):
                if (counts[opcode] or opcode == 114) and counted <= end:
                    counted = counted * 256 + data[following + byte]
            if counted > end:
                return place
            following += size + (counted if counts[opcode] else 0)
        place = following
    return -1
