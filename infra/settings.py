"""Settings from the environment: the store's root, workers and their executor, the Ray cluster, the Prefect server."""

from __future__ import annotations

import contextlib
import os
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from infra.errors import UserError
from infra.place import FOLDER, INSTALLED
from infra.uris import refuse_secrets, warn_of_plain_http

REPOSITORY = FOLDER

PRIVACY_DEFAULTS = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_OFFLINE": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
}
"""Medical text is sensitive: no library reports usage and no hub is asked, unless the user sets otherwise."""


LOCAL_RAY_DEFAULTS = {
    # Explicit, so that a process of ours and the Ray it starts never disagree. infra/cluster/private_ray.py draws the
    # token: one that Ray makes is stored in the home folder, readable by other users.
    "RAY_AUTH_MODE": "token",
    # A Ray that no other machine can join: all its processes listen on loopback only. The name is misleading: by
    # default only Windows and macOS are that careful.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    # By default the metrics exporter looks for an agent that a Ray without dashboard does not have.
    "RAY_enable_metrics_collection": "0",
    # A shared machine may be full because of others; Ray would kill our workers for it.
    "RAY_memory_monitor_refresh_ms": "0",
    # By default Ray gives its workers a lower priority than everything else on the machine.
    "RAY_worker_niceness": "0",
    # Ray Train would start a process for each training that asks whether a cloud takes its nodes away.
    "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0",
}
"""Settings of a private Ray on this machine. Ray reads them on import, so they are set before that."""


PREFECT_DEFAULTS = {
    # A flow that Prefect runs without a server starts one; on a busy machine that takes longer than Prefect's 20 s.
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "180",
}


ExecutorName = Literal["processes", "ray"]

JOB_VARIABLE = "RAY_JOB_CONFIG_JSON_ENV_VAR"
"""Variable that Ray sets for the entry point of a job."""


def is_job_endpoint(address: str | None) -> bool:
    """Return whether an address is that of a place that takes whole jobs: Ray's job endpoint, or KubeRay."""
    return address is not None and address.startswith(("http://", "https://", "kuberay://"))


