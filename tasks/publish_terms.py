"""A term list on an Elasticsearch server, where one is used.

What a server holds is no artifact: it may lose it. So this is done in every run, and finds it done where the server has
the index of the list's fingerprint (tasks/elasticsearch_build.py).
"""

from __future__ import annotations

import logging

from infra.artifacts import Artifact
from infra.errors import UserError
from infra.settings import ElasticsearchSettings
from tasks.elasticsearch_index import ElasticsearchIndex
from tasks.search_fields import SearchFields
from tasks.terminology import entries_of

logger = logging.getLogger(__name__)

ALIAS = "icd10"


def publish_terms(terminology: Artifact, fields: SearchFields, alias: str = ALIAS) -> str | None:
    """Build `<alias>-<fingerprint>` on the server of `ELASTICSEARCH_URL` and swap the alias; without one, do nothing.

    Returns:
        The name of the index; None where no server is used.

    Raises:
        UserError: the server is absent or refuses.
    """
    if not ElasticsearchSettings.from_environment().url:
        return None
    index = open_server_index(fields, alias)
    try:
        name = index.build(entries_of(terminology), terminology.fingerprint)
    finally:
        index.close()
    logger.info("%s is searched as %s", name, alias)
    return name


def open_server_index(fields: SearchFields, alias: str = ALIAS) -> ElasticsearchIndex:
    """The index behind an alias of the server of `ELASTICSEARCH_URL`.

    Raises:
        UserError: the variable is not set.
    """
    access = ElasticsearchSettings.from_environment()
    if not access.url:
        raise UserError("No Elasticsearch server is named. Set ELASTICSEARCH_URL to its address.")
    return ElasticsearchIndex(access.url, alias, fields=fields, access=access)
