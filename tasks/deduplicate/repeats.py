"""Repeats of a large corpus: which documents to drop, found by units of work over partitions of the keys.

    sketches, near ─▶ keys (by a text's own key) ─▶ repeats (by the key of the text that stays) ─▶ ids ─▶ drops

A repeat has the key of an earlier document, or that of a text that is dropped for another. The drops are those of
`find_drops` over all documents at once.

Time grows with the documents. Memory: one partition (`documents_per_bucket`, about 125 bytes per document) or the drops
of one part; the stage's own process holds some numbers per part.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa

from infra import schemas
from infra.artifacts import Artifact, Part
from infra.builds import PartWriter, open_scratch
from infra.disk.packed import StoredBytes, packed
from infra.shuffle import Shuffle
from infra.stage import Output
from tasks.deduplicate.partitions import borders_of, partition_of, within_parts
from tasks.deduplicate.sketches import KEY


@dataclass(frozen=True)
class Plan:
    """How the work is cut, and the exchanges between its steps. A plain value: with it units are recognised."""

    scratch: str
    partitions: int
    near_parts: int
    sketch_borders: tuple[int, ...]
    document_borders: tuple[int, ...]

    def exchange(self, name: str, senders: int | None = None, receivers: int | None = None) -> Shuffle:
        """Return an exchange between partitions; for parts as senders or receivers their number is given."""
        return Shuffle(
            self.scratch,
            name,
            self.partitions if senders is None else senders,
            self.partitions if receivers is None else receivers,
        )

    @property
    def sketch_parts(self) -> int:
        """Number of parts of the sketches."""
        return len(self.sketch_borders) - 1

    @property
    def document_parts(self) -> int:
        """Number of parts of the documents."""
        return len(self.document_borders) - 1


def drops_in_partitions(
    documents: Sequence[Part], sketches: Sequence[Part], near: Artifact, out: Output, partitions: int
) -> list[StoredBytes]:
    """Find the documents to drop.

    Returns:
        For each part of documents a packed table as in `PartDrops.drops`, in the scratch folder.
    """
    leaders = near.parts("near")
    plan = Plan(out.scratch, partitions, len(leaders), borders_of(sketches), borders_of(documents))
    out.prepare(send_keys, list(enumerate(sketches)), plan)
    out.prepare(send_leaders, list(enumerate(leaders)), plan)
    out.prepare(send_followers, range(partitions), plan)
    out.prepare(send_repeats, range(partitions), plan)
    out.prepare(send_ids, list(enumerate(sketches)), plan)
    out.prepare(send_drops, range(partitions), plan)
    out.prepare(pack_drops, range(plan.document_parts), plan)
    return [StoredBytes.of(_drops_file(plan, number)) for number in range(plan.document_parts)]


def send_keys(writer: PartWriter, numbered: tuple[int, Part], plan: Plan) -> None:
    """Send the keys of a part of the sketches to their partitions, with rows that count across all parts."""
    number, part = numbered
    keys = pl.DataFrame(part.read(columns=KEY))
    first = plan.sketch_borders[number]
    keys = keys.with_columns(row=pl.Series(np.arange(first, first + len(keys))))
    to = partition_of(keys["key_high"], plan.partitions)
    plan.exchange("keys", plan.sketch_parts).send(number, keys, to)


def send_leaders(writer: PartWriter, numbered: tuple[int, Part], plan: Plan) -> None:
    """Send a part of the near duplicates to the partitions of the texts that are dropped."""
    number, part = numbered
    near = pl.DataFrame(part.read())
    plan.exchange("leaders", plan.near_parts).send(number, near, partition_of(near["key_high"], plan.partitions))


def send_followers(writer: PartWriter, partition: int, plan: Plan) -> None:
    """Send the documents whose text is dropped for another to the partition of that text."""
    found = _keys(plan, partition).join(_leaders(plan, partition), on=KEY)
    followers = found.select(key_high="kept_high", key_low="kept_low", similarity="similarity", row="row")
    plan.exchange("followers").send(partition, followers, partition_of(followers["key_high"], plan.partitions))


def send_repeats(writer: PartWriter, partition: int, plan: Plan) -> None:
    """Ask for the ids of the documents that share the key of the text that stays for them."""
    own = _keys(plan, partition).join(_leaders(plan, partition), on=KEY, how="anti")
    own = own.select(*KEY, pl.lit(None, pl.Float64).alias("similarity"), "row")
    keyed = pl.concat([own, plan.exchange("followers").receive(partition)])
    # Comparing half of the key first is quick, and leaves few rows to compare by the whole key.
    repeated = keyed.filter(pl.col("key_high").is_duplicated()).filter(pl.struct(KEY).is_duplicated())
    part, _ = within_parts(repeated["row"], plan.sketch_borders)
    plan.exchange("repeats", receivers=plan.sketch_parts).send(partition, repeated, part)


def send_ids(writer: PartWriter, numbered: tuple[int, Part], plan: Plan) -> None:
    """Send repeats in a part of the sketches back to the partitions of their keys, with their ids."""
    number, part = numbered
    repeated = plan.exchange("repeats", receivers=plan.sketch_parts).receive(number)
    ids = pl.Series("doc_id", [], dtype=pl.String)
    if len(repeated):
        _, row = within_parts(repeated["row"], plan.sketch_borders)
        ids = pl.Series(part.read(columns=["doc_id"])["doc_id"].take(pa.array(row)))
    named = repeated.with_columns(doc_id=ids)
    plan.exchange("ids", plan.sketch_parts).send(number, named, partition_of(named["key_high"], plan.partitions))


def send_drops(writer: PartWriter, partition: int, plan: Plan) -> None:
    """Choose the document that stays for each text of a partition, and send the others to their parts."""
    drops = find_drops(plan.exchange("ids", plan.sketch_parts).receive(partition))
    part, _ = within_parts(drops["row"], plan.document_borders)
    plan.exchange("drops", receivers=plan.document_parts).send(partition, drops, part)


def pack_drops(writer: PartWriter, number: int, plan: Plan) -> None:
    """Write the drops of one part of documents, whose rows then count from the part's first."""
    drops = plan.exchange("drops", receivers=plan.document_parts).receive(number).sort("row")
    drops = drops.with_columns(row=(pl.col("row") - plan.document_borders[number]).cast(pl.UInt64))
    with open_scratch(_drops_file(plan, number)) as file:
        file.write(packed(drops))


