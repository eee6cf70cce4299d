"""RayJobs of KubeRay as a place that takes jobs (`RAY_ADDRESS=kuberay://NAMESPACE`).

KubeRay's operator makes a Ray cluster for each RayJob, and removes it when the job is over. `YIWEN_RAYJOB` names the
manifest that a job is made from, as `kubectl kustomize infra/kuberay/overlays/gpu` writes it: its image holds the code.
The API server is that of the pod that this process runs in, or `YIWEN_KUBERNETES_API`, such as the http://127.0.0.1:8001
of `kubectl proxy`, with the files of a token and of an authority in `YIWEN_KUBERNETES_TOKEN_PATH` and
`YIWEN_KUBERNETES_CA`. The token is read again for each request: service accounts get a new one every hour.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
import re
import shlex
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from infra.cluster.jobs.site import JobState, Status, TokenRefusedError
from infra.errors import UserError
from infra.settings import PRIVACY_DEFAULTS
from infra.uris import warn_of_plain_http

FORWARDED = ("YIWEN_LIMITS", "YIWEN_LOG", "YIWEN_METRICS", "YIWEN_RUN", "YIWEN_WORKERS")
"""Settings of the flow that hold for its jobs too. None of them is a secret: whoever reads RayJobs sees them."""
POD_FOLDER = Path("/var/run/secrets/kubernetes.io/serviceaccount")
REQUEST_SECONDS = 60.0
SECONDS_BETWEEN_LOOKS = 2.0
SUBMITTER = "ray-job-submitter"
"""Container of the pod that submits a job to its cluster and copies the job's output."""
ANNOTATION = "yiwen/job"
LONGEST_NAME = 47
"""Characters of a RayJob's name: KubeRay, ray-operator/controllers/ray/utils/constant.go, MaxRayJobNameLength."""
OF_THE_CLUSTER = frozenset({"SubmissionFailed", "JobDeploymentStatusTransitionGracePeriodExceeded"})
"""KubeRay's reasons of failures in which the job's program had no part."""
OF_THE_SETUP = frozenset({"DeadlineExceeded", "PreRunningDeadlineExceeded", "ValidationFailed"})
"""KubeRay's reasons of failures that another attempt would meet again."""

# matches: "Job entrypoint command failed with exit code 2, last available logs …"
# not: "The job's driver died"
_EXIT = re.compile(r"exit code (?P<status>-?\d+)")


