"""Stages and a training on an S3 server on loopback: kills, and a server that is slow, fails, refuses or is gone."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest
import torch

from infra.artifacts import Artifact, ArtifactStore
from infra.errors import StoreLostError, UserError
from infra.settings import REPOSITORY
from infra.stage import run
from tasks.training.checkpoints import Checkpoints
from tests.support.processes.on_s3 import CountParams, content, pretrain, shuffle, shuffled_examples
from tests.support.processes.s3_server import S3Server

pytest.importorskip("moto", reason="no S3 server: moto is not installed")
s3fs = pytest.importorskip("s3fs")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    running = S3Server(tmp_path_factory.mktemp("s3"))
    yield running
    running.stop()


@pytest.fixture
def s3(server: S3Server, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[ArtifactStore]:
    """A store of the test's own on the server."""
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "3")  # of the driver: who has lost the server need not wait for long
    s3fs.S3FileSystem.clear_instance_cache()  # those of other tests know another server
    server.faults()
    name = re.sub(r"\W", "-", request.node.name)
    yield ArtifactStore(f"s3://{S3Server.BUCKET}/{name}")
    server.faults()
    server.go_on()
    s3fs.S3FileSystem.clear_instance_cache()


@pytest.fixture(scope="module")
def on_disk(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    return shuffle(ArtifactStore(tmp_path_factory.mktemp("disk")))


def start(work: str, store: ArtifactStore) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.processes.on_s3", work, store.root],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def wait_for(store: ArtifactStore, pattern: str, number: int, process: subprocess.Popen[str]) -> None:
    """Return when the store has so many objects whose names a pattern is found in."""
    deadline = time.monotonic() + 300
    while sum(bool(re.search(pattern, name)) for name in names(store)) < number:
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.1)


def names(store: ArtifactStore) -> list[str]:
    store.filesystem.invalidate_cache()
    return list(store.filesystem.find(store.base))


def assert_whole(store: ArtifactStore, made: Artifact, expected: Artifact) -> None:
    """The artifact has the expected content, all of it is there, and nothing else is left in its stage."""
    assert content(made) == content(expected)
    made.verify()
    own = {f"{store.absolute(made.location)}/{path}" for path in [*content(made), "manifest.json"]}
    assert {name for name in names(store) if f"/{made.stage}/" in name} == own


def test_artifact_on_s3_is_that_on_a_disk(s3: ArtifactStore, on_disk: Artifact) -> None:
    made = shuffle(s3)
    assert_whole(s3, made, on_disk)
    assert made.path == f"{s3.root}/encode/{made.fingerprint}"
    assert run(shuffled_examples, s3, CountParams(), {}).reused


def test_killed_stage_resumes_part_by_part(s3: ArtifactStore, server: S3Server, on_disk: Artifact) -> None:
    server.faults(delay=0.05)
    process = start("shuffle", s3)
    wait_for(s3, r"\.partial/records/0000", 2, process)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert s3.get("encode", on_disk.fingerprint) is None
    server.faults()
    made = shuffle(s3)
    assert made.manifest.resumed_parts >= 2 + 4  # the exchange's units too
    assert_whole(s3, made, on_disk)


@pytest.mark.parametrize("status", [500, 503])
def test_server_that_fails_now_and_then_costs_nothing(
    status: int, s3: ArtifactStore, server: S3Server, on_disk: Artifact
) -> None:
    server.faults(fail=4, status=status)
    assert_whole(s3, shuffle(s3), on_disk)


@pytest.mark.parametrize("status", [500, 503])
def test_lost_server_error_is_of_the_store_and_the_next_run_resumes(
    status: int, s3: ArtifactStore, server: S3Server, on_disk: Artifact
) -> None:
    server.faults(fail=1, status=status, count=30)
    with pytest.raises(StoreLostError, match=r"s3://hospital does not answer, or only with failures.*again"):
        shuffle(s3)
    server.faults()
    made = shuffle(s3)
    assert made.manifest.resumed_parts > 0
    assert_whole(s3, made, on_disk)


