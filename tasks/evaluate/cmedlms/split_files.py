"""Files of a made task: train, dev and test at 8:1:1, by a hash of what a record is about."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from infra.stage import Output
from tasks.documents import share_of

SHARES = {"train": 0.8, "dev": 0.9, "test": 1.0}
"""Upper bound of each split's share."""


class Made(NamedTuple):
    """A record that was made."""

    about: str
    """What it is about; all records about the same are in one split."""
    label: Any
    text: str


def write_tsv(out: Output, records: Iterable[Made], purpose: str, seed: int) -> None:
    """Write `train.tsv`, `dev.tsv` and `test.tsv`, label<tab>text."""
    for split, rows in _by_split(records, purpose, seed).items():
        lines = "".join(f"{row.label}\t{row.text}\n" for row in rows)
        out.add_bytes(f"{split}.tsv", lines.encode("utf-8", "replace"))
        out.count(f"records_{split}", len(rows))


def json_lines(records: Iterable[Made]) -> bytes:
    """Return the records as JSON lines with `text` and `labels`."""
    rows = (json.dumps({"text": row.text, "labels": row.label}, ensure_ascii=False) + "\n" for row in records)
    return "".join(rows).encode("utf-8", "replace")


def _by_split(records: Iterable[Made], purpose: str, seed: int) -> dict[str, list[Made]]:
    found: dict[str, list[Made]] = {split: [] for split in SHARES}
    for record in records:
        share = share_of(record.about, purpose, seed)
        found[next(split for split, bound in SHARES.items() if share < bound)].append(record)
    return found
