"""An Elasticsearch server as one that may be away for a while: requests are repeated until patience runs out.

What goes away by itself is waited for: no connection, a timeout, and the statuses of `PASSING`. The pauses double up to
`LONGEST_PAUSE`. Only a server that has answered before is waited for so; one that never did is reported at once. All
that stays becomes a `UserError` with its remedy.

Only versions 8 and 9 are spoken to: the client of version 8 knows both.
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
"""Statuses of a server that is overloaded, starting or moving a shard: too many requests, no shard, gateway."""
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 8.0
"""Seconds."""

_START = (
    "Start one with infra/elasticsearch/start.sh FOLDER or docker compose -f infra/compose.yaml up -d elasticsearch, "
    "and set ELASTICSEARCH_URL to its address."
)
_CREDENTIALS = "ELASTICSEARCH_API_KEY, or ELASTICSEARCH_USER and ELASTICSEARCH_PASSWORD"


@dataclass(frozen=True)
class Patience:
    """How long a server is waited for."""

    seconds: float = 120.0
    """Until a request that fails in a passing way is given up."""
    request_seconds: float = 60.0
    """Until one that is not answered counts as failed."""


class RefusedError(Exception):
    """One item of a request failed. It is repeated where its status is one of `PASSING`."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.passes = status in PASSING


class Server:
    """One server, or a cluster behind one address. Threads may share it."""

    def __init__(self, url: str, access: ElasticsearchSettings, patience: Patience) -> None:
        """Nothing is sent yet.

        Raises:
            UserError: the address is none, or holds credentials.
        """
        if "@" in url:
            raise UserError(f"The address of Elasticsearch holds credentials. Leave them out and set {_CREDENTIALS}.")
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
                max_retries=0,  # `ask` repeats, with pauses
                meta_header=False,
            )
        except ValueError as error:
            raise UserError(
                f"{url!r} is no address of Elasticsearch ({error}). Give one like https://host:9200."
            ) from error

    def ask(self, request: Callable[[Elasticsearch], T]) -> T:
        """The answer to a request, which must do no harm when it is sent twice.

        Raises:
            UserError: the server is absent, not of our version, refuses, or did not recover in time.
            ApiError: not found (404), or another state of an index that the caller knows how to judge (400, 409).
        """
        if not self._answered:
            self._check_version()
        given_up = time.monotonic() + self.patience.seconds
        pause = FIRST_PAUSE
        while True:
            try:
                return request(self._client)
            except (TransportError, ApiError, RefusedError) as error:
                if not _passes(error) or time.monotonic() + pause > given_up:
                    raise self._explained(error) from error
                logger.warning("%s does not serve now (%s); asked again in %.1f s", self.url, _reason(error), pause)
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _check_version(self) -> None:
        try:
            nodes = self._client.nodes.info(node_id="_all", metric="_none", filter_path="nodes.*.version")["nodes"]
        except ApiError as error:
            # Who may search need not be allowed to look at nodes, and a hosted cluster may not show them.
            if error.status_code not in (403, 404, 410):
                if error.status_code in (400, 406, 415):
                    raise UserError(f"{self.url} does not understand this client. {self._wanted()}") from error
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
        """The error a caller sees."""
        if isinstance(error, UnsupportedProductError | SerializationError | KeyError):
            return UserError(f"What answers at {self.url} is not Elasticsearch. {self._wanted()}")
        if isinstance(error, TlsError):
            return UserError(
                f"There is no trusted connection to {self.url} ({_reason(error)}). Set ELASTICSEARCH_CA_CERTS to the "
                "file of the authority that signed its certificate, or ELASTICSEARCH_URL to http:// where it has none."
            )
        if isinstance(error, TransportError) and not self._answered:
            return UserError(f"No Elasticsearch answers at {self.url} ({_reason(error)}). {_START}")
        if isinstance(error, ApiError) and error.status_code == 401:
            return UserError(f"{self.url} refuses the credentials, or wants some. Set {_CREDENTIALS}.")
        if isinstance(error, ApiError) and error.status_code == 403:
            return UserError(
                f"{self.url} forbids it ({_reason(error)}). Grant the API key or user the privileges manage and write "
                "on the index, and monitor on the cluster."
            )
        if isinstance(error, ApiError) and not _passes(error):
            return error
        if isinstance(error, RefusedError) and not _passes(error):
            return UserError(f"{self.url} refused: {_reason(error)}")
        return UserError(f"{self.url} failed: {_reason(error)}. {self._state()}")

    def _state(self) -> str:
        """What the cluster says of itself, and what to do about it."""
        try:
            health = self._client.options(request_timeout=5).cluster.health()
        except (TransportError, ApiError):
            return f"It did not come back within {self.patience.seconds:g} s. Start it again, then run this again."
        return (
            f"Its cluster is {health['status']}, primary shards without a node: {health['unassigned_primary_shards']}. "
            "GET /_cluster/allocation/explain says why; once it is green or yellow, run this again."
        )


def _with_port(url: str) -> str:
    """An address with its port, which the client asks for: 443 or 9200 where it has none."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("it has no http:// or https:// and host")
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
    """A line on an error, without the requests that led to it."""
    if isinstance(error, ApiError) and isinstance(error.body, dict) and isinstance(error.body.get("error"), dict):
        return f"{error.status_code}, {error.body['error'].get('reason') or error.message}"
    if isinstance(error, ApiError):
        return f"{error.status_code}, {error.message}"
    return error.message if isinstance(error, TransportError) else str(error)


def why(item: dict[str, Any]) -> str:
    """Why an item of a bulk or of several searches failed."""
    error = item.get("error") or {}
    causes = [cause.get("reason") for cause in error.get("root_cause", [])]
    return str(next(filter(None, [*causes, error.get("reason")]), f"status {item['status']}"))