def test_no_server_error_names_the_bucket(
    s3: ArtifactStore, monkeypatch: pytest.MonkeyPatch, on_disk: Artifact
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    s3fs.S3FileSystem.clear_instance_cache()
    with pytest.raises(StoreLostError, match=r"s3://hospital does not answer"):
        shuffle(ArtifactStore(s3.root))


def test_bucket_without_write_permission_is_explained(s3: ArtifactStore, server: S3Server) -> None:
    server.faults(refuse="AccessDenied")
    with pytest.raises(UserError, match=r"s3://hospital refuses what we ask: Access Denied\. .*may read, write"):
        shuffle(s3)


def test_token_that_expires_in_mid_run_is_explained_and_a_new_one_resumes(
    s3: ArtifactStore, server: S3Server, on_disk: Artifact
) -> None:
    server.faults(refuse="ExpiredToken", count=30)
    with pytest.raises(UserError, match=r"refuses what we ask: (The provided token has expired|Forbidden)"):
        shuffle(s3)
    server.faults()
    made = shuffle(s3)
    assert made.manifest.resumed_parts > 0
    assert_whole(s3, made, on_disk)


def test_misspelt_bucket_is_named_and_not_made(s3: ArtifactStore) -> None:
    with pytest.raises(UserError, match=r"s3://hopsital does not exist.*YIWEN_HOME=s3://hopsital/home"):
        shuffle(ArtifactStore("s3://hopsital/home"))
    assert not s3.filesystem.exists("hopsital")


def test_two_builders_of_one_address_leave_one_artifact(s3: ArtifactStore, on_disk: Artifact) -> None:
    """Object stores have no locks: both write the same bytes to the same names, and the last manifest counts."""
    processes = [start("shuffle", s3) for _ in range(2)]
    said = [process.communicate(timeout=300)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], said
    found = s3.get("encode", on_disk.fingerprint)
    assert found is not None
    assert content(found) == content(on_disk)
    found.verify()


@pytest.mark.cluster
def test_killed_training_resumes_to_the_same_weights_and_losses(s3: ArtifactStore, tmp_path: Path) -> None:
    expected = pretrain(ArtifactStore(tmp_path))
    process = start("pretrain", s3)
    wait_for(s3, r"/train/.*checkpoints/step-000000004/checkpoint\.json", 1, process)
    process.send_signal(signal.SIGKILL)  # its driver ends with it
    process.wait()
    assert s3.get("train", expected.fingerprint) is None
    made = pretrain(s3)
    assert losses(made) == pytest.approx(losses(expected), abs=0, rel=0, nan_ok=True)
    left, right = weights(made), weights(expected)
    assert left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)
    assert not [name for name in names(s3) if ".partial" in name]


def losses(artifact: Artifact) -> dict[tuple[int, str, str], float]:
    rows = artifact.to_table().to_pylist()
    return {(row["step"], row["split"], row["name"]): row["value"] for row in rows if row["name"].endswith("loss")}


def weights(artifact: Artifact) -> dict[str, torch.Tensor]:
    checkpoints = Checkpoints(str(artifact.path), artifact.fingerprint)
    return checkpoints.load(checkpoints.at())["model"]


def test_server_that_hangs_is_waited_for(s3: ArtifactStore, server: S3Server, on_disk: Artifact) -> None:
    process = start("shuffle", s3)
    wait_for(s3, r"\.partial/records/", 1, process)
    server.hang()
    time.sleep(5)
    assert process.poll() is None
    server.go_on()
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    found = s3.get("encode", on_disk.fingerprint)
    assert found is not None
    assert_whole(s3, found, on_disk)


def test_local_roots_have_errors_of_disks_alone(tmp_path: Path) -> None:
    assert fsspec.core.url_to_fs(str(tmp_path))[0].protocol == ("file", "local")
    store = ArtifactStore(tmp_path / "file" / "store")
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"cannot be written \(Not a directory\)"):
        shuffle(store)
