"""What the environment decides: where artifacts lie, how many workers run, which Ray cluster is used."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from infra.errors import UserError

REPOSITORY = Path(__file__).resolve().parent.parent

PRIVACY_DEFAULTS = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_OFFLINE": "1",
}
"""Medical text is sensitive: no library reports usage and no hub is asked, unless the user sets otherwise."""


LOCAL_RAY_DEFAULTS = {
    # Explicit, so that a process of ours and the Ray it starts never disagree; Ray makes the token itself.
    "RAY_AUTH_MODE": "token",
    # Left to itself the metrics exporter looks for an agent that a Ray without dashboard does not have.
    "RAY_enable_metrics_collection": "0",
    # A shared machine may be full for reasons of others; Ray would kill our workers for it.
    "RAY_memory_monitor_refresh_ms": "0",
    # Ray would let everything else on the machine go before its workers.
    "RAY_worker_niceness": "0",
}
"""How a private Ray on this machine is set up. Ray reads it on import, so it is in place before that."""


PREFECT_DEFAULTS = {
    # A flow without a server starts one of its own, which a busy machine does not have up in Prefect's 20 seconds.
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "180",
}


def is_job_endpoint(address: str | None) -> bool:
    """Whether an address of Ray is a cluster's job endpoint, which takes jobs over HTTP."""
    return address is not None and address.startswith(("http://", "https://"))


def apply_defaults() -> None:
    """Put our defaults into the environment of this process and its children; set values win."""
    defaults = PRIVACY_DEFAULTS | PREFECT_DEFAULTS
    address = os.environ.get("RAY_ADDRESS")
    if not address:
        defaults |= LOCAL_RAY_DEFAULTS
    elif is_job_endpoint(address):
        # Tasks run on a private Ray here too. Left unset, a token that some Ray left on this machine would decide.
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
    """Address of a running Ray cluster (`RAY_ADDRESS`), http… its job endpoint; None starts a local one when needed."""
    corpus: str | None = None
    """Text of the flows that are given none (`YIWEN_CORPUS`), such as the weekly refresh: paths or URIs, with commas
    between several."""

    @classmethod
    def from_environment(cls) -> Settings:
        """Read the settings; raises `UserError` when a variable is not usable."""
        return cls(
            home=os.environ.get("YIWEN_HOME") or str(REPOSITORY / "artifacts"),
            workers=_positive_integer("YIWEN_WORKERS", default=available_cores()),
            ray_address=os.environ.get("RAY_ADDRESS") or None,
            corpus=os.environ.get("YIWEN_CORPUS") or None,
        )


@dataclass(frozen=True, kw_only=True)
class ElasticsearchSettings:
    """How an Elasticsearch server is reached. Secrets come from the environment alone and are never shown."""

    url: str | None = None
    """`ELASTICSEARCH_URL`; None where no server is used."""
    api_key: str | None = field(default=None, repr=False)
    """`ELASTICSEARCH_API_KEY`, in the encoded form."""
    user: str | None = None
    """`ELASTICSEARCH_USER`, in place of an API key."""
    password: str | None = field(default=None, repr=False)
    """`ELASTICSEARCH_PASSWORD`"""
    ca_certs: str | None = None
    """`ELASTICSEARCH_CA_CERTS`: file of the authorities that signed the server's certificate; None: the usual ones."""

    @classmethod
    def from_environment(cls) -> ElasticsearchSettings:
        """Read the settings; raises `UserError` when they contradict each other."""
        names = ("url", "api_key", "user", "password", "ca_certs")
        given = {name: os.environ.get(f"ELASTICSEARCH_{name.upper()}") or None for name in names}
        if bool(given["user"]) != bool(given["password"]):
            raise UserError("ELASTICSEARCH_USER and ELASTICSEARCH_PASSWORD go together; set both or neither.")
        if given["api_key"] and given["user"]:
            raise UserError("Both ELASTICSEARCH_API_KEY and ELASTICSEARCH_USER are set; unset one of them.")
        if given["ca_certs"] and not Path(given["ca_certs"]).is_file():
            raise UserError(f"ELASTICSEARCH_CA_CERTS={given['ca_certs']!r} is no file; name one in PEM format.")
        return cls(**given)


def available_cores() -> int:
    """Cores this process may run on (what the scheduler grants, not what the machine has)."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _positive_integer(name: str, default: int) -> int:
    text = os.environ.get(name)
    if not text:
        return default
    if not text.isdecimal() or int(text) < 1:
        raise UserError(f"{name}={text!r} is not a positive whole number; unset it or give 1 or more.")
    return int(text)
