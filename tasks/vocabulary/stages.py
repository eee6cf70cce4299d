"""Stages `count_words`, `vocabulary` and `adopt_vocabulary`: an in-domain WordPiece vocabulary (eHealth, section 4.1).

A seeded sample of documents is normalised and cut into words, part by part. The vocabulary is built from the merged
counts alone, in one process. So memory grows with the distinct words (some 120 bytes each: 60 million in 8 GB), not
with the text, and the result is the same for any number of workers. Single characters need the minimum frequency like
all other tokens, and `##` forms exist for letters only. If the text contains enough tokens, the vocabulary has exactly
the requested size.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow as pa
from pydantic import Field

from infra.artifacts import Artifact, Part
from infra.builds import PartWriter
from infra.errors import UserError
from infra.stage import Output, StageParams, stage
from models.tokenizer.wordpiece import MAX_WORD, SPECIAL_TOKENS, save_tokenizer
from tasks.documents import share_of
from tasks.files.raw_input import RawInput
from tasks.vocabulary.counts import count_words_of
from tasks.vocabulary.files import read_vocabularies
from tasks.vocabulary.pruning import fitted
from tasks.vocabulary.wordpiece import learn_merges, letter_pieces, piece_frequencies


class CountWordsParams(StageParams):
    """Sample from which the vocabulary is built."""

    sample_documents: int = Field(default=1_000_000, ge=1, description="Approximate number of documents in the sample.")
    seed: int = 42
    """Seed of the sample of documents."""


class VocabularyParams(StageParams):
    """Size of the vocabulary, and conditions for its tokens."""

    size: int = Field(
        default=20_000, ge=len(SPECIAL_TOKENS) + 1, description="Number of tokens, including special and unused ones."
    )
    min_frequency: int = Field(default=5, ge=1, description="Frequency below which tokens and characters are dropped.")
    unused: int = Field(
        default=0, ge=0, description="Number of placeholders [unused1], … after the special tokens, as in BERT."
    )
    max_length: int = Field(default=512, ge=2, description="Longest input stated in the tokeniser's files, in tokens.")


class AdoptParams(StageParams):
    """Files of an adopted vocabulary."""

    max_length: int = Field(default=512, ge=2, description="Longest input stated in the tokeniser's files, in tokens.")


@stage(name="count_words", version=4, params=CountWordsParams, tables=("word_counts",), heavy=True)
def count_words(inputs: Mapping[str, Artifact], params: CountWordsParams, out: Output) -> None:
    """Count the words of a random sample of `inputs["documents"]`, part by part.

    Raises:
        UserError: the sample is empty.
    """
    documents = inputs["documents"]
    share = min(1.0, params.sample_documents / max(1, documents.rows("documents")))
    out.map(count_part, documents.parts("documents"), share, params.seed)
    if not out.counters()["documents"]:
        raise UserError(
            f"The sample for the vocabulary is empty: {params.sample_documents:,} documents were to be drawn, and "
            f"{documents.rows('documents'):,} documents remain of the corpus. Raise count_words.sample_documents, or "
            "see in the report about the corpus which documents were dropped."
        )


def count_part(part: PartWriter, documents: Part, share: float, seed: int) -> None:
    """Count the words of one part's share of the sample.

    Words longer than `MAX_WORD` are [UNK] to every tokeniser: only their number is kept.
    """
    table = documents.read(columns=["doc_id", "text"])
    drawn = [share_of(doc_id, "vocabulary", seed) < share for doc_id in table["doc_id"].to_pylist()]
    counts = count_words_of(table["text"].filter(pa.array(drawn, pa.bool_())).to_pylist())
    long = [word for word in counts if len(word) > MAX_WORD]
    part.count("documents", sum(drawn))
    part.count("words_too_long", sum(counts.pop(word) for word in long))
    part.write("word_counts", [{"word": word, "count": count} for word, count in sorted(counts.items())])


@stage(name="vocabulary", version=4, params=VocabularyParams, tables=("vocabulary",), heavy=True)
def vocabulary(inputs: Mapping[str, Artifact], params: VocabularyParams, out: Output) -> None:
    """Merge the counts of `inputs["words"]` and build the vocabulary and its tokeniser."""
    counts: Counter[str] = Counter()
    for part in inputs["words"].parts("word_counts"):
        table = part.read()
        for word, count in zip(table.column("word").to_pylist(), table.column("count").to_pylist(), strict=True):
            counts[word] += count
    _write(vocabulary_from_counts(counts, params.size, params.min_frequency, params.unused), params.max_length, out)
    out.count("words", sum(counts.values()))
    out.count("distinct_words", len(counts))


@stage(name="adopt_vocabulary", version=2, params=AdoptParams, tables=("vocabulary",))
def adopt(inputs: Mapping[str, RawInput], params: AdoptParams, out: Output) -> None:
    """Adopt the vocabulary of `inputs["file"]`, one `vocab.txt`, in place of a new one.

    The special tokens move to the front, where every model of this project expects them. The others keep their order.

    Raises:
        UserError: there are several files, or the file is not a vocabulary.
    """
    found = read_vocabularies(inputs["file"])
    if len(found) > 1:
        raise UserError(f"Give one vocab.txt to build on, not {len(found)}: {', '.join(found)}.")
    (tokens,) = found.values()
    others = [token for token in tokens if token not in SPECIAL_TOKENS]
    _write(dict.fromkeys([*SPECIAL_TOKENS, *others], 0), params.max_length, out)


def _write(frequencies: Mapping[str, int], max_length: int, out: Output) -> None:
    """Write the table and the files of a vocabulary, whose tokens are in the order of their ids."""
    with out.part() as writer:
        writer.write(
            "vocabulary",
            [
                {"id": number, "token": token, "frequency": frequency}
                for number, (token, frequency) in enumerate(frequencies.items())
            ],
        )
    with tempfile.TemporaryDirectory(prefix="yiwen-vocabulary-") as name:
        save_tokenizer(list(frequencies), Path(name), max_length)
        out.add_folder(Path(name))


def build_vocabulary(texts: Iterable[str], size: int, min_frequency: int) -> list[str]:
    """Return the vocabulary of some texts: special tokens, single characters, then merged tokens.

    Raises:
        UserError: no character is frequent enough, or the characters alone exceed `size`.
    """
    return list(vocabulary_from_counts(count_words_of(texts), size, min_frequency))


def vocabulary_from_counts(counts: Mapping[str, int], size: int, min_frequency: int, unused: int = 0) -> dict[str, int]:
    """Return the frequencies of tokens in the order of their ids.

    Special tokens come first, then unused ones, characters, and words and pieces, each group by descending frequency.
    The frequency of a character is its number of occurrences, counted separately for letters that begin a word and
    letters inside one. That of a longer token is its number of uses when the sample is cut.

    Raises:
        UserError: see `build_vocabulary`.
    """
    words = {word: count for word, count in counts.items() if len(word) <= MAX_WORD}
    characters = _frequent_characters(words, min_frequency)
    if not characters:
        raise UserError(
            f"No character occurs {min_frequency} times in the sample of {sum(counts.values()):,} words, which is too "
            "little text for a vocabulary. Give more text or lower vocabulary.min_frequency."
        )
    reserved = [*SPECIAL_TOKENS, *(f"[unused{number}]" for number in range(1, unused + 1))]
    room = size - len(reserved) - len(characters)
    if room < 0:
        raise UserError(
            f"vocabulary.size={size:,} is too small: the {len(characters):,} characters that occur at least "
            f"{min_frequency} times and {len(reserved)} special and unused tokens need {size - room:,}. Raise "
            "vocabulary.size or vocabulary.min_frequency."
        )
    runs = {word: count for word, count in words.items() if len(word) > 1}
    letters = set(characters)
    merges = fitted(runs, letters, learn_merges(runs, min_frequency), min_frequency, room)
    used = piece_frequencies(words, letters | set(merges))
    return dict.fromkeys(reserved, 0) | _ordered(characters, characters) | _ordered(merges, used)


def _ordered(tokens: Iterable[str], frequencies: Mapping[str, int]) -> dict[str, int]:
    """Return tokens with their frequencies, the most frequent first, ties by spelling."""
    order = sorted(tokens, key=lambda token: (-frequencies[token], token))
    return {token: frequencies[token] for token in order}


def _frequent_characters(words: Mapping[str, int], min_frequency: int) -> dict[str, int]:
    """Return the frequencies of characters and of letters inside words that occur often enough."""
    counts: Counter[str] = Counter()
    for word, count in words.items():
        for piece in letter_pieces(word):
            counts[piece] += count
    return {piece: count for piece, count in counts.items() if count >= min_frequency}
