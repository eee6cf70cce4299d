"""What a document is: the rows of the table `documents`, and the sub-domains that they come from.

Rules go by the sub-domain: records and dialogues are de-identified, textbooks have their lines joined. So EMR, 病历
and "records " must mean the same one.
"""

from __future__ import annotations

import functools
import hashlib
import json
import logging
import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any

from infra.artifacts import Artifact

logger = logging.getLogger(__name__)

SHARES = 2**64
"""Number of distinct values that `share_of` can return."""

SUB_DOMAINS = ("dialogue", "article", "emr", "textbook", "encyclopedia")

_ALIASES = {
    "emr": "emrs ehr ehrs record records medicalrecord medicalrecords 病历 病歷 电子病历 電子病歷 住院病历 门诊病历 "
    "急诊病历 入院记录 病程记录 出院小结 病案",
    "dialogue": "dialogues dialog dialogs conversation conversations 对话 對話 医患对话 问诊 問診 在线问诊",
    "textbook": "textbooks 教材 教科书 教科書 书籍",
    "encyclopedia": "encyclopedias encyclopaedia encyclopaedias wiki 百科 医学百科 百科全书",
    "article": "articles 文章 论文 文献",
}
"""Other names of each sub-domain, separated by blanks, in lower case and without blanks of their own."""

_KNOWN = {alias: name for name, aliases in _ALIASES.items() for alias in (name, *aliases.split())}

_SEPARATORS = re.compile(r"[\s_-]+")
"""What may separate the words of a name: the `_` of `Medical_Records`."""


def make_document(source: str, title: str, text: str, meta: Mapping[str, Any]) -> dict[str, str]:
    """Return a row of `documents`; its id is the hash of its content."""
    return {
        "doc_id": document_id(source, title, text),
        "source": source,
        "title": title,
        "text": text,
        "meta": meta_json(meta),
    }


meta_json = json.JSONEncoder(ensure_ascii=False, sort_keys=True).encode
"""Return the `meta` of a document as it is stored."""


def document_id(source: str, title: str, text: str) -> str:
    """Return 32 hex digits: 128 bits of the SHA-256 of source, title and text."""
    return hashlib.sha256("\0".join((source, title, text)).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def share_of(doc_id: str, purpose: str, seed: int) -> float:
    """Return a document's fixed number in [0, 1) for a purpose, so that a sample can be drawn in any order."""
    digest = hashlib.blake2b(f"{purpose}\0{seed}\0{doc_id}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / SHARES


def sub_domain_of(name: str) -> str | None:
    """Return the sub-domain that a name means, whatever its case and width, or None: `ＥＭＲ` is `emr`."""
    return _KNOWN.get(_SEPARATORS.sub("", unicodedata.normalize("NFKC", name)).casefold())


@functools.lru_cache(maxsize=1024)
def source_called(name: str) -> str:
    """Return the source that a name means: its sub-domain, else the name itself without blanks around it."""
    return sub_domain_of(name) or name.strip()


def first_sub_domain(names: Iterable[str]) -> str | None:
    """Return the first sub-domain among those that some names mean."""
    return next(filter(None, map(sub_domain_of, names)), None)


def warn_of_absent_sources(key: str, named: Iterable[str], documents: Artifact) -> None:
    """Warn about sources that a parameter names, that are not sub-domains and that no document has.

    A typing error would otherwise leave records untreated in silence.

    Args:
        key: name of the parameter, for the message.
        named: sources that the parameter names.
        documents: the artifact with the table `documents`.
    """
    own = sorted(set(named).difference(SUB_DOMAINS))
    if not own:
        return  # the usual case: the documents need not be read
    found = documents.scan("documents").select("source").unique().collect(engine="streaming")["source"].sort().to_list()
    for source in own:
        if source not in found:
            logger.warning(
                "%s names the source %r, but no document has it; the documents' sources are %s",
                key,
                source,
                ", ".join(found),
            )