class KubeRaySite:
    """RayJobs in one namespace of a Kubernetes cluster; satisfies `JobSite`."""

    def __init__(
        self,
        namespace: str,
        template: Mapping[str, Any],
        api: str,
        *,
        token_path: Path | None = None,
        authority: Path | None = None,
    ) -> None:
        """`template`: a RayJob without a name of its own and without entrypoint."""
        self.address = f"kuberay://{namespace}"
        self._namespace = namespace
        self._template = template
        self._api = api.rstrip("/")
        self._token_path = token_path
        self._context = ssl.create_default_context(cafile=authority) if api.startswith("https://") else None
        if token_path is not None:
            warn_of_plain_http(api, "The token of Kubernetes")

    @classmethod
    def from_environment(cls, address: str) -> KubeRaySite:
        """Return the site that RAY_ADDRESS and the variables beside it name.

        Raises:
            UserError: the namespace, the manifest or the API server is missing or not usable.
        """
        namespace = address.removeprefix("kuberay://").strip("/")
        if not namespace:
            raise UserError("RAY_ADDRESS=kuberay:// names no namespace. Give one, as in kuberay://yiwen.")
        template = read_template(os.environ.get("YIWEN_RAYJOB"))
        api = os.environ.get("YIWEN_KUBERNETES_API")
        if api:
            token, authority = os.environ.get("YIWEN_KUBERNETES_TOKEN_PATH"), os.environ.get("YIWEN_KUBERNETES_CA")
            for file in filter(None, (token, authority)):
                if not Path(file).is_file():
                    raise UserError(f"{file} does not exist. Correct YIWEN_KUBERNETES_TOKEN_PATH or _CA.")
            return cls(
                namespace,
                template,
                api,
                token_path=Path(token) if token else None,
                authority=Path(authority) if authority else None,
            )
        host = os.environ.get("KUBERNETES_SERVICE_HOST")
        if not host:
            raise UserError(
                f"RAY_ADDRESS={address}: this process is in no pod of Kubernetes, and YIWEN_KUBERNETES_API is not set. "
                "Start `kubectl proxy` and set it to http://127.0.0.1:8001."
            )
        api = f"https://{host}:{os.environ.get('KUBERNETES_SERVICE_PORT', '443')}"
        return cls(namespace, template, api, token_path=POD_FOLDER / "token", authority=POD_FOLDER / "ca.crt")

    def state(self, job: str) -> JobState | None:
        """Return the state of a job, or None if the namespace has no RayJob of its name."""
        found = self._ask("GET", self._path(job))
        if found is None:
            return None
        state = _state(found.get("status") or {})
        if (found.get("metadata") or {}).get("deletionTimestamp") and not state.is_over:
            # Somebody deleted it, and its cluster is going: nothing will come of it, whatever its status says.
            return JobState("STOPPED", "The RayJob is being deleted.", None)
        return state

    def submit(self, job: str, command: Sequence[str]) -> bool:
        """Create a RayJob; returns False if it exists."""
        try:
            self._ask("POST", self._path(), self.manifest(job, command))
        except urllib.error.HTTPError as error:
            if error.code == 409:
                return False
            raise UserError(f"{self.address} did not accept the job {job}: {_reason(error)}") from error
        return True

    def stop(self, job: str) -> None:
        """Delete a RayJob, and with it its cluster."""
        self._ask("DELETE", self._path(job), {"propagationPolicy": "Foreground"})

    def log(self, job: str) -> Iterator[str]:
        """Yield the output of a job from its beginning, until it ends."""
        pods = f"/api/v1/namespaces/{self._namespace}/pods"
        selector = urllib.parse.urlencode({"labelSelector": f"job-name={resource_name(job)}"})
        while True:
            found = (self._ask("GET", f"{pods}?{selector}") or {"items": []})["items"]
            if any(pod.get("status", {}).get("phase") not in (None, "Pending") for pod in found):
                break
            state = self.state(job)
            if state is None or state.is_over:
                return
            time.sleep(SECONDS_BETWEEN_LOOKS)
        path = f"{pods}/{found[-1]['metadata']['name']}/log?follow=true&container={SUBMITTER}"
        with self._open("GET", path, None, None) as stream:
            for line in stream:
                yield line.decode("utf-8", "replace")

    def nodes(self) -> Sequence[Mapping[str, float]]:
        """Return the resources of the largest cluster that the manifest allows, a mapping for each pod."""
        cluster = self._template["spec"].get("rayClusterSpec") or {}
        groups = [cluster.get("headGroupSpec") or {}, *(cluster.get("workerGroupSpecs") or [])]
        return [
            _resources(group)
            for number, group in enumerate(groups)
            for _ in range(int(group.get("maxReplicas", group.get("replicas", 1)) if number else 1))
        ]

    def manifest(self, job: str, command: Sequence[str]) -> dict[str, Any]:
        """Return the RayJob for a command: the template with a name, an entrypoint and settings that hold no secret."""
        made: dict[str, Any] = copy.deepcopy(dict(self._template))
        metadata = made.setdefault("metadata", {})
        metadata |= {"name": resource_name(job), "namespace": self._namespace}
        metadata["annotations"] = {**(metadata.get("annotations") or {}), ANNOTATION: job}
        variables = PRIVACY_DEFAULTS | {name: os.environ[name] for name in FORWARDED if os.environ.get(name)}
        environment = yaml.safe_load(made["spec"].get("runtimeEnvYAML") or "{}")
        environment["env_vars"] = variables | (environment.get("env_vars") or {})
        made["spec"] |= {
            "entrypoint": shlex.join(command),
            "runtimeEnvYAML": yaml.safe_dump(environment),
            "shutdownAfterJobFinishes": True,
            "backoffLimit": 0,  # attempts are counted by the flow, which sees whose fault a failure is
        }
        return made

    def _path(self, job: str | None = None) -> str:
        path = f"/apis/ray.io/v1/namespaces/{self._namespace}/rayjobs"
        return path if job is None else f"{path}/{resource_name(job)}"

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Return the JSON that is answered, or None for what does not exist.

        Raises:
            TokenRefusedError: the API server does not accept the token, or does not let it do this.
        """
        try:
            with self._open(method, path, body, REQUEST_SECONDS) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            if error.code == 404 and method != "POST":
                return None
            if error.code in (401, 403):
                raise TokenRefusedError(
                    f"The API server {self._api} does not let us {method} {path}: {_reason(error)}. Give the service "
                    "account the role in infra/kuberay/access/access.yaml, or renew the token in "
                    f"{self._token_path or 'YIWEN_KUBERNETES_TOKEN_PATH'}."
                ) from error
            raise

    def _open(self, method: str, path: str, body: Mapping[str, Any] | None, seconds: float | None) -> Any:
        headers = {"Accept": "application/json, */*", "Content-Type": "application/json"}
        if self._token_path is not None:
            headers["Authorization"] = f"Bearer {self._token_path.read_text().strip()}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._api + path, data, headers, method=method)
        return urllib.request.urlopen(request, timeout=seconds, context=self._context)


def resource_name(job: str) -> str:
    """Return the name of a job's RayJob, such as `yw-train-1f0c2a9b7d3e-1`: Kubernetes allows few characters."""
    work, _, attempt = job.rpartition("-")
    stage = re.sub(r"[^a-z0-9]+", "-", work.partition("-")[0].lower()).strip("-")
    digest = hashlib.sha256(work.encode()).hexdigest()[:12]
    ending = f"-{digest}-{attempt}"
    return f"yw-{stage}"[: LONGEST_NAME - len(ending)].rstrip("-") + ending


