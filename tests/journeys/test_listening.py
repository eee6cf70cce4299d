"""Everything that listens while a flow of a script runs on a private Ray, recorded by Prefect's temporary server."""

from __future__ import annotations

import ipaddress
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from infra.settings import REPOSITORY

pytestmark = [pytest.mark.server, pytest.mark.ray]

SCRIPT = """
import infra, prefect, sys
from infra.cluster.session import start_ray, stop_ray
from tasks.runner import flow

@flow(name="listens")
def listens() -> None:
    start_ray(2, None)
    import ray
    ray.get(ray.remote(lambda: 1).remote())  # a worker is there
    print("listening", flush=True)
    sys.stdin.readline()
    stop_ray()

listens()
"""


def test_a_recorded_run_on_a_private_ray_listens_on_loopback_only(tmp_path: Path) -> None:
    foreign = ("PREFECT_", "YIWEN_", "RAY_")
    own = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    own |= {"PYTHONPATH": str(REPOSITORY), "PREFECT_HOME": str(tmp_path), "HOME": str(tmp_path)}
    own |= {"PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "200"}
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT],
        env=own,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as script:
        assert script.stdin is not None and script.stdout is not None
        shown = ""
        while not shown.endswith("listening\n"):
            line = script.stdout.readline()
            assert line, shown
            shown += line
        found = listeners(psutil.Process(script.pid))
        script.stdin.write("\n")
        script.stdin.close()
        rest = script.stdout.read()
    assert script.returncode == 0, rest
    names = {name for name, _, _ in found}
    assert any("raylet" in name for name in names) and any("gcs_server" in name for name in names), found
    assert any("prefect" in name or "uvicorn" in name for name in names), f"no server of Prefect's in {found}"
    assert [one for one in found if not is_loopback(one[1])] == []


def listeners(process: psutil.Process) -> list[tuple[str, str, int]]:
    """Return program, address and port of every TCP socket on which a process and those below it wait for others."""
    return [
        (" ".join(one.cmdline()), socket.laddr.ip, socket.laddr.port)
        for one in [process, *process.children(recursive=True)]
        for socket in one.net_connections("inet")
        if socket.status == psutil.CONN_LISTEN
    ]


def is_loopback(address: str) -> bool:
    """Return whether an address is this machine's own; Ray gives IPv4 addresses in the form of IPv6."""
    found = ipaddress.ip_address(address)
    return (getattr(found, "ipv4_mapped", None) or found).is_loopback
