"""Cost of knowledge in fine-tuning: texts per CPU second that are cut into tokens, linked, and given their neighbours.

    python benchmarks/knowledge/mentions.py --data FOLDER [--columns text_a text_b] [--megabytes 2] [--output FILE.md]

FOLDER contains Parquet files of real text, of which the columns given are read whatever their length, or all long
texts; they are cut to 128 characters, as most tasks do. The names are CMeKG's.
The neighbours are random: 10 for each entity, with vectors of 200 numbers. Linking happens once per text and process,
looking up once per batch (64 texts). Seconds are CPU seconds of the process, one thread, the median of `ROUNDS` rounds.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
import pyarrow as pa
import torch

from benchmarks.knowledge.grown_graph import read_cmekg
from benchmarks.pages import cpu_name, publish, table
from benchmarks.text.encode import sample
from benchmarks.text.near_duplicates import real_texts
from infra import schemas
from kg.linking.linker import EntityLinker
from models.infusion.neighbourhood import Neighbourhood
from models.infusion.spans import Spans
from models.knowledge import KnowledgeArrays
from models.tokenizer.wordpiece import SPECIAL_TOKENS, save_tokenizer
from tasks.downstream.features.alignment import TextTokenizer, Tokens
from tasks.knowledge.names import NameLinker

ROUNDS = 5
LENGTH = 128
BATCH = 64
NEIGHBOURS = 10
WIDTH = 200
GRAPH = ("random", "0")


def names_of(names: Sequence[str]) -> pa.Table:
    """Rows of names.parquet: the first name of each surface form, for an entity of its own."""
    forms = EntityLinker(dict.fromkeys(names, "")).forms
    _, first = np.unique(forms[forms >= 0], return_index=True)
    chosen = np.flatnonzero(forms >= 0)[first]
    count = len(chosen)
    columns = {"entity": np.arange(count), "surface": np.zeros(count, int), "recorded": np.ones(count, bool)}
    return pa.table({"name": [names[number] for number in chosen], **columns}, schema=schemas.NAMES)


def random_arrays(entities: int) -> KnowledgeArrays:
    """Arrays of a graph in which every entity has `NEIGHBOURS` neighbours."""
    drawn = np.random.default_rng(0)
    pairs = entities * NEIGHBOURS
    return KnowledgeArrays(
        entity_id_bytes=np.zeros(0, np.uint8),
        entity_id_offsets=np.zeros(entities + 1, np.int64),
        types=drawn.integers(0, 10, entities).astype(np.int32),
        frequencies=np.ones(entities, np.int64),
        neighbour_offsets=np.arange(0, pairs + 1, NEIGHBOURS),
        neighbours=drawn.integers(0, entities, pairs).astype(np.int32),
        scores=np.ones(pairs, np.float32),
        triple_offsets=np.arange(pairs + 1),
        relations=np.zeros(pairs, np.int32),
        directions=np.ones(pairs, np.int8),
        entity_vectors=drawn.normal(size=(entities, WIDTH)).astype(np.float32),
        has_vector=np.ones(entities, bool),
        relation_vectors=np.zeros((1, WIDTH), np.float32),
        projections=np.zeros((1, WIDTH, WIDTH), np.float32),
        projected_norms=np.ones((1, entities), np.float32),
        type_names=tuple(f"t{number}" for number in range(10)),
        relation_names=("r",),
        graph=GRAPH,
    )


def look_up(knowledge: KnowledgeArrays, cut: Sequence[Tokens]) -> int:
    """Look up the neighbours of all texts, batch by batch; returns the number of mentions."""
    found = 0
    for first in range(0, len(cut), BATCH):
        batch = cut[first : first + BATCH]
        starts = np.cumsum([0, *(len(tokens) for tokens in batch[:-1])])
        parts = [
            t.mentions + np.array([s, s, 0, 0]) for t, s in zip(batch, starts, strict=True) if t.mentions is not None
        ]
        begins, ends, rows, _ = np.concatenate(parts).T
        Spans.of(begins, ends)
        Neighbourhood.of(knowledge, rows, NEIGHBOURS)
        found += len(rows)
    return found


def seconds(work: Callable[[], object]) -> float:
    """CPU seconds of a piece of work, the median of several rounds."""
    taken = []
    for _ in range(ROUNDS):
        begun = time.process_time()
        work()
        taken.append(time.process_time() - begun)
    return statistics.median(taken)


def page_of(texts: list[str], names: pa.Table, folder: Path) -> list[str]:
    """Measure, and return the lines of the page."""
    characters = sorted({character for text in texts for character in text if not character.isspace()})
    save_tokenizer([*SPECIAL_TOKENS, *characters], folder, 512)
    tokenizer = TextTokenizer.from_folder(folder)
    begun = time.process_time()
    linker = NameLinker(names, GRAPH)
    built = time.process_time() - begun
    knowledge = random_arrays(len(names))
    tokenizer.words(texts)  # fills the tables of characters
    plain = seconds(lambda: tokenizer.words(texts))

    def unknown() -> None:
        linker._known.clear()
        linker(texts)

    linking = seconds(unknown)
    tokenizer.linker = linker
    again = seconds(lambda: tokenizer.words(texts))
    cut = tokenizer.words(texts)
    looking_up = seconds(lambda: look_up(knowledge, cut))
    mentions = look_up(knowledge, cut)
    size = len(texts)
    rows = [
        [what, f"{size / taken:,.0f}"]
        for what, taken in (
            ("cut into tokens (our tokeniser), without knowledge", plain),
            ("linked, once per text and process", linking),
            ("cut into tokens with mentions that are known", again),
            (f"neighbours looked up, in every batch of {BATCH}", looking_up),
        )
    ]
    machine = f"{cpu_name()}, one thread; Python {platform.python_version()}, numpy {np.__version__}"
    return [
        f"# Linking and looking up at fine-tuning, {date.today():%Y-%m-%d}",
        "",
        f"{size:,} texts of at most {LENGTH} characters, {mentions / size:.1f} mentions each; {len(names):,} names of "
        f"CMeKG, from which the linker is made in {built:.2f} CPU s; {machine}.",
        "",
        *table(["work", "texts per CPU second"], rows),
    ]


def main() -> None:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--columns", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--megabytes", type=float, default=2.0)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    real = real_texts(options.data, options.columns, 1) if options.columns else real_texts(options.data)
    texts = list(dict.fromkeys(text[:LENGTH] for text in sample(real, options.megabytes)))
    names = names_of(list(read_cmekg().names))
    with tempfile.TemporaryDirectory(prefix="yiwen-mentions-") as folder:
        publish([*page_of(texts, names, Path(folder)), ""], options.output)


if __name__ == "__main__":
    main()
