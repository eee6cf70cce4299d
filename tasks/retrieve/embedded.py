"""`EmbeddedIndex`: candidate search in this process, with the fields and the formula of tasks/retrieve/fields.py.

In BM25 the weight of a token in a document does not depend on the query. So all weights are computed once, as a sparse
matrix of tokens by documents. A query adds up the rows of its tokens, and an entry gets the best sum of its documents.

Results depend neither on the batch nor on the machine: weights are float32 like Lucene's, lengths are rounded as in
Lucene, and sums run in the order of the query's tokens. On disk an index is a folder of .npy and .parquet files; the
arrays are memory-mapped.

Query time grows with the number of documents that contain its tokens, and with the number of entries. Memory: 8 bytes
per pair of token and document, plus the strings.
"""

from __future__ import annotations

import shutil
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl
from pydantic import ValidationError

from infra.errors import UserError
from kg.columns import at
from tasks.retrieve.candidates import Candidate, Entry
from tasks.retrieve.fields import (
    EXACT,
    Documents,
    FieldTokens,
    SearchFields,
    comparable_forms,
    content_of,
    documents_of,
    tokens_of,
)
from tasks.retrieve.icd_categories import category_of
from tasks.retrieve.match import Match, matches
from tasks.retrieve.placed import PlacedCandidates, Places
from tasks.retrieve.sums import best_of_entries, best_places, sums_between

Floats = npt.NDArray[np.float32]

_KEPT = 10_000
"""Number of terms and of names whose tokens are kept."""

_NAMES_SCHEMA = {"name": pl.String, "source": pl.String}

FIELDS_FILE, ENTRIES_FILE, TOKENS_FILE, CONTENT_FILE = "fields.json", "entries.parquet", "tokens.parquet", "content.txt"
NAMES_FILE = "names.parquet"
"""Names and their sources, in the order of the documents; absent for categories and in folders of older versions."""
CATEGORIES = "categories"
"""Subfolder with the index of the categories."""
ARRAYS = ("first_posting", "documents", "weights", "first_document")


