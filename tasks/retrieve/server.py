"""Connection to an Elasticsearch server that may be unavailable for a while.

Transient failures are retried: no connection, a timeout, and the statuses of `PASSING`. Pauses double up to
`LONGEST_PAUSE`. Retries are limited to servers that have answered before; a server that never did is reported at once.
Permanent failures become a `UserError` with a remedy.

Versions 8 and 9 are supported: the client of version 8 speaks to both.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlsplit

from elastic_transport import ConnectionError as NoConnectionError
from elastic_transport import ConnectionTimeout, SerializationError, TlsError, TransportError
from elastic_transport.client_utils import DEFAULT
from elasticsearch import ApiError, Elasticsearch, UnsupportedProductError

from infra.errors import UserError
from infra.settings import ElasticsearchSettings

logger = logging.getLogger(__name__)

T = TypeVar("T")

VERSIONS = (8, 9)
PASSING = (429, 502, 503, 504)
"""HTTP statuses of transient failures: overloaded, behind a failing gateway, starting or moving a shard."""
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 8.0
"""Seconds between two attempts."""

_START = (
    "Start one with infra/elasticsearch/start.sh FOLDER or docker compose -f infra/compose.yaml up -d elasticsearch, "
    "and set ELASTICSEARCH_URL to its address."
)
_CREDENTIALS = "ELASTICSEARCH_API_KEY, or ELASTICSEARCH_USER and ELASTICSEARCH_PASSWORD"


@dataclass(frozen=True)
class Patience:
    """How long to wait for a server."""

    seconds: float = 120.0
    """Time after which a request with transient failures is given up."""
    request_seconds: float = 60.0
    """Timeout of a single attempt."""


class RefusedError(Exception):
    """An item of a request failed. The request is repeated if the status is in `PASSING`."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.passes = status in PASSING


