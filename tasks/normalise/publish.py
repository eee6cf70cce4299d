"""A term list on an Elasticsearch server, where one is used.

What a server holds is no artifact: it may lose it. So this is done in every run, and finds it done where the server has
the index of the list's content (tasks/retrieve/server_build.py). The alias is for others who search the newest list. A
normaliser asks for the index of its own content by name: its ranker and its categories know no other list.
"""

from __future__ import annotations

import logging

from infra.artifacts import Artifact
from infra.errors import UserError
from infra.settings import ElasticsearchSettings
from tasks.normalise.terminology import entries_of
from tasks.retrieve.embedded import CONTENT_FILE, FIELDS_FILE, EmbeddedIndex
from tasks.retrieve.fields import SearchFields
from tasks.retrieve.server_index import ElasticsearchIndex, check_name

logger = logging.getLogger(__name__)

ALIAS = "icd10"


def publish_terms(terminology: Artifact, index: Artifact, alias: str = ALIAS) -> str | None:
    """Build `<alias>-<content>` on the server of `ELASTICSEARCH_URL` and swap the alias; without one, do nothing.

    Args:
        index: what the stage `candidate_index` made of the terminology; its fields and content are those of the server.

    Returns:
        The name of the index; None where no server is used.

    Raises:
        UserError: the server is absent or refuses, or the alias cannot be one.
    """
    access = ElasticsearchSettings.from_environment()
    if not access.url:
        return None
    fields = SearchFields.model_validate_json(index.read_file(FIELDS_FILE))
    server = ElasticsearchIndex(access.url, alias, fields=fields, access=access)
    try:
        name = server.build(entries_of(terminology), index.read_file(CONTENT_FILE).decode())
    finally:
        server.close()
    logger.info("%s is searched as %s", name, alias)
    return name


def open_server_index(own: EmbeddedIndex, alias: str = ALIAS) -> ElasticsearchIndex:
    """What `publish_terms` put on the server of `ELASTICSEARCH_URL` from the list of an index, and nothing else.

    Raises:
        UserError: the variable is not set, or the alias cannot be one. To search raises it where the server does not
            hold that list.
    """
    access = ElasticsearchSettings.from_environment()
    if not access.url:
        raise UserError("No Elasticsearch server is named. Set ELASTICSEARCH_URL to its address.")
    check_name(alias)
    return ElasticsearchIndex(
        access.url, f"{alias}-{own.content}", fields=own.fields, access=access, content=own.content
    )
