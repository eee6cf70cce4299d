"""Near duplicates of a large corpus: what `near` does in one process, as units of work over partitions of the texts.

    candidates ─▶ distinct pairs ─▶ promising pairs ─▶ components, by rounds ─▶ clusters ─▶ buckets
    sketches ──▶ rows of the texts in pairs ─▶ fingerprints ┘    (star_rounds.py)        └─▶ texts, part by part

Every arrow is a `Shuffle`: texts meet by the partition of their key, pairs by that of one end and then of the other,
clusters by that of their smallest text. A text is known by its place: its partition and its rank among the partition's
texts. Places ascend with the keys, as they do in one process. So clusters, buckets and bytes are those of one process.

Time grows with the rows, and with rounds as in `star_rounds.py`. Memory: one partition (`DOCUMENTS_PER_PARTITION`): its
keys (28 bytes per document), its candidate pairs (32 bytes each) and then the fingerprints of their texts (290 bytes
per pair); the stage's own process holds some numbers per partition, part and bucket.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa

from infra import schemas
from infra.artifacts import Artifact, Part
from infra.builds import PartWriter
from infra.disk.packed import packed
from infra.shuffle import Shuffle
from infra.stage import Output
from tasks.deduplicate.buckets import WantedTexts, bucket_numbers, gather_texts, gathered, write_bucket
from tasks.deduplicate.compared import NAME, named_clusters, readable
from tasks.deduplicate.pairs import MARGIN, ONE, OTHER, PAIRS_AT_ONCE, ends
from tasks.deduplicate.partitions import borders_of, partition_of, within_parts
from tasks.deduplicate.similarity import BINS, estimate
from tasks.deduplicate.sketches import KEY, NearParams
from tasks.deduplicate.star_rounds import RANK_BITS, contracted, home, send_both_ways, smallest_of, star_components


@dataclass(frozen=True)
class Plan:
    """How the work is cut, and the exchanges between its steps. A plain value: with it units are recognised."""

    scratch: str
    partitions: int
    least: float
    """Estimated similarity from which a pair is verified."""
    candidate_parts: int
    sketch_borders: tuple[int, ...]
    document_borders: tuple[int, ...]
    earlier: str
    """Fingerprint of the artifact whose clusters are not compared again; empty for none."""
    earlier_parts: tuple[int, int]
    """Number of parts of its tables compared and near."""

    def to_partitions(self, name: str, senders: int | None = None) -> Shuffle:
        """Return an exchange with all partitions; the partitions send too, unless a number of senders is given."""
        return Shuffle(self.scratch, name, self.partitions if senders is None else senders, self.partitions)

    def own(self, name: str) -> Shuffle:
        """Return a table that each partition keeps for itself."""
        return Shuffle(self.scratch, name, self.partitions)

    def to_parts(self, name: str, borders: Sequence[int]) -> Shuffle:
        """Return an exchange from all partitions to parts."""
        return Shuffle(self.scratch, name, self.partitions, len(borders) - 1)

    def of_buckets(self, name: str, partition: int, first: int, characters: int) -> Shuffle:
        """Return a table of one partition by buckets, of which the first is that of its first character."""
        last = first + max(characters, 1) - 1
        low, high = bucket_numbers(pl.Series([first, last])).to_list()
        return Shuffle(self.scratch, f"{name}-{partition:06d}", 1, high - low + 1)


@dataclass(frozen=True)
class Filling:
    """The clusters of one partition, which begin where those of the partitions before it end."""

    partition: int
    first: int
    """Characters in the clusters before it."""
    characters: int
    """Characters in its own clusters."""


@dataclass(frozen=True)
class StoredBucket:
    """Whole clusters that are compared in one unit of work, in the files of the partitions that they belong to."""

    number: int
    fillings: tuple[Filling, ...]


def near_in_partitions(inputs: Mapping[str, Artifact], params: NearParams, out: Output, partitions: int) -> None:
    """Do the work of the stage `near`, cut into so many partitions, which change nothing in the artifact."""
    documents, found, pairs = inputs["documents"].parts("documents"), inputs["sketches"].parts(), inputs["candidates"]
    earlier = readable(out.earlier(inputs, but=inputs))
    plan = plan_for(pairs, found, documents, params, out, partitions, earlier)
    every = range(partitions)
    keep_pairs(out, plan, pairs.parts(), found)
    promising = int(plan.own("promising").counts().sum())
    if not promising:
        return
    out.count("candidate_pairs", promising)
    stars = star_components(out, plan.to_partitions("edges"))
    if earlier is not None:
        out.prepare(send_compared, list(enumerate(earlier.parts("compared"))), plan)
        out.prepare(send_drops, list(enumerate(earlier.parts("near"))), plan)
    out.prepare(send_members, every, plan, stars)
    out.count("candidate_texts", int(plan.to_partitions("members").counts().sum()))
    out.prepare(name_clusters, every, plan)
    if earlier is not None:
        out.prepare(recognise_clusters, every, plan)
    fillings = _fillings(plan)
    out.prepare(fill_buckets, fillings, plan)
    wanted = plan.to_parts("wanted-texts", plan.document_borders).counts().sum(axis=0)
    out.map(gather_wanted, [(number, documents[number]) for number in np.flatnonzero(wanted).tolist()], plan)
    out.map(cluster_stored, _stored_buckets(plan, fillings), plan, params)


def plan_for(
    pairs: Artifact,
    sketches: Sequence[Part],
    documents: Sequence[Part],
    params: NearParams,
    out: Output,
    partitions: int,
    earlier: Artifact | None = None,
) -> Plan:
    """Return how the work is cut.

    Args:
        earlier: the artifact whose clusters are not compared again.
    """
    assert params.threshold is not None, "without a threshold there are no pairs"
    return Plan(
        scratch=out.scratch,
        partitions=partitions,
        least=params.threshold - MARGIN,
        candidate_parts=len(pairs.parts()),
        sketch_borders=borders_of(sketches),
        document_borders=borders_of(documents),
        earlier="" if earlier is None else earlier.fingerprint,
        earlier_parts=(0, 0) if earlier is None else (len(earlier.parts("compared")), len(earlier.parts("near"))),
    )


def keep_pairs(out: Output, plan: Plan, pairs: Sequence[Part], sketches: Sequence[Part]) -> None:
    """Find the promising ones among all pairs of the candidates, and send what they connect."""
    every = range(plan.partitions)
    out.prepare(send_pairs, list(enumerate(pairs)), plan)
    out.prepare(send_rows, list(enumerate(sketches)), plan)
    out.prepare(keep_distinct_pairs, every, plan)
    out.prepare(place_texts, every, plan)
    out.prepare(send_fingerprints, list(enumerate(sketches)), plan)
    out.prepare(send_first_halves, every, plan)
    out.prepare(keep_promising_pairs, every, plan)


def send_pairs(writer: PartWriter, numbered: tuple[int, Part], plan: Plan) -> None:
    """Send the pairs of a part of the candidates to the partitions of their first ends."""
    number, part = numbered
    pairs = pl.DataFrame(part.read()).unique()
    to = partition_of(pairs["one_high"], plan.partitions)
    plan.to_partitions("pairs", plan.candidate_parts).send(number, pairs, to)


def send_rows(writer: PartWriter, numbered: tuple[int, Part], plan: Plan) -> None:
    """Send the rows of a part of the sketches to the partitions of their keys; rows count across all parts."""
    number, part = numbered
    rows = pl.DataFrame(part.read(columns=[*KEY, "characters"]))
    first = plan.sketch_borders[number]
    rows = rows.with_columns(row=pl.Series(np.arange(first, first + len(rows))))
    to = partition_of(rows["key_high"], plan.partitions)
    plan.to_partitions("rows", len(plan.sketch_borders) - 1).send(number, rows, to)


def keep_distinct_pairs(writer: PartWriter, partition: int, plan: Plan) -> None:
    """Keep each pair of a partition once, and tell the partitions of the other ends which texts are wanted."""
    pairs = plan.to_partitions("pairs", plan.candidate_parts).receive(partition).unique().sort(*ONE, *OTHER)
    plan.own("distinct").send(partition, pairs)
    others = _renamed(pairs, OTHER, KEY).unique()
    plan.to_partitions("others").send(partition, others, partition_of(others["key_high"], plan.partitions))


def place_texts(writer: PartWriter, partition: int, plan: Plan) -> None:
    """Find the first row and the place of each text of a partition that is in any pair; ask for its fingerprint."""
    others = plan.to_partitions("others").receive(partition)
    wanted = pl.concat([_renamed(plan.own("distinct").kept(partition), ONE, KEY), others]).unique()
    rows = plan.to_partitions("rows", len(plan.sketch_borders) - 1).receive(partition)
    first = rows.join(wanted, on=KEY, how="semi").sort(*KEY, "row").unique(KEY, keep="first", maintain_order=True)
    place = (partition << RANK_BITS) + np.arange(len(first))
    texts = first.with_columns(place=pl.Series(place, dtype=pl.Int64))
    plan.own("texts").send(partition, texts)
    part, row = within_parts(texts["row"], plan.sketch_borders)
    asked = texts.select("place").with_columns(row=pl.Series(row, dtype=pl.Int64))
    plan.to_parts("asked", plan.sketch_borders).send(partition, asked, part)


def send_fingerprints(writer: PartWriter, numbered: tuple[int, Part], plan: Plan) -> None:
    """Send the fingerprints of those texts of a part of the sketches that were asked for."""
    number, part = numbered
    asked = plan.to_parts("asked", plan.sketch_borders).receive(number)
    codes = pl.Series("code", [], dtype=pl.Binary)
    if len(asked):
        codes = pl.Series(part.read(columns=["fingerprint"])["fingerprint"].take(pa.array(asked["row"])))
    sent = asked.select("place", code=codes)
    plan.to_partitions("fingerprints", len(plan.sketch_borders) - 1).send(number, sent, home(sent["place"]))


def send_first_halves(writer: PartWriter, partition: int, plan: Plan) -> None:
    """Send the pairs of a partition, with place and fingerprint of the first end, to the partitions of the other."""
    texts = _with_codes(plan, partition).rename({"place": "one", "code": "one_code"})
    halves = plan.own("distinct").kept(partition).join(texts, left_on=ONE, right_on=KEY)
    to = partition_of(halves["other_high"], plan.partitions)
    plan.to_partitions("halves").send(partition, halves.select(*OTHER, "one", "one_code"), to)


def keep_promising_pairs(writer: PartWriter, partition: int, plan: Plan) -> None:
    """Keep the pairs whose fingerprints allow the similarity that is asked for, and send what they connect."""
    texts = _with_codes(plan, partition).rename({"place": "other", "code": "other_code"})
    halves = plan.to_partitions("halves").receive(partition).join(texts, left_on=OTHER, right_on=KEY)
    kept = [_promising(piece, plan.least) for piece in halves.iter_slices(PAIRS_AT_ONCE)]
    pairs = pl.concat([halves.clear().select("one", "other"), *kept]).sort("one", "other")
    plan.own("promising").send(partition, pairs)
    send_both_ways(plan.to_partitions("edges"), partition, contracted(*ends(pairs)))


def send_compared(writer: PartWriter, numbered: tuple[int, Part], plan: Plan) -> None:
    """Send a part of the names of clusters that an earlier artifact has compared to the partitions of the names."""
    number, part = numbered
    names = pl.DataFrame(part.read())
    to = partition_of(names[NAME[0]], plan.partitions)
    plan.to_partitions("compared", plan.earlier_parts[0]).send(number, names, to)


def send_drops(writer: PartWriter, numbered: tuple[int, Part], plan: Plan) -> None:
    """Send a part of the drops of an earlier artifact to the partitions of the texts that are dropped."""
    number, part = numbered
    drops = pl.DataFrame(part.read())
    to = partition_of(drops["key_high"], plan.partitions)
    plan.to_partitions("earlier-drops", plan.earlier_parts[1]).send(number, drops, to)


def send_members(writer: PartWriter, partition: int, plan: Plan, stars: Shuffle) -> None:
    """Send the texts, pairs and earlier drops of a partition to the partitions of their clusters."""
    component = smallest_of(stars.receive(partition))
    texts = plan.own("texts").kept(partition).join(component, left_on="place", right_on="node")
    plan.to_partitions("members").send(partition, texts, home(texts["component"]))
    pairs = plan.own("promising").kept(partition).join(component, left_on="other", right_on="node")
    plan.to_partitions("links").send(partition, pairs, home(pairs["component"]))
    if plan.earlier:
        drops = plan.to_partitions("earlier-drops", plan.earlier_parts[1]).receive(partition)
        drops = drops.join(texts.select(*KEY, "component"), on=KEY)
        plan.to_partitions("drops").send(partition, drops, home(drops["component"]))


def name_clusters(writer: PartWriter, partition: int, plan: Plan) -> None:
    """Name the clusters of a partition and count their characters."""
    texts = plan.to_partitions("members").receive(partition).sort("place")
    pairs = plan.to_partitions("links").receive(partition)
    place, component = (texts[name].to_numpy() for name in ("place", "component"))
    one, other, smallest = (np.searchsorted(place, side) for side in (*ends(pairs), component))
    clusters = named_clusters(texts.select(KEY).to_numpy(), one, other, smallest)
    clusters = clusters.with_columns(component=pl.Series(place[clusters["component"].to_numpy()], dtype=pl.Int64))
    sizes = texts.group_by("component").agg(pl.col("characters").cast(pl.Int64).sum())
    clusters = clusters.join(sizes, on="component").sort("component")
    plan.own("clusters").send(partition, clusters, note=int(clusters["characters"].sum()))
    if plan.earlier:
        names = clusters.select("component", *NAME)
        plan.to_partitions("names").send(partition, names, partition_of(names[NAME[0]], plan.partitions))


def recognise_clusters(writer: PartWriter, partition: int, plan: Plan) -> None:
    """Find the clusters with names in a partition that an earlier artifact has compared."""
    compared = plan.to_partitions("compared", plan.earlier_parts[0]).receive(partition)
    known = plan.to_partitions("names").receive(partition).join(compared, on=NAME, how="semi").select("component")
    plan.to_partitions("known").send(partition, known, home(known["component"]))


def fill_buckets(writer: PartWriter, filling: Filling, plan: Plan) -> None:
    """Cut the clusters of a partition into buckets, and ask the parts of documents for the texts of new clusters."""
    partition = filling.partition
    clusters = plan.own("clusters").kept(partition)
    before = clusters["characters"].cum_sum() - clusters["characters"] + filling.first
    clusters = clusters.with_columns(bucket=bucket_numbers(before))
    numbered = clusters.select("component", "bucket")
    known, drops = pl.DataFrame(schema={"component": pl.Int64}), None
    if plan.earlier:
        known = plan.to_partitions("known").receive(partition)
        drops = plan.to_partitions("drops").receive(partition).join(known, on="component", how="semi")
        drops = drops.join(numbered, on="component")
    new = numbered.join(known, on="component", how="anti")
    texts = plan.to_partitions("members").receive(partition).join(new, on="component")
    part, row = within_parts(texts["row"], plan.document_borders)
    wanted = texts.select("place", "bucket").with_columns(row=pl.Series(row, dtype=pl.Int64))
    plan.to_parts("wanted-texts", plan.document_borders).send(partition, wanted, part)
    pairs = plan.to_partitions("links").receive(partition).join(new, on="component")
    holding = texts.select("bucket").with_columns(part=pl.Series(part, dtype=pl.Int64)).unique().sort("bucket", "part")
    tables = {"names": clusters, "pairs": pairs, "holding": holding} | ({} if drops is None else {"known-drops": drops})
    for name, rows in tables.items():
        _of_buckets(plan, name, filling).send(0, rows, rows["bucket"].to_numpy() - _first_bucket(filling))


def gather_wanted(writer: PartWriter, numbered: tuple[int, Part], plan: Plan) -> None:
    """Put the wanted texts of one part of documents into a file for each bucket."""
    number, part = numbered
    wanted = plan.to_parts("wanted-texts", plan.document_borders).receive(number)
    gather_texts(writer, WantedTexts(number, part, packed(wanted.sort("bucket", "row"))), plan.scratch)


def cluster_stored(writer: PartWriter, bucket: StoredBucket, plan: Plan, params: NearParams) -> None:
    """Do what `cluster_bucket` does for a bucket whose tables are in files."""

    def table(name: str) -> pl.DataFrame:
        pieces = [
            _of_buckets(plan, name, filling).receive(bucket.number - _first_bucket(filling))
            for filling in bucket.fillings
        ]
        return pl.concat(pieces)

    drops = table("known-drops") if plan.earlier else pl.DataFrame(schemas.NEAR.empty_table())
    parts = table("holding")["part"].unique().sort().to_list()
    write_bucket(
        writer, table("pairs"), drops, table("names"), lambda: gathered(plan.scratch, bucket.number, parts), params
    )


def _with_codes(plan: Plan, partition: int) -> pl.DataFrame:
    """Return the texts of a partition that are in any pair: columns KEY, place and code."""
    codes = plan.to_partitions("fingerprints", len(plan.sketch_borders) - 1).receive(partition)
    return plan.own("texts").kept(partition).select(*KEY, "place").join(codes, on="place")


def _promising(pairs: pl.DataFrame, least: float) -> pl.DataFrame:
    one, other = (_codes(pairs[name]) for name in ("one_code", "other_code"))
    return pairs.filter(pl.Series(estimate(one, other) >= least)).select("one", "other")


def _codes(column: pl.Series) -> np.ndarray:
    return np.frombuffer(b"".join(column.to_list()), np.uint8).reshape(-1, BINS)


def _fillings(plan: Plan) -> list[Filling]:
    """Return where the clusters of each partition begin among all, counted in characters."""
    characters = plan.own("clusters").notes()
    firsts = itertools.accumulate(characters, initial=0)
    return [Filling(*numbers) for numbers in zip(range(plan.partitions), firsts, characters, strict=False)]


def _first_bucket(filling: Filling) -> int:
    return int(bucket_numbers(pl.Series([filling.first]))[0])


def _of_buckets(plan: Plan, name: str, filling: Filling) -> Shuffle:
    return plan.of_buckets(f"bucket-{name}", filling.partition, filling.first, filling.characters)


def _stored_buckets(plan: Plan, fillings: Sequence[Filling]) -> list[StoredBucket]:
    """Return the buckets that hold any cluster, each with the partitions that have some of it."""
    found: dict[int, list[Filling]] = {}
    for filling in fillings:
        counts = _of_buckets(plan, "names", filling).counts()[0]
        for number in np.flatnonzero(counts).tolist():
            found.setdefault(_first_bucket(filling) + number, []).append(filling)
    return [StoredBucket(number, tuple(found[number])) for number in sorted(found)]


def _renamed(pairs: pl.DataFrame, names: Sequence[str], to: Sequence[str]) -> pl.DataFrame:
    return pairs.select(pl.col(name).alias(new) for name, new in zip(names, to, strict=True))
