"""Secrets and URIs: a URI is logged, kept in manifests and shown on pages; over plain http everybody reads along."""

from __future__ import annotations

import ipaddress
import logging
import re
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from infra.errors import UserError

logger = logging.getLogger(__name__)


# matches: "Access" and "Key" in "AWSAccessKeyId", "access" and "key" in "access_key"
# not: "_", "2"
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")

# matches: "token", "accesskey", "passwd", "sig"
# not: "tokenizer", "monkey", "author", "keyword"
_SECRET_WORD = re.compile(
    r"(?:access|account|api|app|auth|client|id|private|refresh|secret|security|session|shared|ssl|user)*"
    r"(?:auth|authorization|bearer|credentials?|jwt|key|pass|passphrase|passwd|password|pw|pwd|sas|secret|session|sig"
    r"|sign|signature|token)(?:id|s)?"
)

# matches: "x-amz-expires", "X-Goog-Date"
# not: "x-axis"
_SIGNED = re.compile(r"x-(?:amz|goog|oss)-", re.IGNORECASE)
"""Beginning of the parameters of an address that is signed, which is a secret as a whole."""

_KEY_FILES = frozenset(("sslkey", "ssl_key"))
"""Parameters of databases that name the file of a key."""

# matches: "token=" in "f=a;token=b", "X-Amz-Date=" in "X-Amz-Date=2026"
# not: "token" in "f=token"
_NAME = re.compile(r"(?:^|[?&;#,])([^=?&;#,]+)=(?=.)", re.DOTALL)

# matches: "::" in "zip://a.txt::ftp://host/a.zip"
# not: "::" in "ftp://host/a::b"
_LINK = re.compile(r"::(?=[\w+.-]+://)")

# matches: "postgresql+psycopg", "sqlite"
# not: "s3"
_DATABASE = re.compile(r"(?:postgresql|mysql|mariadb|oracle|mssql|sqlite)(?:\+\w+)?")


def refuse_secrets(uri: str, remedy: str = "") -> None:
    """Raise `UserError`, with the remedy, if a URI contains a password or a secret; the message does not repeat it.

    A secret is the value of a parameter, behind ? or #, whose name has a word such as token, key or signature. In a
    chain of fsspec's (`zip://a.txt::ftp://host/a.zip`) every link is looked at.

    Args:
        uri: a URI; a local path, which has no scheme, passes.
        remedy: what to do, if that is not what holds for files and databases in general.
    """
    links = [_masked(link) for link in _LINK.split(uri) if "://" in uri]
    secrets = dict.fromkeys(secret for _, found in links for secret in found)
    if secrets:
        shown = "::".join(link for link, _ in links)
        why = f"{shown} contains {' and '.join(secrets)}, which would be recorded with the run."
        raise UserError(f"{why} {remedy or _remedy(uri)}")


def refuse_secrets_within(value: object) -> None:
    """Raise `UserError` if a URI in the value of a parameter contains a password or a secret.

    Args:
        value: a text, which may name several URIs separated by commas, or lists and objects with such texts.
    """
    if isinstance(value, str):
        for part in value.split(","):
            refuse_secrets(part.strip())
    elif isinstance(value, Mapping):
        refuse_secrets_within(list(value.values()))
    elif isinstance(value, list | tuple | set | frozenset):
        for one in value:
            refuse_secrets_within(one)


def _masked(link: str) -> tuple[str, list[str]]:
    """Return a link of a URI with *** in place of secrets, and what these are."""
    secrets = []
    scheme, found, rest = link.partition("://")
    login, _, place = rest.rpartition("@")
    name, colon, secret = login.partition(":")
    # In http://host:8080/a@b the colon precedes a port, in http://[::1]/a@b it belongs to the host. A key of S3 may
    # contain slashes: s3://KEY:ab/cd@bucket.
    if found and colon and not name.startswith("[") and "/" not in name and not re.match(r"\d*/", secret):
        secrets.append("a password")
        link = f"{scheme}://***@{place}"
    start = re.search("[?#]", link)
    if start is None:
        return link, secrets
    parts = link[start.end() :].split("&")
    for index, part in enumerate(parts):
        # Escapes may hide the name, and a value may be an address with parameters of its own.
        secret_names = [name for name in _NAME.findall(unquote(part)) if _is_secret(name)]
        if secret_names:
            secrets.append(f"a secret ({secret_names[0]})")
            parts[index] = f"{part.partition('=')[0] if '=' in part else secret_names[0]}=***"
    return link[: start.end()] + "&".join(parts), secrets


def _is_secret(name: str) -> bool:
    """Return whether the value of a parameter of this name is a secret."""
    if name.lower() in _KEY_FILES:
        return False
    words = [*_WORD.findall(name), *re.findall("[a-z]+", name.lower())]
    return bool(_SIGNED.match(name)) or any(_SECRET_WORD.fullmatch(word.lower()) for word in words)


def _remedy(uri: str) -> str:
    scheme = _LINK.split(uri)[-1].partition("://")[0]
    if _DATABASE.fullmatch(scheme):
        return "Remove it from the URL and set YIWEN_DATABASE_PASSWORD in the environment."
    return (
        f"Remove it and set it in the environment: FSSPEC_{scheme.upper()}_PASSWORD, or the variables of its storage "
        "(AWS_SECRET_ACCESS_KEY, GOOGLE_APPLICATION_CREDENTIALS, …). If the address works only with it, download the "
        "files and give the local copy."
    )


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
