"""Stages over several Ray nodes on loopback, one of whose workers is killed meanwhile.

Minutes of work, so no part of `make test`: `make test-cluster`. docs/cluster.md has the table of what was survived.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from infra.artifacts import Artifact, ArtifactStore
from infra.memo import UNITS
from infra.settings import REPOSITORY
from tests.support.processes.on_nodes import alone
from tests.support.processes.on_s3 import content
from tests.support.processes.ray_nodes import RayNodes

pytestmark = [pytest.mark.cluster, pytest.mark.ray, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def started() -> Iterator[RayNodes]:
    running = RayNodes(3)
    try:
        running.wait_until_up()
        yield running
    finally:
        running.stop()


@pytest.fixture
def cluster(started: RayNodes) -> Iterator[RayNodes]:
    """The cluster with all of its nodes; no work of a test outlives the test."""
    started.complete()
    yield started
    wait_until(lambda: not workers(started), 120)


@pytest.fixture(scope="module")
def exchanged(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    return alone("exchange", ArtifactStore(tmp_path_factory.mktemp("alone")))


def start(cluster: RayNodes, work: str, store: ArtifactStore, **settings: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.processes.on_nodes", work, store.root, json.dumps(settings)],
        cwd=REPOSITORY,
        env={**cluster.environment, "YIWEN_HOME": store.root, "YIWEN_WORKERS": "3"},
        stdout=(Path(store.root).parent / "flow.log").open("ab"),
        stderr=subprocess.STDOUT,
        text=True,
    )


def said(store: ArtifactStore) -> str:
    return (Path(store.root).parent / "flow.log").read_text(errors="replace")


def end(process: subprocess.Popen[str], store: ArtifactStore) -> None:
    assert process.wait(900) == 0, said(store)[-6000:]


def wait_until(condition: Callable[[], Any], seconds: float = 600.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def wait_for(store: ArtifactStore, pattern: str, number: int, process: subprocess.Popen[str]) -> None:
    def there() -> bool:
        assert process.poll() is None, said(store)[-6000:]
        return len(list(Path(store.root).glob(pattern))) >= number

    wait_until(there)


def workers(cluster: RayNodes) -> list[psutil.Process]:
    """Return the processes that do a unit."""
    return [one for node in cluster.nodes for one in node.processes("run_unit")]


def assert_undisturbed(store: ArtifactStore, expected: Artifact) -> None:
    """The artifact is that of the undisturbed run, whole, and nothing else is left in its stage."""
    made = store.get(expected.stage, expected.fingerprint)
    assert made is not None, said(store)[-6000:]
    # The names of units hold the path of the store, where rows were on their way; all else is equal.
    assert {**content(made), UNITS: ""} == {**content(expected), UNITS: ""}
    assert made.manifest.counters == expected.manifest.counters
    made.verify()
    assert [path.name for path in Path(store.root, made.stage).iterdir()] == [made.fingerprint]
    files = {path.relative_to(made.path).as_posix() for path in Path(made.path).rglob("*") if path.is_file()}
    assert files == {*content(made), "manifest.json"}


def test_stage_over_nodes_is_that_of_one_process(cluster: RayNodes, store: ArtifactStore, exchanged: Artifact) -> None:
    end(start(cluster, "exchange", store), store)
    assert_undisturbed(store, exchanged)


def test_killed_worker_costs_its_unit_alone(cluster: RayNodes, store: ArtifactStore, exchanged: Artifact) -> None:
    flow = start(cluster, "exchange", store, seconds=2.0)
    wait_for(store, "encode/.*/records/*.json", 2, flow)
    wait_until(lambda: workers(cluster))
    workers(cluster)[0].kill()
    end(flow, store)
    assert_undisturbed(store, exchanged)
