"""Speed of encoding real text: `tokenizers` encode_batch, our tokeniser with places, and the part function of `encode`.

    python benchmarks/text/encode.py --data FOLDER [--megabytes 20] [--output FILE.md]

FOLDER contains Parquet files of real text; every string of at least 40 characters is a document. The vocabularies are
built from documents that are not measured. MB are 10^6 bytes of UTF-8; seconds are CPU seconds of the process, one
thread, the median of `ROUNDS` alternating rounds. On every text our ids and places are compared with those of
encode_batch. "encode_batch, then numpy and Parquet" does the work of the stage's part as one writes it with tokenizers,
numpy and pyarrow. Before they are timed it is checked that the examples of both are the same.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Any

os.environ["TOKENIZERS_PARALLELISM"] = "false"

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import tokenizers

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.pages import cpu_name, publish
from benchmarks.text.near_duplicates import real_texts
from infra.arrays.batching import CHARACTERS_AT_ONCE
from infra.artifacts import Artifact, ArtifactStore
from infra.builds import BuildPlace, Unit, run_unit
from infra.stage import Output, StageParams, run, stage
from models.tokenizer import character_table
from models.tokenizer.corpus import CorpusTokenizer, corpus_tokenizer
from models.tokenizer.wordpiece import build_tokenizer
from tasks.documents import make_document
from tasks.pretrain.encode import EncodeParams, encode_part
from tasks.segment.earlier import Work
from tasks.segment.stage import SegmentParams, segment_part
from tasks.vocabulary.stages import build_vocabulary

ROUNDS = 3
SIZES = ((8_000, 5), (20_000, 2))
"""Size and minimum frequency of the vocabularies."""


class NoParams(StageParams):
    """None."""


def sample(texts: list[str], megabytes: float) -> list[str]:
    """The first texts that come to so many MB."""
    sizes = np.cumsum([len(text.encode()) for text in texts])
    return texts[: int(np.searchsorted(sizes, megabytes * 1e6)) + 1]


def batches(texts: list[str]) -> Iterator[list[str]]:
    """As many characters at once as the stage takes."""
    places = np.cumsum([len(text) for text in texts]) // CHARACTERS_AT_ONCE
    borders = [0, *(np.flatnonzero(np.diff(places)) + 1).tolist(), len(texts)]
    yield from (texts[start:end] for start, end in pairwise(borders))


def cut(store: ArtifactStore, texts: list[str], tokenizer_json: str, size: int) -> Artifact:
    """The segments of the texts as the stage cuts them; not measured."""

    @stage(name="documents", version=1, params=NoParams, tables=("documents",))
    def documents(inputs: object, params: NoParams, out: Output) -> None:
        with out.part() as part:
            part.write("documents", [make_document("real", "", text, {"row": row}) for row, text in enumerate(texts)])

    @stage(name=f"segments_{size}", version=1, params=NoParams, tables=("segments", "lengths", "rejects"))
    def segments(inputs: dict[str, Artifact], params: NoParams, out: Output) -> None:
        with out.part() as part:
            segment_part(part, Work(inputs["documents"].parts()[0]), SegmentParams(), tokenizer_json, "")

    written = run(documents, store, NoParams(), {}).artifact
    return run(segments, store, NoParams(), {"documents": written}).artifact


def measured(work: Callable[[], int], megabytes: float, seconds: list[float]) -> tuple[float, int]:
    """MB of this round, and what the work counted; its CPU seconds go to the list."""
    started = time.process_time()
    tokens = work()
    seconds.append(time.process_time() - started)
    return megabytes, tokens


def equal(tokenizer: tokenizers.Tokenizer, ours: CorpusTokenizer, texts: list[str]) -> bool:
    """Whether ids and places are those of encode_batch for every text."""
    for batch in batches(texts):
        encoded = ours.encode(batch)
        found = tokenizer.encode_batch(batch, add_special_tokens=False)
        offsets = np.array([pair for each in found for pair in each.offsets])
        if not (
            np.array_equal(encoded.ids, [number for each in found for number in each.ids])
            and np.array_equal(np.stack([encoded.starts, encoded.ends], axis=1), offsets)
            and np.array_equal(np.diff(encoded.borders), [len(each) for each in found])
        ):
            return False
    return True


def compare(texts: list[str], vocabulary: list[str], folder: Path) -> tuple[list[list[str]], str]:
    """A row a way, and a sentence about what was written."""
    tokenizer = build_tokenizer(vocabulary)
    tokenizer.encode_special_tokens = True
    written = tokenizer.to_str()
    store = ArtifactStore(folder)
    part_of_segments = cut(store, texts, written, len(vocabulary)).parts("segments")[0]
    whole, kept = (
        sum(len(text.encode()) for text in some) / 1e6 for some in (texts, part_of_segments.read()["text"].to_pylist())
    )
    known = CorpusTokenizer(written)
    same = equal(tokenizer, known, texts)

    def peer() -> int:
        return sum(
            len(each) for batch in batches(texts) for each in tokenizer.encode_batch(batch, add_special_tokens=False)
        )

    def fresh() -> int:
        character_table._melting.cache_clear()
        new = CorpusTokenizer(written)
        return sum(len(new.encode(batch).ids) for batch in batches(texts))

    def peer_part() -> int:
        read = part_of_segments.read(["doc_id", "text", "words"])
        rows: dict[str, list[Any]] = {"input_ids": [], "word_starts": []}
        words = iter(read["words"].to_pylist())
        for batch in batches(read["text"].to_pylist()):
            for each in tokenizer.encode_batch(batch):
                begins = np.array([start for start, _ in each.offsets[1:-1]])
                bounds = np.cumsum([0, *next(words)])
                # Of each word the first token that begins in it.
                first = np.searchsorted(begins, bounds)
                rows["word_starts"].append(np.unique(first[:-1][first[:-1] < first[1:]]) + 1)
                rows["input_ids"].append(each.ids)
        examples = pa.table({"doc_id": read["doc_id"], **rows})
        pa.parquet.write_table(examples, folder / "peer.parquet", compression="zstd")
        return sum(map(len, rows["input_ids"]))

    place = BuildPlace(str(folder), "examples", str(len(vocabulary)))
    Path(folder, place.partial).mkdir(parents=True)

    def part() -> int:
        given = (part_of_segments, EncodeParams(), 0.02, written)
        return run_unit(place, encode_part, Unit(0, given)).counters["tokens"]

    def fresh_part() -> int:
        character_table._melting.cache_clear()
        corpus_tokenizer.cache_clear()
        return part()

    ways: dict[str, tuple[float, Callable[[], int]]] = {
        "tokenizers encode_batch": (whole, peer),
        "ours: ids, starts, ends": (whole, lambda: sum(len(known.encode(batch).ids) for batch in batches(texts))),
        "ours, as a new process": (whole, fresh),
        "encode_batch, then numpy and Parquet": (kept, peer_part),
        "stage part: word starts, Parquet; as a new process": (kept, fresh_part),
        "stage part, once it has seen the words": (kept, part),
    }
    corpus_tokenizer(written).encode(texts[:1000])
    part(), peer_part()
    if not same_examples(folder, place):
        raise SystemExit("the peer's examples are not the stage's")
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    results = {}
    for _ in range(ROUNDS):
        for way, (megabytes, work) in ways.items():
            results[way] = measured(work, megabytes, seconds[way])
    rows, base = [], 0.0
    for way, (megabytes, tokens) in results.items():
        speed = megabytes / statistics.median(seconds[way])
        base = base or speed
        rate = tokens / statistics.median(seconds[way]) / 1e6
        rows.append([f"{len(vocabulary):,}", way, f"{speed:.1f}", f"{rate:.2f}", f"{speed / base:.1f}"])
    return rows, f"{len(vocabulary):,} tokens: ids and places equal to encode_batch's: {same}. {on_disk(folder, place)}"


def same_examples(folder: Path, place: BuildPlace) -> bool:
    """Whether the peer wrote what the stage's part did, examples and held-out text together, but for long ones."""

    def rows(files: Iterable[Path]) -> set[tuple[tuple[int, ...], tuple[int, ...]]]:
        tables = [pa.parquet.read_table(file, columns=["input_ids", "word_starts"]).to_pylist() for file in files]
        return {
            (tuple(row["input_ids"]), tuple(row["word_starts"]))
            for table in tables
            for row in table
            if len(row["input_ids"]) < EncodeParams().max_length
        }

    ours = rows(file for name in ("examples", "held_out") for file in folder.joinpath(place.partial).rglob(f"{name}/*"))
    return ours == rows([folder / "peer.parquet"])


