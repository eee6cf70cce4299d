"""Secrets and URIs: a URI is logged, kept in manifests and shown on pages; over plain http everybody reads along."""

from __future__ import annotations

import ipaddress
import logging
import re
from urllib.parse import urlsplit

from infra.errors import UserError

logger = logging.getLogger(__name__)


def refuse_password(uri: str, remedy: str) -> None:
    """Raise `UserError`, with the remedy, if a URI contains a password; the message does not repeat it.

    In a chain of fsspec's (`zip://a.txt::ftp://host/a.zip`) every link is looked at.
    """
    for link in uri.split("::"):
        scheme, found, rest = link.partition("://")
        login, _, place = rest.rpartition("@")
        name, colon, secret = login.partition(":")
        # In http://host:8080/a@b the colon precedes a port. A key of S3 may contain slashes: s3://KEY:ab/cd@bucket.
        if found and colon and "/" not in name and not re.match(r"\d*/", secret):
            shown = f"{scheme}://***@{place}"
            raise UserError(f"{shown} contains a password, which would be recorded with the run. {remedy}")


def warn_of_plain_http(url: str, secret: str) -> None:
    """Log a warning if a secret, described by `secret`, is about to travel unencrypted to another machine."""
    parts = urlsplit(url)
    if parts.scheme == "http" and not _is_loopback(parts.hostname or ""):
        logger.warning(
            "%s is sent to %s over plain http, where everybody on the way can read it. Use an https address.",
            secret,
            parts.netloc.rpartition("@")[2],
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name
        return host == "localhost" or host.endswith(".localhost")
