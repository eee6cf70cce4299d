"""Near duplicates on planted copies: speed, memory, recall and precision of ours and of other tools in the same run.

    python benchmarks/text/near_duplicates.py --data FOLDER [--megabytes 80] [--threshold 0.8 …] [--rensa PYTHON]
        [--datatrove PYTHON] [--text-dedup PYTHON] [--only planted|real] [--output FILE.md]

FOLDER contains Parquet files of real text. Every string of at least 40 characters is a document. To reach the requested
size, further documents are drawn: clauses of the real ones, shuffled over all documents (synthetic, and labelled so). A
tenth of all documents gets one copy with 2, 4, 6 or 8 % of its characters edited. A copy counts as found if it and its
original are not both kept.

Each tool is a process of its own; a peer runs under the interpreter given for it, which must have it installed (`pip
install rensa`, `datatrove[processing]`, `text-dedup`). datatrove and text-dedup take words; here their words are
characters, so that all compare the same shingles. Both report which documents are dropped, not in favour of which
others, so they have no precision here. MB are 10^6 bytes of UTF-8; seconds are CPU seconds of the process and its
children, without reading the texts; each tool has one thread. Memory is the peak of a process beyond the texts, which
it gets as one list (Linux only).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY))

from benchmarks.pages import cpu_name, publish, table  # noqa: E402

SHINGLE = 5
LETTERS = "的是在不了有和人这中大为上个国我以要他时来用们生到作地于出就分对成会可主发年动同工也能下过子说产种面而方"


def edited(text: str, share: float, drawn: random.Random) -> str:
    """A copy with a share of its characters left out, exchanged or doubled by another."""
    out = []
    for character in text:
        luck = drawn.random()
        if luck < share / 3:
            continue
        if luck < share:
            out.append(drawn.choice(LETTERS))
        if luck >= share * 2 / 3:
            out.append(character)
    return "".join(out)


def real_texts(folder: Path, columns: Sequence[str] = (), least: int = 40) -> list[str]:
    """The distinct strings of `least` characters and more in all Parquet files below a folder.

    `columns`: those that are read; by default all. Ends the program, saying what is there, if there is no text.
    """
    import polars as pl

    found: dict[str, None] = {}
    seen: list[str] = []
    for file in sorted(folder.rglob("*.parquet")):
        frame = pl.read_parquet(file)
        of_text = [name for name in frame.columns if frame[name].dtype == pl.String]
        seen.append(f"{file.relative_to(folder)} ({', '.join(of_text) or 'no column of text'})")
        for column in of_text:
            if not columns or column in columns:
                found.update(dict.fromkeys(text for text in frame[column].to_list() if text and len(text) >= least))
    if not found:
        asked = f" in the columns {', '.join(columns)}" if columns else ""
        there = f"its files: {'; '.join(seen)}" if seen else "it has no Parquet file"
        raise SystemExit(f"{folder} has no text of {least} characters and more{asked}; {there}.")
    return list(found)


def corpus(folder: Path, megabytes: float, seed: int) -> tuple[list[str], list[tuple[int, int]]]:
    """Texts in random order and the places of (original, copy)."""
    drawn = random.Random(seed)
    texts = real_texts(folder)
    drawn.shuffle(texts)
    size, wanted = 0, megabytes * 1e6 / 1.1
    originals: list[str] = []
    for text in texts:
        if size >= wanted:
            break
        originals.append(text)
        size += len(text.encode())
    clauses = [clause for text in originals for clause in re.split(r"(?<=[，。；！？\n])", text) if clause]
    lengths = [len(text) for text in originals]
    while size < wanted:
        length, parts = drawn.choice(lengths), []
        while length > 0:
            parts.append(drawn.choice(clauses))
            length -= len(parts[-1])
        originals.append("".join(parts))
        size += len(originals[-1].encode())
    chosen = drawn.sample(range(len(originals)), len(originals) // 10)
    copies = [edited(originals[place], drawn.choice([0.02, 0.04, 0.06, 0.08]), drawn) for place in chosen]
    order = list(range(len(originals) + len(copies)))
    drawn.shuffle(order)
    everything = originals + copies
    place_of = {old: new for new, old in enumerate(order)}
    pairs = [(place_of[place], place_of[len(originals) + number]) for number, place in enumerate(chosen)]
    return [everything[old] for old in order], pairs


HEAD = """
import json, os, re, sys, tempfile, time
texts = [json.loads(line) for line in open(sys.argv[1], encoding="utf-8")]
tool = sys.argv[2]; threshold = float(sys.argv[3]); size = int(sys.argv[4])
def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
held = peak()
"""
TAIL = """
print(json.dumps({"seconds": sum(os.times()[:4]) - started, "mebibytes": (peak() - held) / 1024, "pairs": pairs}))
"""

OURS = """
from tasks.deduplicate.in_memory import near_duplicates
near_duplicates(texts[:100], threshold)
started = sum(os.times()[:4])
found = near_duplicates(texts, threshold, numbers_apart=tool == "ours, numbers apart")
pairs = list(zip(found["index"].to_pylist(), found["kept_index"].to_pylist()))
"""

RENSA = """
from rensa import RMinHash, RMinHashLSH
started = sum(os.times()[:4])
perms, bands = (128, 32) if threshold < 0.7 else (126, 21)
shingles = ({text[i:i + size] for i in range(len(text) - size + 1)} or {text} for text in texts)
lsh = RMinHashLSH(threshold=threshold, num_perm=perms, num_bands=bands)
if tool == "rensa, flags":
    flags = lsh.query_duplicate_flags_matrix_one_shot(RMinHash.digest_matrix_from_token_sets(shingles, perms, 42))
    pairs = [[place, place] for place, flag in enumerate(flags) if flag]
