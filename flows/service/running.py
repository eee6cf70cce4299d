"""Start and stop: the socket is taken first, then engines are opened, then requests are accepted.

SIGTERM and SIGHUP let requests in progress finish. Ctrl-C gives them `SECONDS_AFTER_INTERRUPT`. A second signal ends
the process at once. What is left of it is cleaned up by the guard of infra/console/interruption.py, where there is one.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Generator

import uvicorn

from flows.service.app import Service, create_app
from flows.service.connection import connection_class
from flows.service.settings import KEY_VARIABLE, ServiceSettings
from infra.console.json_log import JsonFormatter, is_json
from infra.errors import UserError

logger = logging.getLogger("yiwen.service")

SECONDS_AFTER_INTERRUPT = 1.0
"""Time for requests in progress after Ctrl-C."""
SECONDS_TO_CLOSE = 1.0
"""Time after that in which the process must have ended, or it is cut off."""


def serve(settings: ServiceSettings, say: Callable[[str], None] = print) -> int:
    """Serve until a signal comes; returns the exit status.

    Args:
        say: receives the lines for the person at the terminal.

    Raises:
        UserError: the settings, the port or a folder cannot be used.
    """
    settings.checked()
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    if is_json():
        for handler in logging.getLogger().handlers:
            handler.setFormatter(JsonFormatter())
    logger.setLevel(logging.INFO)
    # Its warnings are one per bad request, and its errors print what they are given.
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    logging.getLogger("asyncio").addFilter(_only_the_kind)
    with bound(settings.host, settings.port) as taken:
        return asyncio.run(_serve(settings, taken, say))


@contextlib.contextmanager
def bound(host: str, port: int) -> Generator[socket.socket]:
    """Take an address; nothing is accepted yet.

    Raises:
        UserError: it is taken, or is not this machine's.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror as error:
        raise UserError(f"--host {host}: {error.strerror}. Give a name or an address of this machine.") from error
    taken = socket.socket(family, kind, protocol)
    try:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(address)
    except OSError as error:
        taken.close()
        raise address_error(error, host, port) from error
    with taken:
        yield taken


def address_error(error: OSError, host: str, port: int) -> UserError:
    """Return why an address cannot be taken, with the remedy."""
    if error.errno == errno.EADDRINUSE:
        return UserError(
            f"port {port} of {host} is taken by another program, perhaps another `yiwen serve`. Give another with "
            "--port, or stop that one."
        )
    if error.errno == errno.EACCES:
        return UserError(f"port {port} is for the administrator only. Give one from 1024 with --port.")
    return UserError(f"--host {host} --port {port}: {error.strerror}. Give an address of this machine.")


class _Server(uvicorn.Server):
    """uvicorn without its handling of signals, which would raise them again at the end."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


async def _serve(settings: ServiceSettings, taken: socket.socket, say: Callable[[str], None]) -> int:
    service = Service(settings)
    limits = settings.limits
    config = uvicorn.Config(
        create_app(service, starts=False),
        http=connection_class(limits),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=30,
        backlog=1024,
    )
    server = _Server(config)
    starting = asyncio.create_task(service.start())
    ending = _Ending(service, server, starting)
    ending.listen()
    host, port = taken.getsockname()[:2]
    say(f"Opening {', '.join(service.lanes)} …")
    try:
        await starting
    except asyncio.CancelledError:
        await service.stop()
        return ending.status
    try:
        taken.listen(config.backlog)  # here, where another program that was faster is a plain error
    except OSError as error:
        await service.stop()
        raise address_error(error, settings.host, port) from error
    shown = f"[{host}]" if ":" in host else host
    say(f"http://{shown}:{port}/ is ready (page, /docs, /health, /metrics). Ctrl-C ends it.")
    if settings.key:
        say(f"Requests need the key of {KEY_VARIABLE}.")
    elif not settings.is_local:
        say("warning: anybody who reaches this address can use it, since no key is set.")
    await server.serve([taken])
    return ending.status


class _Ending:
    """What happens when a signal comes."""

    def __init__(self, service: Service, server: _Server, starting: asyncio.Task[None]) -> None:
        self.status = 0
        self._service, self._server, self._starting = service, server, starting

    def listen(self) -> None:
        """Handle signals from now on, instead of whoever did before."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, self._end, number)

    def _end(self, number: int) -> None:
        if self._service.is_draining:
            os._exit(128 + number)
        self._service.is_draining = True
        # Ctrl-C ends like any interrupted command; a service that is told to stop has done what it was told.
        self.status = 130 if number == signal.SIGINT else 0
        seconds = SECONDS_AFTER_INTERRUPT if number == signal.SIGINT else self._service.settings.limits.drain_seconds
        logger.info("Ending: requests in progress have %g s.", seconds)
        self._server.config.timeout_graceful_shutdown = seconds  # type: ignore[assignment]  # wait_for takes floats
        self._server.should_exit = True
        self._starting.cancel()
        # A thread, since the loop ends before the interpreter does.
        cut_off = threading.Timer(seconds + SECONDS_TO_CLOSE, os._exit, (self.status or 1,))
        cut_off.daemon = True
        cut_off.start()


def _only_the_kind(record: logging.LogRecord) -> bool:
    """Take the traceback out of a line of asyncio's: exceptions may quote texts."""
    record.exc_info = None
    return record.levelno >= logging.ERROR
