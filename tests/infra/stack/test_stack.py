"""The local stack with small servers in place of the real ones: what is started, told, ended, and left alone."""

from __future__ import annotations

import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.errors import UserError
from infra.stack import down, services, up
from infra.stack.processes import Process, ProcessFile, descendants, end, left_behind, process
from infra.stack.services import Ports, Service, Stack
from tests.support.processes.fake_program import fake

SERVER = """
import socket, subprocess, sys, time
child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])
server = socket.create_server(('127.0.0.1', int(sys.argv[1])))
time.sleep(60)
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    except OSError:
        return False


def small(name: str, code: str = SERVER) -> Service:
    return Service(
        name,
        lambda stack: [sys.executable, "-c", code, str(stack.ports.prefect if "prefect" in name else stack.ports.ray)],
        lambda stack: stack.environment,
        lambda stack: answers(stack.ports.prefect if "prefect" in name else stack.ports.ray),
        lambda ports: ports.prefect if "prefect" in name else ports.ray,
    )


@pytest.fixture
def ports() -> Ports:
    return Ports(free_port(), free_port())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(up, "_elasticsearch", lambda folder, wanted: {})
    monkeypatch.setattr(up, "FOLDER", tmp_path)
    use(monkeypatch, small("prefect-server"), small("ray-head"))
    yield tmp_path / "stack"
    down.down(tmp_path / "stack")


def use(monkeypatch: pytest.MonkeyPatch, *given: Service) -> None:
    for module in (up, down, services):
        monkeypatch.setattr(module, "SERVICES", given)


def test_up_and_down_are_idempotent_and_end_only_their_own(folder: Path, ports: Ports) -> None:
    bystander = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        assert up.up(folder, ports).startswith("Started prefect-server, ray-head.")
        first = ProcessFile(folder / "processes.json").read()
        assert up.up(folder, ports).startswith("Everything is running already.")
        assert ProcessFile(folder / "processes.json").read() == first
        first["ray-head"].signal(signal.SIGKILL)
        while first["ray-head"].is_alive:
            time.sleep(0.01)
        for child in descendants([process(bystander.pid)])[1:]:
            child.signal(signal.SIGKILL)
        ports_of_ray_free_again(ports)
        assert up.up(folder, ports).startswith("Started ray-head.")
        second = ProcessFile(folder / "processes.json").read()
        assert second["prefect-server"] == first["prefect-server"] != second["ray-head"]
        below = descendants(second.values())
        assert len(below) == 4  # each server has a child
        assert down.down(folder) == "Ended ray-head, prefect-server."
        assert not any(one.is_alive for one in below)
        assert down.down(folder) == "Nothing was running."
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()
    assert down.down(folder.parent / "nowhere") == "There is no stack."


def test_ports_are_remembered_and_change_only_with_the_server(
    folder: Path, ports: Ports, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [f"--prefect-port={ports.prefect}", f"--ray-port={ports.ray}", f"--folder={folder}"]
    assert up.main(given) == 0
    environment = (folder / "environment").read_text()
    assert up.main([f"--folder={folder}"]) == 0, "the usual ports would be others"
    assert (folder / "environment").read_text() == environment
    assert f"127.0.0.1:{ports.prefect}/" in environment and f"127.0.0.1:{ports.ray}" in environment
    assert up.main([f"--folder={folder}", f"--ray-port={free_port()}"]) == 2
    assert f"ray-head runs on port {ports.ray}, not" in capsys.readouterr().err
    assert (folder / "environment").read_text() == environment


def test_orphans_of_a_killed_server_are_ended(folder: Path, ports: Ports) -> None:
    up.up(folder, ports)
    known = ProcessFile(folder / "processes.json").read()
    below = descendants([known["ray-head"]])
    known["ray-head"].signal(signal.SIGKILL)
    while known["ray-head"].is_alive:
        time.sleep(0.01)
    orphans = [one for one in below if one.is_alive]
    assert orphans and left_behind(known["ray-head"]) == orphans
    assert left_behind(known["prefect-server"]) == [], "it lives"
    down.down(folder)
    assert not any(one.is_alive for one in below)


def test_a_folder_that_is_no_stack_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("a lock of somebody else")
    assert down.down(tmp_path) == "There is no stack."
    assert (tmp_path / "lock").read_text() == "a lock of somebody else"
    assert [file.name for file in tmp_path.iterdir()] == ["lock"]


def test_elasticsearch_that_does_not_end_is_explained(
    folder: Path, ports: Ports, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    up.up(folder, ports)
    (folder / "elasticsearch").mkdir()
    fake(folder.parent / "tools", "sys.exit('no such lock')", "stop.sh")
    monkeypatch.setattr(down, "ELASTICSEARCH", folder.parent / "tools")
    assert down.main([f"--folder={folder}"]) == 2
    assert "error: Elasticsearch did not end: no such lock. All else has ended." in capsys.readouterr().err
    assert ProcessFile(folder / "processes.json").read() == {} and not answers(ports.prefect)
    (folder / "elasticsearch").rmdir()


def ports_of_ray_free_again(ports: Ports) -> None:
    """A killed server's child may hold the port for a moment."""
    deadline = time.monotonic() + 10
    while answers(ports.ray) and time.monotonic() < deadline:
        time.sleep(0.05)