else:
    hashes = RMinHash.from_token_sets(shingles, perms, 42)
    lsh.insert_pairs(list(enumerate(hashes)))
    pairs = [[place, other] for place, others in enumerate(lsh.query_all(hashes)) for other in others
             if other < place and hashes[place].jaccard(hashes[other]) >= threshold]
"""

DATATROVE = """
import logging, struct
from types import SimpleNamespace
from datatrove.pipeline.dedup import minhash
from datatrove.utils.text import TextNormConfig
from loguru import logger
logger.remove()
started = sum(os.times()[:4])
minhash.load_word_tokenizer = lambda language: SimpleNamespace(word_tokenize=list)
plain = TextNormConfig(lowercase=False, norm_whitespace=False, remove_punctuation=False, norm_unicode_diacritics=False,
                       norm_numbers=False)
buckets, hashes = (14, 8) if threshold >= 0.7 else (32, 4)
config = minhash.MinhashConfig(n_grams=size, num_buckets=buckets, hashes_per_bucket=hashes, norm_config=plain)
with tempfile.TemporaryDirectory() as folder:
    signed, paired, gone = (os.path.join(folder, name) for name in ("signed", "paired", "gone"))
    minhash.MinhashDedupSignature(signed, config).run(SimpleNamespace(text=text) for text in texts)
    step = minhash.MinhashDedupBuckets(signed, paired, config=config)
    for bucket in range(buckets):
        step.run(None, bucket, buckets)
    minhash.MinhashDedupCluster(paired, gone, config=config).run()
    numbers = open(os.path.join(gone, "000000.remove"), "rb").read()
    pairs = [[place, place] for (place,) in struct.iter_unpack("<I", numbers)]
"""

TEXT_DEDUP = """
import datasets
from types import SimpleNamespace
from text_dedup import logger, minhash
logger.setLevel("ERROR")
datasets.disable_progress_bars()
minhash.NON_ALPHA = SimpleNamespace(split=list)
with tempfile.TemporaryDirectory() as folder:
    given, kept = os.path.join(folder, "given"), os.path.join(folder, "kept")
    datasets.Dataset.from_dict({"text": texts, "place": list(range(len(texts)))}).save_to_disk(given)
    started = sum(os.times()[:4])
    minhash.main(["--path", given, "--local", "--output", kept, "--column", "text", "--ngram", str(size),
                  "--min_length", "0", "--threshold", str(threshold), "--num_proc", "1"], standalone_mode=False)
    pairs = [[place, place] for place in set(range(len(texts))) - set(datasets.load_from_disk(kept)["place"])]
