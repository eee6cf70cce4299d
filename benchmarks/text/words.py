"""Cutting words: the speed of our lattice, rjieba and jieba on the same real text, and the effect of jieba's HMM.

    python benchmarks/text/words.py --data FOLDER [--megabytes 20] [--hmm-megabytes 3] [--only speed|hmm]
        [--output FILE.md]

FOLDER contains Parquet files of real text. All engines return the lengths of the words, as the stage `segment` needs
them, and are compared word by word; jieba itself cuts a twentieth of the text. Seconds are CPU seconds of one thread,
the minimum of a few alternating rounds; dictionaries are loaded before. All that is without the hidden Markov model.
Its effect is measured on `--hmm-megabytes` of each kind of text: the share of words that are cut differently, and the
words that it makes most often.
"""

from __future__ import annotations

import argparse
import itertools
import platform
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from datetime import date
from importlib.metadata import version
from pathlib import Path

import numpy as np

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY))

from benchmarks.pages import cpu_name, publish, table  # noqa: E402
from benchmarks.text.near_duplicates import REAL, corpus, real_column  # noqa: E402
from infra.arrays.batching import batches_of  # noqa: E402
from tasks.segment.words import Engine, word_lengths  # noqa: E402

ROUNDS = 3
ENGINES: tuple[Engine, ...] = ("lattice", "rjieba", "jieba")
JIEBAS_SHARE = 20
EXAMPLES = 12


def cut(texts: Sequence[str], engine: Engine) -> tuple[float, np.ndarray]:
    """CPU seconds, and the lengths of all words."""
    started = time.process_time()
    lengths = np.concatenate([word_lengths(batch, engine)[0] for batch in batches_of(texts)])
    return time.process_time() - started, lengths


def speed_section(folder: Path, megabytes: float) -> list[str]:
    """The engines on the same text, without the model."""
    texts, _ = corpus(folder, megabytes, seed=1)
    given = {engine: texts[::JIEBAS_SHARE] if engine == "jieba" else texts for engine in ENGINES}
    seconds = dict.fromkeys(ENGINES, float("inf"))
    for engine in ENGINES:
        word_lengths(["病"], engine)
    for _ in range(ROUNDS):
        for engine in ENGINES:
            took, lengths = cut(given[engine], engine)
            seconds[engine] = min(seconds[engine], took)
            if engine == "rjieba":
                assert np.array_equal(lengths, cut(texts, "lattice")[1]), "the engines differ"
            elif engine == "jieba":
                assert np.array_equal(lengths, cut(given[engine], "lattice")[1]), "the engines differ"
    speeds = {e: sum(len(text.encode()) for text in given[e]) / 1e6 / seconds[e] for e in ENGINES}
    rows = [[engine, f"{speeds[engine]:.1f}", f"{speeds[engine] / speeds['rjieba']:.2f}"] for engine in ENGINES]
    return [
        f"{megabytes:g} MB of text, one tenth with planted near duplicates; one thread; {cpu_name()}, Python "
        f"{platform.python_version()}, rjieba {version('rjieba')}, jieba {version('jieba')}. All words are the same.",
        "",
        *table(["engine", "MB / CPU s", "times rjieba"], rows),
        "",
    ]


def spans(text: str, hmm: bool) -> set[tuple[int, int]]:
    """Beginning and end of each word that holds a letter, a digit or a Chinese character."""
    lengths, _ = word_lengths([text], "rjieba", hmm)
    ends = np.cumsum(lengths).tolist()
    words = zip([0, *ends], ends, strict=False)
    return {(start, end) for start, end in words if any(character.isalnum() for character in text[start:end])}


def hmm_row(name: str, texts: Sequence[str]) -> list[str]:
    """What the model changes in texts of one kind."""
    words = kept = guessed = 0
    made: Counter[str] = Counter()
    for text in texts:
        plain, with_model = spans(text, hmm=False), spans(text, hmm=True)
        words, kept, guessed = words + len(plain), kept + len(plain & with_model), guessed + len(with_model)
        made.update(text[start:end] for start, end in with_model - plain)
    return [
        name,
        f"{sum(len(text.encode()) for text in texts) / 1e6:.1f}",
        f"{words:,}",
        f"{guessed:,}",
        f"{(words - kept) / words:.1%}",
        " ".join(word for word, _ in made.most_common(EXAMPLES)),
    ]


def sample_of(texts: Sequence[str], megabytes: float) -> list[str]:
    """Texts up to a size, drawn at random."""
    drawn = random.Random(1).sample(texts, len(texts))
    sizes = itertools.accumulate(len(text.encode()) for text in drawn)
    return [text for text, size in zip(drawn, sizes, strict=True) if size <= megabytes * 1e6]


def hmm_section(folder: Path, megabytes: float) -> list[str]:
    """The words of each kind of text, without the model and with it."""
    rows = [hmm_row(name, sample_of(real_column(folder, name), megabytes)) for name in REAL]
    return [
        "## What the hidden Markov model changes",
        "",
        f"rjieba {version('rjieba')}, text drawn at random; words of punctuation alone are left out. Differ: the share "
        "of the words without the model that are not words with it.",
        "",
        *table(["text", "MB", "words without", "words with", "differ", "most frequent words that it makes"], rows),
        "",
    ]


def main() -> None:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with Parquet files of real text")
    parser.add_argument("--megabytes", type=float, default=20)
    parser.add_argument("--hmm-megabytes", type=float, default=3)
    parser.add_argument("--only", choices=("speed", "hmm"), help="measure one of both")
    parser.add_argument("--output", type=Path, help="write the page here too")
    options = parser.parse_args()
    page = [f"# Cutting words, {date.today()}", ""]
    if options.only != "hmm":
        page += speed_section(options.data, options.megabytes)
    if options.only != "speed":
        page += hmm_section(options.data, options.hmm_megabytes)
    publish(page, options.output)


if __name__ == "__main__":
    main()
