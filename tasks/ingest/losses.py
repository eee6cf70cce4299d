"""Files of a corpus that lost many of their rows, as the table `files` of an artifact of `ingest` has them.

A wrong field loses all rows of a file, and the run goes on. So what is lost of each file is counted and said. Time and
memory grow with the number of files that lost a row; the others are only counted.
"""

from __future__ import annotations

from collections.abc import Set
from typing import NamedTuple

import polars as pl

from infra.artifacts import Artifact
from tasks.deidentify.document_persons import harmless_path

MANY = 0.1
"""Share of a file's rows above which it is reported."""

SHOWN = 3
"""Number of the commonest reasons that are named."""

WITHOUT_TEXT = "missing_text"
"""Reason of a row that lacks the field of the text."""

WARNED = 10
"""Number of files that are named in warnings, those with most lost rows first."""


class Loss(NamedTuple):
    """A file that lost many of its rows."""

    file: str
    rows: int
    rejected: int
    reasons: tuple[tuple[str, int], ...]
    """The commonest reasons, each with its rows."""
    detail: str = ""
    """Why the first row without a text has none, where that is the commonest reason: which fields it has."""

    @property
    def share(self) -> float:
        """Share of the rows that were rejected."""
        return self.rejected / self.rows

    def sentence(self) -> str:
        """Return the loss in words, which name no identifier."""
        why = ", ".join(f"{reason} {rows:,}" for reason, rows in self.reasons)
        said = f"{harmless_path(self.file)}: {self.rejected:,} of {self.rows:,} rows were rejected ({why})"
        return f"{said}: {self.detail}" if self.detail else said


def losses(ingested: Artifact) -> list[Loss]:
    """Return the files that lost more than `MANY` of their rows, those with most lost rows first."""
    if "files" not in ingested.manifest.tables:
        return []
    files = ingested.scan("files")
    damaged = files.filter(pl.col("documents") < pl.col("rows")).select("file").unique()
    sums = (
        files.join(damaged, on="file", how="semi")
        .group_by("file")
        .agg(pl.col("rows").sum(), rejected=pl.col("rows").sum() - pl.col("documents").sum())
        .filter(pl.col("rejected") > MANY * pl.col("rows"))
        .sort("rejected", "file", descending=[True, False])
        .collect(engine="streaming")
    )
    reasons = (
        files.join(sums.lazy().select("file"), on="file", how="semi")
        .select("file", pl.col("rejected").alias("one"))
        .explode("one")
        .unnest("one")
        .drop_nulls("reason")
        .group_by("file", "reason")
        .agg(pl.col("rows").sum())
        .sort("rows", "reason", descending=[True, False])
        .collect(engine="streaming")
    )
    by_file: dict[str, list[tuple[str, int]]] = {}
    for file, reason, rows in reasons.iter_rows():
        by_file.setdefault(file, []).append((reason, rows))
    details = _details(ingested, {file for file, found in by_file.items() if found[0][0] == WITHOUT_TEXT})
    return [
        Loss(file, rows, rejected, tuple(by_file.get(file, ())[:SHOWN]), details.get(file, ""))
        for file, rows, rejected in sums.iter_rows()
    ]


def _details(ingested: Artifact, files: Set[str]) -> dict[str, str]:
    """Return the detail of a row without text by file."""
    if not files:
        return {}
    rows = (
        ingested.scan("rejects")
        .filter(pl.col("reason") == WITHOUT_TEXT)
        .with_columns(file=pl.col("doc_id").str.replace(r"#[^#]*$", ""))
        .filter(pl.col("file").is_in(sorted(files)))
        .group_by("file")
        .agg(pl.col("detail").sort_by("doc_id").first())
        .collect(engine="streaming")
    )
    return dict(rows.iter_rows())


def loss_warnings(ingested: Artifact) -> list[str]:
    """Return warnings about the files that lost many rows, with the remedy; none if there are none."""
    lost = losses(ingested)
    warnings = [loss.sentence() for loss in lost[:WARNED]]
    if len(lost) > WARNED:
        warnings.append(f"{len(lost) - WARNED:,} more files lost more than a tenth of their rows")
    if warnings:
        warnings[-1] += (
            f". The table rejects in {ingested.path} has each row with its reason. Correct the files, or name their "
            "fields with ingest.fields."
        )
        if any(harmless_path(loss.file) != loss.file for loss in lost[:WARNED]):
            warnings[-1] += " Names of files are shown without identifiers; the table files there has them whole."
    return warnings
