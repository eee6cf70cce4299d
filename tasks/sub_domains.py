"""The sub-domains of a corpus: their names, and what else people call them.

Rules go by the sub-domain: records and dialogues are de-identified, textbooks have their lines joined. So EMR, 病历 and
"records " have to be one.
"""

from __future__ import annotations

import functools
import logging
import re
import unicodedata
from collections.abc import Iterable

from infra.artifacts import Artifact

logger = logging.getLogger(__name__)

SUB_DOMAINS = ("dialogue", "article", "emr", "textbook", "encyclopedia")

_ALIASES = {
    "emr": "emrs ehr ehrs record records medicalrecord medicalrecords 病历 病歷 电子病历 電子病歷 住院病历 门诊病历 "
    "急诊病历 入院记录 病程记录 出院小结 病案",
    "dialogue": "dialogues dialog dialogs conversation conversations 对话 對話 医患对话 问诊 問診 在线问诊",
    "textbook": "textbooks 教材 教科书 教科書 书籍",
    "encyclopedia": "encyclopedias encyclopaedia encyclopaedias wiki 百科 医学百科 百科全书",
    "article": "articles 文章 论文 文献",
}
_KNOWN = {alias: name for name, aliases in _ALIASES.items() for alias in (name, *aliases.split())}
_APART = re.compile(r"[\s_-]+")


def sub_domain_of(name: str) -> str | None:
    """The sub-domain that a name means, whatever its case and width; None where it means none."""
    return _KNOWN.get(_APART.sub("", unicodedata.normalize("NFKC", name)).casefold())


@functools.lru_cache(maxsize=1024)
def source_called(name: str) -> str:
    """The source that a name means: its sub-domain, or where it means none itself, without blanks around it."""
    return sub_domain_of(name) or name.strip()


def first_sub_domain(names: Iterable[str]) -> str | None:
    """The first sub-domain that some names mean."""
    return next(filter(None, map(sub_domain_of, names)), None)


def tell_absent(key: str, named: Iterable[str], documents: Artifact) -> None:
    """Warn where a parameter names a source that is no sub-domain and that no document has: a slip of the pen would
    leave records untreated without a word."""
    own = sorted(set(named).difference(SUB_DOMAINS))
    if not own:
        return
    found = documents.scan("documents").select("source").unique().collect(engine="streaming")["source"].sort().to_list()
    for source in own:
        if source not in found:
            logger.warning("%s: no document is of the source %r; they are of %s", key, source, ", ".join(found))
