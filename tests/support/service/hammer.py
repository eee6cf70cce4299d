"""Bad requests over plain sockets, drawn from a seed: what no HTTP client would send."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable

PATHS = ("/normalise", "/predict/cmeee", "/link", "/deidentify")
PATIENCE = 40.0
"""Seconds in which a connection must come to an end."""

Draw = random.Random


def _request(path: str, body: bytes, *headers: str, method: str = "POST", length: bool = True) -> bytes:
    own = [*headers, *([f"Content-Length: {len(body)}"] if length else [])]
    if not any(one.lower().startswith("content-type") for one in headers):
        own.append("Content-Type: application/json")
    lines = "".join(f"{one}\r\n" for one in (f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", *own, "Connection: close"))
    return lines.encode("latin-1") + b"\r\n" + body


def _noise(draw: Draw) -> bytes:
    return draw.randbytes(draw.randint(1, 3_000)) + b"\r\n\r\n"


def _random_body(draw: Draw) -> bytes:
    return _request(draw.choice(PATHS), draw.randbytes(draw.randint(0, 5_000)))


def _invalid_text(draw: Draw) -> bytes:
    broken = draw.choice(
        [b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", "头".encode()[:2], b"\\ud800", b"\\uZZZZ", b"\x00"]
    )
    return _request(draw.choice(PATHS), b'{"texts":["' + broken * draw.randint(1, 50) + b'"]}')


def _deep(draw: Draw) -> bytes:
    depth = draw.randint(200, 60_000)
    inside = draw.choice([b"[" * depth + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth, b"[" * depth])
    return _request(draw.choice(PATHS), b'{"texts":' + inside + b"}")


def _wrong_types(draw: Draw) -> bytes:
    value = draw.choice(
        [b"1", b"null", b"true", b'"a"', b"{}", b"[1]", b"[null]", b"[[]]", b'[["a","b"],1]', b"1e999", b"-0", b"[{}]"]
    )
    more = draw.choice([b"", b',"candidates":-1', b',"explain":"yes"', b',"candidates":1e999', b',"x":1'])
    name = draw.choice([b'"texts"', b'"text"', b'"TEXTS"', b'""'])
    return _request(draw.choice(PATHS), b"{" + name + b":" + value + more + b',"never":0}')


def _huge_number(draw: Draw) -> bytes:
    digits = b"9" * draw.choice([400, 5_000, 100_000])
    return _request(
        draw.choice(PATHS), b'{"texts":[' + draw.choice([digits, digits + b"e" + b"9" * 50, b"-" + digits]) + b"]}"
    )


def _wrong_length(draw: Draw) -> bytes:
    length = draw.choice(["-1", "abc", "1e3", "99999999999999999999", "100000000", "0x10", "5", "+5", ""])
    return _request(draw.choice(PATHS), b'{"texts":["a"]}', f"Content-Length: {length}", length=False)


def _wrong_chunks(draw: Draw) -> bytes:
    chunks = draw.choice(
        [
            b"zz\r\nabc\r\n",
            b"5\r\nabc",
            b"ffffffffffffffffff\r\n",
            b"-1\r\n\r\n",
            b"3;x=" + b"y" * 3_000 + b"\r\nabc\r\n0\r\n\r\n",
        ]
    )
    return _request(draw.choice(PATHS), chunks, "Transfer-Encoding: chunked", length=False)


def _both_lengths(draw: Draw) -> bytes:
    return _request(
        draw.choice(PATHS),
        b"0\r\n\r\nGET / HTTP/1.1\r\n\r\n",
        "Transfer-Encoding: chunked",
        "Content-Length: 4",
        length=False,
    )


def _wrong_place(draw: Draw) -> bytes:
    path = draw.choice(
        [
            "/../../etc/passwd",
            "/%00",
            "/%ff%fe",
            "/predict/%2e%2e",
            "/" + "a" * 9_000,
            "//normalise",
            "/normalise/",
            "/predict/",
            "*",
        ]
    )
    return _request(path, b"{}", method=draw.choice(["GET", "POST", "PUT", "TRACE", "PATCH", "BREW"]))


def _wrong_headers(draw: Draw) -> bytes:
    header = draw.choice(
        [
            "X: " + "y" * 200_000,
            "Content-Type: text/plain",
            "Content-Type: application/xml",
            "Content-Encoding: gzip",
            "Transfer-Encoding: gzip, chunked",
            "Upgrade: websocket",
            "Authorization: Bearer \xff\xfe",
            "Host: other.example",
        ]
    )
    return _request(draw.choice(PATHS), b"{}", header)


def _other_protocol(draw: Draw) -> bytes:
    return draw.choice(
        [
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"GET /\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
            b"SSH-2.0-x\r\n\r\n",
            b"\r\n" * 500,
        ]
    )


KINDS: tuple[Callable[[Draw], bytes], ...] = (
    _noise, _random_body, _invalid_text, _deep, _wrong_types, _huge_number, _wrong_length, _wrong_chunks, _both_lengths,
    _wrong_place, _wrong_headers, _other_protocol,
)  # fmt: skip


async def send_bad(port: int, count: int, seed: int = 0, clients: int = 24) -> Counter[int]:
    """Send so many bad requests and return how often each status came back; 0 where the connection just ended.

    Every eighth client leaves before it reads an answer. Some of the requests are valid as far as they go.
    """
    statuses: Counter[int] = Counter()
    numbers = iter(range(count))

    async def client() -> None:
        for number in numbers:
            draw = random.Random(f"{seed} {number}")
            data = draw.choice(KINDS)(draw)
            statuses[await _exchange(port, data, leaves=number % 8 == 0)] += 1

    await asyncio.gather(*(client() for _ in range(clients)))
    return statuses


async def _exchange(port: int, data: bytes, leaves: bool) -> int:
    async with asyncio.timeout(PATIENCE):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        answer = b""
        with contextlib.suppress(OSError):
            writer.write(data)
            if not leaves:
                if writer.can_write_eof():
                    await writer.drain()
                    writer.write_eof()
                answer = await reader.read(4_096)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    parts = answer.split(b" ", 2)
    return int(parts[1]) if len(parts) > 2 and parts[0].startswith(b"HTTP/") else 0


async def stream(port: int, megabytes: int, length: int | None) -> bytes:
    """Send a body of so many megabytes, in chunks or under a Content-Length, and return the beginning of the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    writer.write(_request("/deidentify", b"", head, length=False))
    part = b'{"texts":["' + b"a" * ((1 << 20) - 11)
    with contextlib.suppress(OSError):
        for _ in range(megabytes):
            writer.write(part if length is not None else b"%x\r\n%s\r\n" % (len(part), part))
            await writer.drain()
    answer = b""
    with contextlib.suppress(OSError):
        answer = await reader.read(4_096)
    writer.close()
    return answer


async def end_of(reader: asyncio.StreamReader) -> bytes:
    """Wait until a connection ends; returns what it sent."""
    found = b""
    with contextlib.suppress(OSError):
        while part := await reader.read(4_096):
            found += part
    return found


@contextlib.asynccontextmanager
async def slow_clients(port: int, count: int) -> AsyncIterator[list[asyncio.StreamReader]]:
    """Hold connections that send a byte of their headers, or of their body, every second."""
    held: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
    for _ in range(count):
        held.append(await asyncio.open_connection("127.0.0.1", port))
    for number, (_, writer) in enumerate(held):
        if number % 2:
            writer.write(_request("/link", b"", "Content-Length: 1000", length=False))

    async def trickle() -> None:
        while True:
            for _, writer in held:
                if not writer.transport.is_closing():
                    writer.write(b"X")
            await asyncio.sleep(1)

    trickling = asyncio.create_task(trickle())
    try:
        yield [reader for reader, _ in held]
    finally:
        trickling.cancel()
        for _, writer in held:
            writer.close()
