"""The service as a process: start, signals, a port that is taken, a kill, and ten thousand bad requests."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from flows.service.settings import KEY_VARIABLE
from infra.settings import REPOSITORY
from tests.support.service import folders, hammer
from tests.support.service.engines import is_running

pytestmark = pytest.mark.slow

PATIENCE = 120
Start = Callable[..., "Process"]


class Process:
    """A service that was started, with the lines it has printed."""

    def __init__(self, folder: Path, *arguments: str, **environment: str) -> None:
        self.log = folder / f"log-{time.monotonic_ns()}.txt"
        held = {name: value for name, value in os.environ.items() if name != KEY_VARIABLE}
        with self.log.open("wb") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "flows", "serve", *arguments],
                cwd=REPOSITORY, env=held | environment, stdout=file, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip

    @property
    def said(self) -> str:
        return self.log.read_text(encoding="utf-8")

    def port(self) -> int:
        """Wait until it is ready."""
        due = time.monotonic() + PATIENCE
        while not (found := re.search(r"http://127\.0\.0\.1:(\d+)/ is ready", self.said)):
            assert self.process.poll() is None and time.monotonic() < due, self.said
            time.sleep(0.05)
        return int(found[1])

    def children(self) -> list[int]:
        """Processes of the workers."""
        found = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        threads = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        return sorted({int(one) for file in threads for one in file.read_text().split()} | set(map(int, found)))

    def stop(self, number: int) -> None:
        """Send a signal and wait until the process has ended."""
        self.process.send_signal(number)
        self.process.wait(PATIENCE)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Process] = []

    def make(*arguments: str, **environment: str) -> Process:
        started.append(Process(tmp_path, *arguments, **environment))
        return started[-1]

    yield make
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait()


def post(port: int, path: str, texts: list[str]) -> Any:
    body = json.dumps({"texts": texts}, ensure_ascii=False).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", body, {"Content-Type": "application/json"})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=PATIENCE) as answer:
        return json.load(answer)["answers"]


def wait_until_texts_wait(port: int) -> None:
    """Wait until the service has read a request whose texts its worker cannot take all at once."""
    due = time.monotonic() + PATIENCE
    waiting = 'yiwen_waiting_texts{engine="deidentify"} '
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while True:
        with opener.open(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as answer:
            found = re.search(rf"^{re.escape(waiting)}(\S+)$", answer.read().decode(), re.MULTILINE)
        if found and float(found[1]) > 0:
            return
        assert time.monotonic() < due
        time.sleep(0.02)


def memory(pids: list[int]) -> int:
    """Private and shared memory of some processes, in MB."""
    found = 0
    for pid in pids:
        status = Path(f"/proc/{pid}/status").read_text()
        found += int(re.search(r"VmRSS:\s+(\d+) kB", status)[1])  # type: ignore[index]
    return found // 1024


def test_life_of_a_service(start: Start, tmp_path: Path) -> None:
    graph = folders.save_graph(tmp_path / "store")
    first = start("--linker", str(graph), "--deidentify", "--port", "0", "--log-requests")
    port = first.port()
    assert post(port, "/link", ["患者有高血压"])[0][0]["entity_id"] == "d1"

    second = start("--deidentify", "--port", str(port))
    assert second.process.wait(PATIENCE) == 2
    (line,) = second.said.splitlines()
    assert line.startswith(f"error: port {port} of 127.0.0.1 is taken") and "--port" in line

    workers = first.children()
    assert len(workers) >= 2
    first.stop(signal.SIGKILL)
    again = start("--linker", str(graph), "--deidentify", "--port", str(port))
    assert again.port() == port and post(port, "/link", ["头疼"])[0][0]["entity_id"] == "s1"
    due = time.monotonic() + PATIENCE
    while any(map(is_running, workers)):
        assert time.monotonic() < due, "workers outlive their service"
        time.sleep(0.1)

    # Requests in progress are answered after SIGTERM.
    long = ["患者王伟，电话13812345678，头痛三天。" * 500] * 40
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(post, port, "/deidentify", long)
        wait_until_texts_wait(port)
        again.stop(signal.SIGTERM)
        assert len(asked.result()) == 40
    assert again.process.returncode == 0
    assert "王伟" not in again.said + first.said and "Traceback" not in again.said + first.said

    # After Ctrl-C they are cut off.
    third = start("--deidentify", "--port", "0")
    port = third.port()
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(post, port, "/deidentify", ["王伟，" * 6_600] * 66)  # as much as a request may hold
        wait_until_texts_wait(port)
        third.stop(signal.SIGINT)
        with pytest.raises((HTTPError, ConnectionError)) as cut:
            asked.result()
        assert getattr(cut.value, "code", 500) == 500
    assert third.process.returncode == 130 and "Traceback" not in third.said


def test_ten_thousand_bad_requests(start: Start, tmp_path: Path) -> None:
    graph = folders.save_graph(tmp_path / "store")
    one = start("--linker", str(graph), "--deidentify", "--port", "0")
    port = one.port()
    wanted = [post(port, path, ["患者王伟，高血压"]) for path in ("/link", "/deidentify")]

    async def attack() -> dict[str, Any]:
        statuses = await hammer.send_bad(port, 500)  # what is allocated once
        workers, before = one.children(), memory([one.process.pid, *one.children()])
        async with hammer.slow_clients(port, 40) as slow:
            statuses += await hammer.send_bad(port, 9_500, seed=1)
            streamed = [await hammer.stream(port, 100, length) for length in (None, 5, 100 << 20)]
            async with asyncio.timeout(60):  # headers and bodies have 10 and 15 seconds
                ended = [await hammer.end_of(reader) for reader in slow]
        grown = memory([one.process.pid, *one.children()]) - before
        return {
            "statuses": statuses,
            "streamed": streamed,
            "slow": ended,
            "grown": grown,
            "workers": (workers, one.children()),
        }

    found = asyncio.run(attack())
    assert found["statuses"].total() == 10_000
    assert {status for status in found["statuses"] if status not in (0, 200) and not 400 <= status < 500} == set()
    assert found["statuses"][200] < 100  # HEAD, and GET of what is there
    assert found["streamed"][0].startswith(b"HTTP/1.1 413") and found["streamed"][2].startswith(b"HTTP/1.1 413")
    assert all(answer == b"" or b" 408 " in answer or b" 400 " in answer for answer in found["slow"])
    assert found["grown"] < 80, f"{found['grown']} MB more"
    assert found["workers"][0] == found["workers"][1], "a worker had to be started again"
    assert [post(port, path, ["患者王伟，高血压"]) for path in ("/link", "/deidentify")] == wanted
    assert "Traceback" not in one.said
    one.stop(signal.SIGTERM)
    assert one.process.returncode == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "Nothing to serve"),
        (("--model", "cmeee"), "not of the form NAME=DIR"),
        (("--model", "a=x", "--model", "a=y"), "given twice"),
        (("--deidentify", "--host", "0.0.0.0"), KEY_VARIABLE),
        (
            ("--deidentify", "--without-key", "--host", "no.such.host.invalid"),
            "Give a name or an address of this machine",
        ),
        (("--deidentify", "--max-texts", "0"), "--max-texts 0"),
        (("--deidentify", "--device", "tpu"), "there are cpu and cuda"),
    ],
)
def test_arguments_that_cannot_be_used(
    arguments: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows.cli import main

    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    assert main(["serve", *arguments]) == 2
    assert told in capsys.readouterr().err
