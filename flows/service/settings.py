"""Settings of the service: what it offers, where it listens, how much it accepts, and who may ask."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from infra.errors import UserError

KEY_VARIABLE = "YIWEN_API_KEY"
"""Secret that requests to the service need (`Authorization: Bearer`); without it the service stays on this machine."""
LEAST_KEY = 16
"""Characters of the shortest key that is accepted."""

# matches: "cmeee", "icd-10_v2"
# not: "a/b", "", "名"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
# matches: "3f9c…": printable ASCII, as in a header
# not: "two words", "密钥"
_KEY = re.compile(r"[\x21-\x7e]+")


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one request, and all of them together, may take."""

    body_bytes: int = 4 << 20
    """Bytes of a body; more is refused before it is read into memory (413)."""
    texts: int = 256
    """Texts of a request (422)."""
    characters: int = 20_000
    """Characters of a text (422)."""
    record_texts: int = 64
    """Texts of a record with options (422). A model reads evidence and question once for each option."""
    seconds: float = 60.0
    """Time for an answer (504)."""
    work_seconds: float = 25.0
    """Time for a batch. A worker that computes longer is killed and started again, and the text fails (504)."""
    body_seconds: float = 15.0
    """Time for a whole body to arrive (408)."""
    header_seconds: float = 10.0
    """Time for the headers of a request; then the connection is closed."""
    send_seconds: float = 30.0
    """Time in which a client must take a piece of its answer; then the connection is closed."""
    queue_characters: int = 2_000_000
    """Characters that may wait for each worker; beyond them a request is refused (503, Retry-After)."""
    queue_texts: int = 50_000
    """Texts that may wait for each worker."""
    batch_characters: int = 4_096
    """Characters of a batch, unless a single text has more; a Chinese character is about a token."""
    batch_texts: int = 64
    """Texts of a batch."""
    connections: int = 512
    """Open connections; further ones get 503."""
    drain_seconds: float = 30.0
    """Time for requests in progress to finish after SIGTERM."""


@dataclass(frozen=True, kw_only=True)
class ServiceSettings:
    """Everything that `yiwen serve` is told. `checked` says whether it can be used."""

    normaliser: Path | None = None
    """Folder of a normaliser; None: no /normalise."""
    models: Mapping[str, Path] = field(default_factory=dict)
    """Folders of fine-tuned models, by the name in /predict/NAME."""
    linker: Path | None = None
    """Folder of an artifact with entities; None: no /link."""
    deidentify: bool = False
    """True: offer /deidentify."""
    profile: str = "minimal"
    """Profile of de-identification."""
    rules: Path | None = None
    """The user's own rules of de-identification."""
    encoder: bool = False
    """True: a larger encoder reads again whatever the recogniser of de-identification doubts."""
    host: str = "127.0.0.1"
    port: int = 8765
    """0: any free port."""
    without_key: bool = False
    """True: listen beyond loopback without a key."""
    device: str | None = None
    """Device of models; None: a GPU if there is one."""
    together: bool = False
    """True: models compute the records that wait together. Faster, and scores differ in the seventh digit."""
    key: str | None = field(default=None, repr=False)
    log_requests: bool = False
    """True: one line per request, without any text."""
    limits: Limits = Limits()

    def checked(self) -> ServiceSettings:
        """Return the settings.

        Raises:
            UserError: nothing is offered, a name cannot be part of an address, or anybody on the network could ask.
        """
        if not (self.normaliser or self.models or self.linker or self.deidentify):
            raise UserError(
                "Nothing to serve. Give at least one of --normaliser DIR, --model NAME=DIR, --linker DIR, --deidentify."
            )
        for name in self.models:
            if not _NAME.fullmatch(name):
                raise UserError(f"--model {name}=…: a name has 1 to 64 letters of A-Z, digits, dots, - and _.")
        if not 0 <= self.port <= 65_535:
            raise UserError(f"--port {self.port}: give 1 to 65535, or 0 for any free port.")
        if not (self.is_local or self.key or self.without_key):
            raise UserError(
                f"--host {self.host} is reachable from other machines, and no key is set. Set {KEY_VARIABLE} to a "
                "secret, stay on 127.0.0.1, or say --without-key."
            )
        return self

    @property
    def is_local(self) -> bool:
        """True if only this machine can reach the service."""
        return is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Return whether a host's name or address is that of this machine alone."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def key_from_environment() -> str | None:
    """Return the key of `YIWEN_API_KEY`; None if it is unset or empty.

    Raises:
        UserError: the key is too short to be a secret, or cannot stand in a header.
    """
    key = os.environ.get(KEY_VARIABLE)
    if not key:
        return None
    if len(key) < LEAST_KEY or not _KEY.fullmatch(key):
        raise UserError(
            f"{KEY_VARIABLE} must have at least {LEAST_KEY} characters of printable ASCII without blanks. "
            "`openssl rand -hex 24` makes one."
        )
    return key
