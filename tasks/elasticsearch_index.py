"""`ElasticsearchIndex`: candidates found by an Elasticsearch server, by the fields of tasks/search_fields.py.

Names are cut into tokens here and sent with white space between, so that the server counts the very tokens that the
embedded engine counts, needs no plugin, and can read nothing in a term as syntax. Every name is a document; a query
asks for the best document of each entry.

An index is never changed: each terminology is built into `<alias>-<fingerprint>`, checked, and then put behind the
alias in one step, so that searches see the old one or the new one. A build that was interrupted is completed by the
next one of the same fingerprint. What stays after a build: the new index and the one it replaced; other finished ones
are removed, unfinished ones after a day.
"""

from __future__ import annotations

import itertools
import logging
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from elasticsearch import BadRequestError, Elasticsearch, NotFoundError
from elasticsearch.helpers import streaming_bulk

from infra.errors import UserError
from infra.settings import ElasticsearchSettings
from tasks.elasticsearch_server import Patience, RefusedError, Server
from tasks.retrieve import Candidate, Entry
from tasks.search_fields import EXACT, FIELDS, Documents, FieldTokens, SearchFields, documents_of

logger = logging.getLogger(__name__)

MOST_CANDIDATES = 10_000
"""The most that a server gives for one query unless its settings are changed (`index.max_result_window`)."""

DOCUMENTS_AT_ONCE = 1000
TERMS_AT_ONCE = 64
SECONDS_UNFINISHED = 24 * 3600.0
"""An unfinished index that was begun longer ago was given up."""

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,119}")
_CREATED_ALREADY = 409
_MADE_BY = "yiwen"


class _Asked(NamedTuple):
    """A term that is looked for."""

    place: int
    term: str
    tokens: FieldTokens


