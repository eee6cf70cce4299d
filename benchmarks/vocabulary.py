"""Building a vocabulary: ours against tokenizers' BertWordPieceTokenizer and a plain builder like tensor2tensor's.

    python benchmarks/vocabulary.py --data FOLDER [--megabytes 60] [--plain-megabytes 20] [--output FILE.md]

FOLDER contains Parquet files of real text. Every string of at least 40 characters is a document; to reach the requested
size, further ones are drawn as in benchmarks/near_duplicates.py (clauses of the real ones, shuffled: synthetic). All
build 20,000 tokens of frequency 5 or more, in one thread, each in a process of its own that has the texts in memory
before the clock starts. Seconds are CPU seconds and include the tables that ours makes on first use; MB are 10^6 bytes
of UTF-8; memory is the increase of the process's peak. Each runs twice with different hash seeds; "same" means the same
vocabulary both times.

The alphabet of tokenizers' trainer is unlimited here, since its default limit of 1,000 drops most Chinese characters.
The plain builder works like tensor2tensor's SubwordTextEncoder (four rounds of counting candidates, a search for the
minimum count that gives the size), on words cut as BERT cuts them, without escapes; it gets less text so that it ends
within a minute.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from datetime import date
from importlib.metadata import version
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))

SIZE = 20_000
MIN_FREQUENCY = 5


def ours(texts: Sequence[str]) -> list[str]:
    """The stages' own functions."""
    from tasks.vocabulary.stages import build_vocabulary

    return build_vocabulary(texts, SIZE, MIN_FREQUENCY)


def bert_trainer(texts: Sequence[str]) -> list[str]:
    """tokenizers, with a full alphabet."""
    from tokenizers import BertWordPieceTokenizer

    tokenizer = BertWordPieceTokenizer(lowercase=True)
    tokenizer.train_from_iterator(
        texts, vocab_size=SIZE, min_frequency=MIN_FREQUENCY, limit_alphabet=0x110000, show_progress=False
    )
    return sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().__getitem__)


def plain_builder(texts: Sequence[str]) -> list[str]:
    """As tensor2tensor's `build_to_target_size`."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(plain_words(text.lower()))
    low, high = 1, 1_000
    while True:
        minimum = (low + high) // 2
        found = build_from_counts(counts, minimum)
        if abs(len(found) - SIZE) * 100 < SIZE or low >= high or minimum < 2:
            return found
        low, high = (minimum + 1, high) if len(found) > SIZE else (low, minimum - 1)


def plain_words(text: str) -> list[str]:
    """Runs of letters and digits, every Chinese character and every other sign by itself."""
    words: list[str] = []
    start = None
    for place, character in enumerate(text):
        joins = character.isalnum() and not "\u3400" <= character <= "\u9fff"
        if joins and start is None:
            start = place
        if not joins and start is not None:
            words.append(text[start:place])
            start = None
        if not joins and not character.isspace():
            words.append(character)
    return words if start is None else [*words, text[start:]]


def build_from_counts(counts: Counter[str], minimum: int, rounds: int = 4) -> list[str]:
    """As tensor2tensor's `build_from_token_counts`."""
    alphabet = {character for word in counts for character in word}
    known, longest = set(alphabet), 1
    found: list[tuple[int, str]] = []
    for _ in range(rounds):
        candidates: dict[str, int] = defaultdict(int)
        for word, count in counts.items():
            start = 0
            while start < len(word):
                for end in range(start + 1, len(word) + 1):
                    candidates[word[start:end]] += count
                start = next(e for e in range(min(len(word), start + longest), start, -1) if word[start:e] in known)
        by_length: dict[int, list[str]] = defaultdict(list)
        for candidate, count in candidates.items():
            if count >= minimum:
                by_length[len(candidate)].append(candidate)
        found = []
        for length in sorted(by_length, reverse=True):
            for candidate in by_length[length]:
                count = candidates[candidate]
                if count < minimum:
                    continue
                if candidate not in alphabet:
                    found.append((count, candidate))
                for shorter in range(1, length):
                    candidates[candidate[:shorter]] -= count
        found += [(candidates.get(character, 0), character) for character in alphabet]
        known = {candidate for _, candidate in found}
        longest = max(map(len, known))
    return [candidate for _, candidate in sorted(found, reverse=True)]


