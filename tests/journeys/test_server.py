"""The deployments on a real Prefect server with a worker: all are deployed, one is run, one is cancelled."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from infra.artifacts import ArtifactStore
from infra.settings import REPOSITORY
from tests.support.processes.job_endpoint import JobEndpointStandIn
from tests.support.processes.terminal import CTRL_C, TerminalRun, files_below, wait_until_gone
from tests.support.text.synthetic_text import synthetic_texts, write_corpus

pytestmark = [pytest.mark.server, pytest.mark.ray, pytest.mark.timeout(1800)]

PREFECT = str(Path(sys.executable).parent / "prefect")


class Server:
    """A Prefect server of this test, its worker, and the environment that names them."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.folder = folder
        self.environment = {
            # Tests that ran flows in this process have left the password of their temporary server.
            **{name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")},
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

    def latest_run(self) -> dict[str, object]:
        """Return the run that was due last; the server has planned those of schedules for the days to come."""
        until = (datetime.now(UTC) + timedelta(minutes=5)).isoformat()
        due = {"flow_runs": {"expected_start_time": {"before_": until}}}
        (found,) = self.post("/flow_runs/filter", {**due, "sort": "EXPECTED_START_TIME_DESC", "limit": 1})
        return found

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
        running.call("work-pool", "create", "yiwen", "--type", "process")
        running.call("--no-prompt", "deploy", "--all")
        running.start("worker", "start", "--pool", "yiwen", "--type", "process", "--name", "test")
        write_corpus(folder / "texts")
        yield running
    finally:
        running.stop()
        shutil.rmtree(folder / "store", ignore_errors=True)


OVERRIDES = {
    "vocabulary.size": 2000,
    "segment.min_tokens": 8,
    "training.steps": 4,
    "training.warmup_steps": 1,
    "training.batch_size": 8,
    "training.log_every": 1,
    "model.num_layers": 1,
    "encode.held_out_share": 0.2,
}


def run_deployment(server: Server, *options: str, **overrides: object) -> str:
    parameters = {"corpus": str(server.folder / "texts"), "overrides": OVERRIDES | overrides}
    given = [part for name, value in parameters.items() for part in ("--param", f"{name}={json.dumps(value)}")]
    return server.call("deployment", "run", "pretrain/ehealth-tiny", *options, *given)


def test_a_deployment_runs_with_a_worker(server: Server) -> None:
    # It trains without a Ray of its own, which `test_pipeline.py` starts.
    run_deployment(server, "--watch", **{"cluster.workers": 0})
    model = ArtifactStore(server.folder / "store").latest("export")
    assert model is not None, server.logs()
    model.verify()
    artifacts = server.post("/artifacts/filter", {})
    keys = {artifact["key"] for artifact in artifacts}
    assert {"train-progress", "train-counters", "train-curves", "encode-counters", "vocabulary-counters"} <= keys
    deployments = server.post("/deployments/filter", {})
    assert {deployment["name"] for deployment in deployments} >= {"refresh", "build", "ehealth", "ehealth-tiny"}


def test_cancelling_a_flow_run_stops_its_ray_job(server: Server) -> None:
    endpoint = JobEndpointStandIn()
    try:
        # The endpoint is given no code: what a job does is not looked at here.
        environment = {
            "RAY_ADDRESS": endpoint.address,
            "RAY_AUTH_MODE": "disabled",
            "YIWEN_CLUSTER_CODE": "anywhere",
        }
        run_deployment(server, "--job-variable", f"env={json.dumps(environment)}", **{"training.seed": 7})
        flow_run = server.latest_run()
        wait_until(lambda: "RUNNING" in endpoint.jobs.values(), server)
        server.call("flow-run", "cancel", str(flow_run["id"]))
        wait_until(lambda: "RUNNING" not in endpoint.jobs.values(), server)
        assert list(endpoint.jobs.values()) == ["STOPPED"]
        ids = {"flow_runs": {"id": {"any_": [flow_run["id"]]}}}
        wait_until(lambda: server.post("/flow_runs/filter", ids)[0]["state_type"] == "CANCELLED", server)
    finally:
        endpoint.stop()


def test_ctrl_c_ends_a_run_that_a_server_records(server: Server, tmp_path: Path) -> None:
    """The server learns of it."""
    environment = {**server.environment, "YIWEN_HOME": str(tmp_path / "store"), "YIWEN_WORKERS": "1"}
    texts = synthetic_texts(tmp_path / "many")
    with TerminalRun(["-m", "flows", "run", "corpus/refresh", "--param", f"corpus={texts}"], environment) as run:
        run.wait_until(lambda: len(files_below(tmp_path / "store", ".parquet")) > 3)
        flow_run = server.latest_run()
        assert flow_run["state_type"] == "RUNNING"
        children = run.processes()
        run.press(CTRL_C)
        run.wait_for_end()
        assert run.process.returncode == 130
        assert "Traceback" not in run.shown
        assert run.lines()[-1].startswith("Interrupted. Finished work is kept in ")
        assert not wait_until_gone(children, 120)
    ids = {"flow_runs": {"id": {"any_": [flow_run["id"]]}}}
    wait_until(lambda: server.post("/flow_runs/filter", ids)[0]["state_type"] == "CRASHED", server)


def wait_until(condition: Callable[[], bool], server: Server) -> None:
    deadline = time.monotonic() + 180
    while not condition():
        assert time.monotonic() < deadline, server.logs()
        time.sleep(0.2)
