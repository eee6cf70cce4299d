"""Stages in Prefect: progress and results on its pages, and parameters of its deployments."""

from __future__ import annotations

import logging
import types
from typing import Any

import pytest

from flows.catalogue import find
from flows.cli.submit import submit
from flows.corpus import corpus
from infra.counted import counted
from infra.errors import UserError
from tasks.runner import prefect_run as runner


@pytest.mark.parametrize(
    ("number", "name", "expected"),
    [
        (27_403, "documents", "27,403 documents"),
        (1, "documents", "1 document"),
        (1, "kg_entities", "1 kg_entity"),
        (1, "vocabulary", "1 vocabulary"),
        (0, "rejects", "0 rejects"),
    ],
)
def test_one_thing_is_no_plural(number: int, name: str, expected: str) -> None:
    assert counted(number, name) == expected


def test_progress_artifact_shows_the_share_and_the_note(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[tuple[float, str]] = []

    def create(*, progress: float, key: str, description: str) -> str:
        assert key == "train-progress"
        shown.append((progress, description))
        return "id"

    def update(*, artifact_id: Any, progress: float, description: str) -> None:
        assert artifact_id == "id"
        shown.append((progress, description))

    monkeypatch.setattr(runner, "create_progress_artifact", create)
    monkeypatch.setattr(runner, "update_progress_artifact", update)
    monkeypatch.setattr(runner, "SECONDS_BETWEEN_UPDATES", 0.0)
    progress = runner._ProgressArtifact("train", "step")
    progress.update("train", 0, 1_500)
    progress.update("train", 750, 1_500, "12 min left, 14,939 tokens/s, loss 56")
    assert shown == [
        (0.0, "train: 0 of 1,500"),
        (50.0, "train: 750 of 1,500, 12 min left, 14,939 tokens/s, loss 56"),
    ]


def test_unreachable_server_does_not_stop_a_stage(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    answers: list[BaseException | None] = [OSError("down"), OSError("down"), None, OSError("down"), None]
    shown: list[float] = []

    def create_or_update(*, progress: float, **named: Any) -> str:
        if (answer := answers.pop(0)) is not None:
            raise answer
        shown.append(progress)
        return "id"

    monkeypatch.setattr(runner, "create_progress_artifact", create_or_update)
    monkeypatch.setattr(runner, "update_progress_artifact", create_or_update)
    monkeypatch.setattr(runner, "SECONDS_BETWEEN_UPDATES", 0.0)
    progress = runner._ProgressArtifact("train", "step")
    with caplog.at_level(logging.WARNING, "infra.console.progress"):
        for done in range(1, 6):
            progress.update("train", done, 5)
    assert shown == [60.0, 100.0]
    told = [record.getMessage() for record in caplog.records]
    assert told == ["The progress of train cannot be shown (OSError: down); the work continues"] * 2  # one a streak
    answers.append(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        progress.update("train", 5, 5)


def test_dotted_parameters_of_a_deployment_are_overrides() -> None:
    real = runner.DottedFlow(corpus.fn, name="corpus")
    deployed = {**find("corpus/refresh").parameters, "overrides": {"segment.min_tokens": 8, "segment.hmm": True}}
    given = {**deployed, "corpus": "notes/", "segment.min_tokens": 16, "ingest.fields": {"a.csv": "病历"}}
    called = real.validate_parameters(given)
    assert called["corpus"] == "notes/" and called["preset"] == "default"
    assert called["overrides"] == {"segment.min_tokens": 16, "segment.hmm": True, "ingest.fields": {"a.csv": "病历"}}
    assert deployed["overrides"]["segment.min_tokens"] == 8
    assert runner.folded({"a": 1}) == {"a": 1}
    assert runner.folded({"overrides": None, "a.b": 1}) == {"overrides": {"a.b": 1}}


def test_results_are_markdown_that_no_value_breaks() -> None:
    rows = [{"sub-domain": "a|b*", "documents": 12_345, "note": None}, {"sub-domain": "<script>\nx", "documents": 1}]
    page = "/data/my store/report.html"
    text = runner.result_markdown("report_corpus", rows, page, f"file://{page}")
    assert text.splitlines() == [
        "## report corpus",
        "",
        "| sub-domain | documents | note |",
        "| --- | --- | --- |",
        r"| a\|b\* | 12,345 |  |",
        "| &lt;script> x | 1 |  |",
        "",
        "[Page with everything](file:///data/my%20store/report.html): `/data/my store/report.html`",
    ]
    assert "10 more rows are on the page." in runner.result_markdown("a", [{"x": 1}] * 60, "p", "l")


def test_a_worker_is_given_dotted_keys_within_overrides(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[Any] = []

    def run_deployment(name: str, parameters: dict[str, Any], timeout: int) -> Any:
        asked.append((name, parameters, timeout))
        return types.SimpleNamespace(name="brave-panda")

    monkeypatch.setattr("prefect.deployments.run_deployment", run_deployment)
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:1/api")
    given = ["corpus=2024", "segment.min_tokens=16", "keep_raw=false"]
    submit("corpus/refresh", given)
    assert capsys.readouterr().out == "brave-panda\n"
    (name, parameters, timeout) = asked[0]
    assert (name, timeout) == ("corpus/refresh", 0)
    assert parameters["corpus"] == "2024" and parameters["keep_raw"] is False
    assert parameters["overrides"] == {"segment.min_tokens": 16}
    monkeypatch.setenv("PREFECT_API_URL", "")
    with pytest.raises(UserError, match=r"No Prefect server is configured.*run corpus/refresh"):
        submit("corpus/refresh", given)
