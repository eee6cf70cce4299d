"""The client of Ray's job endpoint against a stand-in: what is asked, what is understood, and tokens."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flows.recipes.pretraining import load_preset
from flows.shared.pretraining import check_gpus
from infra.artifacts import ArtifactStore
from infra.cluster.jobs import job_site, launch, run_as_job
from infra.cluster.jobs.ray_endpoint import RayEndpoint
from infra.cluster.jobs.site import TokenRefusedError
from infra.cluster.private_ray import read_access_again
from infra.errors import UserError
from infra.settings import REPOSITORY
from tasks.runner.stages import StageRunner
from tests.support.processes.job_endpoint import JobEndpointStandIn
from tests.support.processes.job_stages import SpellParams, Words, spell

StartEndpoint = Callable[..., JobEndpointStandIn]


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[StartEndpoint]:
    started: list[JobEndpointStandIn] = []

    def begin(**options: object) -> JobEndpointStandIn:
        started.append(JobEndpointStandIn(**options))  # type: ignore[arg-type]
        return started[-1]

    access = pytest.MonkeyPatch()
    access.setenv("RAY_AUTH_MODE", "disabled")
    read_access_again()
    monkeypatch.setenv("YIWEN_CLUSTER_CODE", str(REPOSITORY))  # nothing is uploaded
    monkeypatch.setenv("YIWEN_CLUSTER_PYTHON", sys.executable)
    monkeypatch.setattr(launch, "SECONDS_BETWEEN_LOOKS", 0.05)
    monkeypatch.setattr("infra.cluster.jobs.ray_endpoint.SECONDS_BETWEEN_POLLS", 0.05)
    yield begin
    access.undo()
    read_access_again()
    for endpoint in started:
        endpoint.stop()


@pytest.fixture
def words(tmp_path: Path) -> Words:
    (tmp_path / "words.txt").write_text("abc")
    return Words(str(tmp_path / "words.txt"))


def test_a_stage_runs_by_the_command_line_of_its_job(
    start: StartEndpoint, store: ArtifactStore, words: Words, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a process of its own, whose log comes without WebSockets too."""
    monkeypatch.setenv("YIWEN_LIMITS", "row_bytes=1GiB")
    monkeypatch.setenv("YIWEN_DEIDENTIFY_KEY", "a-secret-of-this-test-of-32-letters")
    endpoint = start(runs=True)
    params, site = SpellParams(ending="user error"), job_site(endpoint.address)
    with pytest.raises(UserError, match=r"^row 3 is empty\.\nDelete it\.$"):
        run_as_job(spell, store, params, {"words": words}, site=site, on_progress=lambda *progress: None)
    (job,) = endpoint.jobs
    assert endpoint.jobs[job] == "FAILED" and "血糖 1.0" in endpoint.logs[job]
    variables = endpoint.environments[job]["env_vars"]
    assert variables["YIWEN_LIMITS"] == "row_bytes=1GiB" and "YIWEN_DEIDENTIFY_KEY" not in variables


@pytest.mark.parametrize(
    ("details", "expected"),
    [
        ({"error_type": "JOB_SUPERVISOR_ACTOR_DIED"}, True),
        ({}, True),
        ({"error_type": "RUNTIME_ENV_SETUP_FAILURE"}, False),
        ({"error_type": "JOB_ENTRYPOINT_COMMAND_ERROR", "driver_exit_code": 1}, False),
    ],
)
def test_whose_fault_a_failure_is(start: StartEndpoint, details: dict[str, object], expected: bool) -> None:
    endpoint = start()
    endpoint.jobs["one"], endpoint.details["one"] = "FAILED", details
    state = RayEndpoint(endpoint.address).state("one")
    assert state is not None and state.is_of_the_cluster is expected


def test_a_replaced_token_is_read_again_and_an_expired_one_is_explained(
    start: StartEndpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = start(token="the-first-token-of-this-test-of-40-letters")
    token = tmp_path / "token"
    token.write_text(endpoint.token or "")
    with monkeypatch.context() as own:
        own.delenv("RAY_AUTH_TOKEN", raising=False)
        own.setenv("RAY_AUTH_MODE", "token")
        own.setenv("RAY_AUTH_TOKEN_PATH", str(token))
        read_access_again()
        site = RayEndpoint(endpoint.address)
        assert site.state("one") is None
        endpoint.token = "the-second-token-of-this-test-of-40-letters"
        with pytest.raises(TokenRefusedError, match=r"has expired\. Set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN"):
            site.state("one")
        token.write_text(endpoint.token)
        assert site.state("one") is None


def test_a_preset_for_gpus_is_refused_where_there_are_none(
    start: StartEndpoint, store: ArtifactStore, caplog: pytest.LogCaptureFixture
) -> None:
    def check(gpus: int, **overrides: object) -> None:
        site = RayEndpoint(start(gpus=gpus).address)
        check_gpus(StageRunner(store, None, site), load_preset("ehealth", overrides))  # type: ignore[arg-type]

    with pytest.raises(UserError, match=r"none on its 1 nodes with 4 cores\. Add --param cluster\.gpu=true"):
        check(0)
    check(1)
    check(0, **{"cluster.gpu": False})
    assert not caplog.records
    check(0, **{"cluster.gpu": True})
    assert "waits 10 minutes" in caplog.text
    check_gpus(StageRunner(store, None), load_preset("ehealth", {}))  # type: ignore[arg-type]