def apply_defaults() -> None:
    """Put our defaults into the environment of this process and its children. Variables that are set win."""
    defaults = PRIVACY_DEFAULTS | PREFECT_DEFAULTS
    address = os.environ.get("RAY_ADDRESS")
    if not address:
        defaults |= LOCAL_RAY_DEFAULTS
    elif is_job_endpoint(address):
        # A private Ray may run here too. With the mode unset, a token that some Ray left on this machine would decide.
        token = os.environ.get("RAY_AUTH_TOKEN") or os.environ.get("RAY_AUTH_TOKEN_PATH")
        defaults |= LOCAL_RAY_DEFAULTS | {"RAY_AUTH_MODE": "token" if token else "disabled"}
    for name, value in defaults.items():
        os.environ.setdefault(name, value)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of one process, read from the environment by `Settings.from_environment`."""

    home: str
    """Root of the artifact store (`YIWEN_HOME`): a local path or any URI that fsspec opens."""
    workers: int
    """Processes that map-like stages may use at once (`YIWEN_WORKERS`, default: all cores granted)."""
    ray_address: str | None
    """Address of a running Ray cluster (`RAY_ADDRESS`), or of a place that takes jobs (http…, kuberay://…)."""
    executor: ExecutorName = "processes"
    """Where the units of map-like stages run (`YIWEN_EXECUTOR`): in processes of this machine, or as Ray tasks.

    Default: Ray inside a Ray job and with the `RAY_ADDRESS` of a cluster, processes everywhere else. A job endpoint
    accepts whole jobs only, so units run in processes beside it. `ray` without a cluster starts a private Ray.
    """
    corpus: str | None = None
    """Text for flows that are given none (`YIWEN_CORPUS`), such as the weekly refresh: paths or URIs, separated by
    commas."""

    @classmethod
    def from_environment(cls) -> Settings:
        """Read the settings; raises `UserError` when a variable cannot be used or a URI contains a secret."""
        address = os.environ.get("RAY_ADDRESS") or None
        home = store_root()
        remedy = "Remove it from YIWEN_HOME and set the variables of its storage, such as AWS_SECRET_ACCESS_KEY."
        refuse_secrets(home, remedy)
        return cls(
            home=home,
            workers=_positive_integer("YIWEN_WORKERS", default=available_cores()),
            ray_address=address,
            executor=_executor(address),
            corpus=os.environ.get("YIWEN_CORPUS") or None,
        )


@dataclass(frozen=True, kw_only=True)
class ElasticsearchSettings:
    """Address and credentials of an Elasticsearch server. Secrets come from the environment only and are not shown."""

    url: str | None = None
    """Address of the server (`ELASTICSEARCH_URL`); None: no server is used."""
    api_key: str | None = field(default=None, repr=False)
    """API key in the encoded form (`ELASTICSEARCH_API_KEY`)."""
    user: str | None = None
    """User, in place of an API key (`ELASTICSEARCH_USER`)."""
    password: str | None = field(default=None, repr=False)
    """The user's password (`ELASTICSEARCH_PASSWORD`)."""
    ca_certs: str | None = None
    """PEM file of the authorities that sign its certificate (`ELASTICSEARCH_CA_CERTS`); None: the usual ones."""

    @classmethod
    def from_environment(cls) -> ElasticsearchSettings:
        """Read the settings; raises `UserError` when they contradict each other or the file does not exist.

        A warning is logged if credentials would travel over plain http.
        """
        names = ("url", "api_key", "user", "password", "ca_certs")
        given = {name: os.environ.get(f"ELASTICSEARCH_{name.upper()}") or None for name in names}
        if bool(given["user"]) != bool(given["password"]):
            raise UserError("ELASTICSEARCH_USER and ELASTICSEARCH_PASSWORD go together; set both or neither.")
        if given["api_key"] and given["user"]:
            raise UserError("Both ELASTICSEARCH_API_KEY and ELASTICSEARCH_USER are set; unset one of them.")
        if given["ca_certs"] and not Path(given["ca_certs"]).is_file():
            raise UserError(f"ELASTICSEARCH_CA_CERTS={given['ca_certs']!r} is not a file; name a file in PEM format.")
        if given["url"] and (given["api_key"] or given["user"]):
            warn_of_plain_http(given["url"], "The password or API key of Elasticsearch")
        return cls(**given)


def available_cores() -> int:
    """Return the number of cores this process may run on (granted by the scheduler, perhaps fewer than there are)."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def store_root() -> str:
    """Return the root of the artifact store: `YIWEN_HOME`, or `artifacts` in this checkout.

    Code that was installed keeps its artifacts in `artifacts` where it was started.
    """
    return os.environ.get("YIWEN_HOME") or str((Path.cwd() if INSTALLED else FOLDER) / "artifacts")


def prefect_server() -> str | None:
    """Return the address of the Prefect server that records runs: `PREFECT_API_URL`, or that of the active profile.

    None means that no server is configured. Read without Prefect, whose import takes a second. Settings in a
    `prefect.toml` or `.env` file are not looked at: export `PREFECT_API_URL` instead.
    """
    address = os.environ.get("PREFECT_API_URL")
    if address is None:  # set but empty: the profile is not asked
        address = _active_profile().get("PREFECT_API_URL")
    return address or None


def _active_profile() -> dict[str, Any]:
    """Return the settings of Prefect's active profile, as `prefect profile use` and `prefect config set` left them."""
    home = Path(os.environ.get("PREFECT_HOME") or "~/.prefect").expanduser()
    file = Path(os.environ.get("PREFECT_PROFILES_PATH") or home / "profiles.toml").expanduser()
    with contextlib.suppress(OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):  # Prefect reports a broken file
        content = tomllib.loads(file.read_text(encoding="utf-8"))
        profile = content.get("profiles", {}).get(os.environ.get("PREFECT_PROFILE") or content.get("active"), {})
        return dict(profile)
    return {}


def _executor(address: str | None) -> ExecutorName:
    given = os.environ.get("YIWEN_EXECUTOR")
    for name in get_args(ExecutorName):
        if given == name:
            return name
    if given:
        raise UserError(f"YIWEN_EXECUTOR={given!r} is unknown; unset it or give processes or ray.")
    on_cluster = address is not None and not is_job_endpoint(address)
    return "ray" if on_cluster or JOB_VARIABLE in os.environ else "processes"


def _positive_integer(name: str, default: int) -> int:
    text = os.environ.get(name)
    if not text:
        return default
    if not text.isdecimal() or int(text) < 1:
        raise UserError(f"{name}={text!r} is not a positive whole number; unset it or give 1 or more.")
    return int(text)