"""

TOOLS = {
    "ours": OURS,
    "ours, numbers apart": OURS,
    "rensa, pairs": RENSA,
    "rensa, flags": RENSA,
    "datatrove": DATATROVE,
    "text-dedup": TEXT_DEDUP,
}


class Found(NamedTuple):
    """What a tool took, and the (dropped, kept) pairs it found; of one that tells only what goes, a text is its own."""

    seconds: float
    mebibytes: float
    pairs: list[tuple[int, int]]


def run_tool(python: str, file: Path, tool: str, threshold: float) -> Found:
    """A tool on the texts of a file, a line each in JSON."""
    command = [python, "-c", HEAD + TOOLS[tool] + TAIL, str(file), tool, str(threshold), str(SHINGLE)]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)} if TOOLS[tool] is OURS else None
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    found = json.loads(done.stdout.splitlines()[-1])
    return Found(found["seconds"], found["mebibytes"], [tuple(pair) for pair in found["pairs"]])


def shingles(text: str) -> set[str]:
    """Plain shingles of the comparable form."""
    from tasks.text.comparable import comparable

    form = comparable(text)
    return {form[at : at + SHINGLE] for at in range(len(form) - SHINGLE + 1)}


def similarity(one: str, other: str) -> float:
    """True Jaccard similarity."""
    a, b = shingles(one), shingles(other)
    return len(a & b) / len(a | b) if a | b else 1.0


BUCKETS = ((0.5, 0.7), (0.7, 0.8), (0.8, 1.01))


def judged(
    found: list[tuple[int, int]], texts: list[str], planted: list[tuple[int, int, float]], threshold: float
) -> list[str]:
    """Recall in each range of similarity, and precision on at most 2,000 found pairs."""
    goes = {one for one, _ in found}
    flags_only = all(one == other for one, other in found)
    cells = []
    for low, high in BUCKETS:
        wanted = [(a, b) for a, b, share in planted if low <= share < high]
        hits = sum(a in goes or b in goes for a, b in wanted)
        cells.append(f"{hits / len(wanted):.4f} of {len(wanted):,}" if wanted and high > threshold else "")
    sample = random.Random(0).sample(found, min(2_000, len(found)))
    good = sum(similarity(texts[a], texts[b]) >= threshold for a, b in sample)
    cells.append("" if flags_only or not sample else f"{good / len(sample):.4f}")
    return cells


REAL = {
    "toyhom_dialogue (answers)": ("toyhom_dialogue", "answer"),
    "chineseblue cMedQA (answers)": ("chineseblue/cMedQA.parquet", "text_b"),
    "tcm_ancient_books (sections)": ("tcm_ancient_books", "text"),
}
"""Real text that holds real duplicates: what it is called here, its place and its column."""


PLANTED = {"tcm_ancient_books (sections)": 400}
"""Copies that are added to a sample which holds next to no duplicates of its own."""


def real_column(folder: Path, name: str) -> list[str]:
    """The texts of one of `REAL`."""
    import polars as pl

    place, column = REAL[name]
    path = folder / place
    frame = pl.read_parquet(path if path.is_file() else path / "*.parquet", columns=[column])
    return [text for text in frame[column].to_list() if text]


def with_copies(texts: list[str], count: int) -> list[str]:
    """Texts and `count` copies of some of them, each with 0.5, 1 or 2 % of its characters edited."""
    drawn = random.Random(1)
    return texts + [edited(text, drawn.choice([0.005, 0.01, 0.02]), drawn) for text in drawn.sample(texts, count)]


def against_brute_force(folder: Path, threshold: float = 0.8, count: int = 4_000) -> list[list[str]]:
    """For samples of real text: similar pairs by comparison of all, and what ours makes of them."""
    from tasks.deduplicate.in_memory import near_duplicates
    from tasks.text.comparable import comparable

    rows = []
    for name in REAL:
        texts = real_column(folder, name)
        texts = random.Random(0).sample(texts, min(count, len(texts)))
        copies = PLANTED.get(name, 0)
        texts = with_copies(texts, copies)
        pairs = all_similar_pairs(texts, threshold)
        same = {(a, b) for a, b in pairs if comparable(texts[a]) == comparable(texts[b])}
        found = near_duplicates(texts, threshold, numbers_apart=False)
        drops = list(zip(found["index"].to_pylist(), found["kept_index"].to_pylist(), strict=True))
        goes = {one for one, _ in drops}
        hits = sum(a in goes or b in goes for a, b in pairs)
        good = sum(similarity(texts[a], texts[b]) >= threshold for a, b in drops)
        apart = near_duplicates(texts, threshold)
        rows.append(
            [
                name,
                f"{len(texts):,}" + (f", {copies:,} planted" if copies else ""),
                f"{len(pairs):,} ({len(same):,})",
                f"{hits / len(pairs):.4f}" if pairs else "",
                f"{good / len(drops):.4f}" if drops else "",
                f"{len(drops):,}",
                f"{apart.num_rows:,}",
            ]
        )
    return rows


def all_similar_pairs(texts: list[str], threshold: float) -> list[tuple[int, int]]:
    """Pairs of texts at least so similar, by counting the shingles that every two of them share."""
    sets = [shingles(text) for text in texts]
    holders: dict[str, list[int]] = {}
    pairs = []
    for place, own in enumerate(sets):
        common: dict[int, int] = {}
        for shingle in own:
            for other in holders.setdefault(shingle, []):
                common[other] = common.get(other, 0) + 1
            holders[shingle].append(place)
        pairs += [
            (other, place)
            for other, shared in common.items()
            if shared / (len(own) + len(sets[other]) - shared) >= threshold
        ]
    return pairs


def main() -> None:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with Parquet files of real text")
    parser.add_argument("--megabytes", type=float, default=80)
    parser.add_argument("--threshold", type=float, action="append", help="of similarity; several times (0.8 and 0.5)")
    for peer in ("rensa", "datatrove", "text-dedup"):
        parser.add_argument(f"--{peer}", help=f"interpreter that has {peer}")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--only", choices=("planted", "real"), help="measure one of both")
    options = parser.parse_args()
    os.environ["POLARS_MAX_THREADS"] = os.environ["RAYON_NUM_THREADS"] = "1"  # before polars is imported
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    page = [f"# Near duplicates, {date.today()}", ""]
    if options.only != "real":
        page += planted_section(options)
    if options.only != "planted":
        page += real_section(options.data)
    publish(page, options.output)


def planted_section(options: argparse.Namespace) -> list[str]:
    """Ours and the peers on planted copies."""
    texts, pairs = corpus(options.data, options.megabytes, seed=1)
    size = sum(len(text.encode()) for text in texts) / 1e6
    planted = [(a, b, similarity(texts[a], texts[b])) for a, b in pairs]
    pythons = {"ours": sys.executable, "rensa": options.rensa, "datatrove": options.datatrove}
    pythons["text-dedup"] = options.text_dedup
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "texts.jsonl")
        with file.open("w", encoding="utf-8") as out:
            out.writelines(json.dumps(text, ensure_ascii=False) + "\n" for text in texts)
        for threshold in options.threshold or [0.8, 0.5]:
            ours = 0.0
            for tool in TOOLS:
                python = pythons[tool.partition(",")[0]]
                if not python:
                    continue
                found = run_tool(python, file, tool, threshold)
                ours = ours or found.seconds
                cells = judged(found.pairs, texts, planted, threshold) if found.pairs else ["", "", "", ""]
                speed = [f"{size / found.seconds:.1f}", f"{ours / found.seconds:.2f}", f"{found.mebibytes:,.0f}"]
                rows.append([f"{threshold}", tool, *speed, *cells])
                print(*rows[-1], sep=" | ", file=sys.stderr, flush=True)
    head = ["threshold", "tool", "MB / CPU s", "to ours", "MiB", "recall 0.5-0.7", "0.7-0.8", "from 0.8", "precision"]
    return [
        f"{size:.1f} MB, {len(texts):,} texts ({len(pairs):,} planted copies with 2 to 8 % edits); shingles of "
        f"{SHINGLE} characters; one thread; Python {platform.python_version()}, {cpu_name()}. Recall by true Jaccard "
        "similarity of the planted pair; precision: share of found pairs that reach the threshold. Edits hit digits "
        "too, which keeps texts apart where numbers do.",
        "",
        *table(head, rows),
        "",
    ]


def real_section(folder: Path) -> list[str]:
    """Ours against a comparison of all pairs."""
    return [
        "## Real duplicates, against a comparison of all pairs",
        "",
        "Samples of real text; pairs from a similarity of 0.8 (of them equal ones). Found: not both stay. The sections "
        "of the books hold next to no duplicates of their own: copies with 0.5 to 2 % edits are planted there.",
        "",
        *table(
            ["text", "sample", "pairs", "recall", "precision", "dropped", "dropped, numbers apart"],
            against_brute_force(folder),
        ),
        "",
    ]


if __name__ == "__main__":
    main()