def test_secrets_are_random_private_and_kept(folder: Path, ports: Ports, tmp_path: Path) -> None:
    up.up(folder, ports)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for file in folder.rglob("*"):
        assert not stat.S_IMODE(file.stat().st_mode) & 0o077, file
    text = (folder / "environment").read_text()
    stack = Stack(folder, ports)
    assert f"export RAY_AUTH_TOKEN={stack.secrets['ray']}\n" in text
    assert f"export PREFECT_API_URL=http://127.0.0.1:{ports.prefect}/api\n" in text
    other = tmp_path / "other"
    other.mkdir()
    assert not set(Stack(other, ports).secrets.values()) & set(stack.secrets.values())


def test_a_taken_port_is_refused_before_anything_starts(folder: Path, ports: Ports) -> None:
    message = rf"Port {ports.ray} of ray-head is taken .* infra/up --ray-port \d+"
    with socket.create_server(("127.0.0.1", ports.ray)), pytest.raises(UserError, match=message):
        up.up(folder, ports)
    assert ProcessFile(folder / "processes.json").read() == {}


def test_a_server_that_does_not_start_is_explained_and_the_others_end(
    folder: Path, ports: Ports, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, small("prefect-server"), small("ray-head", "import sys; print('no room'); sys.exit(3)"))
    with pytest.raises(UserError, match=r"(?s)ray-head ended with exit status 3\. The end of .*ray-head\.log:.no room"):
        up.up(folder, ports)
    assert ProcessFile(folder / "processes.json").read() == {} and not answers(ports.prefect)


def test_another_process_with_the_same_id_is_left_alone() -> None:
    bystander = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        known = process(bystander.pid)
        earlier = Process(known.pid, known.started - 1)
        assert known.is_alive and not earlier.is_alive
        end([earlier], seconds=0.1)
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_a_process_that_does_not_heed_is_killed() -> None:
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(60)"
    stubborn = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert stubborn.stdout is not None
    stubborn.stdout.readline()
    end([process(stubborn.pid)], seconds=0.2)
    assert stubborn.wait(10) == -signal.SIGKILL


def test_commands_of_the_real_servers_listen_on_loopback_and_show_no_secret(tmp_path: Path) -> None:
    stack = Stack(tmp_path, Ports())
    for service in services.SERVICES:
        command = service.command(stack)
        assert not set(stack.secrets.values()) & set(" ".join(command).split())
        if service.port is not None:
            assert "127.0.0.1" in " ".join(command) and "0.0.0.0" not in " ".join(command)
    server, ray, worker = (service.environment(stack) for service in services.SERVICES)
    assert server["PREFECT_SERVER_API_AUTH_STRING"] == worker["PREFECT_API_AUTH_STRING"]
    assert ray["RAY_AUTH_TOKEN"] == worker["RAY_AUTH_TOKEN"] and ray["RAY_AUTH_MODE"] == "token"
    assert "RAY_ADDRESS" not in ray and worker["RAY_ADDRESS"] == "http://127.0.0.1:8265"
