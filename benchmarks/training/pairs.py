"""Cost of sentence pairs: made once by the stage `pairs`, or in the collator for each batch.

    python benchmarks/training/pairs.py [--documents 20000] [--length 384] [--batch 32] [--output FILE.md]

Documents have 1 to 12 segments of up to a third of a pair, with random ids and words of two tokens, in parts as the
stage `encode` writes them. The stage makes pairs of all of them, and a training reads its rows. The collator makes the
pairs of a batch with the same functions from as many documents, which are in memory already. A step pays for what it
reads or makes; the stage's own cost is paid once for all epochs.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.pages import cpu_name, publish, table
from infra.artifacts import Artifact, ArtifactStore
from infra.builds import PartWriter
from infra.schemas import TABLES, conform
from infra.stage import Output, StageParams, run, stage
from models.training.columns import SECOND, WORDS, Value, read_rows
from models.training.reader import ExampleStream
from tasks.documents import share_of
from tasks.pretrain.pair_rows import choose_pairs, cut, rows_of, text_of
from tasks.pretrain.pairs import PairsParams, pairs

COLUMNS = (*WORDS, SECOND, Value("is_random"))
DOCUMENTS_IN_PART = 4_000


class DocumentsParams(StageParams):
    """How many documents there are, and how long a pair is."""

    documents: int
    length: int


@stage(name="encode", version=1, params=DocumentsParams, tables=("examples", "held_out"))
def benchmark_segments(inputs: Mapping[str, Any], params: DocumentsParams, out: Output) -> None:
    """Write segments."""
    out.map(write_segments, range(0, params.documents, DOCUMENTS_IN_PART), params)


@stage(name="vocabulary", version=1, params=StageParams, tables=("vocabulary",))
def benchmark_vocabulary(inputs: Mapping[str, Any], params: StageParams, out: Output) -> None:
    """Write a vocabulary without ends of sentences."""
    with out.part() as part:
        part.write("vocabulary", [{"id": 0, "token": "[PAD]", "frequency": 0}])


def write_segments(part: PartWriter, first: int, params: DocumentsParams) -> None:
    """Write the segments of some documents, and again a few of them as held-out ones."""
    drawn = np.random.default_rng(first)
    documents = min(DOCUMENTS_IN_PART, params.documents - first)
    of_document = np.repeat(np.arange(first, first + documents), drawn.integers(1, 13, documents))
    most = (params.length - 3) // 3
    lengths = drawn.integers(most // 3, most + 1, len(of_document)) // 2 * 2 + 2
    ids = drawn.integers(5, 20_000, lengths.sum()).astype(np.uint32)
    ids[np.cumsum(lengths) - 1], ids[np.cumsum(lengths) - lengths] = 3, 2
    words = [np.arange(1, length - 1, 2, dtype=np.uint16) for length in lengths]
    rows = pa.table(
        {
            "input_ids": pa.ListArray.from_arrays(pa.array(np.cumsum([0, *lengths]).astype(np.int32)), pa.array(ids)),
            "word_starts": pa.array(words, pa.list_(pa.uint16())),
            "mentions": pa.array([[]] * len(lengths), TABLES["examples"].field("mentions").type),
            "doc_id": [f"{number:032x}" for number in of_document],
            "source": ["article"] * len(lengths),
        }
    )
    part.write("examples", conform(rows, "examples"))
    part.write("held_out", conform(rows.slice(0, 100), "held_out"))


def batches(segments: pa.Table, size: int, length: int) -> Iterator[list[Any]]:
    """Make pairs of `size` documents at a time, as a collator would."""
    borders = np.flatnonzero(np.diff(segments["doc_id"].combine_chunks().dictionary_encode().indices, prepend=-1))
    for first, end in zip(borders[::size], [*borders[size::size], len(segments)], strict=True):
        some = segments.slice(first, end - first)
        text = text_of(some)
        chosen = choose_pairs(text, length - 3, 0.5, lambda purpose, key: share_of(key, purpose, 1))
        chosen, _ = cut(text, chosen, length - 3)
        yield read_rows(rows_of(text, chosen[:size], some.select(["doc_id", "source"])), COLUMNS)


def measured(segments: Artifact, vocabulary: Artifact, options: argparse.Namespace) -> list[list[str]]:
    """Run the stage, read its rows, and make as many in the collator's place; return the rows of the page."""
    tokens = sum(len(row) for part in segments.parts("examples") for row in part.read(["input_ids"])["input_ids"])
    store, inputs = ArtifactStore(segments.store_root), {"examples": segments, "vocabulary": vocabulary}
    began = time.process_time()
    made = run(pairs, store, PairsParams(max_length=options.length), inputs).artifact
    staged = time.process_time() - began
    stream = ExampleStream(made.parts("pairs"), seed=1, columns=COLUMNS)
    steps = stream.rows // options.batch
    began = time.process_time()
    for step in range(steps):
        stream.take(step * options.batch, options.batch)
    read = (time.process_time() - began) / steps
    whole = segments.to_table("examples")
    began, count = time.process_time(), 0
    for _ in batches(whole, options.batch, options.length):
        count += 1
    collated = (time.process_time() - began) / count
    stored = sum(part.record.bytes for part in made.parts("pairs"))
    return [
        ["tokens of segments", f"{tokens:,}"],
        ["pairs", f"{stream.rows:,}"],
        ["stage, CPU s per M tokens", f"{staged / tokens * 1e6:.2f}"],
        ["stage, MB on disk per M tokens", f"{stored / tokens:.2f}"],
        [f"reading a batch of {options.batch} pairs, CPU ms", f"{read * 1e3:.2f}"],
        [f"making a batch of {options.batch} pairs in the collator, CPU ms", f"{collated * 1e3:.2f}"],
        ["peak memory, MiB", f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10:,.0f}"],
    ]


def main() -> None:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--length", type=int, default=384, help="tokens of a pair")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="yiwen-pairs-") as folder:
        store = ArtifactStore(folder)
        segments = run(
            benchmark_segments, store, DocumentsParams(documents=options.documents, length=options.length), {}
        )
        vocabulary = run(benchmark_vocabulary, store, StageParams(), {})
        rows = measured(segments.artifact, vocabulary.artifact, options)
    page = [
        f"# Sentence pairs, {date.today()}",
        "",
        f"{cpu_name()}; one process; {options.documents:,} documents, pairs of up to {options.length} tokens.",
        "",
        *table(["figure", "value"], rows),
    ]
    publish([*page, ""], options.output)


if __name__ == "__main__":
    main()
