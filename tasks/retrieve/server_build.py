"""Builds of Elasticsearch indices, published behind an alias.

An index is never changed. Each terminology is built into an index `<alias>-<fingerprint>` and checked; then the alias
is moved in one step, so searches see either the old index or the new one. An interrupted build is completed by the next
build with the same fingerprint. After a build the new index and the one it replaced are kept. Other finished indices
are removed, and unfinished ones after a day.

Names are tokenised here (tasks/retrieve/fields.py) and sent with white space between the tokens. So the server counts
the same tokens as the embedded engine and needs no plugin. Every name is a document. With vectors of the names, each
document has its own as a `dense_vector` whose search is exact (`flat`), so the server finds what
tasks/retrieve/vectors.py finds.
"""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy.typing as npt
from elasticsearch import BadRequestError, Elasticsearch, NotFoundError
from elasticsearch.helpers import streaming_bulk

from infra.errors import UserError
from tasks.retrieve.candidates import Entry
from tasks.retrieve.fields import EXACT, FIELDS, Documents, SearchFields, content_of, documents_of
from tasks.retrieve.server import RefusedError, Server, why

logger = logging.getLogger(__name__)

DOCUMENTS_AT_ONCE = 1000
"""Number of documents per bulk request."""
SECONDS_UNFINISHED = 24 * 3600.0
"""Age at which an unfinished index is considered abandoned."""

BUILD_IT = "Build it first: python -m flows run normalise/index."

VECTOR = "vector"
"""Field of the vector of a name."""

Vectors = npt.NDArray[Any]
"""float16 or float32 (names, width): a unit vector for each name, in the order of `documents_of`, or zeros."""

_CREATED_ALREADY = 409
_MADE_BY = "yiwen"


class IndexBuilder:
    """Builds indices and moves one alias to them."""

    def __init__(self, server: Server, alias: str, fields: SearchFields) -> None:
        self.alias = alias
        self._server = server
        self._fields = fields

    def build(self, entries: Iterable[Entry], name: str, vectors: Vectors | None = None) -> None:
        """Build the index of this name, unless it exists, and move the alias to it; see `ElasticsearchIndex.build`."""
        documents = documents_of(entries)
        if vectors is not None and len(vectors) != len(documents.names):
            raise ValueError(f"there are {len(documents.names):,} names and {len(vectors):,} vectors")
        if not documents.names:
            raise UserError("There are no terms to index. Give a terminology that contains terms.")
        self._create(name, documents, None if vectors is None else vectors.shape[1])
        if described(self._server, name)["finished"]:
            logger.info("%s already exists", name)
        else:
            self._fill(name, documents, vectors)
        self._publish(name)

    def _create(self, name: str, documents: Documents, width: int | None) -> None:
        """Create an index unless it exists, and wait until it is writable."""
        body = self._settings_and_mappings(documents, width)

        def request(client: Elasticsearch) -> None:
            try:
                client.indices.create(index=name, **body)
            except BadRequestError as error:
                # An interrupted or concurrent build has created it; it is completed.
                if error.error != "resource_already_exists_exception":
                    raise

        self._server.ask(request)
        held = described(self._server, name)
        wanted = body["mappings"]["_meta"]
        if any(held.get(key) != wanted.get(key) for key in ("fields", "k1", "b", "content", "width")):
            raise UserError(
                f"{name} already exists with different fields or terms. Build under another fingerprint, or delete "
                "that index."
            )
        self._server.ask(lambda client: _writable(client, name))

    def _settings_and_mappings(self, documents: Documents, width: int | None) -> dict[str, Any]:
        stored = {"type": "keyword", "index": False, "doc_values": False}
        tokens = {"type": "text", "analyzer": "whitespace", "similarity": "names", "index_options": "freqs"}
        searched: dict[str, Any] = {field: tokens for field in self._fields.boosts() if field != EXACT}
        if width is not None:
            # Of unit vectors the inner product is the cosine, and rounding to float16 does not matter to it.
            searched[VECTOR] = {
                "type": "dense_vector",
                "dims": width,
                "similarity": "max_inner_product",
                "index_options": {"type": "flat"},
            }
        return {
            "settings": {
                "number_of_shards": 1,  # BM25 statistics are per shard
                "auto_expand_replicas": "0-1",
                "refresh_interval": "-1",  # refreshed once, after the last document
                "similarity": {"names": {"type": "BM25", "k1": self._fields.k1, "b": self._fields.b}},
            },
            "mappings": {
                "dynamic": "strict",
                "_meta": {
                    "made_by": _MADE_BY,
                    "alias": self.alias,
                    "fields": [field for field in FIELDS if field in self._fields.boosts()],
                    "k1": self._fields.k1,
                    "b": self._fields.b,
                    "content": content_of(documents, self._fields),
                    **({} if width is None else {"width": width}),
                    "begun": time.time(),
                    "finished": False,
                },
                "properties": {
                    "code": stored,
                    "term": stored,
                    "name": stored,
                    "entry": {"type": "integer"},
                    EXACT: {"type": "keyword", "doc_values": False},
                    **searched,
                },
            },
        }

    def _fill(self, name: str, documents: Documents, vectors: Vectors | None) -> None:
        """Add the missing documents to an index, and mark it as finished once it is complete."""
        actions = self._actions(name, documents, vectors)
        while batch := list(itertools.islice(actions, DOCUMENTS_AT_ONCE)):
            self._server.ask(lambda client, batch=batch: _create_documents(client, batch))  # type: ignore[misc]
        self._server.ask(lambda client: client.indices.refresh(index=name))
        self._server.ask(lambda client: client.indices.forcemerge(index=name, max_num_segments=1))
        held = self._server.ask(lambda client: client.count(index=name)["count"])
        if held != len(documents.names):
            raise UserError(
                f"{name} contains {held} documents instead of {len(documents.names)}: something else writes to it. "
                "Delete it and build again."
            )
        # Read the description again: if the index was removed meanwhile, a write has recreated it without ours.
        description = {**described(self._server, name), "finished": True}
        self._server.ask(lambda client: client.indices.put_mapping(index=name, meta=description))

    def _actions(self, name: str, documents: Documents, vectors: Vectors | None) -> Iterator[dict[str, Any]]:
        """Yield a document per name. Its id is its position, which is the same in every build."""
        tokens = self._fields.document_tokens(documents.names)
        for place, (owner, called, held) in enumerate(zip(documents.owners, documents.names, tokens, strict=True)):
            entry = documents.entries[owner]
            # A name without known tokens has no vector.
            vector = {} if vectors is None or not vectors[place].any() else {VECTOR: vectors[place].tolist()}
            yield {
                "_op_type": "create",
                "_index": name,
                "_id": str(place),
                "code": entry.code,
                "term": entry.term,
                "name": called,
                "entry": owner,  # entries are sorted by (term, code), so this breaks ties
                **{field: " ".join(own) for field, own in held.items() if own},
                **vector,
            }

    def _publish(self, name: str) -> None:
        """Move the alias to a finished index, and remove old ones."""
        replaced = self._behind_alias()
        if replaced != [name]:
            # One request, so that a search finds the old index or the new one, and never both or none.
            actions = [{"remove": {"index": old, "alias": self.alias, "must_exist": False}} for old in replaced]
            actions.append({"add": {"index": name, "alias": self.alias}})
            self._server.ask(lambda client: client.indices.update_aliases(actions=actions))
            self._clean({name, *replaced})

    def _behind_alias(self) -> list[str]:
        try:
            return sorted(self._server.ask(lambda client: client.indices.get_alias(name=self.alias).body))
        except NotFoundError:
            if self._server.ask(lambda client: bool(client.indices.exists(index=self.alias))):
                raise UserError(
                    f"{self.alias} is an index at {self._server.url} and cannot be used as an alias. Choose another."
                ) from None
            return []

    def _clean(self, kept: set[str]) -> None:
        pattern = f"{self.alias}-*"
        others = self._server.ask(lambda client: client.indices.get_mapping(index=pattern).body)
        for name, held in sorted(others.items()):
            about = held["mappings"].get("_meta", {})
            # icd10-* also matches icd10-beta-one of another alias, and indices of other programs.
            ours = about.get("made_by") == _MADE_BY and about.get("alias") == self.alias
            given_up = ours and abs(time.time() - about["begun"]) > SECONDS_UNFINISHED
            if name not in kept and ours and (about["finished"] or given_up):
                logger.info("removing the outdated index %s", name)
                self._server.ask(lambda client, name=name: _delete(client, name))  # type: ignore[misc]


