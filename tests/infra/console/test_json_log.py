"""Log lines as JSON: one object a line with run, stage and part, also from worker processes and for errors."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from infra.console.json_log import JsonFormatter, is_json, logged_as
from infra.console.progress import StageProgress, shown_log
from infra.errors import UserError
from infra.settings import REPOSITORY

RUN = """
import logging, os, sys
from infra.artifacts import ArtifactStore
from infra.builds import PartWriter
from infra.cluster import processes
from infra.console.progress import shown_log
from infra.runs import begin_record, recording
from infra.stage import StageParams, run, stage

logging.getLogger("infra.stage").setLevel(logging.INFO)

def speak(part: PartWriter, number: int) -> None:
    logging.getLogger("tasks.clean").warning("part %d of %s", number, "她\\n说")

if __name__ == "__main__":
    import said
    processes.SECONDS_ALONE = 0.0
    store = ArtifactStore(sys.argv[1])
    with shown_log(), recording("corpus/refresh", []):
        begin_record(store)
        executor = processes.ProcessExecutor(2)
        run(stage(name="said", version=1, params=StageParams)(
            lambda inputs, params, out: out.map(said.speak, [0, 1, 2])), store, StageParams(), {}, executor=executor)
        executor.close()
"""


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_lines_of_workers_name_run_stage_and_part(tmp_path: Path) -> None:
    (tmp_path / "said.py").write_text(RUN, encoding="utf-8")
    path = os.pathsep.join([str(REPOSITORY), str(tmp_path)])
    done = subprocess.run(
        [sys.executable, str(tmp_path / "said.py"), str(tmp_path / "store")],
        env={**os.environ, "PYTHONPATH": path, "YIWEN_LOG": "json"},
        capture_output=True,
        text=True,
        check=True,
    )
    found = [one for one in lines(done.stderr) if one["logger"] == "tasks.clean"]
    (run,) = [one.name for one in (tmp_path / "store" / ".runs").iterdir() if one.is_dir()]
    assert {one["run"] for one in found} == {run}
    assert sorted((one["stage"], one["part"], one["message"]) for one in found) == [
        ("said", number, f"part {number} of 她\n说") for number in range(3)
    ]
    assert all(one["level"] == "warning" and one["time"].endswith("Z") for one in found)


def test_progress_and_errors_are_lines_too(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("YIWEN_LOG", "json")
    monkeypatch.delenv("YIWEN_RUN", raising=False)
    monkeypatch.setattr("infra.console.progress.SECONDS_BETWEEN_LINES", 0.0)
    with shown_log(), StageProgress("clean") as progress:
        progress.update("clean", 3, 9)
        progress.finish("clean: 9 documents")
        try:
            raise ValueError("no number")
        except ValueError:
            logging.getLogger("flows").exception("failed")
    shown = capsys.readouterr()
    first, second, third = lines(shown.err)
    assert (first["stage"], first["done"], first["total"]) == ("clean", 3, 9)
    assert second["message"] == "clean: 9 documents" and "run" not in second
    assert third["level"] == "error" and third["error"].endswith("ValueError: no number")
    assert shown.out == ""


def test_error_that_the_user_can_fix_is_a_line(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "flows", "show", "nowhere"],
        cwd=REPOSITORY,
        env={**os.environ, "YIWEN_LOG": "json", "YIWEN_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    (line,) = lines(done.stderr)
    assert done.returncode == 2 and line["level"] == "error" and "nowhere" in line["message"]


def test_fields_nest_and_prefects_run_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("YIWEN_RUN", raising=False)
    record = logging.LogRecord("prefect.task_runs", logging.INFO, "", 0, "done", None, None)
    record.flow_run_name = "quick-fox"
    with logged_as(stage="train"), logged_as(stage="inner", part=2):
        line = json.loads(JsonFormatter().format(record))
    assert (line["run"], line["stage"], line["part"]) == ("quick-fox", "inner", 2)
    record.flow_run_name = "<unknown>"
    assert not {"run", "stage"} & json.loads(JsonFormatter().format(record)).keys()


def test_unknown_form_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("YIWEN_LOG", "xml")
    with pytest.raises(UserError, match=r"YIWEN_LOG='xml' is unknown; unset it or give text or json"):
        is_json()
