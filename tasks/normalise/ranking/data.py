"""Training and dev data of a ranker's trials: retrieved once, stored as Parquet, and read by each process.

Memory and file sizes grow with the number of pairs and of candidates of dev diagnoses.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import fsspec
import polars as pl

from infra.builds import open_scratch
from tasks.normalise.ranking.pairs import Pair
from tasks.retrieve.candidates import Candidate

PAIRS, DEV = "pairs.parquet", "dev.parquet"


@dataclass(frozen=True)
class LabelledDiagnoses:
    """Diagnoses with their candidates and correct terms."""

    texts: Sequence[str]
    parts: Sequence[int]
    """Number of parts of each diagnosis; see `tasks.normalise.ranking.decision.Judged`."""
    found: Sequence[Sequence[Candidate]]
    """Candidates of each diagnosis, best first."""
    gold: Sequence[tuple[str, ...]]
    """Correct terms of each diagnosis."""


@dataclass(frozen=True)
class RankerData:
    """Training pairs and dev data."""

    pairs: Sequence[Pair]
    dev: LabelledDiagnoses


def save_ranker_data(folder: str, pairs: Iterable[Pair], dev: LabelledDiagnoses) -> str:
    """Write both to an existing folder (path or URI).

    Returns:
        A digest of their content, 32 hex digits.
    """
    learnt = pl.DataFrame(list(pairs), schema=dict.fromkeys(Pair._fields[:2], pl.String) | {"right": pl.Boolean})
    scored = pl.DataFrame(
        {
            "text": dev.texts,
            "parts": dev.parts,
            "code": [[one.code for one in own] for own in dev.found],
            "term": [[one.term for one in own] for own in dev.found],
            "score": [[one.score for one in own] for own in dev.found],
            "gold": [list(own) for own in dev.gold],
        },
        schema={
            "text": pl.String,
            "parts": pl.Int64,
            "code": pl.List(pl.String),
            "term": pl.List(pl.String),
            "score": pl.List(pl.Float64),
            "gold": pl.List(pl.String),
        },
    )
    digest = hashlib.sha256()
    for name, frame in ((PAIRS, learnt), (DEV, scored)):
        with open_scratch(f"{folder}/{name}") as file:
            frame.write_parquet(file)
            digest.update(file.getvalue())  # trials on other pairs must not be reused
    return digest.hexdigest()[:32]


def load_ranker_data(folder: str) -> RankerData:
    """Read what `save_ranker_data` has written."""
    pairs, dev = (_read(f"{folder}/{name}") for name in (PAIRS, DEV))
    columns = [dev[name].to_list() for name in ("code", "term", "score")]
    found = [[Candidate(*one) for one in zip(*own, strict=True)] for own in zip(*columns, strict=True)]
    gold = [tuple(own) for own in dev["gold"].to_list()]
    labelled = LabelledDiagnoses(dev["text"].to_list(), dev["parts"].to_list(), found, gold)
    return RankerData([Pair(*row) for row in pairs.iter_rows()], labelled)


def _read(path: str) -> pl.DataFrame:
    with fsspec.open(path, "rb") as file:
        return pl.read_parquet(file)
