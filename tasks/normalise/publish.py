"""Publication of a term list on an Elasticsearch server, if one is used.

An index on a server is not an artifact, since the server may lose it. So every run publishes the list, and an existing
index with the same content is reused (tasks/retrieve/server_build.py). The alias is for other programs, which search
the newest list. A normaliser searches the index with its own content by name, because its ranker and its categories
belong to that list.
"""

from __future__ import annotations

import hashlib
import io
import logging

import numpy as np

from infra.artifacts import Artifact
from infra.errors import UserError
from infra.settings import ElasticsearchSettings
from tasks.normalise.meaning.folders import ABOUT_FILE, MEANING, VECTORS_FILE
from tasks.normalise.terms.terminology import entries_of
from tasks.retrieve.embedded import CONTENT_FILE, FIELDS_FILE, EmbeddedIndex
from tasks.retrieve.fields import SearchFields
from tasks.retrieve.server_index import ElasticsearchIndex, check_name

logger = logging.getLogger(__name__)

ALIAS = "icd10"
"""Default alias."""


def publish_terms(terminology: Artifact, index: Artifact, alias: str = ALIAS) -> str | None:
    """Build `<alias>-<content>` on the server of `ELASTICSEARCH_URL` and move the alias to it.

    An index with vectors of names is `<alias>-<content>-<vectors>`, and has them there too.

    Args:
        index: artifact of the stage `candidate_index` for the terminology; the server's index gets the same fields.

    Returns:
        The name of the index, or None if `ELASTICSEARCH_URL` is not set.

    Raises:
        UserError: the server is absent or refuses, or the alias is invalid.
    """
    access = ElasticsearchSettings.from_environment()
    if not access.url:
        return None
    fields = SearchFields.model_validate_json(index.read_file(FIELDS_FILE))
    server = ElasticsearchIndex(access.url, alias, fields=fields, access=access)
    try:
        content = index.read_file(CONTENT_FILE).decode()
        if f"{MEANING}/{ABOUT_FILE}" in {file.path for file in index.manifest.files}:
            vectors = np.load(io.BytesIO(index.read_file(f"{MEANING}/{VECTORS_FILE}")), allow_pickle=False)
            content = f"{content}-{_digest(index.read_file(f'{MEANING}/{ABOUT_FILE}'))}"
            name = server.build(entries_of(terminology), content, vectors.astype(np.float32))
        else:
            name = server.build(entries_of(terminology), content)
    finally:
        server.close()
    logger.info("the alias %s now refers to %s", alias, name)
    return name


def open_server_index(own: EmbeddedIndex, alias: str = ALIAS) -> ElasticsearchIndex:
    """Open the server's index of a list that `publish_terms` has published.

    Args:
        own: embedded index of the list.

    Raises:
        UserError: `ELASTICSEARCH_URL` is not set, or the alias is invalid. A search raises it if the server does not
            have the list.
    """
    access = ElasticsearchSettings.from_environment()
    if not access.url:
        raise UserError("ELASTICSEARCH_URL is not set. Set it to the address of the Elasticsearch server.")
    check_name(alias)
    about = own.folder / MEANING / ABOUT_FILE
    vectors = f"-{_digest(about.read_bytes())}" if about.is_file() else ""
    return ElasticsearchIndex(
        access.url, f"{alias}-{own.content}{vectors}", fields=own.fields, access=access, content=own.content
    )


def _digest(about: bytes) -> str:
    """Return a short identifier of the vectors of an index: the same list may have those of several encoders."""
    return hashlib.blake2b(about, digest_size=6).hexdigest()
