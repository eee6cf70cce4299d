"""Settings from the environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from infra.errors import UserError
from infra.settings import (
    JOB_VARIABLE,
    LOCAL_RAY_DEFAULTS,
    PRIVACY_DEFAULTS,
    REPOSITORY,
    Settings,
    available_cores,
    prefect_server,
)

VARIABLES = ("YIWEN_HOME", "YIWEN_WORKERS", "YIWEN_EXECUTOR", "RAY_ADDRESS", "YIWEN_CORPUS")


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*VARIABLES, JOB_VARIABLE):
        monkeypatch.delenv(name, raising=False)


def test_defaults() -> None:
    settings = Settings.from_environment()
    assert settings.home == str(REPOSITORY / "artifacts")
    assert settings.workers == available_cores() >= 1
    assert settings.ray_address is None
    assert settings.corpus is None


def test_the_environment_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("YIWEN_HOME", "s3://病历/artifacts")
    monkeypatch.setenv("YIWEN_WORKERS", "3")
    monkeypatch.setenv("RAY_ADDRESS", "ray://head:10001")
    monkeypatch.setenv("YIWEN_CORPUS", "病历/,s3://texts")
    assert Settings.from_environment() == Settings(
        home="s3://病历/artifacts",
        workers=3,
        ray_address="ray://head:10001",
        executor="ray",
        corpus="病历/,s3://texts",
    )


def test_empty_variables_count_as_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = Settings.from_environment()
    for name in VARIABLES:
        monkeypatch.setenv(name, "")
    assert Settings.from_environment() == expected


@pytest.mark.parametrize(
    ("environment", "executor"),
    [
        ({}, "processes"),
        ({"RAY_ADDRESS": "head:6379"}, "ray"),
        ({"RAY_ADDRESS": "http://head:8265"}, "processes"),  # a job endpoint takes no single tasks
        ({JOB_VARIABLE: "{}"}, "ray"),
        ({"YIWEN_EXECUTOR": "ray"}, "ray"),
        ({"YIWEN_EXECUTOR": "processes", "RAY_ADDRESS": "head:6379"}, "processes"),
    ],
)
def test_executor_follows_from_the_cluster(
    environment: dict[str, str], executor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert Settings.from_environment().executor == executor


def test_unknown_executor_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("YIWEN_EXECUTOR", "threads")
    with pytest.raises(UserError, match=r"YIWEN_EXECUTOR='threads' is unknown; .*processes or ray"):
        Settings.from_environment()


PROFILES = """
active = "ward"
[profiles.ward]
PREFECT_API_URL = "http://ward:4200/api"
[profiles.plain]
"""


@pytest.mark.parametrize(
    ("environment", "server"),
    [
        ({}, "http://ward:4200/api"),
        ({"PREFECT_PROFILE": "plain"}, None),
        ({"PREFECT_PROFILE": "missing"}, None),
        ({"PREFECT_API_URL": "http://other/api"}, "http://other/api"),
        ({"PREFECT_API_URL": ""}, None),  # how a user with a profile runs without a server
        ({"PREFECT_HOME": "nowhere"}, None),
    ],
)
def test_server_comes_from_the_environment_or_the_active_profile(
    environment: dict[str, str], server: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PREFECT_API_URL", "PREFECT_PROFILE", "PREFECT_PROFILES_PATH"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "profiles.toml").write_text(PROFILES, encoding="utf-8")
    for name, value in ({"PREFECT_HOME": str(tmp_path)} | environment).items():
        monkeypatch.setenv(name, value)
    assert prefect_server() == server


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5", "²", " "])
def test_impossible_number_of_workers_is_an_error(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("YIWEN_WORKERS", text)
    with pytest.raises(UserError, match=r"YIWEN_WORKERS=.*unset it or give 1 or more"):
        Settings.from_environment()


def test_only_granted_cores_count() -> None:
    code = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); import infra.settings as s; "
    assert _python(code + "print(s.available_cores())") == "1"


def test_importing_any_module_switches_telemetry_off() -> None:
    names = list(PRIVACY_DEFAULTS)
    found = _python(f"import os, infra.errors; print([os.environ[name] for name in {names}])")
    assert found == str(list(PRIVACY_DEFAULTS.values()))


TELEMETRY = """
import infra
import json
import prefect.analytics
from huggingface_hub import constants
from prefect.settings import get_current_settings
from ray._common.usage.usage_lib import usage_stats_enabled
print(json.dumps([
    prefect.analytics.is_telemetry_enabled(),
    get_current_settings().server.analytics_enabled,
    usage_stats_enabled(),
    not constants.HF_HUB_DISABLE_TELEMETRY,
    not constants.HF_HUB_OFFLINE,
]))
"""


@pytest.mark.parametrize("value", [None, "on"])
def test_libraries_report_nothing_unless_asked(value: str | None, tmp_path: Path) -> None:
    """What the libraries themselves understand: transformers asks huggingface_hub."""
    switched_on = {name: "true" if "ANALYTICS" in name else "0" for name in PRIVACY_DEFAULTS}
    switched_on |= {"RAY_USAGE_STATS_ENABLED": "1"}
    given = {} if value is None else switched_on
    # Prefect never reports from CI, whatever its settings; outside the checkout no pyproject.toml sets them for us.
    own = {name: text for name, text in os.environ.items() if name not in {*PRIVACY_DEFAULTS, "CI"}}
    own |= {"PYTHONPATH": str(REPOSITORY), "HOME": str(tmp_path), "PREFECT_HOME": str(tmp_path)} | given
    command = [sys.executable, "-c", TELEMETRY]
    shown = subprocess.run(command, env=own, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert json.loads(shown) == [value is not None] * 5


def test_variable_that_is_set_is_kept() -> None:
    code = "import os, infra.errors; print(os.environ['HF_HUB_OFFLINE'])"
    assert _python(code, HF_HUB_OFFLINE="0") == "0"


@pytest.mark.parametrize(
    ("environment", "mode"),
    [
        ({}, "token"),
        ({"RAY_ADDRESS": "http://head:8265"}, "disabled"),
        ({"RAY_ADDRESS": "https://head", "RAY_AUTH_TOKEN": "secret"}, "token"),
        ({"RAY_ADDRESS": "http://head:8265", "RAY_AUTH_TOKEN_PATH": "token.txt"}, "token"),
        ({"RAY_ADDRESS": "http://head:8265", "RAY_AUTH_TOKEN": "secret", "RAY_AUTH_MODE": "disabled"}, "disabled"),
        ({"RAY_ADDRESS": "head:6379"}, "None"),
    ],
)
def test_job_endpoint_is_sent_a_token_if_one_is_set(environment: dict[str, str], mode: str) -> None:
    code = "import os, infra; print(os.environ.get('RAY_AUTH_MODE'))"
    unset = {name: "" for name in ("RAY_ADDRESS", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")}
    assert _python(code, **{**unset, **environment}) == mode


def _python(code: str, **environment: str) -> str:
    """What a fresh interpreter without our variables prints."""
    ours = PRIVACY_DEFAULTS | LOCAL_RAY_DEFAULTS
    bare = {name: value for name, value in os.environ.items() if name not in ours}
    command = [sys.executable, "-c", code]
    given = bare | {"PYTHONPATH": str(REPOSITORY)} | environment
    return subprocess.run(command, env=given, capture_output=True, text=True, check=True).stdout.strip()