def on_disk(folder: Path, place: BuildPlace) -> str:
    """What an id takes, as stored and if the column were uint16."""
    file = next(folder.joinpath(place.partial).rglob("examples/*.parquet"))
    ids = pa.parquet.read_table(file, columns=["input_ids"])
    taken = []
    for kind in (pa.uint32(), pa.uint16()):
        pa.parquet.write_table(ids.cast(pa.schema([("input_ids", pa.list_(kind))])), folder / "ids", compression="zstd")
        groups = pa.parquet.ParquetFile(folder / "ids").metadata
        size = sum(groups.row_group(number).column(0).total_compressed_size for number in range(groups.num_row_groups))
        taken.append(size / len(ids["input_ids"].combine_chunks().values))
    return f"An id takes {taken[0]:.2f} bytes on disk, and {taken[1]:.2f} if the column were uint16."


def main() -> None:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with Parquet files of real text")
    parser.add_argument("--megabytes", type=float, default=20)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    everything = real_texts(options.data)
    random.Random(1).shuffle(everything)
    texts = sample(everything, options.megabytes)
    others = sample(everything[len(texts) :] or everything, options.megabytes)
    rows, notes = [], []
    for size, frequency in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            found, note = compare(texts, build_vocabulary(others, size, frequency), Path(folder))
        rows += found
        notes.append(note)
    head = ["vocabulary", "way", "MB / CPU s", "M tokens / CPU s", "to encode_batch"]
    letters = sum(character.isascii() and character.isalpha() for text in texts for character in text)
    page = [
        f"# Encoding, {date.today()}",
        "",
        f"{sum(len(text.encode()) for text in texts) / 1e6:.1f} MB of real text, {len(texts):,} documents, "
        f"{letters / sum(map(len, texts)):.1%} of the characters Latin letters; one thread; "
        f"Python {platform.python_version()}, tokenizers {tokenizers.__version__}, numpy {np.__version__}, "
        f"{cpu_name()}. CPU seconds, the middle of {ROUNDS} rounds. "
        "As a new process: nothing is learnt yet. The stage's part, and the way before it, read segments from Parquet, "
        "find word starts and write examples; their MB are those of the segments.",
        "",
        *("| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows)),
        "",
        *notes,
        "",
    ]
    publish(page, options.output)


if __name__ == "__main__":
    main()
