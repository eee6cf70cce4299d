"""Speed of linking real text to the names of a real graph: ours, with normalisation and places, and two automata.

    python benchmarks/knowledge/linking.py --data FOLDER [--full-size] [--megabytes 20] [--output FILE.md]

FOLDER contains Parquet files of real text, and the triples of CMeKG in kg_cmekg/. Every string of at least 40
characters is a text, every head and tail of at least two characters a name. With --full-size the names are those of a
graph of SMedBERT's size, grown from CMeKG (benchmarks/knowledge/grown_graph.py); the new names are synthetic. The
automata search for the names as spelled in the text as it is, many texts at once, without normalisation. MB are 10^6
bytes of UTF-8; seconds are CPU seconds of the process, one thread, the median of `ROUNDS` alternating rounds. Matches
are compared with those of ahocorasick-rs where normalisation changes neither text nor names and there are no letters or
digits, so that both should agree. pyahocorasick is measured if it is installed.
"""

from __future__ import annotations

import argparse
import gc
import importlib.metadata
import importlib.util
import platform
import random
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import date
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import ahocorasick_rs
import numpy as np
import pyarrow.parquet as pq

from benchmarks.knowledge.grown_graph import grown_graph, read_cmekg
from benchmarks.pages import cpu_name, publish, table
from benchmarks.text.encode import sample
from benchmarks.text.near_duplicates import real_texts
from infra.arrays.batching import CHARACTERS_AT_ONCE as SMALL_BATCH
from infra.arrays.batching import batches_of
from kg.linking import surface_forms
from kg.linking.linker import EntityLinker
from kg.linking.surface_trie import SurfaceTrie
from tasks.knowledge.link import CHARACTERS_AT_ONCE

ROUNDS = 5

PLAIN = re.compile(r"[㐀-鿿，。、！？\n]*")
"""What normalisation leaves as it is and where any place is a border (full-width marks become plain, but alike)."""


def read_names(folder: Path, full_size: bool) -> list[str]:
    """Heads and tails of the triples, or of the grown graph's, without those that are never linked."""
    if full_size:
        names = set(grown_graph(read_cmekg()).names)
    else:
        triples = pq.read_table(folder / "kg_cmekg" / "triples.parquet", columns=["head", "tail"])
        names = {name for column in triples.columns for name in column.unique().to_pylist()}
    return sorted(name for name in names if len(name) > 1 and not name.isdecimal())


def memory() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def built(way: str, names: Sequence[str]) -> tuple[float, float]:
    """CPU seconds and MB that building takes in a process that holds nothing but the names."""
    gc.collect()
    before, started = memory(), time.process_time()
    made = BUILDERS[way](names)
    cost = time.process_time() - started, (memory() - before) / 1e6
    assert made is not None
    return cost


def our_linker(names: Sequence[str]) -> EntityLinker:
    return EntityLinker({name: name for name in names})


def rust_automaton(names: Sequence[str]) -> Any:
    return ahocorasick_rs.AhoCorasick(
        names,
        matchkind=ahocorasick_rs.MatchKind.LeftmostLongest,
        store_patterns=False,
        implementation=ahocorasick_rs.Implementation.ContiguousNFA,  # the fastest of its three here
    )


def c_automaton(names: Sequence[str]) -> Any:
    import ahocorasick

    automaton = ahocorasick.Automaton()
    for number, name in enumerate(names):
        automaton.add_word(name, number)
    automaton.make_automaton()
    return automaton


BUILDERS: dict[str, Callable[[Sequence[str]], Any]] = {"ours": our_linker, "ahocorasick-rs": rust_automaton}
if importlib.util.find_spec("ahocorasick"):
    BUILDERS["pyahocorasick"] = c_automaton


def joined(batches: Iterable[Sequence[str]]) -> list[str]:
    return ["\n".join(batch) for batch in batches]


def linked(linker: EntityLinker, batches: Iterable[Sequence[str]]) -> int:
    return sum(len(linker.link_many(batch).texts) for batch in batches)


def tuples(linker: EntityLinker, batch: Sequence[str]) -> list[tuple[int, int, int]]:
    """Name, begin and end of each mention as Python objects, the form in which ahocorasick-rs gives them."""
    found = linker.link_many(batch)
    return list(zip(found.entities.tolist(), found.starts.tolist(), found.ends.tolist(), strict=True))


def measured(ways: dict[str, Callable[[], int]], megabytes: float) -> dict[str, tuple[float, int]]:
    """MB / CPU s of each way and what it found, the ways in turn."""
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    found = {}
    for _ in range(ROUNDS):
        for way, work in ways.items():
            started = time.process_time()
            found[way] = work()
            seconds[way].append(time.process_time() - started)
    return {way: (megabytes / statistics.median(seconds[way]), found[way]) for way in ways}


