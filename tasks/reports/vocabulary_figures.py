"""Figures of vocabularies on a corpus: length in tokens, unknown tokens, and abbreviations.

A bounded sample of documents is tokenised, and a larger one is searched for abbreviations. Ids of documents are hashes,
so an interval of ids is a random sample that does not depend on the parts. Time grows with the two samples and with
reading the documents three times, memory with the smaller sample.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import polars as pl
import regex
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from infra.arrays.batching import batches_of
from infra.artifacts import Artifact
from models.tokenizer.normal_form import normalise
from models.tokenizer.wordpiece import MAX_WORD, SPECIAL_TOKENS
from tasks.reports.vocabulary_examples import draw_examples
from tasks.segment.words import words_of

CHARACTERS = 10_000
"""Most characters tokenised of a document."""

TEXTS_AT_ONCE = 256

LETTERS = r"[\p{Latin}\p{Greek}\p{Cyrillic}]+"
"""A run of letters: `HbA` of `HbA1c`."""
CAPITALS = r"^[\p{Latin}&&\p{Lu}]{2,20}$"
"""An abbreviation, a run of Latin capitals: `TSHR`, but not `HbA`."""

_LETTERS = regex.compile(LETTERS)
_BLANK = regex.compile(r"\s+")
"""Blanks: those of `头痛  三天`."""
_HAN = regex.compile(r"\p{Han}")
"""A Chinese character: `痛`."""


class _Text(NamedTuple):
    """Sizes of a text by which the figures of every vocabulary are divided."""

    words: int
    """Number of jieba's words, without blanks."""
    characters: int
    """Number of characters, without blanks."""
    runs: Counter[str]
    """Runs of letters."""


class Sizes(NamedTuple):
    """Sizes and seed of the samples; see `ReportVocabularyParams`."""

    sample_documents: int
    abbreviation_documents: int
    min_abbreviation: int
    seed: int


def summarise(
    vocabulary: Artifact,
    documents: Artifact,
    others: Mapping[str, Sequence[str]],
    sizes: Sizes,
    terms: Sequence[str] = (),
) -> dict[str, Any]:
    """Return all figures as plain JSON values.

    Args:
        vocabulary: an artifact with the table vocabulary and `tokenizer.json`.
        documents: an artifact with the table documents.
        others: tokens of other vocabularies by name; they are applied as in BERT.
        sizes: sizes and seed of the samples.
        terms: words and names to be covered.
    """
    ours = Tokenizer.from_str(vocabulary.read_file("tokenizer.json").decode())
    ours.encode_special_tokens = True  # "[MASK]" in a text is text
    tokens = vocabulary.to_table()["token"].to_pylist()
    vocabularies = {"this vocabulary": tokens, **{_apart(name): list(given) for name, given in others.items()}}
    tokenizers = {"this vocabulary": ours, **{_apart(name): bert_tokenizer(given) for name, given in others.items()}}
    sample = _sample(documents, sizes.sample_documents, sizes.seed).sort("doc_id").head(sizes.sample_documents)
    rows = sample.select("source", text=pl.col("text").str.head(CHARACTERS)).collect(engine="streaming")
    texts = rows["text"].to_list()
    abbreviations = _abbreviations(documents, sizes)
    measured = {name: _measure(tokenizer, texts) for name, tokenizer in tokenizers.items()}
    text = _read(texts)
    figures = [
        _figures(name, vocabularies[name], tokenizers[name], sum(measured[name], Counter()), text, abbreviations)
        for name in vocabularies
    ]
    return {
        "documents": documents.rows("documents"),
        "sample": {"documents": len(texts), "characters": text.characters},
        "abbreviation_documents": min(sizes.abbreviation_documents, documents.rows("documents")),
        "min_abbreviation": sizes.min_abbreviation,
        "vocabularies": figures,
        "terms": {
            "count": len(terms),
            "vocabularies": [_coverage(name, one, terms) for name, one in tokenizers.items()],
        },
        "sources": _sources(documents, rows["source"].to_list(), texts, measured["this vocabulary"]),
        "abbreviations": [
            {"text": text, "count": count, "pieces": {name: _cut(one, text) for name, one in tokenizers.items()}}
            for text, count in abbreviations.items()
        ],
        "examples": draw_examples(texts, tokenizers, abbreviations),
    }


def bert_tokenizer(tokens: Sequence[str]) -> Tokenizer:
    """Return a tokeniser that cuts text as BERT does.

    Text becomes lower case without accents. Each Chinese character is a word, as is a run of letters and digits.
    """
    ids = {token: number for number, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=MAX_WORD))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True, handle_chinese_chars=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def _apart(name: str) -> str:
    return f"{name} (given)" if name == "this vocabulary" else name


def _sample(documents: Artifact, wanted: int, seed: int) -> pl.LazyFrame:
    """Return a random sample of slightly more documents than wanted: an interval of ids with a random beginning."""
    rows = documents.rows("documents")
    scan = documents.scan("documents")
    # Five standard deviations more than wanted, so that the sample is hardly ever too small.
    share = (wanted + 5 * wanted**0.5) / max(1, rows)
    if share >= 1:
        return scan
    start = random.Random(seed).random()
    first, end = _hex(start), _hex((start + share) % 1)
    after, before = pl.col("doc_id") >= first, pl.col("doc_id") < end
    return scan.filter(after & before if first < end else after | before)


def _hex(share: float) -> str:
    return f"{int(share * 2**52):013x}"