class Server:
    """A server, or a cluster behind one address. May be shared by threads."""

    def __init__(self, url: str, access: ElasticsearchSettings, patience: Patience) -> None:
        """Prepare the connection; no request is sent yet.

        Raises:
            UserError: the address is invalid or contains credentials.
        """
        if "@" in url:
            raise UserError(f"The address of Elasticsearch contains credentials. Remove them and set {_CREDENTIALS}.")
        self.url = url
        self.patience = patience
        self._answered = False
        try:
            self._client = Elasticsearch(
                _with_port(url),
                api_key=access.api_key,
                basic_auth=(access.user, access.password) if access.user and access.password else None,
                ca_certs=access.ca_certs or DEFAULT,
                request_timeout=patience.request_seconds,
                max_retries=0,  # `ask` retries, with pauses
                meta_header=False,
            )
        except ValueError as error:
            raise UserError(
                f"{url!r} is not an address of Elasticsearch ({error}). Give one such as https://host:9200."
            ) from error

    def ask(self, request: Callable[[Elasticsearch], T]) -> T:
        """Return the answer to a request, which must be safe to repeat.

        Raises:
            UserError: the server is absent, has an unsupported version, refuses, or does not recover in time.
            ApiError: not found (404), or another state of an index that callers handle (400, 409).
        """
        if not self._answered:
            self._check_version()
        given_up = time.monotonic() + self.patience.seconds
        pause = FIRST_PAUSE
        while True:
            try:
                return request(self._client)
            except (TransportError, ApiError, RefusedError) as error:
                # Give up now if the next pause would end after the deadline.
                if not _passes(error) or time.monotonic() + pause > given_up:
                    raise self._explained(error) from error
                logger.warning("%s is unavailable (%s); retrying in %.1f s", self.url, _reason(error), pause)
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _check_version(self) -> None:
        try:
            nodes = self._client.nodes.info(node_id="_all", metric="_none", filter_path="nodes.*.version")["nodes"]
        except ApiError as error:
            # An API key for searching need not grant access to nodes, and a hosted cluster may hide them.
            if error.status_code not in (403, 404, 410):
                # Elasticsearch 7 rejects the media type of this client.
                if error.status_code in (400, 406, 415):
                    raise UserError(
                        f"{self.url} does not understand this client's requests. {self._wanted()}"
                    ) from error
                raise self._explained(error) from error
            nodes = {}
        except (TransportError, KeyError) as error:
            raise self._explained(error) from error
        versions = sorted({node["version"] for node in nodes.values()})
        if wrong := [version for version in versions if int(version.split(".")[0]) not in VERSIONS]:
            raise UserError(f"{self.url} runs Elasticsearch {', '.join(wrong)}. {self._wanted()}")
        self._answered = True

    def _wanted(self) -> str:
        return f"Versions {' and '.join(map(str, VERSIONS))} are supported: set ELASTICSEARCH_URL to such a server."

    def _explained(self, error: Exception) -> Exception:
        """Return the error to raise for a failed request."""
        if isinstance(error, UnsupportedProductError | SerializationError | KeyError):
            return UserError(f"The server at {self.url} is not Elasticsearch. {self._wanted()}")
        if isinstance(error, TlsError):
            return UserError(
                f"The TLS connection to {self.url} cannot be trusted ({_reason(error)}). Set ELASTICSEARCH_CA_CERTS to "
                "the certificate file of its authority, or use http:// in ELASTICSEARCH_URL if the server has no TLS."
            )
        if isinstance(error, TransportError) and not self._answered:
            return UserError(f"No Elasticsearch server answers at {self.url} ({_reason(error)}). {_START}")
        if isinstance(error, ApiError) and error.status_code == 401:
            return UserError(f"{self.url} requires credentials, or rejects the given ones. Set {_CREDENTIALS}.")
        if isinstance(error, ApiError) and error.status_code == 403:
            return UserError(
                f"{self.url} denies access ({_reason(error)}). Grant the API key or user the privileges manage and "
                "write on the index, and monitor on the cluster."
            )
        if isinstance(error, ApiError) and not _passes(error):
            return error
        if isinstance(error, RefusedError) and not _passes(error):
            return UserError(f"{self.url} refused the request: {_reason(error)}")
        return UserError(f"{self.url} failed: {_reason(error)}. {self._state()}")

    def _state(self) -> str:
        """Return the state of the cluster and a remedy."""
        try:
            health = self._client.options(request_timeout=5).cluster.health()
        except (TransportError, ApiError):
            return f"It did not recover within {self.patience.seconds:g} s. Restart it, then run this command again."
        return (
            f"Its cluster is {health['status']}, with {health['unassigned_primary_shards']} unassigned primary shards. "
            "GET /_cluster/allocation/explain gives the cause. Once it is green or yellow, run this command again."
        )


def _with_port(url: str) -> str:
    """Return an address with its port, which the client requires: 443 or 9200 if there is none."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("http:// or https:// and a host are required")
    if parts.port is not None:
        return url
    return parts._replace(netloc=f"{parts.netloc}:{443 if parts.scheme == 'https' else 9200}").geturl()


def _passes(error: Exception) -> bool:
    if isinstance(error, ApiError):
        return error.status_code in PASSING
    if isinstance(error, RefusedError):
        return error.passes
    return isinstance(error, NoConnectionError | ConnectionTimeout) and not isinstance(error, TlsError)


def _reason(error: Exception) -> str:
    """Return one line about an error, without its chain of requests."""
    if isinstance(error, ApiError) and isinstance(error.body, dict) and isinstance(error.body.get("error"), dict):
        return f"{error.status_code}, {error.body['error'].get('reason') or error.message}"
    if isinstance(error, ApiError):
        return f"{error.status_code}, {error.message}"
    return error.message if isinstance(error, TransportError) else str(error)


def why(item: dict[str, Any]) -> str:
    """Return why an item of a bulk request or of a multi-search failed."""
    error = item.get("error") or {}
    causes = [cause.get("reason") for cause in error.get("root_cause", [])]
    return str(next(filter(None, [*causes, error.get("reason")]), f"status {item['status']}"))
