"""The audit of pins with a stand-in for pip-audit: what it finds, and what it does where no database answers."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import pytest

from infra.settings import REPOSITORY

SCRIPT = runpy.run_path(str(REPOSITORY / ".ci" / "audit.py"))

STAND_IN = """
import json, pathlib, sys
asked = next(one.partition("=")[2] for one in sys.argv if one.startswith("--requirement="))
names = pathlib.Path(asked).read_text().split()
with open(sys.argv[1], "a") as log:
    log.write(f"{len(names)}\\n")
answers = json.loads(sys.argv[2])
if answers is None:
    sys.exit("ERROR:pip_audit:the service cannot be reached")
pins = [one.split("==") for one in names]
print(json.dumps({"dependencies": [{"name": name, "version": version, **answers} for name, version in pins]}))
"""

FAULT = {"vulns": [{"id": "PYSEC-0", "fix_versions": ["3.1.7"]}]}


def audit(folder: Path, answers: object) -> tuple[int, list[str]]:
    """Return the exit status, and the number of packages in each request."""
    (folder / "constraints.txt").write_text("jinja2==3.1.6\nregex==1.0\n")
    command = [sys.executable, "-c", STAND_IN, str(folder / "log"), json.dumps(answers)]
    status = SCRIPT["main"](command, folder / "constraints.txt")
    return status, (folder / "log").read_text().split()


def test_known_vulnerabilities_fail_and_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit(tmp_path, FAULT) == (1, ["1", "2"])
    shown = capsys.readouterr().out
    assert "jinja2 3.1.6: PYSEC-0, fixed in 3.1.7" in shown and "2 packages looked up, 2 known" in shown


def test_clean_pins_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit(tmp_path, {"vulns": []}) == (0, ["1", "2"])
    assert "2 packages looked up, 0 known vulnerabilities" in capsys.readouterr().out


@pytest.mark.parametrize("answers", [None, {"skip_reason": "Dependency not found"}])
def test_without_a_database_one_package_is_asked_for_and_it_says_so(
    answers: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert audit(tmp_path, answers) == (0, ["1"]), "a registry must not get a request for each pin"
    shown = capsys.readouterr().out
    assert "NOT DONE for the 2 packages of constraints.txt" in shown
    assert "cannot be reached" in shown or "does not know" in shown


def test_missing_pip_audit_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "constraints.txt").write_text("regex==1.0\n")
    assert SCRIPT["main"]([str(tmp_path / "none")], tmp_path / "constraints.txt") == 0
    assert "NOT DONE" in capsys.readouterr().out
