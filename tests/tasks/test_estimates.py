"""Estimates of a stage's cost from earlier manifests: in proportion to the input, from the most similar work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infra.artifacts import ArtifactStore, FileRecord, InputRecord, Manifest
from tasks.runner.estimates import Estimate, estimated

OWN = {"profile": "ehealth"}


def manifest(seconds: float, size: int, read: int | None, fingerprint: str = "0" * 32, **more: Any) -> Manifest:
    whole = {
        "stage": "clean",
        "stage_version": 1,
        "fingerprint": fingerprint,
        "params": OWN,
        "inputs": {"documents": InputRecord(stage="raw", fingerprint="f" * 32, bytes=read)},
        "tables": {},
        "files": [FileRecord(path="x", bytes=size, sha256="")],
        "counters": {},
        "code_version": "",
        "created_at": "2026-11-23T10:00:00.000000+00:00",
        "wall_seconds": seconds,
        "cpu_seconds": seconds,
        "peak_memory_bytes": 0,
    }
    return Manifest(**{**whole, **more})


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(tmp_path)


def test_cost_grows_with_the_input(store: ArtifactStore) -> None:
    reads = (1000 << 20, 2000 << 20, 1000 << 20)
    costs = ((10, 500), (40, 2000), (30, 1000))
    earlier = [manifest(*cost, read, str(n)) for n, (cost, read) in enumerate(zip(costs, reads, strict=True))]
    found = estimated(store, earlier, OWN, 4000 << 20)
    assert found == Estimate(seconds=80.0, bytes=4000, runs=3, same_params=True, scaled=True)


def test_small_inputs_cost_the_start_of_a_stage_whatever_their_size(store: ArtifactStore) -> None:
    found = estimated(store, [manifest(4, 100, 2_000)], OWN, 150_000)
    assert found == Estimate(seconds=4, bytes=100, runs=1, same_params=True, scaled=True)
    found = estimated(store, [manifest(4, 100, 2_000)], OWN, 8 << 20)
    assert found is not None and found.seconds == 32
    found = estimated(store, [manifest(32, 100, 8 << 20)], OWN, 2_000)
    assert found is not None and found.seconds == 4


def test_same_parameters_are_preferred_and_others_said(store: ArtifactStore) -> None:
    other = manifest(100, 100, 100 << 20, "1", params={"profile": "smedbert"})
    found = estimated(store, [other, manifest(1, 10, 100 << 20, "2")], OWN, 100 << 20)
    assert found is not None and (found.seconds, found.runs, found.same_params) == (1.0, 1, True)
    found = estimated(store, [other], OWN, 200 << 20)
    assert found is not None and (found.seconds, found.same_params) == (200.0, False)


def test_work_that_was_reused_in_part_says_nothing_of_the_time(store: ArtifactStore) -> None:
    resumed, taken = manifest(1, 1, 1, "1", resumed_parts=3), manifest(1, 1, 1, "2", taken_over_parts=1)
    assert estimated(store, [resumed, taken], OWN, 100) is None
    assert estimated(store, [], OWN, 100) is None


@pytest.mark.parametrize(("read", "size"), [(None, 100), (1000, None)])
def test_unknown_sizes_are_not_scaled_by(read: int | None, size: int | None, store: ArtifactStore) -> None:
    found = estimated(store, [manifest(7, 70, read)], OWN, size)
    assert found == Estimate(seconds=7, bytes=70, runs=1, same_params=True, scaled=False)


@pytest.mark.parametrize(
    ("before", "now", "seconds", "by"),
    [
        ({"steps": 2_000}, {"steps": 20_000}, 6_000, "training.steps"),
        ({"steps": 9_999, "cpu_seconds": 100.0}, {"steps": 500, "cpu_seconds": 50.0}, 300, "training.cpu_seconds"),
        ({"steps": 9_999, "flops": 1e15}, {"steps": 9_999, "flops": 3e15}, 1_800, "training.flops"),
    ],
)
def test_time_of_a_training_grows_with_its_steps_or_budget_not_its_input(
    before: dict[str, Any], now: dict[str, Any], seconds: float, by: str, store: ArtifactStore
) -> None:
    earlier = manifest(600, 100, 100 << 20, params={"training": before})
    for size in (None, 800 << 20):
        found = estimated(store, [earlier], {"training": now}, size)
        assert found == Estimate(seconds=seconds, bytes=100, runs=1, same_params=False, scaled=True, by=by)


def test_trainings_that_end_by_unlike_limits_are_not_scaled_by_them(store: ArtifactStore) -> None:
    earlier = manifest(600, 100, 100 << 20, params={"training": {"steps": 2_000}})
    found = estimated(store, [earlier], {"training": {"steps": 2_000, "flops": 1e15}}, 100 << 20)
    assert found == Estimate(seconds=600, bytes=100, runs=1, same_params=False, scaled=True)
