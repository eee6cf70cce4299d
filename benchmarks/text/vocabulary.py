"""Building a vocabulary: ours against tokenizers' BertWordPieceTokenizer and a plain builder like tensor2tensor's.

    python benchmarks/text/vocabulary.py --data FOLDER [--megabytes 60] [--plain-megabytes 20] [--output FILE.md]
    python benchmarks/text/vocabulary.py --data FOLDER --departures [--megabytes 20] [--output FILE.md]

FOLDER contains Parquet files of real text. Every string of at least 40 characters is a document; to reach the requested
size, further ones are drawn as in benchmarks/text/near_duplicates.py (clauses of the real ones, shuffled: synthetic).
All build 20,000 tokens of frequency 5 or more, in one thread, each in a process of its own that has the texts in memory
before the clock starts. Seconds are CPU seconds and include the tables that ours makes on first use; MB are 10^6 bytes
of UTF-8; memory is the increase of the process's peak. Each runs twice with different hash seeds; "same" means the same
vocabulary both times.

The alphabet of tokenizers' trainer is unlimited here, since its default limit of 1,000 drops most Chinese characters.
The plain builder works like tensor2tensor's (benchmarks/text/subword_builder.py), on words cut as BERT cuts them; it
gets less text so that it ends within a minute. With --departures both builders get the same words, and the page says
how their vocabularies differ.
"""

from __future__ import annotations

import argparse
import bisect
import hashlib
import importlib
import itertools
import json
import os
import platform
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import date
from importlib.metadata import version
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
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
    """As tensor2tensor's, on BERT's words."""
    from benchmarks.text.subword_builder import build_to_size

    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(plain_words(text.lower()))
    return build_to_size(counts, SIZE)[0]


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


def departures(texts: Sequence[str]) -> list[str]:
    """The section about what ours and tensor2tensor's builder make of the same words; every tenth text is held out."""
    from benchmarks.text.subword_builder import as_wordpiece, build, build_to_size, with_characters
    from models.tokenizer.wordpiece import SPECIAL_TOKENS
    from tasks.vocabulary.counts import count_words_of
    from tasks.vocabulary.stages import vocabulary_from_counts
    from tasks.vocabulary.wordpiece import piece_frequencies

    read = [text for number, text in enumerate(texts) if number % 10]
    counts, held_out = count_words_of(read), count_words_of(texts[::10])
    least = build(counts, MIN_FREQUENCY)
    about, minimum = build_to_size(counts, SIZE)
    vocabularies = {
        "ours": list(vocabulary_from_counts(counts, SIZE, MIN_FREQUENCY))[len(SPECIAL_TOKENS) :],
        f"tensor2tensor's manner, minimum count {MIN_FREQUENCY}": as_wordpiece(least),
        f"tensor2tensor's manner, nearest to {SIZE:,} tokens (minimum count {minimum})": as_wordpiece(about),
    }
    mine = set(vocabularies["ours"])
    runs = Counter({word: count for word, count in held_out.items() if len(word) > 1})
    rows = []
    for name, tokens in vocabularies.items():
        found, cutting = set(tokens), set(tokens if name == "ours" else with_characters(tokens))
        merged = {token for token in found if len(token.removeprefix("##")) > 1}
        used = piece_frequencies(counts, cutting)
        rows.append(
            [
                name,
                f"{len(found):,}",
                f"{len(found - merged):,}",
                f"{len(merged):,}",
                f"{len(merged & mine):,}",
                f"{len(mine & found) / len(mine | found):.3f}",
                f"{sum(used[token] < MIN_FREQUENCY for token in found):,}",
                *_cut_figures(held_out, cutting),
                *_cut_figures(runs, cutting),
            ]
        )
    head = ["vocabulary", "tokens", "characters", "merged", "merged, also in ours", "overlap with ours"]
    head += [f"used less than {MIN_FREQUENCY} times", "tokens per word", "[UNK]"]
    head += ["tokens per run of letters", "runs that are [UNK]"]
    megabytes = sum(len(text.encode()) for text in read) / 1e6
    return [
        "## How ours departs from tensor2tensor's subword builder",
        "",
        f"The same words for both ({megabytes:.1f} MB of real text, {sum(counts.values()):,} words in our normal",
        f"form, {len(counts):,} distinct); tokens per word and [UNK] on every tenth text, which neither saw. The",
        "builder is benchmarks/text/subword_builder.py, with its tokens in WordPiece's form. A word that it would cut",
        "into its mark and a character is cut as the character. Overlap: tokens of both over tokens of either.",
        "",
        *(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)),
        "",
        "- Ours merges the most frequent pair again and again (BPE's training) and then drops what is used least until",
        "  the size is met; tensor2tensor's counts all prefixes of pieces and keeps the longest that are frequent.",
        "- Ours drops characters below the minimum frequency, which become [UNK], and has `##` forms for letters only;",
        "  tensor2tensor's keeps every character, and in WordPiece's form each is a `##` token too, used or not.",
        "- Ours meets a size exactly if the text has enough tokens; tensor2tensor's comes within 1 %, or as near as a",
        "  minimum count gives. Asked for more than the text holds it goes below the paper's minimum of 5.",
        "",
    ]


def _cut_figures(words: Counter[str], tokens: set[str]) -> list[str]:
    """Tokens per word, where a word that cannot be cut is one token, and the share of these."""
    from tasks.vocabulary.wordpiece import longest_match

    pieces = unknown = 0
    for word, count in words.items():
        cut = longest_match(word, tokens)
        pieces += count * max(1, len(cut))
        unknown += count * (not cut)
    return [f"{pieces / words.total():.4f}", f"{unknown / words.total():.4%}"]


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
    from benchmarks.pages import cpu_name, publish
    from benchmarks.text.near_duplicates import corpus, real_texts

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with Parquet files of real text")
    parser.add_argument("--megabytes", type=float, default=60)
    parser.add_argument("--plain-megabytes", type=float, default=20, help="text for the plain builder")
    parser.add_argument("--departures", action="store_true", help="compare vocabularies, not times")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    if options.departures:
        real = real_texts(options.data)
        random.Random(1).shuffle(real)
        sizes = list(itertools.accumulate(len(text.encode()) for text in real))
        taken = bisect.bisect(sizes, options.megabytes * 1e6)
        publish([f"# Building a vocabulary, {date.today()}", "", *departures(real[:taken])], options.output)
        return
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
