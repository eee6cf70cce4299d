"""Heavy stages as jobs: what the flow does with them, at a place of jobs in this process."""

from __future__ import annotations

import errno
import http.client
import json
import time
from pathlib import Path
from typing import Any

import pytest

from infra.artifacts import Artifact, ArtifactStore
from infra.cluster.jobs import EndpointLostError, JobState, launch, run_as_job
from infra.cluster.jobs.description import CodeVersion, StageRun, own_code
from infra.cluster.jobs.site import TokenRefusedError
from infra.errors import UserError
from infra.settings import Settings
from tasks.runner.stages import StageRunner
from tests.support.processes.job_site import SiteInProcess
from tests.support.processes.job_stages import SpellParams, Words, report, spell

LOST = JobState("FAILED", "the node was lost", None, is_of_the_cluster=True)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "SECONDS_BETWEEN_LOOKS", 0.01)
    monkeypatch.setenv("YIWEN_WORKERS", "1")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)


@pytest.fixture
def words(tmp_path: Path) -> Words:
    (tmp_path / "words.txt").write_text("abc")
    return Words(str(tmp_path / "words.txt"))


def ignore(name: str, done: int, total: int, note: str = "") -> None:
    """Listen to no progress."""


def run_spell(store: ArtifactStore, site: SiteInProcess, words: Words, **params: Any) -> Artifact:
    return run_as_job(spell, store, SpellParams(**params), {"words": words}, site=site, on_progress=ignore).artifact


def test_a_heavy_stage_is_a_job_and_a_light_one_is_not(store: ArtifactStore, words: Words) -> None:
    site = SiteInProcess()
    with_site = StageRunner(store, None, site)  # type: ignore[arg-type]
    made = with_site(spell, SpellParams(number=2.5, hidden=7), words=words)
    light = with_site(report, report.params(), spelled=made)
    again = with_site(spell, SpellParams(number=2.5, hidden=8), words=words)
    assert made.manifest.counters == {"letters": 3, "hidden": 7} and made.read_file("word.txt") == b"abc"
    assert light.manifest.counters == {"light": 1}
    assert again.fingerprint == made.fingerprint and len(site.commands) == 1
    assert list(Path(store.root, ".jobs").rglob("*.json")) == []


def test_progress_of_the_job_reaches_the_flow(store: ArtifactStore, words: Words) -> None:
    reported: list[tuple[str, int, int, str]] = []
    run_as_job(
        spell, store, SpellParams(), {"words": words},
        site=SiteInProcess(), on_progress=lambda name, done, total, note="": reported.append((name, done, total, note)),
    )  # fmt: skip
    assert reported[-1] == ("spell", 3, 3, "")


def test_a_running_job_is_followed_and_not_submitted_again(store: ArtifactStore, words: Words) -> None:
    site = SiteInProcess()
    described = StageRun.of(spell, store, SpellParams(), {"words": words})
    job = f"{launch.submission_name(described)}-1"
    site.states[job], site.logs[job], looks = JobState("RUNNING"), "", iter(range(9))

    def end_it() -> None:
        if next(looks) == 3:
            described.write(store)
            site.submit(job, ["python", "-m", "x", described.place("run.json")])

    site.before_state = end_it
    assert run_spell(store, site, words).manifest.counters["letters"] == 3
    assert list(site.states) == [job] and len(site.commands) == 1


