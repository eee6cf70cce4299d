"""Stages over several Ray nodes on loopback, while a worker or a whole node is killed.

Minutes of work, so no part of `make test`: `make test-cluster`. docs/cluster.md has the table of what was survived.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from infra.artifacts import Artifact, ArtifactStore
from infra.memo import UNITS
from tests.support.processes.node_flow import NodeFlow, wait_until
from tests.support.processes.on_nodes import WORK, alone
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
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ArtifactStore]:
    """A store by kind of work, in which one process did it."""
    return {work: alone(work, ArtifactStore(tmp_path_factory.mktemp(work))) for work in WORK}


def start(cluster: RayNodes, work: str, store: ArtifactStore, seconds: float) -> NodeFlow:
    """Start a flow whose units each take so many seconds longer."""
    module = "tests.support.processes.on_nodes"
    return NodeFlow(cluster, store, module, work, store.root, str(seconds), YIWEN_WORKERS="3")


def workers(cluster: RayNodes) -> list[psutil.Process]:
    """Return the processes that do a unit."""
    return [one for node in cluster.nodes for one in node.processes("run_unit")]


def kill_a_busy_node(cluster: RayNodes) -> None:
    """Kill a node in the midst of a unit, with all of its processes."""
    node = wait_until(lambda: next((node for node in cluster.nodes if node.processes("run_unit")), None))
    cluster.kill(node)
    assert not node.processes()


def assert_undisturbed(store: ArtifactStore, expected: ArtifactStore) -> None:
    """The artifacts are those of the undisturbed run, whole, and nothing else is left in their stages."""
    artifacts = expected.list()
    assert artifacts
    for artifact in artifacts:
        assert_made(store, artifact)


def assert_made(store: ArtifactStore, expected: Artifact) -> None:
    made = store.get(expected.stage, expected.fingerprint)
    assert made is not None
    # The names of units hold the path of the store, where rows were on their way; all else is equal.
    assert {**content(made), UNITS: ""} == {**content(expected), UNITS: ""}
    assert made.manifest.counters == expected.manifest.counters
    made.verify()
    assert [path.name for path in Path(store.root, made.stage).iterdir()] == [made.fingerprint]
    files = {path.relative_to(made.path).as_posix() for path in Path(made.path).rglob("*") if path.is_file()}
    assert files == {*content(made), "manifest.json"}


@pytest.mark.parametrize("work", WORK)
def test_work_over_nodes_is_that_of_one_process(
    work: str, cluster: RayNodes, store: ArtifactStore, undisturbed: dict[str, ArtifactStore]
) -> None:
    start(cluster, work, store, 0.0).end()
    assert_undisturbed(store, undisturbed[work])


def test_killed_worker_costs_its_unit_alone(
    cluster: RayNodes, store: ArtifactStore, undisturbed: dict[str, ArtifactStore]
) -> None:
    flow = start(cluster, "exchange", store, 2.0)
    flow.wait_for("encode/.*/records/*.json", 2)
    wait_until(lambda: workers(cluster))[0].kill()
    flow.end()
    assert_undisturbed(store, undisturbed["exchange"])


@pytest.mark.parametrize(
    ("work", "seconds", "pattern"),
    [("exchange", 2.0, "encode/.*/records/*.json"), ("deduplicated", 0.5, "near/.*/scratch/edges*.arrow")],
)
def test_killed_node_costs_its_units_alone(
    work: str,
    seconds: float,
    pattern: str,
    cluster: RayNodes,
    store: ArtifactStore,
    undisturbed: dict[str, ArtifactStore],
) -> None:
    flow = start(cluster, work, store, seconds)
    flow.wait_for(pattern, 2)
    kill_a_busy_node(cluster)
    flow.end()
    assert_undisturbed(store, undisturbed[work])


def test_cut_off_node_costs_its_units_alone_and_writes_nothing_when_it_is_back(
    cluster: RayNodes, store: ArtifactStore, undisturbed: dict[str, ArtifactStore]
) -> None:
    flow = start(cluster, "exchange", store, 2.0)
    flow.wait_for("encode/.*/records/*.json", 2)
    node = wait_until(lambda: next((node for node in cluster.nodes if node.processes("run_unit")), None))
    node.cut_off()
    try:
        flow.end()
        assert_undisturbed(store, undisturbed["exchange"])
    finally:
        node.back()
    wait_until(lambda: not node.processes("run_unit"), 120)
    assert_undisturbed(store, undisturbed["exchange"])
    cluster.kill(node)


def test_flow_that_lost_its_head_ends_and_the_next_resumes(
    cluster: RayNodes, store: ArtifactStore, undisturbed: dict[str, ArtifactStore]
) -> None:
    other = RayNodes(2)
    try:
        other.wait_until_up()
        flow = start(other, "exchange", store, 2.0)
        flow.wait_for("encode/.*/records/*.json", 2)
        other.kill_head()
        assert flow.process.wait(600) != 0
        assert "GCS may have been killed" in flow.said  # Ray itself ends the program
    finally:
        other.stop()
    done = {path: path.stat().st_mtime_ns for path in Path(store.root).glob("encode/.*/records/*.json")}
    assert done
    start(cluster, "exchange", store, 0.0).end()
    assert_undisturbed(store, undisturbed["exchange"])
