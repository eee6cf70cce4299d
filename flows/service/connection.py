"""A connection of uvicorn's that does not wait for ever: neither for headers, nor in unlimited numbers."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from flows.service.settings import Limits

_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-type: application/json\r\nconnection: close\r\n"
    b'content-length: 58\r\n\r\n{"error":"busy","message":"Too many connections are open"}'
)


def connection_class(limits: Limits) -> type[asyncio.Protocol]:
    """Return the class of connections under some limits."""

    class Connection(H11Protocol):
        """Ends a connection whose headers take too long, which uvicorn does only between requests."""

        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            self._headers_due: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if len(self.connections) > limits.connections:
                transport.write(_FULL)
                transport.close()
                return
            self._expect_headers()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self._is_between():
                self._expect_headers()
            else:
                self._cancel()

        def connection_lost(self, exc: Exception | None) -> None:
            self._cancel()
            super().connection_lost(exc)

        def _is_between(self) -> bool:
            """True while headers are expected, and perhaps a part of them is here."""
            return self.cycle is None or self.cycle.response_complete

        def _expect_headers(self) -> None:
            if self._headers_due is None:
                self._headers_due = self.loop.call_later(limits.header_seconds, self._give_up)

        def _give_up(self) -> None:
            self._headers_due = None
            if self._is_between() and not self.transport.is_closing():
                self.transport.abort()

        def _cancel(self) -> None:
            if self._headers_due is not None:
                self._headers_due.cancel()
                self._headers_due = None

    return Connection
