"""A stand-in for a Ray cluster's job endpoint: it takes any job, and runs it or says that it runs.

It ends a job when it is asked to. It has no WebSockets, like some proxies.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import ray

from infra.settings import REPOSITORY


class JobEndpointStandIn:
    """Answers Ray's own client over HTTP on loopback; `jobs` are the status of each job by its submission id.

    `runs`: jobs are run, as processes of this machine. `token`: what requests have to show, if anything.
    """

    def __init__(self, *, runs: bool = False, token: str | None = None, gpus: int = 0) -> None:
        self.jobs: dict[str, str] = {}
        self.details: dict[str, dict[str, Any]] = {}
        self.logs: dict[str, str] = {}
        self.environments: dict[str, dict[str, Any]] = {}
        self.token = token
        self._runs = runs
        self._gpus = gpus
        self._running: dict[str, subprocess.Popen[str]] = {}
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(lambda: endpoint.about(self.path))

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                self._answer(lambda: endpoint.order(self.path, json.loads(body or b"{}")))

            def _answer(self, give: Any) -> None:
                allowed = endpoint.token is None or self.headers.get("authorization") == f"Bearer {endpoint.token}"
                answer = give() if allowed else {}
                data = json.dumps(answer).encode()
                self.send_response(403 if not allowed else 404 if answer is None else 200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *arguments: Any) -> None:
                """Nothing to the terminal."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def about(self, path: str) -> dict[str, Any] | None:
        """What is asked for; None for a job that is not known, and for streams of logs, which there are none of."""
        if path == "/api/version":
            return {"version": "4", "ray_version": ray.__version__, "ray_commit": ""}
        if path.startswith("/api/v0/nodes"):
            node = {"state": "ALIVE", "resources_total": {"CPU": 4.0, "GPU": float(self._gpus)}}
            return {"data": {"result": {"result": [node, {"state": "DEAD", "resources_total": {"GPU": 8.0}}]}}}
        identity = path.removeprefix("/api/jobs/")
        if identity.endswith("/logs"):
            return {"logs": self.logs.get(identity.removesuffix("/logs"), "")}
        if identity not in self.jobs:
            return None
        return {
            "type": "SUBMISSION",
            "submission_id": identity,
            "status": self.jobs[identity],
            "entrypoint": "",
            "message": "stopped by hand",
            **self.details.get(identity, {}),
        }

    def order(self, path: str, body: dict[str, Any]) -> dict[str, Any] | None:
        """Take a job, or stop one."""
        if path == "/api/jobs/":
            job = body["submission_id"]
            self.jobs[job] = "RUNNING"
            self.environments[job] = body["runtime_env"]
            if self._runs:
                threading.Thread(target=self._run, args=(job, body), daemon=True).start()
            return {"job_id": job, "submission_id": job}
        job = path.removeprefix("/api/jobs/").removesuffix("/stop")
        self.jobs[job] = "STOPPED"
        if job in self._running:
            self._running[job].kill()
        return {"stopped": True}

    def _run(self, job: str, body: dict[str, Any]) -> None:
        own = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        environment = own | body["runtime_env"]["env_vars"]
        self._running[job] = subprocess.Popen(
            shlex.split(body["entrypoint"]),
            cwd=REPOSITORY, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        self.logs[job], _ = self._running[job].communicate()
        status = self._running[job].returncode
        self.details[job] = {"driver_exit_code": status, "message": f"exit code {status}"}
        if self.jobs[job] == "RUNNING":
            self.jobs[job] = "FAILED" if status else "SUCCEEDED"

    def stop(self) -> None:
        """Answer nobody any more."""
        for process in self._running.values():
            process.kill()
        self._server.shutdown()
        self._server.server_close()
