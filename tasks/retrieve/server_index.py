"""`ElasticsearchIndex`: candidates found by an Elasticsearch server, by the fields of tasks/retrieve/fields.py.

A query asks for the best document of each entry, by the tokens of tasks/retrieve/fields.py, so that the server counts
the very tokens that the embedded engine counts and can read nothing in a term as syntax. tasks/retrieve/server_build.py
builds what is searched.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from elasticsearch import Elasticsearch, NotFoundError

from infra.errors import UserError
from infra.settings import ElasticsearchSettings
from tasks.retrieve.candidates import MOST_CANDIDATES, Candidate, Entry
from tasks.retrieve.fields import EXACT, FieldTokens, SearchFields
from tasks.retrieve.server import Patience, RefusedError, Server, why
from tasks.retrieve.server_build import BUILD_IT, IndexBuilder, check_name, described, nothing_called

TERMS_AT_ONCE = 64

PUBLISH_IT = (
    "This normaliser answers from its own list alone, which was never put there or gave way to newer ones. Run the "
    "flow that made it once more, with the same parameters, this alias and ELASTICSEARCH_URL: stages that are finished "
    "are reused, and the list is put there. Or leave --elasticsearch out."
)


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
        content: str | None = None,
    ) -> None:
        """Nothing is sent yet.

        Args:
            url: address of the server, without credentials.
            index: the alias that is searched, such as icd10.
            fields: what is searched, and what a match is worth.
            access: credentials; by default those of the environment (`ELASTICSEARCH_API_KEY` and so on).
            patience: how long a server that is away is waited for.
            content: what the index has to hold (`content_of`), where that matters; another one is not searched.

        Raises:
            UserError: the address or the alias cannot be one, or the credentials in the environment contradict.
        """
        check_name(index)
        self.index = index
        self.fields = fields or SearchFields()
        self._server = Server(url, access or ElasticsearchSettings.from_environment(), patience or Patience())
        self._content, self._remedy = content, BUILD_IT if content is None else PUBLISH_IT
        self._checked = False

    def build(self, entries: Iterable[Entry], fingerprint: str) -> str:
        """Index entries, in any order, and put them behind the alias; returns the name of the index.

        The fingerprint stands for the entries: an index that has it is completed, or reused as it is. Memory grows
        with the entries.

        Raises:
            UserError: there are no entries, the index was built with other fields, the alias is the name of an index,
                or the server is absent, refuses or did not recover.
        """
        name = IndexBuilder(self._server, self.index, self.fields).build(entries, fingerprint)
        self._checked = False
        return name

    def search(self, terms: Sequence[str], k: int) -> list[list[Candidate]]:
        """See `CandidateIndex.search`; `k` is at most `MOST_CANDIDATES`. Time grows with terms and candidates.

        Raises:
            UserError: nothing is built behind the alias, or with other fields or content; the server is absent,
                refuses a term (named) or did not recover.
        """
        if not 1 <= k <= MOST_CANDIDATES:
            raise ValueError(f"k is {k}: from 1 to {MOST_CANDIDATES} candidates are looked for")
        if not self._checked:
            self._check_description(described(self._server, self.index, self._remedy))
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
                    failed.append(RefusedError(item["status"], f"the term {one.term[:80]!r}: {why(item)}"))
            if failed:
                # One that will not pass says more than one that may.
                raise max(failed, key=lambda error: not error.passes)

        try:
            self._server.ask(request)
        except NotFoundError as error:
            raise nothing_called(self._server, self.index, self._remedy) from error
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
            raise nothing_called(self._server, self.index, self._remedy)
        if self._content not in (None, held.get("content")):
            raise UserError(
                f"{self.index} at {self._server.url} holds another list than that of this normaliser. {self._remedy}"
            )
        missing = set(self.fields.boosts()) - set(held["fields"])
        if missing or (held["k1"], held["b"]) != (self.fields.k1, self.fields.b):
            raise UserError(
                f"{self.index} was built for the fields {', '.join(held['fields'])} with k1 {held['k1']:g} and b "
                f"{held['b']:g}, which is not what is asked for. Build it again under another fingerprint."
            )


def _candidates(item: dict[str, Any]) -> list[Candidate]:
    """Scores are float32, and written with as few digits as tell them apart."""
    hits = item.get("hits", {}).get("hits", [])
    return [Candidate(hit["_source"]["code"], hit["_source"]["term"], float(np.float32(hit["_score"]))) for hit in hits]
