"""Stages `count_words` and `vocabulary`: an in-domain WordPiece vocabulary (eHealth, section 4.1).

A seeded sample of documents is normalised and cut into words, part by part; the counts are then merged and
the vocabulary is built from them alone, so memory grows with the distinct words, not with the text, and the
result is the same for any number of workers. Single characters need the minimum frequency like everything else;
`##` forms exist for letters only.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic import Field

from infra.artifacts import Artifact, Part
from infra.builds import PartWriter
from infra.errors import UserError
from infra.stage import Output, StageParams, stage
from models.tokenizer import SPECIAL_TOKENS, save_tokenizer, split_words
from tasks.documents import share_of
from tasks.wordpiece import learn_merges, letter_pieces, live_tokens, piece_frequencies

MAX_WORD = 100
"""Letters after which a run is taken for noise (WordPiece gives up there too)."""


class CountWordsParams(StageParams):
    """The sample that the vocabulary is built from."""

    sample_documents: int = Field(default=1_000_000, ge=1, description="Documents in the sample, about.")
    seed: int = 42


class VocabularyParams(StageParams):
    """The size of the vocabulary and what it takes to be in it."""

    size: int = Field(default=20_000, ge=len(SPECIAL_TOKENS) + 1, description="Tokens at most, special ones included.")
    min_frequency: int = Field(default=5, ge=1, description="Rarer tokens are dropped, single characters too.")
    max_length: int = Field(default=512, ge=2, description="Longest input of the tokeniser, as it is written down.")


@stage(name="count_words", version=1, params=CountWordsParams, tables=("word_counts",))
def count_words(inputs: Mapping[str, Artifact], params: CountWordsParams, out: Output) -> None:
    """Count the words of a random sample of `inputs["documents"]`, part by part."""
    documents = inputs["documents"]
    share = min(1.0, params.sample_documents / max(1, documents.rows("documents")))
    out.map(count_part, documents.parts("documents"), share, params.seed)


def count_part(part: PartWriter, documents: Part, share: float, seed: int) -> None:
    """Count the words of one part's share of the sample."""
    table = documents.read(columns=["doc_id", "title", "text"])
    counts: Counter[str] = Counter()
    for doc_id, title, text in zip(*(table.column(name).to_pylist() for name in table.column_names), strict=True):
        if share_of(doc_id, "vocabulary", seed) < share:
            part.count("documents")
            counts.update(split_words(title))
            counts.update(split_words(text))
    part.write("word_counts", [{"word": word, "count": count} for word, count in sorted(counts.items())])


@stage(name="vocabulary", version=1, params=VocabularyParams, tables=("vocabulary",))
def vocabulary(inputs: Mapping[str, Artifact], params: VocabularyParams, out: Output) -> None:
    """Merge the counts of `inputs["words"]` and build the vocabulary and its tokeniser."""
    counts: Counter[str] = Counter()
    for part in inputs["words"].parts("word_counts"):
        table = part.read()
        for word, count in zip(table.column("word").to_pylist(), table.column("count").to_pylist(), strict=True):
            counts[word] += count
    frequencies = vocabulary_from_counts(counts, params.size, params.min_frequency)
    with out.part() as writer:
        writer.write(
            "vocabulary",
            [
                {"id": number, "token": token, "frequency": frequency}
                for number, (token, frequency) in enumerate(frequencies.items())
            ],
        )
    with tempfile.TemporaryDirectory(prefix="yiwen-vocabulary-") as name:
        save_tokenizer(list(frequencies), Path(name), params.max_length)
        out.build.add_folder(Path(name))
    out.count("words", sum(counts.values()))
    out.count("distinct_words", len(counts))


def build_vocabulary(texts: Iterable[str], size: int, min_frequency: int) -> list[str]:
    """The vocabulary of some texts: special tokens, single characters, then merged tokens.

    Raises:
        UserError: the texts hold no word that is frequent enough, or `size` has no room for the characters.
    """
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(split_words(text))
    return list(vocabulary_from_counts(counts, size, min_frequency))


def vocabulary_from_counts(counts: Mapping[str, int], size: int, min_frequency: int) -> dict[str, int]:
    """Token to frequency, in the order of the ids: special tokens, characters, then words and pieces, the
    frequent before the rare.

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
    room = size - len(SPECIAL_TOKENS) - len(characters)
    if room < 0:
        raise UserError(
            f"vocabulary.size is {size:,}, but the {len(characters):,} characters seen {min_frequency} times and "
            f"more and {len(SPECIAL_TOKENS)} special tokens need {size - room:,}. Raise vocabulary.size or "
            "vocabulary.min_frequency."
        )
    letters = set(characters)
    runs = {word: count for word, count in words.items() if len(word) > 1}
    merges = _fitting_merges(runs, letters, learn_merges(runs, min_frequency), min_frequency, room)
    used = piece_frequencies(words, letters | set(merges))
    order = sorted(characters, key=lambda token: (-characters[token], token))
    order += sorted(merges, key=lambda token: (-used[token], token))
    return {**dict.fromkeys(SPECIAL_TOKENS, 0), **{token: used[token] for token in order}}


def _frequent_characters(words: Mapping[str, int], min_frequency: int) -> dict[str, int]:
    """Single characters, and letters inside words, that occur often enough."""
    counts: Counter[str] = Counter()
    for word, count in words.items():
        for piece in letter_pieces(word):
            counts[piece] += count
    return {piece: count for piece, count in counts.items() if count >= min_frequency}


def _fitting_merges(
    runs: Mapping[str, int], letters: set[str], merges: list[str], min_frequency: int, room: int
) -> list[str]:
    """As many merges, in their order, as leave at most `room` tokens in use."""
    live = live_tokens(runs, letters, merges, min_frequency)
    if len(live) <= room:
        return live
    low, high = 0, len(merges)  # the first `low` merges fit, the first `high` do not
    while high - low > 1:
        middle = (low + high) // 2
        fits = len(live_tokens(runs, letters, merges[:middle], min_frequency)) <= room
        low, high = (middle, high) if fits else (low, middle)
    return live_tokens(runs, letters, merges[:low], min_frequency)
