"""Speed of the reader of training examples: tokens per second for one training process.

    python benchmarks/training/reader.py [--rows 200000] [--batch 256] [--output FILE.md]

Rows have the lengths of real text (those of benchmarks/training/pretrain_step.py) and random ids; they are written as
the encode stage writes them, in parts of `--rows-per-part`. One token in `--tokens-per-mention` begins a mention. The
same rows are read without their mentions and with them, after a pass that is not timed. A batch is `--batch` rows of
the shuffled order. The time includes reading (from the page cache), checking hashes, unpacking and shuffling. Sequences
count once (eHealth sees each in two views).
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY))

from benchmarks.pages import cpu_name, publish, table  # noqa: E402
from benchmarks.training.pretrain_step import LENGTHS  # noqa: E402
from infra.artifacts import Artifact, ArtifactStore  # noqa: E402
from infra.builds import PartWriter  # noqa: E402
from infra.schemas import EXAMPLES  # noqa: E402
from infra.stage import Output, StageParams, run, stage  # noqa: E402
from models.training.columns import MENTIONS, WORDS, Column  # noqa: E402
from models.training.reader import ExampleStream  # noqa: E402


class RowsParams(StageParams):
    """How many rows there are."""

    rows: int
    rows_per_part: int
    tokens_per_mention: int


@stage(name="benchmark_rows", version=1, params=RowsParams, tables=("examples",))
def benchmark_rows(inputs: Mapping[str, Any], params: RowsParams, out: Output) -> None:
    """Write the rows."""
    out.map(write_rows, range(0, params.rows, params.rows_per_part), params)


def write_rows(part: PartWriter, first: int, params: RowsParams) -> None:
    """Write one part."""
    drawn = np.random.default_rng(first)
    lengths = drawn.choice(np.array(LENGTHS), min(params.rows_per_part, params.rows - first))
    words = (lengths - 2) // 2
    mentions = lengths // params.tokens_per_mention
    part.write(
        "examples",
        pa.table(
            {
                "input_ids": lists(drawn.integers(5, 20_000, lengths.sum()).astype(np.uint32), lengths),
                "word_starts": lists(np.concatenate([1 + 2 * np.arange(n) for n in words]).astype(np.uint16), words),
                "mentions": mention_lists(drawn, mentions, params.tokens_per_mention),
                "doc_id": [f"{first + number:032x}" for number in range(len(lengths))],
                "source": ["article"] * len(lengths),
            }
        ),
    )


def lists(values: np.ndarray, lengths: np.ndarray) -> pa.ListArray:
    """A list column from its values laid end to end."""
    return pa.ListArray.from_arrays(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32), values)


def mention_lists(drawn: np.random.Generator, counts: np.ndarray, apart: int) -> pa.ListArray:
    """The column of mentions of three tokens at equal distances, of any of SMedBERT's 274,163 entities."""
    total = int(counts.sum())
    starts = 1 + apart * (np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts))
    columns = (starts, starts + 3, drawn.integers(0, 274_163, total), drawn.integers(0, 3, total))
    kind = EXAMPLES.field("mentions").type
    fields = list(kind.value_type)
    arrays = [pa.array(column).cast(field.type) for column, field in zip(columns, fields, strict=True)]
    borders = pa.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
    return pa.ListArray.from_arrays(borders, pa.StructArray.from_arrays(arrays, fields=fields), type=kind)


def measured(artifact: Artifact, columns: tuple[Column, ...], options: argparse.Namespace) -> list[str]:
    """Read all rows with these columns; returns a row of the table."""
    stream = ExampleStream(artifact.parts("examples"), seed=1, columns=columns)
    tokens, started, cpu = 0, time.perf_counter(), time.process_time()
    steps = options.rows // options.batch
    for step in range(steps):
        examples = stream.take(step * options.batch, options.batch)
        tokens += sum(len(example.input_ids) for example in examples)
    wall, cpu = time.perf_counter() - started, time.process_time() - cpu
    started = time.perf_counter()
    entering = ExampleStream(artifact.parts("examples"), seed=1, columns=columns)
    entering.take(steps // 2 * options.batch, options.batch)
    entered = time.perf_counter() - started
    return [
        "with mentions" if MENTIONS in columns else "without",
        f"{options.rows:,}",
        f"{tokens:,}",
        f"{tokens / wall / 1e6:.1f}",
        f"{tokens / cpu / 1e6:.1f}",
        f"{entered:.2f}",
        f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10:,.0f}",
    ]


def main() -> None:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--rows-per-part", type=int, default=20_000)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--tokens-per-mention", type=int, default=12, help="about 40 mentions in a row of 512")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="yiwen-reader-") as folder:
        params = RowsParams(
            rows=options.rows, rows_per_part=options.rows_per_part, tokens_per_mention=options.tokens_per_mention
        )
        artifact = run(benchmark_rows, ArtifactStore(folder), params, {}).artifact
        measured(artifact, WORDS, options)  # the first pass also pays for imports and for memory that grows
        rows = [measured(artifact, columns, options) for columns in (WORDS, (*WORDS, MENTIONS))]
    head = [
        "mentions",
        "rows",
        "tokens",
        "M tokens / s",
        "M tokens / CPU s",
        "s to enter in the middle",
        "peak MiB of the process so far",
    ]
    page = [
        f"# Reading examples, {date.today()}",
        "",
        f"{cpu_name()}; batches of {options.batch}; a mention in every {options.tokens_per_mention} tokens.",
        "",
        *table(head, rows),
    ]
    publish([*page, ""], options.output)


if __name__ == "__main__":
    main()
