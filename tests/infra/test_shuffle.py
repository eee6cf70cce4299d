"""Rows sent between units of work arrive where they were sent, once and in order."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.shuffle import Shuffle


def rows_of(texts: list[str]) -> pl.DataFrame:
    lengths = pl.Series([len(text) for text in texts], dtype=pl.Int64)
    return pl.DataFrame({"text": pl.Series(texts, dtype=pl.String), "length": lengths})


@settings(max_examples=30, deadline=None)
@given(data=st.data(), senders=st.integers(1, 3), receivers=st.integers(1, 4))
def test_every_row_arrives_once_by_sender_and_in_order(data: st.DataObject, senders: int, receivers: int) -> None:
    row = st.tuples(st.text("头痛发热", max_size=9), st.integers(0, receivers - 1))
    sent = [data.draw(st.lists(row, max_size=8)) for _ in range(senders)]
    with tempfile.TemporaryDirectory() as folder:
        exchange = Shuffle(folder, "texts", senders, receivers)
        for sender, rows in reversed(list(enumerate(sent))):
            to = np.array([to for _, to in rows], dtype=np.int64)
            exchange.send(sender, rows_of([text for text, _ in rows]), to, note=len(rows))
        for receiver in range(receivers):
            wanted = [text for rows in sent for text, to in rows if to == receiver]
            assert exchange.receive(receiver).equals(rows_of(wanted))
            own = [text for text, to in sent[-1] if to == receiver]
            assert exchange.receive(receiver, [senders - 1]).equals(rows_of(own))
        counts = [[sum(to == receiver for _, to in rows) for receiver in range(receivers)] for rows in sent]
        assert exchange.counts().tolist() == counts
        assert exchange.notes() == [len(rows) for rows in sent]


def test_a_file_sent_again_is_the_same(tmp_path: Path) -> None:
    exchange = Shuffle(str(tmp_path), "texts", 1)
    exchange.send(0, rows_of(["头痛"]))
    [file] = tmp_path.iterdir()
    before = file.read_bytes()
    exchange.send(0, rows_of(["头痛"]))
    assert file.read_bytes() == before
    assert exchange.kept(0).equals(rows_of(["头痛"]))


def test_without_senders_the_columns_are_unknown(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="exchange texts has no senders"):
        Shuffle(str(tmp_path), "texts", 0).receive(0)
