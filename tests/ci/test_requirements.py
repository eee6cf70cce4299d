"""The list of packages that `make setup` installs."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from infra.settings import REPOSITORY
from tests.support.processes.fake_program import fake

requirements = runpy.run_path(str(REPOSITORY / ".ci" / "requirements.py"))["requirements"]


def test_everything_but_the_program_is_installed_without_a_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pyproject = REPOSITORY / "pyproject.toml"
    for name in ("g++", "make"):
        fake(tmp_path / "tools", "", name)
    monkeypatch.setenv("PATH", str(tmp_path / "tools"))
    with_program = requirements(pyproject)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    without = requirements(pyproject)
    assert set(with_program) - set(without) == {"autophrase; python_version < '3.12'"} and set(without) < set(
        with_program
    )
    assert "Leaving out the extra phrases: g++ and make not installed." in capsys.readouterr().err
