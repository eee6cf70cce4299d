"""Queries to an Elasticsearch index that tasks/retrieve/server_build.py has built.

A query asks for the best document of each entry. It sends the tokens of tasks/retrieve/fields.py, so the server counts
the same tokens as the embedded engine, and nothing in a search term can be taken for query syntax.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from elasticsearch import Elasticsearch, NotFoundError

from infra.errors import UserError
from tasks.retrieve.candidates import MOST_CANDIDATES, Candidate
from tasks.retrieve.fields import EXACT, FieldTokens, SearchFields
from tasks.retrieve.server import RefusedError, Server, why
from tasks.retrieve.server_build import BUILD_IT, VECTOR, Vectors, described, missing_index
from tasks.retrieve.vectors import DECIMALS

NAMES_AN_ENTRY = 20
"""Number of nearest names that are asked for per candidate."""

TERMS_AT_ONCE = 64
"""Number of search terms per request."""

PUBLISH_IT = (
    "This normaliser searches only its own list, which was never published there or has been replaced by newer lists. "
    "Repeat the run that created it, with the same parameters, this alias and ELASTICSEARCH_URL: finished stages are "
    "reused, and the list is published. Or omit --elasticsearch."
)


class _Query(NamedTuple):
    """A search term, its position among all terms, and its request."""

    place: int
    term: str
    body: dict[str, Any]


class IndexSearcher:
    """Searches the index behind an alias. May be shared by threads."""

    def __init__(self, server: Server, index: str, fields: SearchFields, content: str | None = None) -> None:
        """See `ElasticsearchIndex`."""
        self.index = index
        self.is_checked = False
        """The index is known to have the required fields and content."""
        self._width: int | None = None
        self._server = server
        self._fields = fields
        self._content, self._remedy = content, BUILD_IT if content is None else PUBLISH_IT

    def search(self, terms: Sequence[str], k: int) -> list[list[Candidate]]:
        """See `ElasticsearchIndex.search`."""
        self._check(k)
        found: list[list[Candidate]] = [[] for _ in terms]
        queries = (
            _Query(place, term, self._query(tokens, k))
            for place, (term, tokens) in enumerate(zip(terms, self._fields.query_tokens(terms), strict=True))
            if any(tokens.values())  # a term such as "？" finds nothing, and its query would be invalid
        )
        while batch := list(itertools.islice(queries, TERMS_AT_ONCE)):
            for place, item in self._answers(batch):
                found[place] = _candidates(item)
        return found

    def nearest(self, vectors: Vectors, k: int) -> list[list[Candidate]]:
        """See `ElasticsearchIndex.nearest`."""
        self._check(k)
        self._check_width(vectors.shape[1])
        found: list[list[Candidate]] = [[] for _ in vectors]
        # Entries have several names, and the server counts names. A list with more names an entry loses the last ones.
        names = min(NAMES_AN_ENTRY * k, MOST_CANDIDATES)
        queries = (
            _Query(place, f"vector {place}", _nearest_names(vector, names))
            for place, vector in enumerate(vectors)
            if vector.any()
        )
        while batch := list(itertools.islice(queries, TERMS_AT_ONCE)):
            for place, item in self._answers(batch):
                found[place] = _nearest_entries(item, k)
        return found

    def _check(self, k: int) -> None:
        if not 1 <= k <= MOST_CANDIDATES:
            raise ValueError(f"k must be from 1 to {MOST_CANDIDATES}, not {k}")
        if not self.is_checked:
            self._check_description(described(self._server, self.index, self._remedy))
            self.is_checked = True

    def _check_width(self, width: int) -> None:
        if self._width is None:
            self._width = described(self._server, self.index, self._remedy).get("width", 0)
        if self._width != width:
            held = f"vectors of {self._width} values" if self._width else "no vectors"
            raise UserError(f"{self.index} at {self._server.url} has {held}, not of {width}. {self._remedy}")

    def _answers(self, batch: Sequence[_Query]) -> Iterable[tuple[int, dict[str, Any]]]:
        answers: dict[int, dict[str, Any]] = {}

        def request(client: Elasticsearch) -> None:
            # The request is repeated if some queries fail: those that were answered are not sent again.
            missing = [one for one in batch if one.place not in answers]
            searches: list[dict[str, Any]] = [part for one in missing for part in ({}, one.body)]
            response = client.msearch(
                index=self.index,
                searches=searches,
                filter_path="responses.status,responses.error.reason,responses.error.root_cause.reason,"
                "responses.hits.hits._score,responses.hits.hits._source",
            )
            failed = []
            for one, item in zip(missing, response["responses"], strict=True):
                if item["status"] == 200:
                    answers[one.place] = item
                else:
                    failed.append(RefusedError(item["status"], f"the term {one.term[:80]!r}: {why(item)}"))
            if failed:
                # Prefer a permanent failure: retrying would not help, and its reason is what the user must know.
                raise max(failed, key=lambda error: not error.passes)

        try:
            self._server.ask(request)
        except NotFoundError as error:
            raise missing_index(self._server, self.index, self._remedy) from error
        return answers.items()

    def _query(self, tokens: FieldTokens, k: int) -> dict[str, Any]:
        boosts = self._fields.boosts()
        # The server multiplies BM25 by k1 + 1, as early versions of Lucene did; our formula does not.
        scale = 1 / (self._fields.k1 + 1)
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
        """Raise `UserError` unless an index was built for what is searched. Its boosts may differ."""
        if not held["finished"]:
            raise missing_index(self._server, self.index, self._remedy)
        if self._content not in (None, held.get("content")):
            raise UserError(
                f"{self.index} at {self._server.url} contains a different list from this normaliser's. {self._remedy}"
            )
        missing = set(self._fields.boosts()) - set(held["fields"])
        if missing or (held["k1"], held["b"]) != (self._fields.k1, self._fields.b):
            raise UserError(
                f"{self.index} was built for the fields {', '.join(held['fields'])} with k1 {held['k1']:g} and b "
                f"{held['b']:g}, which differ from those requested. Build it again under another fingerprint."
            )


def _candidates(item: dict[str, Any]) -> list[Candidate]:
    """Return the candidates of a response, whose scores are float32 in shortest decimal notation."""
    hits = item.get("hits", {}).get("hits", [])
    return [Candidate(hit["_source"]["code"], hit["_source"]["term"], float(np.float32(hit["_score"]))) for hit in hits]


def _nearest_names(vector: npt.NDArray[Any], names: int) -> dict[str, Any]:
    knn = {"field": VECTOR, "query_vector": vector.tolist(), "k": names, "num_candidates": names}
    return {"knn": knn, "size": names, "track_total_hits": False, "_source": ["code", "term", "entry"]}


def _nearest_entries(item: dict[str, Any], k: int) -> list[Candidate]:
    """Return the entries of the nearest names; the cosine of an entry is that of its nearest name."""
    best: dict[int, Candidate] = {}
    for hit in item.get("hits", {}).get("hits", []):
        held = hit["_source"]
        best.setdefault(held["entry"], Candidate(held["code"], held["term"], _cosine(hit["_score"])))
    return [best[entry] for entry in sorted(best, key=lambda entry: (-best[entry].score, entry))][:k]


def _cosine(score: float) -> float:
    """Return the inner product behind a score: the server adds 1 to it, and squeezes negative ones into 0 to 1."""
    product = score - 1 if score >= 1 else 1 - 1 / score
    return round(float(np.float32(product)), DECIMALS)
