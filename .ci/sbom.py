"""Writes the software bill of materials of an installation: `sbom.py FILE`, CycloneDX 1.6 in JSON.

It lists every package that pyproject.toml and what it names bring into this environment, with version, licence and
dependencies. The scope says what for: `required` by all, `optional` for an extra, `excluded` from the product, as only
tests and documentation use it. What else is installed here is not listed. The same environment gives the same file.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Iterable, Mapping
from importlib.metadata import Distribution, distributions
from pathlib import Path

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.model.license import DisjunctiveLicense
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.requirements import Requirement

REPOSITORY = Path(__file__).resolve().parent.parent
NOT_SHIPPED = ("dev", "docs")
"""Extras that no user needs."""
LONGEST_NAME = 100
"""Characters of a licence's name; where packages give the whole text in its place, its first line is the name."""


def main(target: Path) -> int:
    """Write the file; returns the exit status."""
    installed = {normal(one.name): one for one in distributions()}
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(bill(project, installed), encoding="utf-8")
    print(f"sbom: {target}")
    return 0


def bill(project: Mapping[str, object], installed: Mapping[str, Distribution]) -> str:
    """Return the bill of a project, given the `project` table of its pyproject.toml and what is installed by name."""
    sys.path.insert(0, str(REPOSITORY))
    from infra.version import VERSION

    root = Component(
        name="yiwen",
        version=VERSION,
        type=ComponentType.APPLICATION,
        licenses=[LicenseFactory().make_from_string(str(project["license"]))],
        bom_ref="yiwen",
    )
    scopes = scopes_of(project, installed)
    components = {name: component(installed[name], scope) for name, scope in scopes.items()}
    bom = Bom(components=components.values())
    bom.metadata.component = root
    bom.register_dependency(root, [components[name] for name in direct(project) if name in components])
    for name, one in components.items():
        needed = {normal(wanted.name) for wanted in requirements(installed[name].requires or (), frozenset())}
        bom.register_dependency(one, [components[other] for other in sorted(needed) if other in components])
    made = json.loads(JsonV1Dot6(bom).output_as_string())
    # The library dates and numbers the file; neither says anything that the commit does not say.
    made["metadata"].pop("timestamp", None)
    made.pop("serialNumber", None)
    return json.dumps(made, indent=1, ensure_ascii=False) + "\n"


def scopes_of(project: Mapping[str, object], installed: Mapping[str, Distribution]) -> dict[str, ComponentScope]:
    """Return the scope of every package that the project brings, by name; the widest where there are several."""
    extras: Mapping[str, list[str]] = project["optional-dependencies"]  # type: ignore[assignment]
    shipped = [line for name, lines in extras.items() if name not in NOT_SHIPPED for line in lines]
    unshipped = [line for name in NOT_SHIPPED for line in extras.get(name, [])]
    found: dict[str, ComponentScope] = {}
    for lines, scope in (
        (unshipped, ComponentScope.EXCLUDED),
        (shipped, ComponentScope.OPTIONAL),
        (project["dependencies"], ComponentScope.REQUIRED),
    ):
        found |= dict.fromkeys(closure(lines, installed), scope)  # type: ignore[arg-type]
    return dict(sorted(found.items()))


def closure(lines: Iterable[str], installed: Mapping[str, Distribution]) -> set[str]:
    """Return the names of installed packages that requirements bring, with all that these bring."""
    found: set[tuple[str, frozenset[str]]] = set()
    waiting = requirements(lines, frozenset())
    while waiting:
        wanted = waiting.pop()
        key = normal(wanted.name), frozenset(wanted.extras)
        if key not in found and key[0] in installed:
            found.add(key)
            waiting += requirements(installed[key[0]].requires or (), key[1])
    return {name for name, _ in found}


def direct(project: Mapping[str, object]) -> list[str]:
    """Return the names of the packages that the project itself asks for, sorted."""
    extras: Mapping[str, list[str]] = project["optional-dependencies"]  # type: ignore[assignment]
    lines: list[str] = [*project["dependencies"], *(line for one in extras.values() for line in one)]  # type: ignore[misc]
    return sorted({normal(Requirement(line).name) for line in lines})


def requirements(lines: Iterable[str], extras: frozenset[str]) -> list[Requirement]:
    """Return those requirements that hold on this machine, with some extras of their package."""
    parsed = [Requirement(line) for line in lines]
    return [
        one
        for one in parsed
        if one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in (*extras, ""))
    ]


def component(found: Distribution, scope: ComponentScope) -> Component:
    """Return the entry of one installed package."""
    name = normal(found.name)
    return Component(
        name=found.name,
        version=found.version,
        type=ComponentType.LIBRARY,
        scope=scope,
        purl=PackageURL("pypi", None, name, found.version),
        bom_ref=f"{name}@{found.version}",
        licenses=licences(found),
    )


def licences(found: Distribution) -> list[DisjunctiveLicense]:
    """Return a package's licence as its metadata say it: an SPDX expression, a name, or classifiers."""
    stated = found.metadata.get("License-Expression") or ""
    if stated:
        return [LicenseFactory().make_from_string(stated)]  # type: ignore[list-item]
    kinds = [one for one in found.metadata.get_all("Classifier") or () if one.startswith("License :: ")]
    names = [one.rpartition(" :: ")[2] for one in kinds if one != "License :: OSI Approved"]
    given = (found.metadata.get("License") or "").strip()
    if given and not names:
        names = [given.splitlines()[0][:LONGEST_NAME]]
    return [DisjunctiveLicense(name=name) for name in sorted(set(names))]


def normal(name: str) -> str:
    """Return the normal form of a package's name (PEP 503): "ruamel.yaml" is "ruamel-yaml"."""
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
