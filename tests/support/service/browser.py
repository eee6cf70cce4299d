"""Headless Chromium, driven by its own protocol over a WebSocket: no package beside those that Prefect brings."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from websockets.sync.client import connect

CHROMIUM = next(filter(None, map(shutil.which, ("/usr/bin/chromium", "chromium", "google-chrome"))), None)
PATIENCE = 60.0
"""Seconds after which Chromium counts as hung."""


class Browser:
    """One tab. What the page logs, throws or fails to load is in `complaints`."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket
        self._number = 0
        self.complaints: list[str] = []
        self.requested: list[str] = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **given: Any) -> dict[str, Any]:
        """Call a method of the protocol and return its result."""
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": given}))
        while True:
            message = json.loads(self._socket.recv(timeout=PATIENCE))
            if message.get("id") == self._number:
                assert "error" not in message, (method, message)
                return dict(message["result"])
            self._hear(message)

    def _hear(self, message: dict[str, Any]) -> None:
        told = message.get("params", {})
        if message["method"] == "Network.requestWillBeSent":
            self.requested.append(told["request"]["url"])
        elif message["method"] == "Runtime.exceptionThrown":
            self.complaints.append(str(told["exceptionDetails"]))
        elif message["method"] == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
            self.complaints.append(told["entry"]["text"])
        elif message["method"] == "Runtime.consoleAPICalled" and told["type"] in ("error", "warning", "assert"):
            self.complaints.append(str(told["args"]))

    def value(self, script: str) -> Any:
        """Return the value of an expression in the page; a promise is awaited."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def until(self, condition: str) -> None:
        """Wait until an expression is true."""
        due = time.monotonic() + PATIENCE
        while not self.value(f"Boolean({condition})"):
            assert time.monotonic() < due, (condition, self.complaints, self.value("document.body.innerText"))
            time.sleep(0.05)

    def open(self, address: str) -> None:
        self.call("Page.navigate", url=address)
        self.until("document.readyState === 'complete' && location.protocol !== 'about:'")

    def size(self, width: int, height: int, *, is_phone: bool = False) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=is_phone
        )

    def scheme(self, name: str) -> None:
        """Prefer `light` or `dark`."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def press(self, key: str, *, control: bool = False, text: str = "") -> None:
        code = {"Tab": 9, "Enter": 13, " ": 32}.get(key, 0)
        common = {"key": key, "windowsVirtualKeyCode": code, "modifiers": 2 if control else 0}
        self.call("Input.dispatchKeyEvent", type="keyDown", **common, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def type(self, text: str) -> None:
        """Type into what has the focus."""
        self.call("Input.insertText", text=text)

    def picture(self, path: Path) -> bytes:
        """Write a PNG of the whole page."""
        data = base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=True, format="png")["data"])
        path.write_bytes(data)
        return data


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """Start Chromium with a profile of its own below a folder, and end it."""
    assert CHROMIUM is not None
    command = [
        *(CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
        *("--disable-background-networking", "--disable-extensions", "--accept-lang=zh-CN", "--hide-scrollbars"),
        *("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--remote-debugging-port=0"),
        *(f"--user-data-dir={folder / 'profile'}", "about:blank"),
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        port = _port(folder / "profile" / "DevToolsActivePort", process)
        with connect(f"ws://127.0.0.1:{port[0]}{port[1]}", max_size=None, proxy=None) as socket:
            socket.send(json.dumps({"id": 0, "method": "Target.getTargets"}))
            while (message := json.loads(socket.recv(timeout=PATIENCE))).get("id") != 0:
                pass
            target = next(one["targetId"] for one in message["result"]["targetInfos"] if one["type"] == "page")
        with connect(f"ws://127.0.0.1:{port[0]}/devtools/page/{target}", max_size=None, proxy=None) as socket:
            yield Browser(socket)
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _port(file: Path, process: subprocess.Popen[bytes]) -> tuple[str, str]:
    """Return the port of the protocol and the path of the browser's socket, which Chromium writes into a file."""
    due = time.monotonic() + PATIENCE
    while time.monotonic() < due:
        assert process.poll() is None, "Chromium has ended"
        if file.is_file() and len(lines := file.read_text().split()) == 2:
            return lines[0], lines[1]
        time.sleep(0.05)
    raise AssertionError("Chromium does not start")