def test_patience_counts_from_the_last_sign_of_a_job(
    store: ArtifactStore, words: Words, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job of hours is not forgotten by the cluster because it takes longer than the patience."""
    monkeypatch.setattr(launch, "PATIENCE_SECONDS", 0.2)
    site = SiteInProcess([JobState("RUNNING")])
    began = time.monotonic()

    def end_late() -> None:
        if time.monotonic() - began > 0.6:
            site.states = {job: LOST for job in site.states}
            site.before_state = lambda: None

    site.before_state = end_late
    assert run_spell(store, site, words).manifest.counters["letters"] == 3
    assert len(site.commands) == 2, "lost by the cluster, so tried again"


def test_only_failures_of_the_cluster_are_tried_again(store: ArtifactStore, words: Words, tmp_path: Path) -> None:
    """A lost node, a killed program and a store that is away cost an attempt; a defect and a user's error end it."""
    site = SiteInProcess([LOST, JobState("FAILED", "killed", 137)])
    assert run_spell(store, site, words).manifest.counters["letters"] == 3
    assert [job.rpartition("-")[2] for job in site.states] == ["1", "2", "3"]
    for ending, said in (
        ("cluster", "ConnectionError"),
        ("killed", "KilledError"),
        ("store", "s3://hospital does not answer"),
    ):
        away = SiteInProcess()
        with pytest.raises(RuntimeError, match=rf"(?s)spell-.*-3 is failed .*The cluster failed: {said}"):
            run_spell(store, away, words, ending=ending)
        assert len(away.states) == 3
    for ending, error, message in (
        ("user error", UserError, r"^row 3 is empty\.\nDelete it\.$"),
        ("defect", RuntimeError, r"(?s)-1 is failed \(exit code 1\).*resume spell.*no such place"),
    ):
        once = SiteInProcess()
        with pytest.raises(error, match=message):
            run_spell(store, once, words, ending=ending)
        assert len(once.states) == 1
    stopped = SiteInProcess([JobState("STOPPED", "by hand")])
    with pytest.raises(RuntimeError, match="is stopped"):
        run_spell(store, stopped, words, number=5.0)
    assert len(stopped.states) == 1


def test_a_failed_job_is_followed_by_the_next_attempt(store: ArtifactStore, words: Words, tmp_path: Path) -> None:
    site = SiteInProcess()
    marker = tmp_path / "ending"
    marker.write_text("defect")
    with pytest.raises(RuntimeError, match="no such place"):
        run_spell(store, site, words, marker=str(marker))
    marker.write_text("done")
    made = run_spell(store, site, words, marker=str(marker))
    assert [state.status for state in site.states.values()] == ["FAILED", "SUCCEEDED"]
    assert made.manifest.resumed_parts == 3  # finished by the first attempt


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit])
def test_an_interrupted_flow_stops_its_job(
    store: ArtifactStore, words: Words, interruption: type[BaseException]
) -> None:
    site = SiteInProcess([JobState("RUNNING")])
    looks = iter(range(99))

    def interrupt() -> None:
        if next(looks) == 3:
            raise interruption

    site.before_state = interrupt
    with pytest.raises(interruption):
        run_spell(store, site, words)
    assert site.stopped == list(site.states) and len(site.stopped) == 1


