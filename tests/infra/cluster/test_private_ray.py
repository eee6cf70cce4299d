"""A private Ray is for its own run: other users and machines have no token, no port and no folder."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from infra.cluster.private_ray import LONGEST_FOLDER, access_variables, make_folder, remove_folder
from infra.cluster.session import start_ray, stop_ray
from infra.errors import UserError
from infra.settings import REPOSITORY


@pytest.fixture
def no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)


def test_each_run_draws_a_token(no_token: None) -> None:
    first, second = (access_variables(False)["RAY_AUTH_TOKEN"] for _ in range(2))
    assert first != second
    assert len(first) == len(second) == 64


@pytest.mark.parametrize("name", ["RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"])
def test_the_token_of_the_user_is_kept(name: str, no_token: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "the-users-own")
    assert "RAY_AUTH_TOKEN" not in access_variables(False)


def test_a_private_ray_beside_an_open_endpoint_asks_for_a_token(no_token: None) -> None:
    assert access_variables(True)["RAY_AUTH_MODE"] == "token"
    assert "RAY_AUTH_MODE" not in access_variables(False), "the user may have switched it off"


@pytest.fixture
def folder() -> Iterator[Path]:
    yield Path(make_folder())
    remove_folder()


def test_the_folder_is_closed_to_others_and_short_enough_for_sockets(folder: Path) -> None:
    assert is_closed(folder)
    assert len(str(folder)) <= LONGEST_FOLDER
    remove_folder()
    assert not folder.parent.exists()


def test_a_long_path_of_temporary_files_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / ("long" * 20)))
    made = Path(make_folder())
    remove_folder()
    assert made.parent.parent == Path("/tmp")


def test_a_folder_that_takes_no_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_TMPDIR", "/proc/none")
    with pytest.raises(UserError, match=r"/proc/none takes none: .*Set RAY_TMPDIR"):
        make_folder()


def is_closed(folder: Path) -> bool:
    """Return whether other users cannot enter a folder, since it or one above it is closed to them."""
    return any(each.stat().st_mode & 0o077 == 0 for each in (folder, folder.parent))


OTHER = """
import sys, ray
from ray._raylet import GcsClient
try:
    GcsClient(address=sys.argv[1]).internal_kv_keys(b"", namespace=None)
except Exception as error:
    print(type(error).__name__)
else:
    print("let in")
"""


def other_client(address: str, **environment: str) -> str:
    """Return what happens to a client of another user, whose home and environment have no token of ours."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    command = [sys.executable, "-c", OTHER, address]
    return subprocess.run(command, env=own | environment, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.ray
def test_only_the_run_itself_reaches_its_ray(no_token: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    try:
        start_ray(2, None)
        import ray

        assert ray.get(ray.remote(lambda: os.getpid()).remote()) != os.getpid()
        address = ray.get_runtime_context().gcs_address
        # Ray opens the folder that it is given to everybody, and who reaches its sockets reads all objects.
        assert is_closed(Path(ray._private.worker._global_node.get_temp_dir_path()))
        home = str(tmp_path / "other")
        wrong = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0" * 64}
        assert other_client(address, HOME=home) == "AuthenticationError"
        assert other_client(address, HOME=home, **wrong) == "AuthenticationError"
        assert not (tmp_path / ".ray").exists(), "a token in the home folder"
        assert "RAY_AUTH_TOKEN" not in os.environ, "other programs that the run starts need none"

        listening = list(listeners())
        assert len(listening) > 5
        assert {ip.removeprefix("::ffff:") for ip, _ in listening} == {"127.0.0.1"}, "reachable from other machines"
        answers = {port: answer for _, port in listening if (answer := without_token(port)) is not None}
        print(answers)
        assert set(answers.values()) <= {"401", "metrics"}, answers
    finally:
        stop_ray()


def listeners() -> Iterator[tuple[str, int]]:
    """Yield the addresses on which this process and those below it wait for others."""
    me = psutil.Process()
    for process in [me, *me.children(recursive=True)]:
        for connection in process.net_connections("inet"):
            if connection.status == psutil.CONN_LISTEN:
                yield connection.laddr.ip, connection.laddr.port


def without_token(port: int) -> str | None:
    """Return what a port answers over HTTP to a request without a token; None if it does not speak HTTP."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5) as answer:
            return "metrics" if b"# HELP" in answer.read() else f"{answer.status}"
    except urllib.error.HTTPError as error:
        return str(error.code)
    except (OSError, ValueError):  # gRPC
        return None
    except Exception as error:
        if "BadStatusLine" in type(error).__name__:
            return None
        raise


def test_ports_stay_on_loopback_by_the_environment() -> None:
    code = "import infra, os; print(os.environ['RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER'])"
    own = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    own |= {"PYTHONPATH": str(REPOSITORY)}
    command = [sys.executable, "-c", code]
    assert subprocess.run(command, env=own, capture_output=True, text=True, check=True).stdout.strip() == "0"
