"""The version is written in one place; the changelog and the package metadata agree with it."""

from __future__ import annotations

import re
import tomllib

from setuptools.config.pyprojecttoml import read_configuration

from infra.settings import REPOSITORY
from infra.version import VERSION


def test_newest_heading_of_the_changelog_is_the_version() -> None:
    text = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")
    heading = re.search(r"^## (\S+)", text, re.MULTILINE)
    assert heading is not None and heading[1] == VERSION


def test_package_metadata_has_the_version_and_no_second_copy() -> None:
    pyproject = REPOSITORY / "pyproject.toml"
    assert "version" not in tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    assert read_configuration(pyproject)["project"]["version"] == VERSION
