"""Hygiene checks: addresses in pins and paths of a machine are found, ordinary lines are not."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from infra.settings import REPOSITORY

SCRIPT = runpy.run_path(str(REPOSITORY / ".ci" / "hygiene.py"))


@pytest.mark.parametrize("line", ["torch==2.9.1+cpu", "ruff==0.14.6"])
def test_pins_of_name_and_version_pass(line: str) -> None:
    assert SCRIPT["bad_pins"](line) == []


@pytest.mark.parametrize("line", ["torch>=2", "torch", "torch @ https://example.org/torch.whl", "--index-url x", ""])
def test_other_lines_of_a_constraints_file_are_found(line: str) -> None:
    assert SCRIPT["bad_pins"](f"ruff==0.14.6\n{line}\nnumpy==2.3.4") == [line]


@pytest.mark.parametrize(
    "line",
    ["see /home/li/notes", "/Users/wang/data", "cd /" + "root/x", "in /srv/checkouts/yiwen", "in /srv/people/li"],
)
def test_paths_of_a_machine_are_found(line: str) -> None:
    found = SCRIPT["machine_paths"](f"clean\n{line}", Path("/srv/people/li"), Path("/srv/checkouts/yiwen"))
    assert found == [line]


@pytest.mark.parametrize("line", ["/home/ and /Users/", "/app/data", "the root/ of a tree", "~/notes"])
def test_ordinary_lines_pass(line: str) -> None:
    assert SCRIPT["machine_paths"](line, Path("/srv/people/li"), Path("/app")) == []