class ElasticsearchIndex:
    """The terminology behind an alias of a server. Threads may share it."""

    def __init__(
        self,
        url: str,
        index: str,
        *,
        fields: SearchFields | None = None,
        access: ElasticsearchSettings | None = None,
        patience: Patience | None = None,
    ) -> None:
        """Nothing is sent yet.

        Args:
            url: address of the server, without credentials.
            index: the alias that is searched, such as icd10.
            fields: what is searched, and what a match is worth.
            access: credentials; by default those of the environment (`ELASTICSEARCH_API_KEY` and so on).
            patience: how long a server that is away is waited for.

        Raises:
            UserError: the address or the alias cannot be one, or the credentials in the environment contradict.
        """
        _check_name(index)
        self.index = index
        self.fields = fields or SearchFields()
        self._server = Server(url, access or ElasticsearchSettings.from_environment(), patience or Patience())
        self._checked = False

    def build(self, entries: Iterable[Entry], fingerprint: str) -> str:
        """Index entries, in any order, and put them behind the alias; returns the name of the index.

        The fingerprint stands for the entries: an index that has it is completed, or reused as it is. Memory grows
        with the entries.

        Raises:
            UserError: there are no entries, the index was built with other fields, the alias is the name of an index,
                or the server is absent, refuses or did not recover.
        """
        name = f"{self.index}-{fingerprint}"
        _check_name(name)
        documents = documents_of(entries)
        if not documents.names:
            raise UserError("There are no terms to index. Give a terminology that has some.")
        self._create(name, documents)
        if self._description(name)["finished"]:
            logger.info("%s is there already", name)
        else:
            self._fill(name, documents)
        self._publish(name)
        return name

    def search(self, terms: Sequence[str], k: int) -> list[list[Candidate]]:
        """See `CandidateIndex.search`; `k` is at most `MOST_CANDIDATES`. Time grows with terms and candidates.

        Raises:
            UserError: nothing is built behind the alias, or with other fields; the server is absent, refuses a term
                (named) or did not recover.
        """
        if not 1 <= k <= MOST_CANDIDATES:
            raise ValueError(f"k is {k}: from 1 to {MOST_CANDIDATES} candidates are looked for")
        if not self._checked:
            self._check_description(self._description(self.index))
            self._checked = True
        found: list[list[Candidate]] = [[] for _ in terms]
        asked = (
            _Asked(place, term, tokens)
            for place, (term, tokens) in enumerate(zip(terms, self.fields.query_tokens(terms), strict=True))
            if any(tokens.values())
        )
        while batch := list(itertools.islice(asked, TERMS_AT_ONCE)):
            for place, candidates in self._answers(batch, k):
                found[place] = candidates
        return found

    def close(self) -> None:
        """Close the connections."""
        self._server.close()

    # Searching

    def _answers(self, batch: Sequence[_Asked], k: int) -> Iterable[tuple[int, list[Candidate]]]:
        answers: dict[int, list[Candidate]] = {}

        def request(client: Elasticsearch) -> None:
            missing = [one for one in batch if one.place not in answers]
            searches: list[dict[str, Any]] = [part for one in missing for part in ({}, self._query(one.tokens, k))]
            response = client.msearch(
                index=self.index,
                searches=searches,
                filter_path="responses.status,responses.error.reason,responses.error.root_cause.reason,"
                "responses.hits.hits._score,responses.hits.hits._source",
            )
            failed = []
            for one, item in zip(missing, response["responses"], strict=True):
                if item["status"] == 200:
                    answers[one.place] = _candidates(item)
                else:
                    failed.append(RefusedError(item["status"], f"the term {one.term[:80]!r}: {_why(item)}"))
            if failed:
                # One that will not pass says more than one that may.
                raise max(failed, key=lambda error: not error.passes)

        try:
            self._server.ask(request)
        except NotFoundError as error:
            raise self._nothing_behind_alias() from error
        return answers.items()

    def _query(self, tokens: FieldTokens, k: int) -> dict[str, Any]:
        boosts = self.fields.boosts()
        # The server multiplies BM25 by k1 + 1, as Lucene once did; the fields' formula does not.
        scale = 1 / (self.fields.k1 + 1)
        matches: list[dict[str, Any]] = []
        for field, held in tokens.items():
            if held and field == EXACT:
                matches.append({"constant_score": {"filter": {"term": {EXACT: held[0]}}, "boost": boosts[EXACT]}})
            elif held:
                matches.append({"match": {field: {"query": " ".join(held), "boost": scale * boosts[field]}}})
        return {
            "query": {"bool": {"should": matches}},
            "collapse": {"field": "entry"},
            "sort": [{"_score": "desc"}, {"entry": "asc"}],
            "size": k,
            "track_total_hits": False,
            "_source": ["code", "term"],
        }

    def _check_description(self, held: dict[str, Any]) -> None:
        """Whether an index was built for what is searched; boosts may differ."""
        if not held["finished"]:
            raise self._nothing_behind_alias()
        missing = set(self.fields.boosts()) - set(held["fields"])
        if missing or (held["k1"], held["b"]) != (self.fields.k1, self.fields.b):
            raise UserError(
                f"{self.index} was built for the fields {', '.join(held['fields'])} with k1 {held['k1']:g} and b "
                f"{held['b']:g}, which is not what is asked for. Build it again under another fingerprint."
            )

    def _nothing_behind_alias(self) -> UserError:
        return UserError(
            f"{self._server.url} has no terminology {self.index}. Build it first: python -m flows run normalise/index."
        )

    # Building

    def _create(self, name: str, documents: Documents) -> None:
        """Create an index unless it is there, and wait until it can be written."""
        body = self._settings_and_mappings(documents)

        def request(client: Elasticsearch) -> None:
            try:
                client.indices.create(index=name, **body)
            except BadRequestError as error:
                if error.error != "resource_already_exists_exception":
                    raise

        self._server.ask(request)
        held = self._description(name)
        wanted = body["mappings"]["_meta"]
        if any(held[key] != wanted[key] for key in ("fields", "k1", "b", "documents")):
            raise UserError(
                f"{name} is there, built with other fields or from other terms. Build under another fingerprint, or "
                f"delete that index."
            )
        self._server.ask(lambda client: _writable(client, name))

    def _settings_and_mappings(self, documents: Documents) -> dict[str, Any]:
        stored = {"type": "keyword", "index": False, "doc_values": False}
        tokens = {"type": "text", "analyzer": "whitespace", "similarity": "names", "index_options": "freqs"}
        searched = {field: tokens for field in self.fields.boosts() if field != EXACT}
        return {
            "settings": {
                "number_of_shards": 1,  # BM25 counts within a shard
                "auto_expand_replicas": "0-1",
                "refresh_interval": "-1",  # refreshed once, when all is in
                "similarity": {"names": {"type": "BM25", "k1": self.fields.k1, "b": self.fields.b}},
            },
            "mappings": {
                "dynamic": "strict",
                "_meta": {
                    "made_by": _MADE_BY,
                    "alias": self.index,
                    "fields": [field for field in FIELDS if field in self.fields.boosts()],
                    "k1": self.fields.k1,
                    "b": self.fields.b,
                    "documents": len(documents.names),
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

    def _fill(self, name: str, documents: Documents) -> None:
        """Put what is missing into an index, and mark it as finished once all is there."""
        actions = self._actions(name, documents)
        while batch := list(itertools.islice(actions, DOCUMENTS_AT_ONCE)):
            self._server.ask(lambda client, batch=batch: _create_documents(client, batch))  # type: ignore[misc]
        self._server.ask(lambda client: client.indices.refresh(index=name))
        self._server.ask(lambda client: client.indices.forcemerge(index=name, max_num_segments=1))
        held = self._server.ask(lambda client: client.count(index=name)["count"])
        if held != len(documents.names):
            raise UserError(
                f"{name} holds {held} documents in place of {len(documents.names)}: something else writes to it. "
                "Delete it and build again."
            )
        # What the server has by now, in case that the index was removed and came back by a write.
        description = {**self._description(name), "finished": True}
        self._server.ask(lambda client: client.indices.put_mapping(index=name, meta=description))

    def _actions(self, name: str, documents: Documents) -> Iterator[dict[str, Any]]:
        """A document for every name, under its place: the same in every build."""
        tokens = self.fields.document_tokens(documents.names)
        for place, (owner, called, held) in enumerate(zip(documents.owners, documents.names, tokens, strict=True)):
            entry = documents.entries[owner]
            yield {
                "_op_type": "create",
                "_index": name,
                "_id": str(place),
                "code": entry.code,
                "term": entry.term,
                "name": called,
                "entry": owner,  # entries are sorted by (term, code): by this, equal scores are told apart
                **{field: " ".join(own) for field, own in held.items() if own},
            }

    def _description(self, name: str) -> dict[str, Any]:
        """What an index says of itself, by its name or its alias."""
        try:
            answer = self._server.ask(lambda client: client.indices.get_mapping(index=name).body)
        except NotFoundError as error:
            raise self._nothing_behind_alias() from error
        described: dict[str, Any] = next(iter(answer.values()))["mappings"].get("_meta", {})
        if described.get("made_by") != _MADE_BY:
            raise UserError(f"{name} at {self._server.url} is not an index of ours. Choose another name.")
        return described

    # Publishing

    def _publish(self, name: str) -> None:
        """Put a finished index behind the alias, in place of the one that is there, and clean up."""
        replaced = self._behind_alias()
        if replaced != [name]:
            actions = [{"remove": {"index": old, "alias": self.index, "must_exist": False}} for old in replaced]
            actions.append({"add": {"index": name, "alias": self.index}})
            self._server.ask(lambda client: client.indices.update_aliases(actions=actions))
            self._clean({name, *replaced})
        self._checked = False

    def _behind_alias(self) -> list[str]:
        try:
            return sorted(self._server.ask(lambda client: client.indices.get_alias(name=self.index).body))
        except NotFoundError:
            if self._server.ask(lambda client: bool(client.indices.exists(index=self.index))):
                raise UserError(
                    f"{self.index} is an index at {self._server.url}; an alias of that name is needed. Choose another."
                ) from None
            return []

    def _clean(self, kept: set[str]) -> None:
        pattern = f"{self.index}-*"
        others = self._server.ask(lambda client: client.indices.get_mapping(index=pattern).body)
        for name, held in sorted(others.items()):
            described = held["mappings"].get("_meta", {})
            ours = described.get("made_by") == _MADE_BY and described.get("alias") == self.index
            given_up = ours and time.time() - described["begun"] > SECONDS_UNFINISHED
            if name not in kept and ours and (described["finished"] or given_up):
                logger.info("removing %s, which is no longer searched", name)
                self._server.ask(lambda client, name=name: _delete(client, name))  # type: ignore[misc]


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise UserError(
            f"{name!r} cannot name an index: lower-case letters, digits, '-', '_' and '.' make a name, the first is a "
            "letter or digit, and 120 are the most."
        )


def _writable(client: Elasticsearch, name: str) -> None:
    """Fail, in a way that passes, while the primary shard is not there."""
    health = client.cluster.health(index=name)
    if health["status"] == "red":
        raise RefusedError(503, f"the index {name} is red")


def _create_documents(client: Elasticsearch, actions: Sequence[dict[str, Any]]) -> None:
    """Create documents; one that is there already counts as created, so that this may be repeated."""
    results = streaming_bulk(client, actions, chunk_size=len(actions), raise_on_error=False)
    for (_, result), action in zip(results, actions, strict=True):
        item = result["create"]
        if item["status"] not in (200, 201, _CREATED_ALREADY):
            raise RefusedError(item["status"], f"the name {action['name'][:80]!r}: {_why(item)}")


def _delete(client: Elasticsearch, name: str) -> None:
    try:
        client.indices.delete(index=name)
    except NotFoundError:
        return  # another build was faster


def _candidates(item: dict[str, Any]) -> list[Candidate]:
    """Scores are float32, and written with as few digits as tell them apart."""
    hits = item.get("hits", {}).get("hits", [])
    return [Candidate(hit["_source"]["code"], hit["_source"]["term"], float(np.float32(hit["_score"]))) for hit in hits]


def _why(item: dict[str, Any]) -> str:
    error = item.get("error") or {}
    causes = [cause.get("reason") for cause in error.get("root_cause", [])]
    return str(next(filter(None, [*causes, error.get("reason")]), f"status {item['status']}"))
