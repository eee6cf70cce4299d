"""Words of a text: three engines, and user dictionaries.

The engines find the same words: jieba without its hidden Markov model, rjieba, which is 18 times faster, and
tasks/segment/lattice.py (the default), which takes a fifth of rjieba's time. With the model, which the first two have,
unknown words are guessed: runs of single characters become words (一钱, 细末, 炼蜜; names), and numbers such as 3.5 are
kept whole. The model changed 6 to 7 % of the words of real modern text, and 45 % of those of classical text
(benchmarks/results/text/words_2026-11-22.md).
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import numpy as np

from infra.errors import UserError
from tasks.files.raw_input import RawInput
from tasks.segment.lattice import cut_batch, jieba_trie

Engine = Literal["lattice", "rjieba", "jieba"]


def word_lengths(
    texts: Sequence[str], engine: Engine = "lattice", hmm: bool = False, terms: str = ""
) -> tuple[np.ndarray, np.ndarray]:
    """Return the lengths of all texts' words in a row, and the borders between the texts.

    Args:
        texts: a batch, all of whose words are in memory.
        engine: engine to use. Without `hmm` all find the same words; with it, rjieba takes the place of `lattice`.
        hmm: guess unknown words with the hidden Markov model.
        terms: words of a user dictionary, one per line, each made likely enough to be kept whole. Terms with
            characters that jieba never joins (a blank, most punctuation marks) are cut nevertheless.

    Returns:
        Lengths in characters, int64 (W,), and borders, int64 (T + 1,).
    """
    if engine == "lattice" and not hmm:
        return cut_batch(texts, jieba_trie(_lines(terms)))
    cut = _cutter("jieba" if engine == "jieba" else "rjieba", hmm, terms)
    lengths = [list(map(len, cut(text))) for text in texts]
    flat = np.fromiter(itertools.chain.from_iterable(lengths), dtype=np.int64)
    return flat, np.cumsum([0, *map(len, lengths)])


def words_of(
    texts: Sequence[str], engine: Engine = "lattice", hmm: bool = False, terms: str = ""
) -> Iterator[list[str]]:
    """Yield the words of each text, which join to exactly the text; see `word_lengths`."""
    lengths, borders = word_lengths(texts, engine, hmm, terms)
    for text, (first, last) in zip(texts, itertools.pairwise(borders.tolist()), strict=True):
        ends = np.cumsum(lengths[first:last]).tolist()
        yield [text[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def segment_words(text: str, engine: Engine = "lattice", hmm: bool = False, terms: str = "") -> list[str]:
    """Return the words of one text."""
    return next(words_of([text], engine, hmm, terms))


@functools.lru_cache(maxsize=4)
def _cutter(engine: Literal["rjieba", "jieba"], hmm: bool, terms: str) -> Callable[[str], list[str]]:
    """Return a function from a text to its words, which reads its dictionary when first called."""
    return _rjieba_cutter(hmm, terms) if engine == "rjieba" else _jieba_cutter(hmm, terms)


def _rjieba_cutter(hmm: bool, terms: str) -> Callable[[str], list[str]]:
    import rjieba

    @functools.cache
    def loaded() -> rjieba.Jieba:
        own = rjieba.Jieba()
        for word in _lines(terms):
            own.add_word(word, None, None)
        return own

    return lambda text: loaded().cut(text, hmm)


def _jieba_cutter(hmm: bool, terms: str) -> Callable[[str], list[str]]:
    import jieba

    jieba.setLogLevel("WARNING")
    tokenizer = jieba.Tokenizer()
    for word in _lines(terms):
        tokenizer.add_word(word)
    return lambda text: tokenizer.lcut(text, HMM=hmm)


@functools.lru_cache(maxsize=4)
def _lines(terms: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in terms.splitlines() if line.strip())


_COUNTED = re.compile(r"(\S+)\s+\d+(?:\s+[A-Za-z]+)?")
"""A line of jieba's dictionaries: a word, its count and perhaps its part of speech: `直肠癌根治术 100 n`, but not
`糖类抗原`."""


def read_terms(dictionary: RawInput) -> list[str]:
    """Return the distinct terms of a user dictionary's files, which have one term per line, in sorted order.

    From a file in jieba's form (`直肠癌根治术 100 n`), or with counts only, the words are taken.

    Raises:
        UserError: a file is not UTF-8.
    """
    terms: set[str] = set()
    for file in dictionary.files:
        try:
            lines = file.read().decode("utf-8-sig").splitlines()
        except UnicodeDecodeError as error:
            raise UserError(f"{file.name} is not UTF-8 at byte {error.start:,}. Save the file as UTF-8.") from error
        terms.update(_terms_of([line.strip() for line in lines if line.strip()]))
    return sorted(terms)


def _terms_of(lines: list[str]) -> list[str]:
    """Return the terms of one file.

    A number after a word is a count only if every line has one: it may belong to a name such as CA 125.
    """
    counted = [_COUNTED.fullmatch(line) for line in lines]
    if any("\u4e00" <= line[0] <= "\u9fff" for line in lines) and None not in counted:
        return [found[1] for found in counted if found]
    return lines