def agreement(names: Sequence[str], texts: Sequence[str]) -> tuple[int, int]:
    """Plain clauses of the texts, and those in which ours and ahocorasick-rs find the same."""
    plain = [name for name in names if PLAIN.fullmatch(name)]
    clauses = [clause for text in texts for clause in re.split(r"[^㐀-鿿，。、！？]+", text) if clause]
    automaton = rust_automaton(plain)
    linker = our_linker(plain)
    found = linker.link_many(clauses)
    borders = np.searchsorted(found.texts, np.arange(len(clauses) + 1)).tolist()
    ours = list(zip(found.starts.tolist(), found.ends.tolist(), strict=True))
    same = sum(
        ours[borders[number] : borders[number + 1]]
        == [(start, end) for _, start, end in automaton.find_matches_as_indexes(clause)]
        for number, clause in enumerate(clauses)
    )
    return len(clauses), same


def main() -> None:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with Parquet files of real text, and kg_cmekg")
    parser.add_argument("--full-size", action="store_true", help="names of a graph of SMedBERT's size")
    parser.add_argument("--megabytes", type=float, default=20)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    names = read_names(options.data, options.full_size)
    texts = real_texts(options.data)
    random.Random(1).shuffle(texts)
    texts = sample(texts, options.megabytes)
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    batches, small = (list(batches_of(texts, size)) for size in (CHARACTERS_AT_ONCE, SMALL_BATCH))
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as alone:
        costs = {way: alone.submit(built, way, names).result() for way in BUILDERS}
    linker, rust = our_linker(names), rust_automaton(names)
    trie = SurfaceTrie(sorted({form for form in surface_forms.forms_of_names(names) if len(form) > 1}))
    forms = [surface_forms.surface_forms(batch) for batch in batches]
    whole = joined(batches)
    ways: dict[str, Callable[[], int]] = {
        "ahocorasick-rs alone": lambda: sum(len(rust.find_matches_as_indexes(text)) for text in whole),
        "ahocorasick-rs alone, a text at a time": lambda: sum(len(rust.find_matches_as_indexes(t)) for t in texts),
        "ours": partial(linked, linker, batches),
        f"ours, batches of {SMALL_BATCH:,} characters": partial(linked, linker, small),
        "ours, a text at a time": lambda: sum(len(linker.link(text)) for text in texts),
        "ours, as tuples": lambda: sum(len(tuples(linker, batch)) for batch in batches),
        "of ours: forms": lambda: sum(len(surface_forms.surface_forms(batch).points) for batch in batches),
        "of ours: trie": lambda: sum(len(trie.leftmost_longest(form.points, form.borders).begins) for form in forms),
    }
    versions = {"ahocorasick-rs": importlib.metadata.version("ahocorasick-rs"), "numpy": np.__version__}
    if "pyahocorasick" in BUILDERS:
        automaton = c_automaton(names)
        versions["pyahocorasick"] = importlib.metadata.version("pyahocorasick")
        ways["pyahocorasick iter_long alone"] = lambda: sum(sum(1 for _ in automaton.iter_long(t)) for t in whole)
    results = measured(ways, megabytes)
    base = results["ahocorasick-rs alone"][0]
    clauses, same = agreement(names, texts)
    rows = [
        [way, f"{speed:.1f}", f"{speed / base:.2f}", f"{found:,}" if "of ours" not in way else ""]
        for way, (speed, found) in results.items()
    ]
    whose = "a synthetic graph of SMedBERT's size, grown from CMeKG" if options.full_size else "CMeKG"
    page = [
        f"# Linking{' at full size' if options.full_size else ''}, {date.today()}",
        "",
        f"{megabytes:.1f} MB of real text, {len(texts):,} texts, {len(names):,} names of {whose}; one thread; Python "
        f"{platform.python_version()}, {', '.join(f'{name} {version}' for name, version in versions.items())}, "
        f"{cpu_name()}. CPU seconds, the middle of {ROUNDS} rounds in turn, "
        f"batches of {CHARACTERS_AT_ONCE:,} characters. The machine was shared: the ratios tell more than the rates. "
        "The automata find the names as they are, inside words too; ours normalises text and names, gives places in "
        "the text as it is, and refuses names that cut a word or a number.",
        "",
        *table(["way", "MB / CPU s", "to ahocorasick-rs", "mentions"], rows),
        "",
        *table(
            ["built", "CPU s", "MB"], [[way, f"{seconds:.1f}", f"{size:.0f}"] for way, (seconds, size) in costs.items()]
        ),
        "",
        f"Of {clauses:,} clauses without letters, digits and characters that normalisation changes, ours and "
        f"ahocorasick-rs find the same in {same:,}.",
        "",
    ]
    publish(page, options.output)


if __name__ == "__main__":
    main()
