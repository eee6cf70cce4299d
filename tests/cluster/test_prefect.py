"""Runs on a Prefect server whose worker, or which itself, is killed in mid-run and started again; and two at once.

Minutes of work, so no part of `make test`: `make test-cluster`. docs/cluster.md has the table of what was survived.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.artifacts import Artifact, ArtifactStore
from infra.memo import UNITS
from infra.settings import REPOSITORY
from tests.support.processes.on_s3 import content
from tests.support.processes.prefect_server import PrefectServer
from tests.support.processes.ray_head import RayHead
from tests.support.processes.terminal import wait_until_gone
from tests.support.text.synthetic_text import synthetic_texts, write_corpus

pytestmark = [pytest.mark.cluster, pytest.mark.server, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrefectServer]:
    running = PrefectServer(tmp_path_factory.mktemp("server"))
    running.environment["YIWEN_WORKERS"] = "1"
    try:
        running.start_server()
        running.deploy("refresh", "ehealth-tiny")
        running.start_worker()
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return synthetic_texts(tmp_path_factory.mktemp("corpus") / "texts", files=20)


@pytest.fixture(scope="module")
def undisturbed(server: PrefectServer, texts: Path, tmp_path_factory: pytest.TempPathFactory) -> ArtifactStore:
    """The store of a refresh without a server."""
    store = ArtifactStore(tmp_path_factory.mktemp("undisturbed") / "store")
    environment = {name: value for name, value in server.environment.items() if name != "PREFECT_API_URL"}
    command = [sys.executable, "-m", "flows", "run", "corpus/refresh", "--param", f"corpus={texts}"]
    subprocess.run(command, cwd=REPOSITORY, env={**environment, "YIWEN_HOME": store.root}, check=True)
    return store


@pytest.fixture
def head() -> Iterator[RayHead]:
    running = RayHead()
    try:
        running.wait_until_up()
        yield running
    finally:
        running.stop()


def start(
    server: PrefectServer, deployment: str, store: ArtifactStore, head: RayHead | None = None, **parameters: Any
) -> dict[str, Any]:
    """Have the worker run a deployment with a store, its heavy stages as jobs of a cluster; returns the run."""
    given = [part for name, value in parameters.items() for part in ("--param", f"{name}={json.dumps(value)}")]
    names = ("RAY_ADDRESS", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN")
    of_cluster = {} if head is None else {name: head.environment[name] for name in names}
    environment = json.dumps({"YIWEN_HOME": store.root, **of_cluster})
    server.call("deployment", "run", deployment, "--job-variable", f"env={environment}", *given)
    return server.latest_run()


def begun_refresh(server: PrefectServer, store: ArtifactStore, texts: Path) -> dict[str, Any]:
    """Start a refresh; returns its run once some parts are finished."""
    run = start(server, "corpus/refresh", store, corpus=str(texts))
    server.wait_until(lambda: len(list(Path(store.root).rglob("part-*.parquet"))) > 3)
    assert server.run(run["id"])["state_type"] == "RUNNING"
    return run


def wait_for_state(server: PrefectServer, run: dict[str, Any], state: str) -> None:
    server.wait_until(lambda: server.run(run["id"])["state_type"] == state)


def assert_undisturbed(store: ArtifactStore, expected: ArtifactStore) -> None:
    """All artifacts are those of the undisturbed run; pages show paths and dates."""
    artifacts = [one for one in expected.list() if not one.stage.startswith("report_")]
    assert {one.stage for one in artifacts} >= {"ingest", "clean", "deidentify", "deduplicate", "segment"}
    for artifact in artifacts:
        made = store.get(artifact.stage, artifact.fingerprint)
        assert made is not None, artifact.stage
        assert {**content(made), UNITS: ""} == {**content(artifact), UNITS: ""}
        assert made.manifest.counters == artifact.manifest.counters
        made.verify()
        assert [path.name for path in Path(store.root, made.stage).iterdir()] == [made.fingerprint]


def test_run_outlives_its_server(
    server: PrefectServer, store: ArtifactStore, texts: Path, undisturbed: ArtifactStore
) -> None:
    run = begun_refresh(server, store, texts)
    server.kill_server()
    time.sleep(5)
    server.start_server()
    wait_for_state(server, run, "COMPLETED")
    assert server.run(run["id"])["run_count"] == 1
    assert_undisturbed(store, undisturbed)
    # The worker has found the server again.
    wait_for_state(server, start(server, "corpus/refresh", store, corpus=str(texts)), "COMPLETED")


def test_run_ends_with_its_worker_and_the_next_resumes(
    server: PrefectServer, store: ArtifactStore, texts: Path, undisturbed: ArtifactStore
) -> None:
    run = begun_refresh(server, store, texts)
    processes = server.kill_worker()
    assert processes
    wait_for_state(server, run, "CRASHED")
    assert not wait_until_gone(processes, 60)
    (finished,) = (one for one in ArtifactStore(store.root).list() if one.stage == "ingest")
    server.start_worker()
    wait_for_state(server, start(server, "corpus/refresh", store, corpus=str(texts)), "COMPLETED")
    assert_undisturbed(store, undisturbed)
    again = store.get(finished.stage, finished.fingerprint)
    assert again is not None and again.manifest == finished.manifest, "made once"
    assert server.run(run["id"])["state_type"] == "CRASHED"


def test_run_whose_stage_is_a_job_ends_with_its_worker_and_the_next_goes_on(
    server: PrefectServer, head: RayHead, store: ArtifactStore, texts: Path, undisturbed: ArtifactStore
) -> None:
    run = start(server, "corpus/refresh", store, head, corpus=str(texts))
    server.wait_until(lambda: "RUNNING" in head.jobs().values())
    processes = server.kill_worker()
    wait_for_state(server, run, "CRASHED")
    assert not wait_until_gone(processes, 60)
    server.wait_until(lambda: not {"PENDING", "RUNNING"} & set(head.jobs().values()))
    server.start_worker()
    wait_for_state(server, start(server, "corpus/refresh", store, head, corpus=str(texts)), "COMPLETED")
    assert_undisturbed(store, undisturbed)


OVERRIDES = {
    "vocabulary.size": 2000,
    "segment.min_tokens": 8,
    "training.steps": 60,
    "training.warmup_steps": 1,
    "training.batch_size": 8,
    "training.log_every": 1,
    "model.num_layers": 1,
    "encode.held_out_share": 0.2,
    "cluster.workers": 0,
}


def test_training_keeps_what_it_reads_while_a_refresh_makes_new_artifacts(
    server: PrefectServer, store: ArtifactStore, tmp_path: Path
) -> None:
    corpus = write_corpus(tmp_path / "texts")
    training = start(server, "pretrain/ehealth-tiny", store, corpus=str(corpus), overrides=OVERRIDES)
    server.wait_until(lambda: list(Path(store.root).glob("train/.*/scratch/metrics.jsonl")))
    (driver,) = server.processes("tasks.training.driver")
    driver.suspend()  # in the midst of its steps for as long as the refresh takes, on a machine of any speed
    (read,) = segments(store)
    synthetic_texts(corpus / "news", files=1)
    wait_for_state(server, start(server, "corpus/refresh", store, corpus=str(corpus)), "COMPLETED")
    assert server.run(training["id"])["state_type"] == "RUNNING"
    driver.resume()
    wait_for_state(server, training, "COMPLETED")
    (fresh,) = (one for one in segments(store) if one.fingerprint != read.fingerprint)
    examples, trained = store.latest("encode"), store.latest("train")
    assert examples is not None and trained is not None
    assert examples.manifest.inputs["segments"].fingerprint == read.fingerprint
    assert trained.manifest.inputs["examples"].fingerprint == examples.fingerprint
    assert trained.manifest.counters["steps"] == 60
    for artifact in (read, fresh, examples, trained):
        artifact.verify()


def segments(store: ArtifactStore) -> list[Artifact]:
    return [one for one in store.list() if one.stage == "segment"]
