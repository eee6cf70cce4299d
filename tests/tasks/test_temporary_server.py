"""The server that Prefect starts for a script: with a password, and gone soon after a script that is killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from infra.settings import REPOSITORY

SCRIPT = """
import prefect, sys, time
from tasks.runner import flow

@flow(name="waits")
def waits() -> None:
    print("recorded", prefect.runtime.flow_run.id, flush=True)
    time.sleep(600)

waits()
"""


@pytest.mark.server
def test_it_asks_for_a_password_and_ends_with_its_script(tmp_path: Path) -> None:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "YIWEN_"))}
    own |= {"PYTHONPATH": str(REPOSITORY), "PREFECT_HOME": str(tmp_path), "PYTHONUNBUFFERED": "1"}
    own |= {"PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "200"}
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT], env=own, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as script:
        try:
            shown = ""
            assert script.stdout is not None
            while "recorded" not in shown:
                line = script.stdout.readline()
                assert line, shown
                shown += line
            address = re.search(r"http://127\.0\.0\.1:\d+", shown)
            assert address, shown
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(f"{address[0]}/api/admin/version", timeout=60)
            assert refused.value.code == 401
            kept = {file.name: file.stat().st_mode & 0o077 for file in tmp_path.glob("prefect.db*")}
            assert "prefect.db" in kept
            assert set(kept.values()) == {0}, kept
        finally:
            script.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 30  # 2 s on a quiet machine
    while is_answering(address[0]) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not is_answering(address[0])


def is_answering(address: str) -> bool:
    try:
        urllib.request.urlopen(f"{address}/api/health", timeout=5).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


def settings_of(code: str, home: Path, **environment: str) -> str:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "YIWEN_"))}
    own |= {"PYTHONPATH": str(REPOSITORY), "PREFECT_HOME": str(home)} | environment
    script = (
        f"import prefect, os, flows.corpus; from prefect.settings import get_current_settings as now; print({code})"
    )
    found = subprocess.run([sys.executable, "-c", script], env=own, capture_output=True, text=True, check=True)
    return found.stdout.strip()


def test_a_configured_server_gets_no_password_of_ours(tmp_path: Path) -> None:
    url = {"PREFECT_API_URL": "http://127.0.0.1:9/api"}
    assert settings_of("now().api.auth_string, os.environ.get('YIWEN_RUN')", tmp_path, **url) == "None None"


def test_a_password_of_the_user_is_kept(tmp_path: Path) -> None:
    given = {"PREFECT_API_AUTH_STRING": "admin:mine"}
    code = "now().api.auth_string.get_secret_value(), now().server.api.auth_string"
    assert settings_of(code, tmp_path, **given) == "admin:mine None"
