"""RayJobs against a stand-in of the API server: what is created, what is understood, tokens and refusals."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.artifacts import ArtifactStore
from infra.cluster.jobs import job_site, launch, run_as_job
from infra.cluster.jobs.kuberay import LONGEST_NAME, KubeRaySite, read_template, resource_name
from infra.cluster.jobs.site import TokenRefusedError
from infra.errors import UserError
from infra.settings import REPOSITORY
from tests.support.processes.job_stages import SpellParams, Words, spell
from tests.support.processes.kubernetes_api import KubernetesApiStandIn

TEMPLATE = REPOSITORY / "infra/kuberay/base/rayjob.yaml"
TOKEN = "a-token-of-this-test"
LOST = {"jobDeploymentStatus": "Failed", "jobStatus": "FAILED", "reason": "AppFailed", "message": "The driver died."}

StartApi = Callable[..., KubernetesApiStandIn]


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[StartApi]:
    started: list[KubernetesApiStandIn] = []
    (tmp_path / "token").write_text(f"{TOKEN}\n")

    def begin(*statuses: dict[str, Any], log: str = "") -> KubernetesApiStandIn:
        started.append(KubernetesApiStandIn(list(statuses), TOKEN, log))
        monkeypatch.setenv("YIWEN_KUBERNETES_API", started[-1].address)
        return started[-1]

    monkeypatch.setenv("YIWEN_RAYJOB", str(TEMPLATE))
    monkeypatch.setenv("YIWEN_KUBERNETES_TOKEN_PATH", str(tmp_path / "token"))
    monkeypatch.setenv("YIWEN_DEIDENTIFY_KEY", "a-secret-of-this-test-of-32-letters")
    monkeypatch.setenv("YIWEN_WORKERS", "1")
    monkeypatch.setattr(launch, "SECONDS_BETWEEN_LOOKS", 0.01)
    yield begin
    for api in started:
        api.stop()


@pytest.fixture
def words(tmp_path: Path) -> Words:
    (tmp_path / "words.txt").write_text("abc")
    return Words(str(tmp_path / "words.txt"))


def run_spell(store: ArtifactStore, words: Words, **params: Any) -> Any:
    site = job_site("kuberay://yiwen")
    return run_as_job(
        spell, store, SpellParams(**params), {"words": words}, site=site, on_progress=lambda *progress: None
    ).artifact


def test_a_stage_is_a_rayjob_that_removes_its_cluster(start: StartApi, store: ArtifactStore, words: Words) -> None:
    api = start(LOST)
    assert run_spell(store, words).manifest.counters["letters"] == 3
    names = list(api.jobs)
    assert [name.rpartition("-")[2] for name in names] == ["1", "2"]  # the first lost its driver
    made = api.jobs[names[1]]
    assert made["spec"]["shutdownAfterJobFinishes"] and made["spec"]["backoffLimit"] == 0
    assert made["metadata"]["namespace"] == "yiwen"
    assert re.fullmatch(r"spell-\w{32}-\w{8}-2", made["metadata"]["annotations"]["yiwen/job"])
    assert made["spec"]["rayClusterSpec"] == yaml.safe_load(TEMPLATE.read_text())["spec"]["rayClusterSpec"]
    variables = yaml.safe_load(made["spec"]["runtimeEnvYAML"])["env_vars"]
    assert variables["YIWEN_WORKERS"] == "1" and variables["RAY_USAGE_STATS_ENABLED"] == "0"
    assert "a-secret" not in str(made) and TOKEN not in str(made)


def test_error_of_the_program_is_the_flows(start: StartApi, store: ArtifactStore, words: Words) -> None:
    api = start(log="血糖 1.0\nerror: row 3 is empty.\nDelete it.\n")
    with pytest.raises(UserError, match=r"^row 3 is empty\.\nDelete it\.$"):
        run_spell(store, words, ending="user error")
    assert len(api.jobs) == 1


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({}, ("PENDING", None, False)),
        ({"jobDeploymentStatus": "Suspended"}, ("PENDING", None, False)),
        ({"jobDeploymentStatus": "Running", "jobStatus": "RUNNING"}, ("RUNNING", None, False)),
        ({"jobDeploymentStatus": "Complete", "jobStatus": "STOPPED"}, ("STOPPED", None, False)),
        ({"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"}, ("SUCCEEDED", 0, False)),
        ({"jobDeploymentStatus": "Failed", "reason": "SubmissionFailed"}, ("FAILED", None, True)),
        ({"jobDeploymentStatus": "Failed", "reason": "PreRunningDeadlineExceeded"}, ("FAILED", None, False)),
        (LOST, ("FAILED", None, True)),
        ({**LOST, "message": "Job entrypoint command failed with exit code 1, last …"}, ("FAILED", 1, False)),
    ],
)
def test_states_of_kuberay_are_understood(start: StartApi, status: dict[str, Any], expected: tuple[Any, ...]) -> None:
    start(status)
    site = job_site("kuberay://yiwen")
    assert site.state("spell-1") is None
    assert site.submit("spell-1", ["python", "-m", "x", "run.json"])
    assert not site.submit("spell-1", ["python", "-m", "x", "run.json"])
    state = site.state("spell-1")
    assert state is not None and (state.status, state.exit_status, state.is_of_the_cluster) == expected


def test_a_stopped_job_is_deleted_with_its_cluster(start: StartApi) -> None:
    api = start({"jobDeploymentStatus": "Running", "jobStatus": "RUNNING"})
    site = job_site("kuberay://yiwen")
    site.submit("spell-1", ["python"])
    site.stop("spell-1")
    assert api.deleted == [resource_name("spell-1")] and site.state("spell-1") is None


def test_a_job_that_is_being_deleted_is_over(start: StartApi) -> None:
    """kubectl delete leaves a RayJob, with its last status, until its finalizers are done."""
    api = start({"jobDeploymentStatus": "Running", "jobStatus": "RUNNING"})
    site = job_site("kuberay://yiwen")
    site.submit("spell-1", ["python"])
    state = site.state("spell-1")
    assert state is not None and state.status == "RUNNING"
    api.jobs[resource_name("spell-1")]["metadata"]["deletionTimestamp"] = "2026-11-23T20:00:00Z"
    state = site.state("spell-1")
    assert state is not None and state.is_over and state.status == "STOPPED"
    api.jobs[resource_name("spell-1")]["status"] = {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"}
    state = site.state("spell-1")
    assert state is not None and state.status == "SUCCEEDED", "what has ended stays so"


def test_an_expired_token_is_explained_and_a_new_one_is_read(start: StartApi, tmp_path: Path) -> None:
    api = start()
    site = job_site("kuberay://yiwen")
    assert site.state("spell-1") is None
    api.token = "the-next-token"
    with pytest.raises(TokenRefusedError, match=r"Unauthorized.*access\.yaml, or renew the token in .*token"):
        site.state("spell-1")
    (tmp_path / "token").write_text("the-next-token")
    assert site.state("spell-1") is None


def test_names_fit_kubernetes() -> None:
    names = [resource_name(f"{stage}-{'0' * 32}-1f0c2a9b-12") for stage in ("train", "kg_embeddings", "x" * 60)]
    assert all(re.fullmatch(r"[a-z]([a-z0-9-]*[a-z0-9])?", name) and len(name) <= LONGEST_NAME for name in names)
    assert names[1].startswith("yw-kg-embeddings-") and len(set(names)) == 3
    assert resource_name("train-a-1") != resource_name("train-a-2") != resource_name("train-b-2")


def test_nodes_are_those_of_the_manifest(start: StartApi) -> None:
    start()
    nodes = job_site("kuberay://yiwen").nodes()
    assert nodes is not None and len(nodes) == 9 and nodes[0]["CPU"] == 2 and nodes[8] == {"CPU": 8, "GPU": 0}


@pytest.mark.parametrize(
    ("address", "variables", "message"),
    [
        ("kuberay://", {}, "names no namespace"),
        ("kuberay://yiwen", {"YIWEN_RAYJOB": ""}, r"YIWEN_RAYJOB is not set\. Make a manifest by kubectl kustomize"),
        ("kuberay://yiwen", {"YIWEN_RAYJOB": "nowhere.yaml"}, r"nowhere\.yaml cannot be read"),
        ("kuberay://yiwen", {"YIWEN_RAYJOB": str(REPOSITORY / "prefect.yaml")}, "has 0 RayJobs; one is needed"),
        ("kuberay://yiwen", {"YIWEN_KUBERNETES_API": ""}, "in no pod of Kubernetes, and YIWEN_KUBERNETES_API is not"),
        ("kuberay://yiwen", {"YIWEN_KUBERNETES_TOKEN_PATH": "nowhere"}, "nowhere does not exist"),
    ],
)
def test_what_is_missing_is_named(
    start: StartApi, address: str, variables: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    start()
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UserError, match=message):
        KubeRaySite.from_environment(address)


def test_template_is_read_beside_other_resources(tmp_path: Path) -> None:
    (tmp_path / "all.yaml").write_text("kind: ResourceFlavor\n---\n" + TEMPLATE.read_text())
    assert read_template(str(tmp_path / "all.yaml"))["kind"] == "RayJob"
