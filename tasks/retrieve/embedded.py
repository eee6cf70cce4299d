"""Stage `candidate_index`, and `EmbeddedIndex`: candidates found in this process, as tasks/retrieve/fields.py defines.

BM25 gives every token of a document a weight that no query changes. So the weights are worked out once, as a sparse
matrix of tokens by documents; a query adds up the rows of its tokens, and an entry has the best sum of its documents.

Weights are float32 like Lucene's, lengths are rounded as Lucene rounds them, sums run in the order of the query's
tokens: they depend neither on the batch nor on the machine. On disk an index is a folder of .npy and .parquet files
that are mapped into memory.

Time of a query grows with the documents that hold its tokens, and with the entries. Memory: 8 bytes a token and
document, and the strings.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from pydantic import ValidationError

from infra.artifacts import Artifact
from infra.errors import UserError
from infra.stage import Output, StageParams, stage
from kg.columns import at
from tasks.normalise.queries import category_of
from tasks.normalise.query_settings import TABLES, QueryParams, read_rules, save_rules
from tasks.normalise.terminology import entries_of
from tasks.retrieve.candidates import Candidate, Entry
from tasks.retrieve.fields import EXACT, Documents, FieldTokens, SearchFields, content_of, documents_of

Floats = npt.NDArray[np.float32]

FIELDS_FILE, ENTRIES_FILE, TOKENS_FILE, CONTENT_FILE = "fields.json", "entries.parquet", "tokens.parquet", "content.txt"
CATEGORIES = "categories"
"""The folder of the index of categories within that of an index."""
ARRAYS = ("first_posting", "documents", "weights", "first_document")


class EmbeddedIndex:
    """A saved index, opened to be searched; `build` makes one."""

    def __init__(self, path: str | Path) -> None:
        """Open the index in a folder.

        Raises:
            UserError: the folder holds no index, or a damaged one.
        """
        self.folder = folder = Path(path)
        try:
            self.fields = SearchFields.model_validate_json((folder / FIELDS_FILE).read_text(encoding="utf-8"))
            entries = pl.read_parquet(folder / ENTRIES_FILE)
            tokens = pl.read_parquet(folder / TOKENS_FILE)
            arrays = {name: np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in ARRAYS}
        except (OSError, ValueError, EOFError, ValidationError, pl.exceptions.PolarsError) as error:
            raise UserError(f"{folder} holds no index of candidates ({error}). Build it anew.") from error
        self.codes, self.terms = entries["code"].to_list(), entries["term"].to_list()
        self._rows: dict[str, dict[str, int]] = {field: {} for field in self.fields.boosts()}
        for row, (field, token) in enumerate(tokens.select("field", "token").iter_rows()):
            self._rows[field][token] = row
        # Starts of each token's postings; the documents and weights of all postings; each entry's first document.
        self._first_posting, self._documents, self._weights, self._first_document = (
            np.asarray(arrays[name]) for name in ARRAYS
        )
        self.categories = EmbeddedIndex(folder / CATEGORIES) if (folder / CATEGORIES).is_dir() else None
        """The categories of its codes, each by all its names as one text and with its code as the term; see
        tasks/retrieve/categories.py. None where they are not looked at, or no code is one of ICD-10."""

    @property
    def num_documents(self) -> int:
        """Names that are searched."""
        return int(self._first_document[-1])

    @property
    def content(self) -> str:
        """What it holds, as `content_of` names it.

        Raises:
            UserError: the folder does not say, as those of older versions.
        """
        try:
            return (self.folder / CONTENT_FILE).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise UserError(
                f"{self.folder} does not say what list it holds ({error}). Run the flow that made it once more."
            ) from error

    @classmethod
    def build(cls, entries: Iterable[Entry], path: str | Path, fields: SearchFields | None = None) -> EmbeddedIndex:
        """Index entries, in any order, into a folder, and open it.

        Raises:
            UserError: there are none, or a searched field needs a package that is not installed.
        """
        documents = documents_of(entries)
        if not documents.names:
            raise UserError("There are no terms to index. Give a terminology that has some.")
        folder, fields = Path(path), fields or SearchFields()
        tokens = list(fields.document_tokens(documents.names))
        _save(documents.entries, documents.owners, tokens, fields, folder)
        (folder / CONTENT_FILE).write_text(content_of(documents, fields), encoding="utf-8")
        shutil.rmtree(folder / CATEGORIES, ignore_errors=True)
        if fields.category and (united := _by_category(documents, tokens)):
            categories = [Entry(category, category) for category in sorted(united)]
            texts = [united[category.code] for category in categories]
            _save(categories, range(len(categories)), texts, fields, folder / CATEGORIES)
        return cls(path)

    def search(self, terms: Sequence[str], k: int) -> list[list[Candidate]]:
        """See `CandidateIndex.search`. Memory grows with the terms' candidates."""
        if k < 1:
            raise ValueError(f"k is {k}: at least one candidate is looked for")
        return [self._best(scores, k) for scores in self.scores(terms)]

    def scores(self, terms: Sequence[str]) -> Iterator[Floats]:
        """[entries] float32 for every term, in the order of `codes`; 0 for what shares no token with it."""
        starts = self._first_document[:-1]
        for tokens in self.fields.query_tokens(terms):
            postings = [
                slice(*self._first_posting[row : row + 2])
                for field, held in tokens.items()
                for token in held
                if (row := self._rows[field].get(token)) is not None
            ]
            documents = np.concatenate([self._documents[:0], *(self._documents[here] for here in postings)])
            weights = np.concatenate([self._weights[:0], *(self._weights[here] for here in postings)])
            # Summed in float64 and rounded once, as Lucene does.
            sums = np.bincount(documents, weights, self.num_documents).astype(np.float32)
            yield np.maximum.reduceat(sums, starts)

    def _best(self, scores: Floats, k: int) -> list[Candidate]:
        found = (scores > 0).nonzero()[0]
        if len(found) > k:
            least = np.partition(scores[found], len(found) - k)[len(found) - k]
            found = found[scores[found] >= least]
        # Entries stand in the order in which equal scores are told apart.
        found = found[np.argsort(-scores[found], kind="stable")][:k]
        pairs = zip(found.tolist(), scores[found].tolist(), strict=True)
        return [Candidate(self.codes[place], self.terms[place], score) for place, score in pairs]


