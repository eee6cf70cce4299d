"""The guard around the endpoints: keys, hosts, headers, counting, and errors that show nothing.

A plain ASGI application. Whatever goes wrong inside becomes a JSON answer and a line in the log, neither with any text.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import hmac
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import Any

from h11 import LocalProtocolError
from starlette.routing import Match, Route

from flows.service.answers import to_bytes
from flows.service.metrics import Metrics
from flows.service.settings import ServiceSettings, is_loopback
from flows.service.worker import place_of

logger = logging.getLogger("yiwen.service")

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

OPEN = ("/health", "/health/alive")
"""Endpoints that need no key."""
PAGES = ("/", "/docs", "/page.css", "/page.js")
"""Endpoints where a browser is asked for the key; one that has it in the address asks for style and script without."""

_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=()"),
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"cache-control", b"no-store"),
)

LINGER_SECONDS = 2.0
"""Time in which the rest of a refused body is read and thrown away, so that its sender sees the answer."""


class RefusedError(Exception):
    """A request that gets an error instead of an answer."""

    def __init__(
        self,
        status: int,
        error: str,
        message: str,
        *,
        problems: Iterable[Mapping[str, Any]] = (),
        headers: Iterable[tuple[bytes, bytes]] = (),
        close: bool = False,
    ) -> None:
        """`error`: a word for programs. `close`: the rest of the body is unread, so the connection ends."""
        super().__init__(message)
        self.status, self.error, self.close = status, error, close
        self.body = to_bytes({"error": error, "message": message, "problems": list(problems)})
        self.headers = list(headers)


class GoneError(Exception):
    """The client closed its connection."""


class Guard:
    """Wraps the application of app.py."""

    def __init__(self, app: App, settings: ServiceSettings, metrics: Metrics, routes: Iterable[Any]) -> None:
        self._app = app
        self._settings = settings
        self._metrics = metrics
        self._routes = [route for route in routes if isinstance(route, Route)]
        self._key = settings.key.encode() if settings.key else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        endpoint = self._endpoint(scope)
        began = time.monotonic()
        status = 0

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                held = {name.lower() for name, _ in message.get("headers", ())}
                message["headers"] = [
                    *message.get("headers", ()),
                    *(pair for pair in _HEADERS if pair[0] not in held),
                ]
            # The connection of a client that broke the protocol takes no answer.
            with contextlib.suppress(LocalProtocolError):
                async with asyncio.timeout(self._settings.limits.send_seconds):
                    await send(message)

        try:
            try:
                self._admit(scope, endpoint)
                await self._app(scope, receive, sent)
            except RefusedError as error:
                if status:
                    raise
                await refuse(error, receive, sent)
            except Exception as error:
                logger.error("%s %s: %s", scope["method"], endpoint, place_of(error))
                if not status:
                    failed = RefusedError(500, "failed", "The service failed; its log says where.", close=True)
                    await refuse(failed, receive, sent)
        except TimeoutError:
            logger.warning("%s %s: the client did not take its answer", scope["method"], endpoint)
        except Exception as error:  # nothing may reach the server's own log, which would print the message
            logger.error("%s %s: %s", scope["method"], endpoint, place_of(error))
        finally:
            status = status or 499  # the client left
            seconds = time.monotonic() - began
            self._metrics.requests.labels(endpoint, str(status)).inc()
            self._metrics.seconds.labels(endpoint).observe(seconds)
            if self._settings.log_requests:
                logger.info("%s %s %d %.1f ms", scope["method"], endpoint, status, 1000 * seconds)

    def _endpoint(self, scope: Scope) -> str:
        """Return the endpoint of a request as the routes name it; what a client makes up is not repeated."""
        for route in self._routes:
            if route.matches(scope)[0] != Match.NONE:
                return route.path
        return "other"

    def _admit(self, scope: Scope, endpoint: str) -> None:
        headers: dict[bytes, bytes] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name, value)
        if self._key is None:
            # A page from elsewhere may point its own name at this machine (DNS rebinding).
            if self._settings.is_local and not _is_own_host(headers.get(b"host", b"")):
                raise RefusedError(421, "host", "This service answers to localhost and 127.0.0.1 only.", close=True)
        elif endpoint not in OPEN and not self._knows_key(headers.get(b"authorization", b"")):
            # Only pages ask for Basic: a browser would open its dialogue for scripts too.
            ways = b'Basic realm="yiwen", charset="UTF-8"' if endpoint in PAGES else b"Bearer"
            raise RefusedError(
                401,
                "key",
                "Send the key: Authorization: Bearer KEY. Browsers send it as the password of any user.",
                headers=[(b"www-authenticate", ways)],
                close=True,
            )

    def _knows_key(self, given: bytes) -> bool:
        assert self._key is not None
        scheme, _, value = given.strip().partition(b" ")
        value = value.strip()
        if scheme.lower() == b"basic":
            with contextlib.suppress(binascii.Error, ValueError):
                value = base64.b64decode(value, validate=True).partition(b":")[2]
        elif scheme.lower() != b"bearer":
            value = b""
        return hmac.compare_digest(value, self._key)


def _is_own_host(host: bytes) -> bool:
    name = host.decode("latin-1")
    # [::1]:8765, 127.0.0.1:8765, localhost
    name = name.partition("]")[0] + "]" if name.startswith("[") else name.partition(":")[0]
    return is_loopback(name)


async def refuse(error: RefusedError, receive: Receive, send: Send) -> None:
    """Send an error. Where the body is unread, its rest is thrown away for a while: the sender may not read before."""
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(error.body)).encode()),
        *error.headers,
        *([(b"connection", b"close")] if error.close else []),
    ]
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    if error.close:
        await send({"type": "http.response.body", "body": error.body, "more_body": True})
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                while (message := await receive())["type"] == "http.request" and message.get("more_body"):
                    message.clear()
        await send({"type": "http.response.body", "body": b""})
    else:
        await send({"type": "http.response.body", "body": error.body})


async def read_body(scope: Scope, receive: Receive, most: int, seconds: float) -> bytes:
    """Return the body of a request.

    Raises:
        RefusedError: it is too long, whatever its Content-Length says, or it does not arrive in time.
        GoneError: the client left.
    """
    too_long = RefusedError(413, "too_long", f"The body may have {most:,} bytes; send fewer texts.", close=True)
    for name, value in scope["headers"]:
        if name == b"content-length" and (not value.isdigit() or len(value) > 15 or int(value) > most):
            raise too_long
    parts: list[bytes] = []
    length = 0
    try:
        async with asyncio.timeout(seconds):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    raise GoneError
                part = message.get("body", b"")
                length += len(part)
                if length > most:
                    raise too_long
                parts.append(part)
                if not message.get("more_body"):
                    return b"".join(parts)
    except TimeoutError as error:
        raise RefusedError(408, "slow", f"The body did not arrive within {seconds:g} s.", close=True) from error