def find_drops(keyed: pl.DataFrame) -> pl.DataFrame:
    """Return the rows to drop, and for which document each is dropped.

    Args:
        keyed: columns key_high and key_low (of the text that stays for this one), similarity (to it; null where it is
            the same text), doc_id and row, in any order of rows.

    Returns:
        Columns row, kept_id and similarity, ordered by row; the order of the input changes nothing.
    """
    # The document that stays comes first: of those with the very text that stays, the one with the smallest id.
    ordered = keyed.sort(*KEY, pl.col("similarity").is_not_null(), "doc_id", "row")
    named = ordered.with_columns(kept_id=pl.col("doc_id").first().over(KEY), stays=pl.struct(KEY).is_first_distinct())
    return named.filter(~pl.col("stays")).select("row", "kept_id", "similarity").sort("row")


def _keys(plan: Plan, partition: int) -> pl.DataFrame:
    return plan.exchange("keys", plan.sketch_parts).receive(partition)


def _leaders(plan: Plan, partition: int) -> pl.DataFrame:
    """Return the near duplicates among the texts of a partition."""
    if not plan.near_parts:
        return pl.DataFrame(schemas.NEAR.empty_table())
    return plan.exchange("leaders", plan.near_parts).receive(partition)


def _drops_file(plan: Plan, number: int) -> str:
    return posixpath.join(plan.scratch, f"packed-drops-{number:06d}")
