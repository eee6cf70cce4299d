"""Documents: how a row of the table `documents` is made, wherever its text comes from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

SCALE = 2**64


def make_document(source: str, title: str, text: str, meta: Mapping[str, Any]) -> dict[str, str]:
    """A row of `documents`; its id is the content's hash."""
    return {
        "doc_id": document_id(source, title, text),
        "source": source,
        "title": title,
        "text": text,
        "meta": meta_json(meta),
    }


meta_json = json.JSONEncoder(ensure_ascii=False, sort_keys=True).encode
"""The `meta` of a document as it is stored."""


def document_id(source: str, title: str, text: str) -> str:
    """32 hex digits: 128 bits of the SHA-256 of source, title and text."""
    return hashlib.sha256("\0".join((source, title, text)).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def share_of(doc_id: str, purpose: str, seed: int) -> float:
    """A number in [0, 1) that a document has for a purpose: the way to draw a sample in any order."""
    digest = hashlib.blake2b(f"{purpose}\0{seed}\0{doc_id}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / SCALE
