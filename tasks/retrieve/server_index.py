"""`ElasticsearchIndex`: candidate search by an Elasticsearch server, with the fields of tasks/retrieve/fields.py.

tasks/retrieve/server_build.py builds and publishes indices, tasks/retrieve/server_search.py queries them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from infra.errors import UserError
from infra.settings import ElasticsearchSettings
from tasks.retrieve.candidates import Candidate, Entry
from tasks.retrieve.fields import SearchFields

if TYPE_CHECKING:
    from tasks.retrieve.server import Patience
    from tasks.retrieve.server_build import Vectors

# Matches icd10 and icd10-v2.1, but not ICD10 or -icd10.
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,119}")


class ElasticsearchIndex:
    """The terminology behind an alias of a server. May be shared by threads."""

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
        """Prepare the connection; no request is sent yet.

        Args:
            url: address of the server, without credentials.
            index: alias to search, such as icd10.
            fields: searched fields and their boosts.
            access: credentials; by default those of the environment (`ELASTICSEARCH_API_KEY` etc.).
            patience: how long to wait for a server that does not answer.
            content: identifier of the content that the index must have (`content_of`). An index with other content is
                not searched. By default any content is accepted.

        Raises:
            UserError: the address or the alias is invalid, or the credentials in the environment are contradictory.
        """
        # The Elasticsearch client takes half a second to import, so only a program that opens an index pays for it.
        from tasks.retrieve.server import Patience, Server
        from tasks.retrieve.server_build import IndexBuilder
        from tasks.retrieve.server_search import IndexSearcher

        check_name(index)
        self.index = index
        self.fields = fields or SearchFields()
        self._server = Server(url, access or ElasticsearchSettings.from_environment(), patience or Patience())
        self._builder = IndexBuilder(self._server, index, self.fields)
        self._searcher = IndexSearcher(self._server, index, self.fields, content)

    def build(self, entries: Iterable[Entry], fingerprint: str, vectors: Vectors | None = None) -> str:
        """Index entries, given in any order, and point the alias to them. Memory grows with the entries.

        Args:
            fingerprint: identifier of the entries. An existing index with this fingerprint is reused, and completed if
                its build was interrupted.
            vectors: float16 or float32 (names, width), the vector of each name in the order of `documents_of`, for
                `nearest`.

        Returns:
            The name of the index: `<alias>-<fingerprint>`.

        Raises:
            UserError: there are no entries, the index exists with other fields or entries, the alias is the name of an
                index, or the server is absent, refuses or does not recover.
        """
        name = f"{self.index}-{fingerprint}"
        check_name(name)
        self._builder.build(entries, name, vectors)
        self._searcher.is_checked = False
        return name

    def search(self, terms: Sequence[str], k: int) -> list[list[Candidate]]:
        """See `CandidateIndex.search`; `k` is at most `MOST_CANDIDATES`. Time grows with terms and candidates.

        Raises:
            UserError: there is no index behind the alias, or it has other fields or content; the server is absent,
                refuses a term (which the message names) or does not recover.
        """
        return self._searcher.search(terms, k)

    def nearest(self, vectors: Vectors, k: int) -> list[list[Candidate]]:
        """Return at most `k` candidates for each unit vector, by the cosine of their nearest name (kNN, exact).

        Equal ones are ordered by (term, code). A vector of zeros finds nothing.

        Args:
            vectors: float32 (queries, width).

        Raises:
            UserError: as `search` does, or the index has no vectors of this width.
        """
        return self._searcher.nearest(vectors, k)

    def close(self) -> None:
        """Close the connections."""
        self._server.close()


def check_name(name: str) -> None:
    """Raise `UserError` if a name is not valid for an index or alias."""
    if not _NAME.fullmatch(name):
        raise UserError(
            f"{name!r} is not a valid index name. Use at most 120 lower-case letters, digits, '-', '_' and '.', and "
            "begin with a letter or digit."
        )