def described(server: Server, name: str, remedy: str = BUILD_IT) -> dict[str, Any]:
    """Return the description stored with an index: `alias`, `fields`, `k1`, `b`, `content`, `begun`, `finished`.

    Args:
        name: name or alias of the index.
        remedy: what the user should do if there is no such index.

    Raises:
        UserError: the index does not exist, or was not built by this project.
    """
    try:
        answer = server.ask(lambda client: client.indices.get_mapping(index=name).body)
    except NotFoundError as error:
        raise missing_index(server, name, remedy) from error
    about: dict[str, Any] = next(iter(answer.values()))["mappings"].get("_meta", {})
    if about.get("made_by") != _MADE_BY:
        raise UserError(f"{name} at {server.url} was not built by this project. Choose another name.")
    return about


def missing_index(server: Server, name: str, remedy: str) -> UserError:
    """Return the error for a terminology that is not on the server."""
    return UserError(f"{server.url} has no terminology {name}. {remedy}")


def _writable(client: Elasticsearch, name: str) -> None:
    """Raise a transient error while the primary shard is missing."""
    health = client.cluster.health(index=name)
    if health["status"] == "red":
        raise RefusedError(503, f"the index {name} is red")


def _create_documents(client: Elasticsearch, actions: Sequence[dict[str, Any]]) -> None:
    """Create documents. Existing ones count as created, so this may be repeated."""
    results = streaming_bulk(client, actions, chunk_size=len(actions), raise_on_error=False)
    for (_, result), action in zip(results, actions, strict=True):
        item = result["create"]
        if item["status"] not in (200, 201, _CREATED_ALREADY):
            raise RefusedError(item["status"], f"the name {action['name'][:80]!r}: {why(item)}")


def _delete(client: Elasticsearch, name: str) -> None:
    try:
        client.indices.delete(index=name)
    except NotFoundError:
        return  # a concurrent build has already removed it
