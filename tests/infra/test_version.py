"""The version is written in one place; the changelog and the package metadata agree with it."""

from __future__ import annotations

import importlib
import re
import tomllib

from infra.settings import REPOSITORY
from infra.version import VERSION


def test_newest_heading_of_the_changelog_is_the_version() -> None:
    text = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")
    heading = re.search(r"^## (\S+)", text, re.MULTILINE)
    assert heading is not None and heading[1] == VERSION


def test_package_metadata_reads_the_version_from_here() -> None:
    pyproject = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" in pyproject["project"]["dynamic"] and "version" not in pyproject["project"]
    module, _, name = pyproject["tool"]["setuptools"]["dynamic"]["version"]["attr"].rpartition(".")
    assert getattr(importlib.import_module(module), name) == VERSION
