"""A stand-in for the API server of Kubernetes with KubeRay: it takes RayJobs, and does what a test says with them."""

from __future__ import annotations

import json
import shlex
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from infra.cluster.jobs.program import main

RAYJOBS = "/apis/ray.io/v1/namespaces/yiwen/rayjobs"
PODS = "/api/v1/namespaces/yiwen/pods"


class KubernetesApiStandIn:
    """`jobs` are the RayJobs by name, `log` is what each submitter prints.

    Each new RayJob gets the next of `statuses`; when there are no more, its program is run.
    """

    def __init__(self, statuses: list[dict[str, Any]], token: str, log: str = "") -> None:
        self.jobs: dict[str, dict[str, Any]] = {}
        self.deleted: list[str] = []
        self.token = token
        self._statuses = statuses
        self._log = log
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer("GET")

            def do_POST(self) -> None:
                self._answer("POST")

            def do_DELETE(self) -> None:
                self._answer("DELETE")

            def _answer(self, method: str) -> None:
                body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"null")
                if self.headers.get("authorization") == f"Bearer {server.token}":
                    code, answer = server.asked(method, self.path, body)
                else:
                    code, answer = 401, {"kind": "Status", "message": "Unauthorized"}
                data = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
                self.send_response(code)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *arguments: Any) -> None:
                """Nothing to the terminal."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def asked(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        """Answer a request: its code and content."""
        if path.startswith(PODS):
            if "/log?" in path:
                return 200, self._log
            return 200, {"items": [{"metadata": {"name": "submitter"}, "status": {"phase": "Succeeded"}}]}
        if method == "POST":
            name = body["metadata"]["name"]
            if name in self.jobs:
                return 409, {"message": f'rayjobs.ray.io "{name}" already exists'}
            self.jobs[name] = body
            body["status"] = self._statuses.pop(0) if self._statuses else _ran(body["spec"]["entrypoint"])
            return 201, body
        name = path.removeprefix(f"{RAYJOBS}/")
        if name not in self.jobs:
            return 404, {"message": f'rayjobs.ray.io "{name}" not found'}
        if method == "DELETE":
            self.deleted.append(name)
            return 200, self.jobs.pop(name)
        return 200, self.jobs[name]

    def stop(self) -> None:
        """Answer nobody any more."""
        self._server.shutdown()
        self._server.server_close()


def _ran(entrypoint: str) -> dict[str, Any]:
    status = main(shlex.split(entrypoint)[3:])
    if status == 0:
        return {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"}
    return {
        "jobDeploymentStatus": "Failed",
        "jobStatus": "FAILED",
        "reason": "AppFailed",
        "message": f"Job entrypoint command failed with exit code {status}, last available logs (truncated): …",
    }
