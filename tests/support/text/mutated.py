"""Damaged and forged files: real ones with bytes removed, repeated, replaced or taken from another."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

TRICKY = (
    b"\0",
    b"\xff",
    b"\n",
    b"\r",
    b'"',
    b"\\",
    b"{",
    b"[",
    b",",
    b"\t",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    b"\\ud83d",
    b"\x1b[2K",
    b"<!--",
    b"<script>",
    b"]]>",
    b"&#x110000;",
    b"1e999",
    b"99999999999999999999",
    b"-1",
    b"\xff\xff\xff\xff",
    b"\x80\0\0\0",
    "痛".encode("gb18030"),
    "痛".encode("utf-16-le"),
)
"""Bytes that mean something to some reader."""


@st.composite
def mutated(draw: st.DrawFn, seeds: Sequence[bytes], most: int = 6) -> bytes:
    """Draw one of the files, changed in a few places."""
    data = draw(st.sampled_from(list(seeds)))
    for _ in range(draw(st.integers(0, most))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.integers(0, 40)))
        piece = draw(
            st.one_of(
                st.just(b""),
                st.sampled_from(TRICKY),
                st.binary(max_size=8),
                st.just(data[start:end] * draw(st.integers(2, 5))),
                st.sampled_from(list(seeds)).map(lambda other: other[:40]),
            )
        )
        data = data[:start] + piece + data[end:]
    return data
