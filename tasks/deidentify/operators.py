"""Operators: what an identifier becomes. A placeholder, a mask, a keyed hash, a surrogate, a ciphertext, another date.

The key of those that need one is in the environment only (`YIWEN_DEIDENTIFY_KEY`). Artifacts hold its fingerprint,
which tells two keys apart and gives neither away. Each purpose has a key of its own, derived by HMAC-SHA256.

Encryption is AES-SIV (RFC 5297) of the library cryptography, without a nonce and with the kind as associated data: the
same identifier of a kind always becomes the same text, which joins records and shows which are equal, and nothing else.
A random nonce would hide equality, but runs would not repeat; a nonce of AES-GCM may not repeat, and none is stored.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from infra.errors import UserError
from tasks.deidentify.forms.dates import cut_to_month, cut_to_year, shifted
from tasks.deidentify.kinds import PLACEHOLDERS
from tasks.deidentify.surrogates import surrogate

Operator = Literal["placeholder", "mask", "hash", "surrogate", "encrypt", "shift", "month", "year", "keep"]
OPERATORS: tuple[Operator, ...] = get_args(Operator)

OF_DATES: tuple[Operator, ...] = ("shift", "month", "year")
DATE_KINDS = frozenset(("date", "birth_date"))
NEED_KEY: frozenset[Operator] = frozenset(("hash", "surrogate", "encrypt", "shift"))

KEY_VARIABLE = "YIWEN_DEIDENTIFY_KEY"
"""Secret key of hashes, surrogates, ciphertexts and shifted dates, of 32 characters or more; on every node."""
LEAST_KEY = 32
"""Characters of the shortest key: 32 hexadecimal digits are 128 bits."""

MOST_DAYS = 365
"""Days by which dates are shifted at most, forwards or backwards; never by none."""

# matches: "王芳", "138-1234"
# not: " - "
_LETTER = re.compile(r"[^\W_]")
# matches: "138 1234", "138-1234"
# not: "1381234"
_GAP = re.compile(r"[\s\-]+")
# matches: "〔姓名=q83vEjRWeJCrze8SNFZ4kA==〕"
# not: "〔姓名〕", "〔姓名#0123456789ab〕"
_CIPHERTEXT = re.compile(r"〔(?P<label>[^〔〕=#]{1,12})=(?P<token>[A-Za-z0-9_\-]{22,4000}={0,2})〕")

# matches: "〔姓名="
# not: "〔姓名〕", "〔姓名#0123456789ab〕"
_SEALED = re.compile(r"〔[^〔〕=#\s]{1,12}=")


@dataclass(frozen=True)
class Key:
    """A user's secret key. Its representation shows the fingerprint alone."""

    secret: bytes = field(repr=False)

    @classmethod
    def from_environment(cls) -> Key:
        """Read the key; raises `UserError` where it is missing or too short."""
        text = os.environ.get(KEY_VARIABLE, "")
        if len(text) < LEAST_KEY:
            problem = "is not set" if not text else f"has {len(text)} characters, and {LEAST_KEY} are needed"
            raise UserError(
                f"The operators {', '.join(sorted(NEED_KEY))} need a secret key, but {KEY_VARIABLE} {problem}. Make "
                'one with python -c "import secrets; print(secrets.token_hex(32))", keep it apart from the data, and '
                "export it."
            )
        return cls(text.encode())

    @property
    def fingerprint(self) -> str:
        """16 hex digits that tell keys apart; they do not give the key away."""
        return self.digest("fingerprint").hex()[:16]

    def digest(self, purpose: str, *values: str) -> bytes:
        """Return 32 bytes for a purpose and some values, which nobody without the key can compute."""
        own = hmac.digest(self.secret, f"yiwen deidentify {purpose}".encode(), hashlib.sha256)
        message = "".join(f"{len(value)}:{value}" for value in values)
        return hmac.digest(own, message.encode("utf-8", "surrogatepass"), hashlib.sha256)


def apply(operator: Operator, kind: str, placeholder: str, written: str, key: Key | None, scope: str) -> str:
    """Return what an identifier becomes.

    Args:
        operator: what is done. A date that cannot be shifted or cut, such as 2019年国庆, becomes its placeholder.
        kind: name of its kind.
        placeholder: text that replaces identifiers of the kind.
        written: the identifier as the text has it.
        key: the user's key; only operators of `NEED_KEY` use it.
        scope: person or document in which surrogates are consistent and dates are shifted by the same days.
    """
    return _APPLIED[operator](kind, placeholder, written, key, scope)


def _placeholder(kind: str, placeholder: str, written: str, key: Key | None, scope: str) -> str:
    return placeholder


