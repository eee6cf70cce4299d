"""An S3 server on loopback (moto's, in a process of its own) that can be slow, fail, and refuse.

python -m tests.support.processes.s3_server PORT

What it does to requests is set by a POST to /_faults, a JSON object with any of:

    delay     seconds that every answer takes longer
    fail      every so manieth request is answered with 503, or 500 (`status`); 1: all of them
    refuse    writes are forbidden: "AccessDenied"; all requests: "ExpiredToken"
    count     requests until the faults begin
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import psutil

from infra.settings import REPOSITORY
from tests.support.processes.ray_head import free_port

WRITES = ("PUT", "POST", "DELETE")
ERROR = '<?xml version="1.0"?><Error><Code>{code}</Code><Message>{message}</Message></Error>'
REFUSALS = {"AccessDenied": "Access Denied", "ExpiredToken": "The provided token has expired."}


class S3Server:
    """The server, and the environment of processes that use it."""

    BUCKET = "hospital"

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.environment = {
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": self.url,
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        self._log = (folder / "s3.log").open("wb")
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(self.port)],
            cwd=REPOSITORY, env={**os.environ, "PYTHONPATH": str(REPOSITORY)}, stdout=self._log, stderr=self._log,
        )  # fmt: skip
        self._wait_until_up()
        self.make_bucket(self.BUCKET)

    def faults(self, **given: Any) -> None:
        """Set what happens to requests from now on; nothing: all is well again."""
        data = json.dumps(given).encode()
        urllib.request.urlopen(urllib.request.Request(f"{self.url}/_faults", data=data), timeout=60).close()

    def requests(self) -> dict[str, int]:
        """Return the number of requests by method, since the last call of `faults`."""
        with urllib.request.urlopen(f"{self.url}/_faults", timeout=60) as answer:
            found: dict[str, int] = json.loads(answer.read())
        return found

    def make_bucket(self, name: str) -> None:
        """Make a bucket."""
        urllib.request.urlopen(urllib.request.Request(f"{self.url}/{name}", method="PUT"), timeout=60).close()

    def hang(self) -> None:
        """Let the server answer nobody, though it takes connections, until `go_on`."""
        psutil.Process(self._process.pid).suspend()

    def go_on(self) -> None:
        """End what `hang` began."""
        psutil.Process(self._process.pid).resume()

    def stop(self) -> None:
        """End the server; its objects are gone."""
        self._process.kill()
        self._process.wait()
        self._log.close()

    def _wait_until_up(self) -> None:
        deadline = time.monotonic() + 120
        while True:
            try:
                self.requests()
                return
            except OSError:
                assert self._process.poll() is None and time.monotonic() < deadline, self._log.name
                time.sleep(0.2)


class Faulty:
    """A WSGI application around another one, which it lets wait or fail."""

    def __init__(self, application: Callable[..., Iterable[bytes]]) -> None:
        self._application = application
        self._lock = threading.Lock()
        self._faults: dict[str, Any] = {}
        self._requests: dict[str, int] = {}

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if environ["PATH_INFO"] == "/_faults":
            return self._set(environ, start)
        method = environ["REQUEST_METHOD"]
        with self._lock:
            faults = self._faults
            self._requests[method] = self._requests.get(method, 0) + 1
            number = sum(self._requests.values()) - faults.get("count", 0)
        if number > 0:
            time.sleep(faults.get("delay", 0))
            refused = faults.get("refuse")
            if refused == "ExpiredToken" or (refused and method in WRITES):
                return self._error(environ, start, "403 Forbidden", refused, REFUSALS[refused])
            if faults.get("fail") and number % faults["fail"] == 0:
                status = faults.get("status", 503)
                code = {500: "InternalError", 503: "ServiceUnavailable"}[status]
                return self._error(environ, start, f"{status} {code}", code, "Please try again.")
        return self._application(environ, start)

    def _set(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        with self._lock:
            seen = json.dumps(self._requests).encode()
            if environ["REQUEST_METHOD"] == "POST":
                self._faults = json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
                self._requests = {}
        start("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(seen)))])
        return [seen]

    def _error(
        self, environ: dict[str, Any], start: Callable[..., Any], status: str, code: str, message: str
    ) -> Iterable[bytes]:
        left = int(environ.get("CONTENT_LENGTH") or 0)
        environ["wsgi.input"].read(left)  # a client that is cut off while it sends would see another error
        body = b"" if environ["REQUEST_METHOD"] == "HEAD" else ERROR.format(code=code, message=message).encode()
        start(status, [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
        return [body]


if __name__ == "__main__":
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    application = Faulty(DomainDispatcherApplication(create_backend_app))
    make_server("127.0.0.1", int(sys.argv[1]), application, threaded=True).serve_forever()
