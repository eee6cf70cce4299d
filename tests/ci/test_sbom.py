"""The software bill of materials: valid by CycloneDX's own schema, complete, and the same every time."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from infra.settings import REPOSITORY
from infra.version import VERSION


def written(folder: Path, name: str) -> str:
    file = folder / name
    subprocess.run([sys.executable, str(REPOSITORY / ".ci" / "sbom.py"), str(file)], check=True, capture_output=True)
    return file.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    return written(tmp_path_factory.mktemp("sbom"), "first.json")


def test_it_is_valid_and_a_broken_one_is_not(text: str) -> None:
    validator = JsonStrictValidator(SchemaVersion.V1_6)
    assert validator.validate_str(text) is None
    assert validator.validate_str(text.replace('"library"', '"libary"', 1)) is not None


def test_the_same_environment_gives_the_same_file(text: str, tmp_path: Path) -> None:
    assert written(tmp_path, "again.json") == text


def test_packages_have_version_scope_and_dependencies(text: str) -> None:
    bom = json.loads(text)
    assert (bom["metadata"]["component"]["name"], bom["metadata"]["component"]["version"]) == ("yiwen", VERSION)
    found: dict[str, Any] = {one["name"].lower(): one for one in bom["components"]}
    scopes = {name: found[name]["scope"] for name in ("polars", "pydantic_core", "torch", "pytest", "jinja2")}
    assert scopes == {
        "polars": "required",
        "pydantic_core": "required",  # pydantic brings it
        "torch": "optional",
        "pytest": "excluded",
        "jinja2": "required",  # also of mkdocs, which is excluded: the widest counts
    }
    assert found["polars"]["version"] == version("polars")
    assert found["polars"]["purl"] == f"pkg:pypi/polars@{version('polars')}"
    needed = {one["ref"]: one.get("dependsOn", []) for one in bom["dependencies"]}
    assert f"markupsafe@{version('markupsafe')}" in needed[f"jinja2@{version('jinja2')}"]
    assert f"polars@{version('polars')}" in needed["yiwen"]


def test_what_is_listed_is_pinned_and_has_a_licence(text: str) -> None:
    lines = (REPOSITORY / "constraints.txt").read_text(encoding="utf-8").split()
    pins = {line.partition("==")[0].lower().replace("_", "-").replace(".", "-") for line in lines}
    components = json.loads(text)["components"]
    names = {one["purl"].removeprefix("pkg:pypi/").partition("@")[0] for one in components}
    assert names <= pins, "a fresh clone would get another version"
    without = {one["name"] for one in components if one["scope"] != "excluded" and not one.get("licenses")}
    assert without == {"cuda-toolkit", "setuptools"}, "their metadata name none: NVIDIA's terms, and MIT"