TOOLS: dict[str, Callable[[Sequence[str]], list[str]]] = {
    "ours": ours,
    "tokenizers, BertWordPieceTokenizer": bert_trainer,
    "plain Python, tensor2tensor's manner": plain_builder,
}


def measure(tool: str, file: Path) -> None:
    """In a process of its own: build, print what it took."""
    with file.open(encoding="utf-8", newline="\n") as lines:
        texts = [line.removesuffix("\n") for line in lines]
    importlib.import_module("tasks.vocabulary.stages")  # whose imports are no work
    before = peak_kib()
    started = time.process_time()
    tokens = TOOLS[tool](texts)
    seconds = time.process_time() - started
    peak = peak_kib()
    digest = hashlib.sha256("\n".join(tokens).encode()).hexdigest()
    print(json.dumps({"seconds": seconds, "mib": (peak - before) / 1024, "size": len(tokens), "digest": digest}))


def peak_kib() -> int:
    """Peak memory of this process since it began; `getrusage` would count what its parent held when it forked."""
    return int(re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[0])


def run_twice(tool: str, texts: Sequence[str]) -> list[str]:
    """The row of a tool: the faster run, and whether both gave the same."""
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    runs = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "texts.txt")
        file.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8", newline="\n")
        for seed in ("1", "2"):
            threads = {"RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"}
            command = [sys.executable, __file__, "--measure", tool, str(file)]
            environment = {**os.environ, **threads, "PYTHONHASHSEED": seed}
            done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
            runs.append(json.loads(done.stdout))
    best = min(runs, key=lambda run: run["seconds"])
    same = "same" if runs[0]["digest"] == runs[1]["digest"] else "differs"
    speed = megabytes / best["seconds"]
    mib = max(run["mib"] for run in runs)
    return [
        tool,
        f"{megabytes:.0f}",
        f"{best['seconds']:.1f}",
        f"{speed:.1f}",
        f"{mib:,.0f}",
        f"{best['size']:,}",
        same,
    ]


def main() -> None:
    """Measure, print, save."""
    if sys.argv[1:2] == ["--measure"]:
        measure(sys.argv[2], Path(sys.argv[3]))
        return
    from benchmarks.near_duplicates import corpus
    from benchmarks.pages import cpu_name, publish

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with Parquet files of real text")
    parser.add_argument("--megabytes", type=float, default=60)
    parser.add_argument("--plain-megabytes", type=float, default=20, help="text for the plain builder")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    drawn, _ = corpus(options.data, options.megabytes, seed=1)
    texts = [" ".join(text.splitlines()) for text in drawn]  # a text a line
    short = texts[: round(len(texts) * min(1.0, options.plain_megabytes / options.megabytes))]
    rows = [run_twice(tool, short if tool.startswith("plain") else texts) for tool in TOOLS]
    fastest = float(rows[0][3])
    head = ["tool", "MB", "CPU s", "MB / CPU s", "MiB", "tokens", "twice", "times slower than ours"]
    page = [
        f"# Building a vocabulary, {date.today()}",
        "",
        f"{len(texts):,} texts; {SIZE:,} tokens of frequency {MIN_FREQUENCY} and more asked for; one thread; Python "
        f"{platform.python_version()}, tokenizers {version('tokenizers')}, {cpu_name()}. Fewer tokens than asked for: "
        "the text does not hold more.",
        "",
        *(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head))),
        *(f"| {' | '.join([*row, f'{fastest / float(row[3]):.1f}'])} |" for row in rows),
        "",
    ]
    publish(page, options.output)


if __name__ == "__main__":
    main()