def _by_category(documents: Documents, tokens: Sequence[FieldTokens]) -> dict[str, FieldTokens]:
    """The tokens of all names of every category; whole names are none of a text that is made of many."""
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
    """Save an index of entries and of the tokens of documents, each of which is that of the entry at `owners`."""
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
    """field, token, document and weight, sorted by the first three."""
    held: dict[str, list[Sequence[str]]] = {field: [] for field in fields.boosts()}
    for document in tokens:
        for field in held:
            held[field].append(document.get(field, ()))
    return pl.concat([_weighted(field, held[field], fields) for field in sorted(held)])


def _weighted(field: str, tokens: Sequence[Sequence[str]], fields: SearchFields) -> pl.DataFrame:
    """The postings of one field, whose tokens are given document by document."""
    lengths = np.fromiter(map(len, tokens), np.int64, len(tokens))
    holding = max(1, int((lengths > 0).sum()))
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
    """Lengths as Lucene keeps them, in a byte: exact below 40, then by the four highest bits of what goes beyond 24."""
    beyond = np.maximum(lengths - 24, 0)
    bits = np.ceil(np.log2(beyond + 1)).astype(np.int64)
    lost = np.maximum(bits - 4, 0)
    return np.where(lengths < 40, lengths, 24 + (beyond >> lost << lost))


class CandidateIndexParams(StageParams):
    """What is searched, and by which queries."""

    fields: SearchFields = SearchFields()
    queries: QueryParams = QueryParams()


@stage(name="candidate_index", version=3, params=CandidateIndexParams)
def candidate_index(inputs: Mapping[str, Any], params: CandidateIndexParams, out: Output) -> None:
    """Index `inputs["terminology"]` into files beside the manifest, with the rules of queries; `open_index` opens them.

    `inputs["abbreviations"]` and `["typos"]`, each a `RawInput` of one table, stand for the default ones.

    Raises:
        UserError: a table has a fault; the message names file and row.
    """
    entries = entries_of(inputs["terminology"])
    rules = read_rules(params.queries, {name: inputs[name] for name in TABLES if name in inputs})
    with tempfile.TemporaryDirectory(prefix="yiwen-") as folder:
        index = EmbeddedIndex.build(entries, folder, params.fields)
        out.count("entries", len(index.terms))
        out.count("names", index.num_documents)
        save_rules(rules, Path(folder))
        out.add_folder(Path(folder))


def open_index(artifact: Artifact, folder: Path) -> EmbeddedIndex:
    """The index of an artifact, checked against its manifest; one that lies behind a URI is copied to `folder` first.

    Raises:
        DamagedArtifactError: a file is missing or was changed.
    """
    if isinstance(artifact.path, Path):
        artifact.verify()
        return EmbeddedIndex(artifact.path)
    return EmbeddedIndex(artifact.download(folder))
