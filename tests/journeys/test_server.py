"""The deployments on a real Prefect server with a worker: all are deployed, one is run, one is cancelled."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.artifacts import ArtifactStore
from tests.support.processes.job_endpoint import JobEndpointStandIn
from tests.support.processes.prefect_server import PrefectServer
from tests.support.processes.terminal import CTRL_C, TerminalRun, files_below, wait_until_gone
from tests.support.text.synthetic_text import synthetic_texts, write_corpus

pytestmark = [pytest.mark.server, pytest.mark.ray, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrefectServer]:
    folder = tmp_path_factory.mktemp("server")
    running = PrefectServer(folder)
    try:
        running.start_server()
        running.deploy()
        running.start_worker()
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


def run_deployment(server: PrefectServer, *options: str, **overrides: object) -> str:
    parameters = {"corpus": str(server.folder / "texts"), "overrides": OVERRIDES | overrides}
    given = [part for name, value in parameters.items() for part in ("--param", f"{name}={json.dumps(value)}")]
    return server.call("deployment", "run", "pretrain/ehealth-tiny", *options, *given)


def test_a_deployment_runs_with_a_worker(server: PrefectServer) -> None:
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


def test_cancelling_a_flow_run_stops_its_ray_job(server: PrefectServer) -> None:
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
        server.wait_until(lambda: "RUNNING" in endpoint.jobs.values())
        server.call("flow-run", "cancel", flow_run["id"])
        server.wait_until(lambda: "RUNNING" not in endpoint.jobs.values())
        assert list(endpoint.jobs.values()) == ["STOPPED"]
        server.wait_until(lambda: server.run(flow_run["id"])["state_type"] == "CANCELLED")
    finally:
        endpoint.stop()


def test_ctrl_c_ends_a_run_that_a_server_records(server: PrefectServer, tmp_path: Path) -> None:
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
    server.wait_until(lambda: server.run(flow_run["id"])["state_type"] == "CRASHED")
