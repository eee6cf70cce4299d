"""GloVe and Word2Vec of this project against gensim's Word2Vec: words per second, and whether memory is bounded.

    python benchmarks/text/word_vectors.py --data FOLDER [--megabytes 100] [--workers 2] [--output FILE.md]

FOLDER contains Parquet files of real text. Every string of at least 40 characters is a document; to reach the requested
size, further ones are drawn as in benchmarks/text/near_duplicates.py (clauses of the real ones, shuffled: synthetic).
The text is segmented before the clock starts. Each tool runs in a process of its own with these settings: Word2Vec
CBOW, 100 dimensions, window 5, 5 epochs; GloVe 50 dimensions, window 15, 15 epochs over the pairs. All keep words of
frequency 5 or more.

Words per second are the words of the corpus over wall seconds, once per corpus and once per epoch. gensim reads a file
with a text per line (LineSentence) and counts its words first; ours reads counted sequences, whose counting is given
apart. Memory is the largest of any process. GloVe is measured at a quarter of the size too: its counting must not need
more at the full size, apart from its vocabulary.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY))

MIN_COUNT = 5
LINES = "lines.txt"


def prepare(texts: Sequence[str], home: Path, workers: int) -> dict[str, Any]:
    """Segment some texts into a store, count their words, and write them as lines for gensim."""
    from infra.artifacts import ArtifactStore
    from infra.stage import run
    from tasks.embed.words import (
        EmbeddingCountsParams,
        EmbeddingWordsParams,
        embedding_counts,
        embedding_words,
        word_sequences,
    )
    from tasks.files.raw_input import RawInput
    from tasks.ingest.stage import IngestParams, ingest
    from tasks.segment.stage import SegmentParams, segment

    store, raw = ArtifactStore(str(home / "store")), home / "raw"
    raw.mkdir(parents=True)
    with (raw / "texts.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts)
    with executor_of(workers) as executor:

        def done(work: Any, params: Any, **inputs: Any) -> Any:
            return run(work, store, params, inputs, executor=executor).artifact

        documents = done(ingest, IngestParams(), corpus=RawInput(raw))
        segments = done(segment, SegmentParams(min_tokens=1), documents=documents)
        began = time.monotonic()
        counts = done(embedding_counts, EmbeddingCountsParams(), segments=segments)
        words = done(embedding_words, EmbeddingWordsParams(min_count=MIN_COUNT), counts=counts)
        sequences = done(word_sequences, EmbeddingCountsParams(), segments=segments, words=words)
        seconds = time.monotonic() - began
    names = words.to_table("embedding_words")["word"].to_pylist()
    with (home / LINES).open("w", encoding="utf-8") as file:
        for part in sequences.parts("word_sequences"):
            for rows in part.read()["rows"].to_pylist():
                file.write(" ".join(names[row] for row in rows) + "\n")
    return {
        "home": str(home),
        "workers": workers,
        "words": words.fingerprint,
        "sequences": sequences.fingerprint,
        "total": sequences.manifest.counters["words"],
        "distinct": len(names),
        "counting": seconds,
    }


def executor_of(workers: int) -> Any:
    """The worker processes that stages run in."""
    from infra.cluster.executor import executor_for
    from infra.settings import Settings

    os.environ["YIWEN_WORKERS"] = str(workers)
    return executor_for(Settings.from_environment())


def inputs_of(given: dict[str, Any]) -> tuple[Any, Any, Any]:
    """The store, the words and the sequences of a prepared text."""
    from infra.artifacts import ArtifactStore

    store = ArtifactStore(str(Path(given["home"], "store")))
    return store, store.get("embedding_words", given["words"]), store.get("word_sequences", given["sequences"])


def gensim_word2vec(given: dict[str, Any]) -> dict[str, float]:
    """gensim as its documentation shows it, with Table 4's settings."""
    from gensim.models import Word2Vec
    from gensim.models.word2vec import LineSentence

    lines = LineSentence(str(Path(given["home"], LINES)))
    Word2Vec(lines, vector_size=100, window=5, negative=5, epochs=5, min_count=MIN_COUNT, workers=given["workers"])
    return {}


def our_word2vec(given: dict[str, Any]) -> dict[str, float]:
    """The stage `word2vec`."""
    from infra.stage import run
    from tasks.embed.word2vec import Word2VecParams, word2vec

    store, words, sequences = inputs_of(given)
    run(word2vec, store, Word2VecParams(threads=given["workers"]), {"words": words, "sequences": sequences})
    return {}


