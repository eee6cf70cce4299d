"""A corpus that is cut into partitions gives the very artifacts of one that is not."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tasks.deduplicate.buckets as buckets
import tasks.deduplicate.partitions as partitions
from infra.artifacts import Artifact, ArtifactStore
from infra.builds import BuildPlace, Unit, WorkRecord
from infra.stage import SerialExecutor, run
from tasks.deduplicate.partitions import partition_of, within_parts
from tasks.deduplicate.stage import DeduplicateParams, deduplicate
from tests.support.text.edited import document, edited
from tests.support.text.tables import documents_artifact


def texts_with_copies(seed: int, families: int = 24) -> list[list[str]]:
    """Synthetic texts in three parts: near copies, chains of copies of copies, and equal texts."""
    drawn = random.Random(seed)
    texts = []
    for number in range(families):
        texts.append(document(drawn, 4))
        for _ in range(drawn.randrange(1, 4)):
            # Copies of copies are chains, whose ends do not resemble each other.
            texts.append(edited(texts[-1], 0.02 + 0.02 * (number % 3), drawn))
    texts += drawn.sample(texts, families // 2)
    drawn.shuffle(texts)
    return [texts[start::3] for start in range(3)]


class AnyOrderExecutor(SerialExecutor):
    """Does the units in an order of its own, as several workers would; dies before unit `dies_at`, if given."""

    in_process = False

    def __init__(self, dies_at: int | None = None) -> None:
        self.left = dies_at

    def run(self, place: BuildPlace, function: Callable[..., None], units: Sequence[Unit]) -> Iterator[WorkRecord]:
        for record in super().run(place, function, random.Random(len(units)).sample(units, len(units))):
            if self.left is not None:
                self.left -= 1
                if self.left < 0:
                    raise KeyboardInterrupt
            yield record


def made(
    store: ArtifactStore, parts: Sequence[Sequence[str]], per_partition: int, executor: Any = None
) -> tuple[Artifact, Artifact]:
    """Artifacts of `near` and `deduplicate`, each cut into partitions of so many documents."""
    documents = documents_artifact(store, *parts)
    params = DeduplicateParams(threshold=0.6, numbers_apart=False, documents_per_bucket=per_partition)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partitions, "DOCUMENTS_PER_PARTITION", per_partition)
        patch.setattr(buckets, "CHARACTERS_PER_BUCKET", 700)
        whole = run(deduplicate, store, params, {"documents": documents}, executor=executor or SerialExecutor())
    near = store.latest("near")
    assert near is not None
    return near, whole.artifact


def content(artifacts: tuple[Artifact, Artifact]) -> list[Any]:
    """Names and hashes of all parts, and the counters."""
    return [
        (
            [
                (part.record.path, part.record.sha256)
                for table in artifact.manifest.tables
                for part in artifact.parts(table)
            ],
            artifact.manifest.counters,
        )
        for artifact in artifacts
    ]


@pytest.mark.parametrize(("seed", "per_partition"), [(1, 40), (2, 25)])
def test_partitions_and_workers_change_no_byte(tmp_path: Path, seed: int, per_partition: int) -> None:
    parts = texts_with_copies(seed)
    one = made(ArtifactStore(tmp_path / "one"), parts, 1_000_000)
    assert one[0].rows("near") > 15 and len(one[0].parts("near")) > 5 and one[1].rows("duplicates") > 30
    cut = made(ArtifactStore(tmp_path / "cut"), parts, per_partition, AnyOrderExecutor())
    assert content(cut) == content(one)


def test_refresh_in_partitions_equals_a_rebuild_in_one(tmp_path: Path) -> None:
    parts = texts_with_copies(3)
    refreshed = ArtifactStore(tmp_path / "refreshed")
    made(refreshed, parts[:2], 40)
    again = made(refreshed, parts, 40)
    rebuilt = made(ArtifactStore(tmp_path / "rebuilt"), parts, 1_000_000)
    assert content(again) == content(rebuilt)


@pytest.mark.parametrize("table", ["near", "compared"])
def test_a_damaged_earlier_artifact_costs_only_time(
    tmp_path: Path, table: str, caplog: pytest.LogCaptureFixture
) -> None:
    parts = texts_with_copies(4, families=8)
    store = ArtifactStore(tmp_path / "refreshed")
    for part in (Path(made(store, parts[:2], 20)[0].path) / table).iterdir():
        part.write_bytes(b"no parquet")
    again = made(store, parts, 20)
    assert "compared again" in caplog.text
    assert content(again) == content(made(ArtifactStore(tmp_path / "rebuilt"), parts, 1_000_000))


def test_work_killed_at_any_step_resumes_to_the_same_bytes(tmp_path: Path) -> None:
    parts = texts_with_copies(5, families=12)
    store = ArtifactStore(tmp_path / "killed")
    # In the sketches, the candidates, each step of near with its rounds, and the drops: a kill every eleven units.
    kills = 0
    while True:
        try:
            killed = made(store, parts, 30, AnyOrderExecutor(dies_at=11))
            break
        except KeyboardInterrupt:
            kills += 1
            assert kills < 60
    assert kills > 5
    assert content(killed) == content(made(ArtifactStore(tmp_path / "one"), parts, 1_000_000))


def test_texts_that_only_share_a_band_make_no_cluster(tmp_path: Path) -> None:
    """Candidates of which none is promising, and texts without any candidate."""
    drawn = random.Random(6)
    for parts in ([[document(drawn, 1) for _ in range(6)]], [["甲", "乙"], ["甲"]]):
        found = [made(ArtifactStore(tmp_path / f"{len(parts)} {per}"), parts, per) for per in (2, 1_000_000)]
        assert content(found[0]) == content(found[1])


@given(keys=st.lists(st.integers(0, 2**64 - 1), max_size=30), count=st.integers(1, 1000))
def test_partitions_ascend_with_the_keys(keys: list[int], count: int) -> None:
    found = partition_of(pl.Series(sorted([0, *keys, 2**64 - 1]), dtype=pl.UInt64), count).tolist()
    assert found == sorted(found)
    assert (found[0], found[-1]) == (0, count - 1)


@settings(max_examples=50)
@given(sizes=st.lists(st.integers(0, 4), min_size=1, max_size=6))
def test_rows_are_found_within_their_parts(sizes: list[int]) -> None:
    wanted = [(part, row) for part, size in enumerate(sizes) for row in range(size)]
    borders = [sum(sizes[:part]) for part in range(len(sizes) + 1)]
    part, row = within_parts(pl.Series(range(len(wanted)), dtype=pl.Int64), borders)
    assert list(zip(part.tolist(), row.tolist(), strict=True)) == wanted