class EmbeddedIndex:
    """A saved index, open for searching; `build` creates one."""

    def __init__(self, path: str | Path) -> None:
        """Open the index in a folder.

        Raises:
            UserError: the folder contains no index, or a damaged one.
        """
        self.folder = folder = Path(path)
        try:
            self.fields = SearchFields.model_validate_json((folder / FIELDS_FILE).read_text(encoding="utf-8"))
            entries = pl.read_parquet(folder / ENTRIES_FILE)
            tokens = pl.read_parquet(folder / TOKENS_FILE)
            arrays = {name: np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in ARRAYS}
        except (OSError, ValueError, EOFError, ValidationError, pl.exceptions.PolarsError) as error:
            raise UserError(f"{folder} contains no usable candidate index ({error}). Build it again.") from error
        self.codes, self.terms = entries["code"].to_list(), entries["term"].to_list()
        self._rows: dict[str, dict[str, int]] = {field: {} for field in self.fields.boosts()}
        for row, (field, token) in enumerate(tokens.select("field", "token").iter_rows()):
            self._rows[field][token] = row
        # Start of each token's postings; document and weight of every posting; first document of each entry.
        self._first_posting, self._documents, self._weights, self._first_document = (
            np.asarray(arrays[name]) for name in ARRAYS
        )
        self._spans = np.stack([self._first_posting[:-1], self._first_posting[1:]], axis=1)
        # Searched, explained, and searched as part of the next text, a term is the same.
        self._postings = lru_cache(maxsize=_KEPT)(self._postings_of)
        self._owners = np.repeat(
            np.arange(len(self.codes), dtype=np.int32), np.diff(self._first_document)
        )  # entry of each document
        self._scratch = threading.local()
        # The inverse document frequency of each token; the last one is that of a token that the index does not know.
        holding = np.append(np.diff(self._first_posting), 0)
        self._rarities: list[float] = np.log1p((self.num_documents - holding + 0.5) / (holding + 0.5)).tolist()
        self.places = {key: place for place, key in enumerate(zip(self.codes, self.terms, strict=True))}
        self._names = _read_names(folder / NAMES_FILE)
        self._weights_of = lru_cache(maxsize=_KEPT)(self._weigh)
        self.categories = EmbeddedIndex(folder / CATEGORIES) if (folder / CATEGORIES).is_dir() else None
        """Index of the ICD-10 categories, see tasks/retrieve/categories.py: all names of a category are one text, and
        its code is the term. None if categories are switched off or no code is from ICD-10."""

    @property
    def num_documents(self) -> int:
        """Number of names in the index."""
        return int(self._first_document[-1])

    @property
    def has_names(self) -> bool:
        """True if the folder has the names of the entries, by which `explain` gives reasons; older versions have
        none."""
        return self._names is not None

    @property
    def first_names(self) -> npt.NDArray[np.int64]:
        """The first name of each entry, counted through all names, and the number of names: int64 [entries + 1]."""
        return self._first_document.astype(np.int64)

    def names(self) -> tuple[list[str], list[int]]:
        """Return all names in order, and the place of each one's entry; nothing if the folder has no names."""
        return ([], []) if self._names is None else ([name for name, _ in self._names], self._owners.tolist())

    @property
    def content(self) -> str:
        """Identifier of the content (`content_of`).

        Raises:
            UserError: the folder does not record it, as in older versions.
        """
        try:
            return (self.folder / CONTENT_FILE).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise UserError(
                f"{self.folder} does not record which list it contains ({error}). Repeat the run that built it."
            ) from error

    @classmethod
    def build(cls, entries: Iterable[Entry], path: str | Path, fields: SearchFields | None = None) -> EmbeddedIndex:
        """Index entries, given in any order, in a folder and open the index.

        Raises:
            UserError: there are no entries, or a searched field needs a package that is not installed.
        """
        documents = documents_of(entries)
        if not documents.names:
            raise UserError("There are no terms to index. Give a terminology that contains terms.")
        folder, fields = Path(path), fields or SearchFields()
        tokens = list(fields.document_tokens(documents.names))
        _save(documents.entries, documents.owners, tokens, fields, folder)
        names = pl.DataFrame({"name": documents.names, "source": documents.sources}, schema=_NAMES_SCHEMA)
        names.write_parquet(folder / NAMES_FILE)
        (folder / CONTENT_FILE).write_text(content_of(documents, fields), encoding="utf-8")
        # The folder may contain an earlier index that had categories.
        shutil.rmtree(folder / CATEGORIES, ignore_errors=True)
        if fields.category and (united := _by_category(documents, tokens)):
            categories = [Entry(category, category) for category in sorted(united)]
            texts = [united[category.code] for category in categories]
            _save(categories, range(len(categories)), texts, fields, folder / CATEGORIES)
        return cls(path)

    def search(self, terms: Sequence[str], k: int) -> list[list[Candidate]]:
        """See `CandidateIndex.search`. Memory grows with the number of candidates found."""
        if k < 1:
            raise ValueError(f"k must be at least 1, not {k}")
        return [list(row) for row in self.placed(terms, k)]

    def placed(self, terms: Sequence[str], k: int) -> list[PlacedCandidates]:
        """Return what `search` does, without a `Candidate` for each."""
        return [self._placed(*self.best(scores, k)) for scores in self.scores(terms)]

    def scores(self, terms: Sequence[str]) -> Iterator[Floats]:
        """Return the scores of all entries for each term: float32 [entries], ordered as `codes`.

        An entry that shares no token with the term scores 0.
        """
        return map(self.scores_of, terms)

    def scores_of(self, term: str) -> Floats:
        """Return `scores` of one term."""
        postings = self._postings(term)
        return best_of_entries(postings, self._documents, self._weights, self._owners, self._sums(), len(self.codes))

    def best(self, scores: Floats, k: int) -> tuple[Places, Floats]:
        """Return the places of the k entries with the best positive scores, best first, and these scores."""
        found = np.sort(best_places(scores, k))
        # Entries are sorted by (term, code), so a stable sort breaks ties as the protocol promises.
        found = found[np.argsort(-scores[found], kind="stable")]
        return found, scores[found]

    def _placed(self, places: Places, scores: Floats) -> PlacedCandidates:
        return PlacedCandidates(self, places, scores.astype(np.float64))

    def _sums(self) -> npt.NDArray[np.float64]:
        """Return zeros for the sum of each document, which `best_of_entries` leaves behind as zeros; one array a
        thread."""
        held: npt.NDArray[np.float64] | None = getattr(self._scratch, "sums", None)
        if held is None:
            held = self._scratch.sums = np.zeros(self.num_documents)
        return held

    def are_names(self, texts: Sequence[str]) -> list[bool]:
        """Return for each text whether it is exactly a name in the index; never, if whole names are not searched."""
        names = self._rows.get(EXACT, {})
        return ["".join(form) in names for form in comparable_forms(texts)] if texts else []

    def explain(self, queries: Sequence[str], found: Candidate) -> Match | None:
        """Return by which name queries find a candidate, and what of that query the name lacks.

        The name is the one with the best score for any query; of equal ones the first query's, and the standard term
        before its aliases. None if the folder has no names, the list no such candidate, or no name shares a token with
        a query.
        """
        (reason,) = self.explain_all([(queries, found)])
        return reason

    def explain_all(self, asked: Sequence[tuple[Sequence[str], Candidate]]) -> list[Match | None]:
        """Return `explain` of each pair of queries and candidate. One call for many is much faster than a call each."""
        best = [self._best_name(queries, found) for queries, found in asked]
        reasons = iter(matches([one for one in best if one is not None], self._weights_of))
        return [None if one is None else next(reasons) for one in best]

    def _weigh(self, form: tuple[str, ...]) -> Mapping[str, float]:
        """Return what each token of a comparable form is worth: the rarer, the more, as in BM25."""
        weights = {
            f"{field} {token}": boost * self._rarity(field, token)
            for field, boost in self.fields.boosts().items()
            if field != EXACT
            for token in tokens_of(form, field)
        }
        # Where only whole names are searched, all characters count alike.
        return weights or dict.fromkeys(form, 1.0)

    def _rarity(self, field: str, token: str) -> float:
        row = self._rows[field].get(token)
        return self._rarities[-1 if row is None else row]

    def _best_name(self, queries: Sequence[str], found: Candidate) -> tuple[str, str, str] | None:
        """Return the query that finds a candidate best, the name that it finds, and the source of the name."""
        place = self.places.get((found.code, found.term))
        if self._names is None or place is None:
            return None
        first, end = self._first_document[place : place + 2].tolist()
        best: tuple[float, str, int] | None = None
        for query in queries:
            own = sums_between(self._postings(query), self._documents, self._weights, first, end)
            document = int(own.argmax())
            if own[document] > (best[0] if best else 0):
                best = (float(own[document]), query, first + document)
        if best is None:
            return None
        return best[1], *self._names[best[2]]

    def _postings_of(self, term: str) -> npt.NDArray[np.int64]:
        """Return where the documents and weights of a term's tokens begin and end, int64 [tokens, 2]; none for a token
        that the index does not know."""
        (tokens,) = self.fields.query_tokens([term])
        rows = (self._rows[field].get(token) for field, held in tokens.items() for token in held)
        known = np.array([row for row in rows if row is not None], dtype=np.int64)
        return self._spans[known]


