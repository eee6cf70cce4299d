"""Clusters of near duplicates that an earlier artifact has compared are not compared again; the result is the same."""

from __future__ import annotations

import dataclasses
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tasks.deduplicate.buckets as under_test
from infra.artifacts import Artifact, ArtifactStore
from infra.memo import WorkKeys
from infra.stage import run
from tasks.deduplicate.buckets import Bucket, cluster_bucket
from tasks.deduplicate.clusters import components
from tasks.deduplicate.compared import named_clusters
from tasks.deduplicate.near import near
from tasks.deduplicate.pairs import candidates
from tasks.deduplicate.sketches import NearParams, sketches
from tasks.deduplicate.stage import PartDrops, drop_part
from tasks.text.comparable_batch import comparables
from tests.support.text.edited import document, edited
from tests.support.text.tables import documents_artifact

PARAMS = NearParams(threshold=0.6, numbers_apart=False)
TABLES = ("near", "compared")
EDGE = st.tuples(st.integers(0, 9), st.integers(0, 9)).filter(lambda edge: edge[0] < edge[1])


def compared(store: ArtifactStore, parts: Sequence[Sequence[str]], params: NearParams = PARAMS) -> Artifact:
    found = {"documents": documents_artifact(store, *map(list, parts))}
    for step in (sketches, candidates):
        found[step.name] = run(step, store, params, found).artifact
    return run(near, store, params, found).artifact


def rows_of(artifact: Artifact) -> list[list[dict[str, object]]]:
    return [artifact.to_table(table).to_pylist() for table in TABLES]


def families(count: int, seed: int) -> list[list[str]]:
    """Synthetic texts, each followed by one to three that differ little from it."""
    drawn = random.Random(seed)
    originals = [document(drawn, 4) for _ in range(count)]
    return [[text, *(edited(text, 0.04, drawn) for _ in range(drawn.randrange(1, 4)))] for text in originals]


@pytest.fixture
def gathered(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that were gathered for a comparison."""
    found: list[str] = []

    def spied(texts: Sequence[str]) -> list[str]:
        found.extend(texts)
        return comparables(texts)

    monkeypatch.setattr(under_test, "comparables", spied)
    return found


def test_only_clusters_with_a_new_text_are_compared(store: ArtifactStore, tmp_path: Path, gathered: list[str]) -> None:
    known = families(20, seed=1)
    parts = [[text for family in known[start::2] for text in family] for start in (0, 1)]
    first = compared(store, parts)
    assert first.rows("near") > 20 and first.rows("compared") >= 15
    gathered.clear()
    new = edited(known[3][0], 0.03, random.Random(2))
    refreshed = compared(store, [*parts, [new, *families(1, seed=9)[0]]])
    assert new in gathered and known[3][0] in gathered
    assert len(gathered) < 12
    rebuilt = compared(ArtifactStore(tmp_path / "rebuilt"), [*parts, [new, *families(1, seed=9)[0]]])
    assert rows_of(refreshed) == rows_of(rebuilt)
    assert refreshed.manifest.counters == rebuilt.manifest.counters
    assert refreshed.rows("near") > first.rows("near")


@settings(max_examples=8, deadline=None)
@given(data=st.data(), buckets=st.sampled_from([1 << 24, 400]))
def test_refreshed_result_equals_that_of_a_rebuild(data: st.DataObject, buckets: int) -> None:
    pool = [text for family in families(6, seed=data.draw(st.integers(0, 3))) for text in family]
    some = st.lists(st.sampled_from(pool), min_size=1, max_size=len(pool))
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(under_test, "CHARACTERS_PER_BUCKET", buckets)
        store = ArtifactStore(Path(folder, "refreshed"))
        for _ in range(2):
            compared(store, [data.draw(some)])
        last = [data.draw(some), data.draw(some)]
        assert rows_of(compared(store, last)) == rows_of(compared(ArtifactStore(Path(folder, "rebuilt")), last))


def test_other_parameters_reuse_nothing(store: ArtifactStore, tmp_path: Path) -> None:
    parts = [[text for family in families(8, seed=3) for text in family]]
    compared(store, parts)
    strict = NearParams(threshold=0.9, numbers_apart=False)
    assert rows_of(compared(store, parts, strict)) == rows_of(compared(ArtifactStore(tmp_path / "new"), parts, strict))


@pytest.mark.parametrize("table", TABLES)
def test_a_damaged_earlier_artifact_costs_only_time(
    store: ArtifactStore, tmp_path: Path, table: str, caplog: pytest.LogCaptureFixture
) -> None:
    texts = [text for family in families(8, seed=4) for text in family]
    for part in (Path(compared(store, [texts]).path) / table).iterdir():
        part.write_bytes(b"no parquet")
    refreshed = compared(store, [texts[1:]])
    assert "compared again" in caplog.text
    assert rows_of(refreshed) == rows_of(compared(ArtifactStore(tmp_path / "rebuilt"), [texts[1:]]))


def test_units_of_work_are_recognised_by_their_content() -> None:
    keys = WorkKeys("near", 3, PARAMS, cluster_bucket, ())
    bucket = Bucket(0, b"pairs", b"drops", b"names")
    assert keys.of(bucket) == keys.of(dataclasses.replace(bucket)) != ""
    assert keys.of(bucket) != keys.of(dataclasses.replace(bucket, names=b"other"))


def test_parts_with_their_drops_keep_the_keys_of_finished_artifacts(store: ArtifactStore) -> None:
    keys = WorkKeys("deduplicate", 3, PARAMS, drop_part, ())
    part = documents_artifact(store, ["头痛"]).parts("documents")[0]
    assert keys.of(PartDrops(part, b"drops")) == keys.of((part, b"drops")) != ""


@settings(max_examples=60, deadline=None)
@given(
    edges=st.lists(
        st.tuples(st.integers(0, 9), st.integers(0, 9)).filter(lambda e: e[0] < e[1]), min_size=1, unique=True
    ),
    seed=st.integers(0, 99),
    data=st.data(),
)
def test_cluster_names_depend_on_the_pairs_alone(edges: list[tuple[int, int]], seed: int, data: st.DataObject) -> None:
    keys = np.random.default_rng(seed).integers(0, 2**64, (10, 2), dtype=np.uint64)

    def names(order: list[tuple[int, int]], moved: int) -> dict[tuple[int, int], frozenset[tuple[int, int]]]:
        """Name of each cluster with its pairs, by the original places."""
        shifted = np.roll(keys, moved, axis=0)
        one, other = ((np.array([edge[side] for edge in order]) + moved) % 10 for side in (0, 1))
        component = components(10, one, other)
        found = named_clusters(shifted, one, other, component)
        return {
            (high, low): frozenset(
                edge for edge, place in zip(order, component[one].tolist(), strict=True) if place == label
            )
            for label, high, low in found.rows()
        }

    first = names(edges, 0)
    assert len(first) == len({place for place in first.values()})
    assert names(data.draw(st.permutations(edges)), 3) == first
    fewer = names(edges[1:], 0) if edges[1:] else {}
    same = {name for name in fewer if name in first}
    assert all(fewer[name] == first[name] for name in same)
    assert {pairs for pairs in fewer.values() if pairs in first.values()} == {fewer[name] for name in same}
