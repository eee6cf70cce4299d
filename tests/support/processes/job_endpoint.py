"""A stand-in for a Ray cluster's job endpoint: it takes any job, says that it runs, and ends it when it is asked to."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import ray


class JobEndpointStandIn:
    """Answers Ray's own client over HTTP on loopback; `jobs` are the status of each job by its submission id."""

    def __init__(self) -> None:
        self.jobs: dict[str, str] = {}
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(endpoint.about(self.path))

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                self._answer(endpoint.order(self.path, json.loads(body or b"{}")))

            def _answer(self, answer: dict[str, Any] | None) -> None:
                data = json.dumps(answer).encode()
                self.send_response(404 if answer is None else 200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *arguments: Any) -> None:
                """Nothing to the terminal."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def about(self, path: str) -> dict[str, Any] | None:
        """What is asked for; None for a job that is not known, and for logs, which there are none of."""
        if path == "/api/version":
            return {"version": "4", "ray_version": ray.__version__, "ray_commit": ""}
        identity = path.removeprefix("/api/jobs/")
        if identity not in self.jobs:
            return None
        return {
            "type": "SUBMISSION",
            "submission_id": identity,
            "status": self.jobs[identity],
            "entrypoint": "",
            "message": "stopped by hand",
        }

    def order(self, path: str, body: dict[str, Any]) -> dict[str, Any] | None:
        """Take a job, or stop one."""
        if path == "/api/jobs/":
            self.jobs[body["submission_id"]] = "RUNNING"
            return {"job_id": body["submission_id"], "submission_id": body["submission_id"]}
        self.jobs[path.removeprefix("/api/jobs/").removesuffix("/stop")] = "STOPPED"
        return {"stopped": True}

    def stop(self) -> None:
        """Answer nobody any more."""
        self._server.shutdown()
        self._server.server_close()
