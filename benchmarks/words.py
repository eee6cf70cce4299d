"""Speed of cutting words: our lattice, rjieba and jieba on the same real text, all without the hidden Markov model.

    python benchmarks/words.py --data FOLDER [--megabytes 20] [--output FILE.md]

FOLDER holds Parquet files of real text. All engines give the lengths of the words, as the stage `segment` needs them,
and are compared word by word; jieba itself cuts a twentieth of the text. CPU seconds of one thread, the least of a few
rounds in turns; dictionaries are loaded before.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from collections.abc import Sequence
from datetime import date
from importlib.metadata import version
from pathlib import Path

import numpy as np

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))

from benchmarks.near_duplicates import corpus  # noqa: E402
from benchmarks.pages import cpu_name, publish, table  # noqa: E402
from infra.batching import batches_of  # noqa: E402
from tasks.words import Engine, word_lengths  # noqa: E402

ROUNDS = 3
ENGINES: tuple[Engine, ...] = ("lattice", "rjieba", "jieba")
JIEBAS_SHARE = 20


def cut(texts: Sequence[str], engine: Engine) -> tuple[float, np.ndarray]:
    """CPU seconds, and the lengths of all words."""
    started = time.process_time()
    lengths = np.concatenate([word_lengths(batch, engine)[0] for batch in batches_of(texts)])
    return time.process_time() - started, lengths


def main() -> None:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with Parquet files of real text")
    parser.add_argument("--megabytes", type=float, default=20)
    parser.add_argument("--output", type=Path, help="write the page here too")
    options = parser.parse_args()
    texts, _ = corpus(options.data, options.megabytes, seed=1)
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
    page = [
        f"# Cutting words, {date.today()}",
        "",
        f"{options.megabytes:g} MB of text, one tenth with planted near duplicates; one thread; {cpu_name()}, Python "
        f"{platform.python_version()}, rjieba {version('rjieba')}, jieba {version('jieba')}. All words are the same.",
        "",
        *table(["engine", "MB / CPU s", "times rjieba"], rows),
        "",
    ]
    publish(page, options.output)


if __name__ == "__main__":
    main()