def _abbreviations(documents: Artifact, sizes: Sizes) -> dict[str, int]:
    """Return runs of Latin letters that often occur in capitals, normalised, the most frequent first."""
    runs = (
        _sample(documents, sizes.abbreviation_documents, sizes.seed)
        .select(run=pl.col("text").str.extract_all(LETTERS))
        .explode("run")
        .filter(pl.col("run").str.contains(CAPITALS))
        .group_by("run")
        .len()
        .collect(engine="streaming")
    )
    counts: Counter[str] = Counter()
    for run, count in runs.iter_rows():
        counts[normalise(run)] += count
    frequent = [(run, count) for run, count in counts.items() if count >= sizes.min_abbreviation]
    return dict(sorted(frequent, key=lambda pair: (-pair[1], pair[0])))


def _measure(tokenizer: Tokenizer, texts: Sequence[str]) -> list[Counter[str]]:
    """Return for each text the number of its tokens and of unknown ones."""
    found = []
    for first in range(0, len(texts), TEXTS_AT_ONCE):
        for encoding in tokenizer.encode_batch(texts[first : first + TEXTS_AT_ONCE], add_special_tokens=False):
            found.append(Counter(tokens=len(encoding.ids), unknown=encoding.tokens.count("[UNK]")))
    return found


def _read(texts: Sequence[str]) -> _Text:
    return _Text(
        words=sum(not word.isspace() for batch in batches_of(texts) for words in words_of(batch) for word in words),
        characters=sum(len(_BLANK.sub("", text)) for text in texts),
        runs=Counter(run for text in texts for run in _LETTERS.findall(text)),
    )


def _figures(
    name: str,
    tokens: Sequence[str],
    tokenizer: Tokenizer,
    counted: Mapping[str, int],
    text: _Text,
    abbreviations: Mapping[str, int],
) -> dict[str, Any]:
    """Return the row of one vocabulary; `counted` is the number of its tokens in the sample and of unknown ones."""
    pieces = dict(zip(text.runs, map(len, _cuts(tokenizer, list(text.runs))), strict=True))
    cuts = _cuts(tokenizer, list(abbreviations))
    return {
        "vocabulary": name,
        "size": len(tokens),
        "kinds": _kinds(tokens),
        "tokens_per_word": _ratio(counted["tokens"], text.words),
        "tokens_per_character": _ratio(counted["tokens"], text.characters),
        "tokens_per_run": _ratio(sum(pieces[run] * count for run, count in text.runs.items()), text.runs.total()),
        "unknown_share": _ratio(counted["unknown"], counted["tokens"], digits=5),
        "abbreviations": len(cuts),
        "abbreviations_whole": _ratio(sum(len(cut) == 1 and cut != ["[UNK]"] for cut in cuts), len(cuts)),
        "pieces_per_abbreviation": _ratio(sum(map(len, cuts)), len(cuts)),
    }


def _coverage(name: str, tokenizer: Tokenizer, terms: Sequence[str]) -> dict[str, Any]:
    """Return the share of terms without an unknown piece, and the mean number of pieces."""
    covered = pieces = 0
    for first in range(0, len(terms), TEXTS_AT_ONCE):
        cuts = _cuts(tokenizer, list(terms[first : first + TEXTS_AT_ONCE]))
        covered += sum("[UNK]" not in cut for cut in cuts)
        pieces += sum(map(len, cuts))
    return {"vocabulary": name, "covered": _ratio(covered, len(terms)), "pieces_per_term": _ratio(pieces, len(terms))}


def _cuts(tokenizer: Tokenizer, texts: list[str]) -> list[list[str]]:
    return [encoding.tokens for encoding in tokenizer.encode_batch(texts, add_special_tokens=False)]


def _cut(tokenizer: Tokenizer, text: str) -> list[str]:
    return _cuts(tokenizer, [text])[0]


def _kinds(tokens: Sequence[str]) -> dict[str, int]:
    """Return the number of tokens of each kind."""
    kinds = dict.fromkeys(("special and unused", "Chinese characters", "other characters", "words", "pieces (##)"), 0)
    for token in tokens:
        if token in SPECIAL_TOKENS or token.startswith("[unused"):
            kinds["special and unused"] += 1
        elif token.startswith("##") and len(token) > 2:
            kinds["pieces (##)"] += 1
        elif len(token) > 1:
            kinds["words"] += 1
        else:
            kinds["Chinese characters" if _HAN.match(token) else "other characters"] += 1
    return kinds


def _sources(
    documents: Artifact, sources: Sequence[str], texts: Sequence[str], measured: Sequence[Counter[str]]
) -> list[dict[str, Any]]:
    """Return the columns of eHealth's Table 1, with numbers of tokens extrapolated from the sample."""
    characters: Counter[str] = Counter()
    tokens: Counter[str] = Counter()
    for source, text, counted in zip(sources, texts, measured, strict=True):
        characters[source] += len(text)
        tokens[source] += counted["tokens"]
    written = pl.col("text").str
    rows = (
        documents.scan("documents")
        .group_by("source")
        .agg(documents=pl.len(), bytes=_total(written.len_bytes()), characters=_total(written.len_chars()))
        .collect(engine="streaming")
        .sort("source")
        .to_dicts()
    )
    for row in rows:
        drawn = characters[row["source"]]
        row["tokens"] = round(row["characters"] * tokens[row["source"]] / drawn) if drawn else None
    return rows


def _total(sizes: pl.Expr) -> pl.Expr:
    """Return the sum of sizes in 64 bits: polars sums 32-bit columns in 32 bits, which 4.3 GB of text overflow."""
    return sizes.cast(pl.Int64).sum()


def _ratio(part: float, whole: float, digits: int = 4) -> float:
    return round(part / whole, digits) if whole else 0.0