@pytest.mark.parametrize(
    ("error", "raised", "message"),
    [
        (
            OSError("no route"),
            EndpointLostError,
            r"does not answer \(no route\). The job spell-.* may still be running",
        ),
        (http.client.IncompleteRead(b""), EndpointLostError, "may still be running"),
        (json.JSONDecodeError("a page of a proxy", "<", 0), EndpointLostError, "may still be running"),
        (ZeroDivisionError("ours"), ZeroDivisionError, "ours"),
        (TokenRefusedError("It has expired."), UserError, r"It has expired\. The job spell-.* goes on: .* valid token"),
    ],
)
def test_a_job_outlives_a_lost_endpoint_and_an_expired_token(
    store: ArtifactStore, words: Words, error: Exception, raised: type[Exception], message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(launch, "PATIENCE_SECONDS", 0.05)
    site = SiteInProcess([JobState("RUNNING")])
    looks = iter(range(999))

    def fail() -> None:
        if next(looks) > 2:
            raise error

    site.before_state = fail
    with pytest.raises(raised, match=message):
        run_spell(store, site, words)
    assert site.stopped == [] and [state.status for state in site.states.values()] == ["RUNNING"]


def test_a_job_that_the_cluster_has_forgotten_is_not_waited_for(
    store: ArtifactStore, words: Words, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "PATIENCE_SECONDS", 0.05)
    site = SiteInProcess([JobState("RUNNING")])
    looks = iter(range(999))

    def forget() -> None:
        if next(looks) > 2:
            site.states.clear()

    site.before_state = forget
    with pytest.raises(EndpointLostError, match=r"knows no job spell-.* any more.* Run the same command again"):
        run_spell(store, site, words)


def test_job_of_another_code_version_is_refused_with_both(store: ArtifactStore, words: Words) -> None:
    theirs = CodeVersion(name="0.0.9", digest="0123456789ab")
    described = StageRun.of(spell, store, SpellParams(), {"words": words}).model_copy(update={"code": theirs})
    described.write(store)
    with pytest.raises(UserError) as refused:
        StageRun.read(described.place("run.json"))
    assert str(theirs) in str(refused.value) and str(own_code()) in str(refused.value)


def test_running_job_of_another_version_is_followed_with_a_warning(
    store: ArtifactStore, words: Words, caplog: pytest.LogCaptureFixture
) -> None:
    site = SiteInProcess()
    described = StageRun.of(spell, store, SpellParams(), {"words": words})
    described.model_copy(update={"code": CodeVersion(name="0.0.9", digest="0123456789ab")}).write(store)
    job = f"{launch.submission_name(described)}-1"
    site.states[job], site.logs[job] = JobState("RUNNING"), ""
    site.before_state = lambda: site.states.update({job: JobState("STOPPED")}) if caplog.messages else None
    with pytest.raises(RuntimeError, match="is stopped"):
        run_spell(store, site, words)
    assert "0123456789ab" in caplog.text and own_code().digest in caplog.text


def test_input_that_the_cluster_sees_otherwise_is_named(store: ArtifactStore, words: Words) -> None:
    described = StageRun.of(spell, store, SpellParams(), {"words": words})
    described.write(store)
    Path(words.path).write_text("other")
    with pytest.raises(UserError, match=r"input 'words' .*words\.txt.* has another content"):
        StageRun.read(described.place("run.json")).opened()
    Path(words.path).unlink()
    with pytest.raises(UserError, match=r"words\.txt does not exist\. Inputs of a job have to be on a disk"):
        StageRun.read(described.place("run.json")).opened()


def test_a_store_that_the_nodes_do_not_share_is_explained(store: ArtifactStore, words: Words) -> None:
    site = SiteInProcess([JobState("SUCCEEDED")])
    with pytest.raises(UserError, match="The nodes see another folder under this path"):
        run_spell(store, site, words)
    with pytest.raises(UserError, match=r"does not see .*nowhere/run\.json.*every node must see YIWEN_HOME"):
        StageRun.read(f"{store.root}/nowhere/run.json")


def test_a_read_only_root_is_explained_before_anything_is_submitted(
    store: ArtifactStore, words: Words, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str, exist_ok: bool) -> None:
        raise OSError(errno.EROFS, "Read-only file system", path)

    monkeypatch.setattr(store.filesystem, "makedirs", refuse)
    site = SiteInProcess()
    with pytest.raises(UserError, match=r"\.jobs/spell/\w+ cannot be written \(Read-only.* Point YIWEN_HOME at"):
        run_spell(store, site, words)
    assert site.commands == []


def test_run_json_contains_no_secret_and_only_places(
    store: ArtifactStore, words: Words, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RAY_AUTH_TOKEN", "YIWEN_DEIDENTIFY_KEY", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "a-secret-of-this-test")
    described = StageRun.of(spell, store, SpellParams(), {"words": words})
    described.write(store)
    text = Path(described.place("run.json")).read_text()
    assert "a-secret" not in text
    assert json.loads(text)["inputs"]["words"]["described"] == {"path": words.path}


def test_settings_know_both_kinds_of_places(monkeypatch: pytest.MonkeyPatch) -> None:
    for address in ("http://head:8265", "https://head", "kuberay://yiwen"):
        monkeypatch.setenv("RAY_ADDRESS", address)
        assert Settings.from_environment().executor == "processes"  # light stages stay here