def _mask(kind: str, placeholder: str, written: str, key: Key | None, scope: str) -> str:
    """A star for every letter and digit: ***-****-****. The length and the signs between stay."""
    return _LETTER.sub("*", written)


def _hash(kind: str, placeholder: str, written: str, key: Key | None, scope: str) -> str:
    """12 hex digits of the identifier without its gaps, the same in all documents: 〔手机号#1f0c…〕."""
    assert key is not None
    return f"{placeholder[:-1]}#{key.digest('hash', kind, normal(written)).hex()[:12]}〕"


def _surrogate(kind: str, placeholder: str, written: str, key: Key | None, scope: str) -> str:
    assert key is not None
    if kind in DATE_KINDS:
        return _shift(kind, placeholder, written, key, scope)
    secret = key

    def digest(*values: str) -> bytes:
        return secret.digest("surrogate", scope, kind, *values)

    return surrogate(kind, written, digest) or placeholder


def _encrypt(kind: str, placeholder: str, written: str, key: Key | None, scope: str) -> str:
    assert key is not None
    sealed = _cipher(key).encrypt(written.encode("utf-8", "surrogatepass"), [kind.encode()])
    return f"{placeholder[:-1]}={base64.urlsafe_b64encode(sealed).decode()}〕"


def _shift(kind: str, placeholder: str, written: str, key: Key | None, scope: str) -> str:
    assert key is not None
    return shifted(written, shift_of(key, scope)) or placeholder


def _month(kind: str, placeholder: str, written: str, key: Key | None, scope: str) -> str:
    return cut_to_month(written) or placeholder


def _year(kind: str, placeholder: str, written: str, key: Key | None, scope: str) -> str:
    return cut_to_year(written) or placeholder


def _keep(kind: str, placeholder: str, written: str, key: Key | None, scope: str) -> str:
    return written


_APPLIED: dict[Operator, Callable[[str, str, str, Key | None, str], str]] = {
    "placeholder": _placeholder,
    "mask": _mask,
    "hash": _hash,
    "surrogate": _surrogate,
    "encrypt": _encrypt,
    "shift": _shift,
    "month": _month,
    "year": _year,
    "keep": _keep,
}


def shift_of(key: Key, scope: str) -> int:
    """Return the days by which all dates of a person or document move: from -365 to 365, never 0."""
    drawn = int.from_bytes(key.digest("shift", scope)[:8], "big") % (2 * MOST_DAYS)
    return drawn - MOST_DAYS if drawn < MOST_DAYS else drawn - MOST_DAYS + 1


def normal(written: str) -> str:
    """Return an identifier without gaps and in lower case, so that 138-1234 5678 and 13812345678 are the same."""
    return _GAP.sub("", written).lower()


def restore(text: str, key: Key, placeholders: dict[str, str] | None = None) -> tuple[str, int]:
    """Decrypt the identifiers of a text that were encrypted with a key; returns the text and their number.

    Args:
        text: a de-identified text.
        key: the key with which it was made.
        placeholders: placeholder by kind, with those of the user's own kinds.

    Raises:
        UserError: another key was used, or a ciphertext was changed.
    """
    from cryptography.exceptions import InvalidTag

    labels = {placeholder[1:-1]: kind for kind, placeholder in (placeholders or PLACEHOLDERS).items()}
    cipher = _cipher(key)

    def opened(match: re.Match[str]) -> str:
        kind = labels[match["label"]]
        try:
            return str(cipher.decrypt(base64.urlsafe_b64decode(match["token"]), [kind.encode()]), "utf-8")
        except (InvalidTag, ValueError) as error:
            raise UserError(
                f"A ciphertext of the kind {kind} cannot be opened: it was made with another key than the one in "
                f"{KEY_VARIABLE} (fingerprint {key.fingerprint}), or it was changed."
            ) from error

    matches = [match for match in _CIPHERTEXT.finditer(text) if match["label"] in labels]
    pieces, end = [], 0
    for match in matches:
        pieces += [text[end : match.start()], opened(match)]
        end = match.end()
    return "".join([*pieces, text[end:]]), len(matches)


def count_sealed(text: str) -> int:
    """Return how many ciphertexts begin in a text, with those that were cut or changed and cannot be opened."""
    return len(_SEALED.findall(text))


def _cipher(key: Key) -> Any:
    from cryptography.hazmat.primitives.ciphers.aead import AESSIV  # loads OpenSSL, which few runs need

    return AESSIV(key.digest("encrypt", "authenticate") + key.digest("encrypt", "cipher"))