def read_template(file: str | None) -> Mapping[str, Any]:
    """Read the RayJob of a manifest file, which may hold other resources beside it.

    Raises:
        UserError: no file is named, or it has not exactly one RayJob.
    """
    how = "kubectl kustomize infra/kuberay/overlays/gpu > rayjob.yaml"
    if not file:
        raise UserError(f"YIWEN_RAYJOB is not set. Make a manifest by {how}, and set YIWEN_RAYJOB=rayjob.yaml.")
    try:
        documents = list(yaml.safe_load_all(Path(file).read_text(encoding="utf-8")))
    except (OSError, yaml.YAMLError) as error:
        raise UserError(f"YIWEN_RAYJOB={file} cannot be read: {error}. Make it by {how}.") from error
    found = [one for one in documents if isinstance(one, dict) and one.get("kind") == "RayJob"]
    if len(found) != 1:
        raise UserError(f"YIWEN_RAYJOB={file} has {len(found)} RayJobs; one is needed. Make it by {how}.")
    template: Mapping[str, Any] = found[0]
    return template


def _state(status: Mapping[str, Any]) -> JobState:
    deployment, message = status.get("jobDeploymentStatus") or "", status.get("message") or ""
    of_job, reason = status.get("jobStatus") or "", status.get("reason") or ""
    exit_status = _EXIT.search(message)
    code = int(exit_status["status"]) if exit_status else None
    if deployment in ("Failed", "ValidationFailed") or (deployment == "Complete" and of_job == "FAILED"):
        lost = reason in OF_THE_CLUSTER or (code is None and reason not in OF_THE_SETUP)
        return JobState("FAILED", f"{reason}: {message}".strip(": "), code, is_of_the_cluster=lost)
    if deployment == "Complete":
        ended: Status = "STOPPED" if of_job == "STOPPED" else "SUCCEEDED"
        return JobState(ended, message, 0 if ended == "SUCCEEDED" else None)
    return JobState("RUNNING" if of_job == "RUNNING" else "PENDING", message)


def _resources(group: Mapping[str, Any]) -> dict[str, float]:
    containers = group.get("template", {}).get("spec", {}).get("containers") or [{}]
    limits = containers[0].get("resources", {}).get("limits") or {}
    return {"CPU": _cores(limits.get("cpu", 0)), "GPU": float(limits.get("nvidia.com/gpu", 0))}


def _cores(quantity: str | float) -> float:
    """Return a number of cores: "8", 8 and "500m" are written."""
    text = str(quantity)
    return float(text[:-1]) / 1000 if text.endswith("m") else float(text)


def _reason(error: urllib.error.HTTPError) -> str:
    """Return what the API server says about an error, in its `Status` or as text."""
    content = error.read().decode("utf-8", "replace")
    try:
        return str(json.loads(content)["message"])
    except (ValueError, KeyError, TypeError):
        return content[:500] or str(error)