def _read_names(path: Path) -> list[tuple[str, str]] | None:
    """Return names with their sources; None for a folder without them."""
    return pl.read_parquet(path).select(list(_NAMES_SCHEMA)).rows() if path.is_file() else None


def _by_category(documents: Documents, tokens: Sequence[FieldTokens]) -> dict[str, FieldTokens]:
    """Return the tokens of all names of every category, without the field of whole names: a category is no name."""
    united: dict[str, dict[str, list[str]]] = {}
    for owner, own in zip(documents.owners, tokens, strict=True):
        if category := category_of(documents.entries[owner].code):
            held = united.setdefault(category, defaultdict(list))
            for field in own.keys() - {EXACT}:
                held[field] += own[field]
    return dict(united)


def _save(
    entries: Sequence[Entry],
    owners: Sequence[int],
    tokens: Iterable[FieldTokens],
    fields: SearchFields,
    folder: Path,
) -> None:
    """Save an index.

    Args:
        owners: for each document, the position of its entry in `entries`; ascending.
        tokens: tokens of each document.
    """
    postings = _postings(tokens, fields)
    distinct = postings.group_by("field", "token", maintain_order=True).len()
    arrays = {
        "first_posting": np.append(0, distinct["len"].to_numpy()).cumsum(),
        "documents": postings["document"].to_numpy(),
        "weights": postings["weight"].to_numpy(),
        "first_document": np.searchsorted(owners, np.arange(len(entries) + 1)),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name in ARRAYS:
        np.save(folder / f"{name}.npy", arrays[name], allow_pickle=False)
    listed = {"code": [entry.code for entry in entries], "term": [entry.term for entry in entries]}
    pl.DataFrame(listed, schema={"code": pl.String, "term": pl.String}).write_parquet(folder / ENTRIES_FILE)
    distinct.select("field", "token").write_parquet(folder / TOKENS_FILE)
    (folder / FIELDS_FILE).write_text(fields.model_dump_json(indent=1), encoding="utf-8")


def _postings(tokens: Iterable[FieldTokens], fields: SearchFields) -> pl.DataFrame:
    """Return a table of field, token, document and weight, sorted by the first three."""
    held: dict[str, list[Sequence[str]]] = {field: [] for field in fields.boosts()}
    for document in tokens:
        for field in held:
            held[field].append(document.get(field, ()))
    return pl.concat([_weighted(field, held[field], fields) for field in sorted(held)])


def _weighted(field: str, tokens: Sequence[Sequence[str]], fields: SearchFields) -> pl.DataFrame:
    """Return the postings of one field, given its tokens per document."""
    lengths = np.fromiter(map(len, tokens), np.int64, len(tokens))
    holding = max(1, int((lengths > 0).sum()))  # N of the formula: documents that have the field
    occurrences = pl.DataFrame(
        {
            "token": pl.Series([token for own in tokens for token in own], dtype=pl.String),
            "document": np.repeat(np.arange(len(tokens), dtype=np.int32), lengths),
        }
    )
    f, n = pl.col("f"), pl.len().over("token")
    relative = at(rounded_lengths(lengths) * (holding / max(1, lengths.sum())), "document")
    bm25 = (1 + (holding - n + 0.5) / (n + 0.5)).log() * f / (f + fields.k1 * (1 - fields.b + fields.b * relative))
    worth = pl.lit(1.0) if field == EXACT else bm25
    return (
        occurrences.group_by("token", "document")
        .agg(f=pl.len().cast(pl.Float64))
        .sort("token", "document")
        .select(
            pl.lit(field).alias("field"),
            "token",
            "document",
            (worth * fields.boosts()[field]).cast(pl.Float32).alias("weight"),
        )
    )


def rounded_lengths(lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Round document lengths as Lucene does to store them in a byte.

    Lengths below 40 are exact. From a longer one 24 is subtracted, and the four highest bits of the rest are kept.
    """
    beyond = np.maximum(lengths - 24, 0)
    bits = np.ceil(np.log2(beyond + 1)).astype(np.int64)
    lost = np.maximum(bits - 4, 0)
    return np.where(lengths < 40, lengths, 24 + (beyond >> lost << lost))
