"""The deployments on a real Prefect server: start it, deploy all, start a worker, run one with --watch."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.artifacts import ArtifactStore
from infra.settings import REPOSITORY
from tests.corpus import write_corpus

pytestmark = [pytest.mark.server, pytest.mark.ray, pytest.mark.timeout(420)]

PREFECT = str(Path(sys.executable).parent / "prefect")


class Server:
    """A Prefect server of this test, its worker, and the environment that names them."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.folder = folder
        self.environment = {
            **os.environ,
            "PREFECT_HOME": str(folder / "prefect"),
            "PREFECT_API_URL": f"http://127.0.0.1:{self.port}/api",
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "DO_NOT_TRACK": "1",
            "YIWEN_HOME": str(folder / "store"),
            "PYTHONPATH": str(REPOSITORY),
        }
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self, *arguments: str) -> None:
        log = (self.folder / f"{arguments[0]}.log").open("wb")
        self._processes.append(
            subprocess.Popen(
                [PREFECT, *arguments], cwd=REPOSITORY, env=self.environment, stdout=log, stderr=subprocess.STDOUT
            )
        )

    def call(self, *arguments: str) -> str:
        done = subprocess.run(
            [PREFECT, *arguments], cwd=REPOSITORY, env=self.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"prefect {' '.join(arguments)}\n{done.stdout}\n{done.stderr}\n{self.logs()}"
        return done.stdout

    def post(self, path: str, body: dict[str, object]) -> list[dict[str, object]]:
        request = urllib.request.Request(
            f"{self.environment['PREFECT_API_URL']}{path}",
            data=json.dumps(body).encode(),
            headers={"content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read())

    def wait_until_healthy(self) -> None:
        deadline = time.monotonic() + 120
        while True:
            try:
                urllib.request.urlopen(f"{self.environment['PREFECT_API_URL']}/health", timeout=5).close()
                return
            except OSError:
                assert self._processes[0].poll() is None, self.logs()
                assert time.monotonic() < deadline, self.logs()
                time.sleep(0.3)

    def logs(self) -> str:
        return "\n".join(path.read_text(errors="replace")[-3000:] for path in self.folder.glob("*.log"))

    def stop(self) -> None:
        for process in reversed(self._processes):
            process.terminate()
        for process in reversed(self._processes):
            process.wait(60)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    running = Server(folder)
    running.start("server", "start", "--port", str(running.port), "--host", "127.0.0.1")
    try:
        running.wait_until_healthy()
        yield running
    finally:
        running.stop()
        shutil.rmtree(folder / "store", ignore_errors=True)


def test_deploy_all_and_run_one_with_a_worker(server: Server) -> None:
    corpus = write_corpus(server.folder / "texts")
    server.call("work-pool", "create", "yiwen", "--type", "process")
    server.call("--no-prompt", "deploy", "--all")
    server.start("worker", "start", "--pool", "yiwen", "--type", "process", "--name", "test")
    overrides = {
        "vocabulary.size": 2000,
        "segment.min_tokens": 8,
        "training.steps": 4,
        "training.warmup_steps": 1,
        "training.batch_size": 8,
        "training.log_every": 1,
        "model.num_layers": 1,
        "encode.held_out_share": 0.2,
    }
    server.call(
        "deployment",
        "run",
        "pretrain/ehealth-tiny",
        "--watch",
        "--param",
        f"corpus={json.dumps(str(corpus))}",
        "--param",
        f"overrides={json.dumps(overrides)}",
    )
    model = ArtifactStore(server.folder / "store").latest("export")
    assert model is not None, server.logs()
    model.verify()
    artifacts = server.post("/artifacts/filter", {})
    keys = {artifact["key"] for artifact in artifacts}
    assert {"train-progress", "train-counters", "train-curves", "encode-counters", "vocabulary-counters"} <= keys
    deployments = server.post("/deployments/filter", {})
    assert {deployment["name"] for deployment in deployments} >= {"refresh", "build", "ehealth", "ehealth-tiny"}