def our_glove(given: dict[str, Any]) -> dict[str, float]:
    """The stages `cooccurrences` and `glove`."""
    from infra.stage import run
    from tasks.embed.cooccurrences import CooccurrencesParams, cooccurrences
    from tasks.embed.glove import GloveParams, glove

    store, words, sequences = inputs_of(given)
    with executor_of(given["workers"]) as executor:
        began = time.monotonic()
        pairs = run(cooccurrences, store, CooccurrencesParams(), {"sequences": sequences}, executor=executor).artifact
        counted = time.monotonic() - began
        made = run(glove, store, GloveParams(), {"words": words, "cooccurrences": pairs}, executor=executor).artifact
    return {
        "counting": counted,
        "counting_mib": pairs.manifest.peak_memory_bytes / 2**20,
        "mib": made.manifest.peak_memory_bytes / 2**20,
        "pairs": pairs.rows(),
    }


TOOLS: dict[str, tuple[Callable[[dict[str, Any]], dict[str, float]], int]] = {
    "GloVe (ours)": (our_glove, 15),
    "Word2Vec (ours, gensim within)": (our_word2vec, 5),
    "Word2Vec (gensim alone)": (gensim_word2vec, 5),
}
"""By name, what runs and its epochs."""


def measure(tool: str, given: dict[str, Any]) -> None:
    """In a process of its own: train, print what it took."""
    import gensim.models  # noqa: F401 - imports are no work

    import tasks.embed.glove  # noqa: F401

    began = time.monotonic()
    extra = TOOLS[tool][0](given)
    seconds = time.monotonic() - began
    own = int(re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[0]) / 1024
    print(json.dumps({**extra, "seconds": seconds, "mib": max(own, extra.get("mib", 0.0))}))


def measured(tool: str, given: dict[str, Any]) -> dict[str, float]:
    """Run a tool in a process of its own. Functions that Numba compiles are cached by an earlier, small run."""
    command = [sys.executable, __file__, "--measure", tool, json.dumps(given)]
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, env={**os.environ, **threads}, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def row_of(tool: str, given: dict[str, Any], found: dict[str, float]) -> list[str]:
    """The row of a tool."""
    epochs = TOOLS[tool][1]
    speed = given["total"] / found["seconds"]
    return [
        tool,
        f"{given['megabytes']:.0f}",
        f"{given['total']:,}",
        f"{found['seconds']:.1f}",
        f"{found['counting']:.1f}" if "counting" in found else "",
        f"{speed:,.0f}",
        f"{epochs * speed:,.0f}",
        f"{found['mib']:,.0f}",
        f"{found['counting_mib']:,.0f}" if "counting_mib" in found else "",
        f"{found['pairs']:,.0f}" if "pairs" in found else "",
    ]


def main() -> None:
    """Measure, print, save."""
    if sys.argv[1:2] == ["--measure"]:
        measure(sys.argv[2], json.loads(sys.argv[3]))
        return
    from benchmarks.pages import cpu_name, publish, table
    from benchmarks.text.near_duplicates import corpus

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with Parquet files of real text")
    parser.add_argument("--megabytes", type=float, default=100)
    parser.add_argument("--workers", type=int, default=2, help="worker processes, and threads of gensim and GloVe")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    texts, _ = corpus(options.data, options.megabytes, seed=1)
    rows, counting = [], ""
    with tempfile.TemporaryDirectory(prefix="yiwen-benchmark-") as folder:
        small = prepare(texts[:200], Path(folder, "warm"), options.workers)
        measured("GloVe (ours)", {**small, "megabytes": 0})
        for name, some in (("quarter", texts[: len(texts) // 4]), ("whole", texts)):
            given = prepare(some, Path(folder, name), options.workers)
            given["megabytes"] = sum(len(text.encode()) for text in some) / 1e6
            counting = f"{given['total'] / given['counting']:,.0f}"
            for tool in TOOLS if name == "whole" else ["GloVe (ours)"]:
                rows.append(row_of(tool, given, measured(tool, given)))
    head = ["tool", "MB", "words", "s", "of these co-occurrences", "words/s", "words/s and epoch"]
    head += ["MiB of training", "MiB of co-occurrences", "pairs"]
    page = [
        f"# Word vectors, {date.today()}",
        "",
        f"{len(texts):,} texts, real ones and clauses of them shuffled; {given['distinct']:,} words of frequency "
        f"{MIN_COUNT} and more; {options.workers} workers; Python {platform.python_version()}, gensim "
        f"{version('gensim')}, {cpu_name()}. Counting the words and laying them out as rows, which both of ours need "
        f"once: {counting} words/s.",
        "",
        *table(head, rows),
        "",
    ]
    publish(page, options.output)


if __name__ == "__main__":
    main()
