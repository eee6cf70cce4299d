"""Length counts equal those of counting text by text, and their sums do not overflow."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from infra.schemas import conform
from tasks.segment.lengths import LENGTH_BINS, length_counts, measured

TEXTS = st.lists(
    st.tuples(st.sampled_from(["dialogue", "article", "emr"]), st.text("高a😀 ", max_size=70)), max_size=30
)


@given(TEXTS, st.integers(1, 7))
def test_counts_equal_counting_text_by_text(texts: list[tuple[str, str]], size: int) -> None:
    batches = [texts[first : first + size] for first in range(0, len(texts), size)]
    tables = [
        pa.table({"source": [source for source, _ in batch], "text": [text for _, text in batch]}) for batch in batches
    ]
    rows, lengths, sizes = Counter[tuple[str, int]](), Counter[tuple[str, int]](), Counter[tuple[str, int]]()
    for source, text in texts:
        place = (source, max(bin_ for bin_, low in enumerate(LENGTH_BINS) if len(text) >= low))
        rows[place] += 1
        lengths[place] += len(text)
        sizes[place] += len(text.encode())
    found = conform(length_counts("documents", [measured(table) for table in tables]), "lengths").to_pylist()
    assert [tuple(row.values()) for row in found] == [
        ("documents", *place, rows[place], lengths[place], sizes[place]) for place in sorted(rows)
    ]


def test_sums_of_32_bit_lengths_do_not_overflow() -> None:
    longest = 2**31 - 1
    table = pa.table({"source": ["emr"] * 3, "text": ["文"] * 3, "tokens": pa.array([longest] * 3, pa.int32())})
    (row,) = length_counts("segments", [measured(table, "tokens")]).to_pylist()
    assert (row["rows"], row["length"], row["bytes"]) == (3, 3 * longest, 9)
    assert row["bin"] == len(LENGTH_BINS) - 1


def test_bins_begin_at_powers_of_two() -> None:
    assert [0, *(2**power for power in range(5, 15))] == LENGTH_BINS
