"""Stages `count_words` and `vocabulary`: an in-domain WordPiece vocabulary (eHealth, section 4.1).

A seeded sample of documents is normalised and cut into words, part by part; the counts are then merged and
the vocabulary is built from them alone, so memory grows with the distinct words, not with the text, and the
result is the same for any number of workers. Single characters need the minimum frequency like everything else;
`##` forms exist for letters only. Where the text holds more tokens than there is room for, the vocabulary has
exactly the size asked for.
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
    """The sample that the vocabulary is built from."""

    sample_documents: int = Field(default=1_000_000, ge=1, description="Documents in the sample, about.")
    seed: int = 42


class VocabularyParams(StageParams):
    """The size of the vocabulary and what it takes to be in it."""

    size: int = Field(default=20_000, ge=len(SPECIAL_TOKENS) + 1, description="Tokens, special and unused included.")
    min_frequency: int = Field(default=5, ge=1, description="Rarer tokens are dropped, single characters too.")
    unused: int = Field(default=0, ge=0, description="Free places [unused1], … after the special tokens, as BERT has.")
    max_length: int = Field(default=512, ge=2, description="Longest input of the tokeniser, as it is written down.")


class AdoptParams(StageParams):
    """How a vocabulary that is brought along is written down."""

    max_length: int = Field(default=512, ge=2, description="Longest input of the tokeniser, as it is written down.")


@stage(name="count_words", version=3, params=CountWordsParams, tables=("word_counts",))
def count_words(inputs: Mapping[str, Artifact], params: CountWordsParams, out: Output) -> None:
    """Count the words of a random sample of `inputs["documents"]`, part by part.

    Raises:
        UserError: no document came into the sample.
    """
    documents = inputs["documents"]
    share = min(1.0, params.sample_documents / max(1, documents.rows("documents")))
    out.map(count_part, documents.parts("documents"), share, params.seed)
    if not out.counters()["documents"]:
        raise UserError(
            f"The sample for the vocabulary is empty: {documents.rows('documents'):,} documents are left of the corpus "
            f"and {params.sample_documents:,} were to be drawn. See in the report of the corpus what was dropped, or "
            "raise count_words.sample_documents."
        )


def count_part(part: PartWriter, documents: Part, share: float, seed: int) -> None:
    """Count the words of one part's share of the sample; those that no tokeniser looks at are only counted."""
    table = documents.read(columns=["doc_id", "text"])
    drawn = [share_of(doc_id, "vocabulary", seed) < share for doc_id in table["doc_id"].to_pylist()]
    counts = count_words_of(table["text"].filter(pa.array(drawn, pa.bool_())).to_pylist())
    long = [word for word in counts if len(word) > MAX_WORD]
    part.count("documents", sum(drawn))
    part.count("words_too_long", sum(counts.pop(word) for word in long))
    part.write("word_counts", [{"word": word, "count": count} for word, count in sorted(counts.items())])


@stage(name="vocabulary", version=3, params=VocabularyParams, tables=("vocabulary",))
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


@stage(name="adopt_vocabulary", version=1, params=AdoptParams, tables=("vocabulary",))
def adopt(inputs: Mapping[str, RawInput], params: AdoptParams, out: Output) -> None:
    """Take the vocabulary of `inputs["file"]`, one `vocab.txt`, in the place of a new one.

    The special tokens move to the front, where every model here looks for them; the others keep their order.

    Raises:
        UserError: there are several files, or the file is no vocabulary.
    """
    found = read_vocabularies(inputs["file"])
    if len(found) > 1:
        raise UserError(f"Give one vocab.txt to build on, not {len(found)}: {', '.join(found)}.")
    (tokens,) = found.values()
    others = [token for token in tokens if token not in SPECIAL_TOKENS]
    _write(dict.fromkeys([*SPECIAL_TOKENS, *others], 0), params.max_length, out)


def _write(frequencies: Mapping[str, int], max_length: int, out: Output) -> None:
    """The table and the files of a vocabulary; its tokens stand in the order of their ids."""
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
    """The vocabulary of some texts: special tokens, single characters, then merged tokens.

    Raises:
        UserError: the texts hold no word that is frequent enough, or `size` has no room for the characters.
    """
    return list(vocabulary_from_counts(count_words_of(texts), size, min_frequency))


def vocabulary_from_counts(counts: Mapping[str, int], size: int, min_frequency: int, unused: int = 0) -> dict[str, int]:
    """Token to frequency, in the order of the ids: special tokens, unused ones, characters, then words and pieces,
    the frequent before the rare. A character's frequency is how often it occurs (as a word's first letter or inside
    one, for letters), a longer token's how often it is used when the sample is cut.

    Raises:
        UserError: see `build_vocabulary`.
    """
    words = {word: count for word, count in counts.items() if len(word) <= MAX_WORD}
    characters = _frequent_characters(words, min_frequency)
    if not characters:
        raise UserError(
            f"No character occurs {min_frequency} times in the sample of {sum(counts.values()):,} words; there is "
            "too little text for a vocabulary. Give more text or lower vocabulary.min_frequency."
        )
    reserved = [*SPECIAL_TOKENS, *(f"[unused{number}]" for number in range(1, unused + 1))]
    room = size - len(reserved) - len(characters)
    if room < 0:
        raise UserError(
            f"vocabulary.size is {size:,}, but the {len(characters):,} characters seen {min_frequency} times and "
            f"more and {len(reserved)} special and unused tokens need {size - room:,}. Raise vocabulary.size or "
            "vocabulary.min_frequency."
        )
    runs = {word: count for word, count in words.items() if len(word) > 1}
    letters = set(characters)
    merges = fitted(runs, letters, learn_merges(runs, min_frequency), min_frequency, room)
    used = piece_frequencies(words, letters | set(merges))
    return dict.fromkeys(reserved, 0) | _ordered(characters, characters) | _ordered(merges, used)


def _ordered(tokens: Iterable[str], frequencies: Mapping[str, int]) -> dict[str, int]:
    """Tokens with their frequencies, the frequent first, ties by spelling."""
    order = sorted(tokens, key=lambda token: (-frequencies[token], token))
    return {token: frequencies[token] for token in order}


def _frequent_characters(words: Mapping[str, int], min_frequency: int) -> dict[str, int]:
    """Single characters, and letters inside words, that occur often enough."""
    counts: Counter[str] = Counter()
    for word, count in words.items():
        for piece in letter_pieces(word):
            counts[piece] += count
    return {piece: count for piece, count in counts.items() if count >= min_frequency}
