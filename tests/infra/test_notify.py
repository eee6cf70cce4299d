"""Notices of failed runs: what a webhook is told, and what it is not."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from flows.catalogue import Entry
from flows.cli import running
from infra.errors import UserError
from infra.notify import WEBHOOK, notify_failure
from tasks.runner import stage_runner
from tasks.runner.flow import LocalFlow


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, Any]]]:
    notices: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            notices.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *arguments: Any) -> None:
            """Nothing to the terminal."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    monkeypatch.setenv(WEBHOOK, f"http://127.0.0.1:{server.server_port}/a-secret-path")
    yield notices
    server.shutdown()
    server.server_close()


def refresh(ending: str = "") -> str:
    with stage_runner():
        if ending:
            raise UserError("张三.txt cannot be read: 患者张三")
    return "done"


def run_refresh(monkeypatch: pytest.MonkeyPatch, ending: str, home: Path) -> Any:
    monkeypatch.setenv("YIWEN_HOME", str(home))
    entry = Entry("corpus/refresh", "", "", "", {"ending": ending}, "")
    monkeypatch.setattr(running, "load_quickly", lambda entry: LocalFlow("corpus", refresh))
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.setattr(running, "prefect_server", lambda: None)
    return running.run_entry(entry, {"ending": ending}, [])


def test_a_failed_run_is_told_without_any_text(
    told: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert run_refresh(monkeypatch, "", tmp_path) == "done" and told == []
    with pytest.raises(UserError):
        run_refresh(monkeypatch, "fail", tmp_path)
    (notice,) = told
    assert notice.keys() == {"text", "flow", "run", "state", "time", "version"}
    assert (notice["flow"], notice["state"]) == ("corpus/refresh", "failed")
    assert "张三" not in json.dumps(notice, ensure_ascii=False)


def test_without_a_webhook_nobody_is_told(told: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(WEBHOOK)
    assert not notify_failure("corpus", "run", "failed") and told == []


@pytest.mark.parametrize(
    "address",
    [
        "http://127.0.0.1:1/a-secret-path",
        "nonsense a-secret-path",
        "http://[a-secret-path",
        "http://127.0.0.1:1/a-secret path",
    ],
)
def test_a_webhook_that_does_not_answer_costs_a_warning_without_its_secret(
    address: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(WEBHOOK, address)
    assert not notify_failure("corpus", "run", "crashed")
    assert "was not told that corpus crashed" in caplog.text and "a-secret" not in caplog.text
