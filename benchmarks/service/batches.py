"""Processor time of a model's answers, record by record and together, as `yiwen serve --together` computes them.

    python -m benchmarks.service.batches [--records 64] [--repeats 5] [--output FILE.md]

Classifiers of random weights in three sizes answer the same notes, on one thread: first one by one, then in a batch.
Processor time is counted, not time on the clock, so other work on the machine disturbs less. Of the repeats the fastest
counts. The notes are those of the tests."""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import numpy as np
import torch

from benchmarks.pages import cpu_name, publish, table
from benchmarks.service.load import notes
from flows.service.engines import PREDICT, EngineSpec, open_engine
from models import heads
from models.encoder.config import EncoderConfig
from models.tokenizer.wordpiece import save_tokenizer
from models.weights.pretrained import load_encoder, random_encoder, save_encoder
from tasks.downstream.features.shapes import TaskShape
from tasks.downstream.records import Kind
from tasks.finetune.saved_model import save_task_model

SIZES = {"tiny, 2 × 128": (2, 128, 2), "mini, 4 × 256": (4, 256, 4), "base, 12 × 768": (12, 768, 12)}
"""Layers, hidden units and heads by name."""
LENGTH = 128
SHAPE = TaskShape(
    task="cmedtc", kind=Kind.SINGLE, head="single", max_length=LENGTH, labels=("内科", "外科", "儿科", "妇科")
)


def main() -> None:
    """Measure, and print or write the page."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--records", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    texts = notes()[: options.records]
    with tempfile.TemporaryDirectory() as folder:
        rows = [
            row(name, made(Path(folder) / str(number), texts, *size), texts, options.repeats)
            for number, (name, size) in enumerate(SIZES.items())
        ]
    characters = sum(map(len, texts)) / len(texts)
    page = [
        "# Records of a model, one by one and together",
        "",
        f"{date.today()}, {cpu_name()}, one thread, {len(texts)} notes of {characters:.0f} characters on average. "
        f"`python -m benchmarks.service.batches`; the load of the machine was {os.getloadavg()[0]:.0f}.",
        "",
        "Processor time of one record, the fastest of "
        f"{options.repeats} repeats, and the largest difference between a record's probabilities.",
        "",
        *table(["model", "one by one, ms", "together, ms", "times as fast", "largest difference"], rows),
        "",
    ]
    publish(page, options.output)


def made(folder: Path, texts: Sequence[str], layers: int, hidden: int, num_heads: int) -> Path:
    """Return the folder of a classifier of random weights, whose vocabulary is the characters of the texts."""
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *sorted(set("".join(texts)) - set(" \t\n"))]
    encoder = folder / "encoder"
    config = EncoderConfig(
        vocab_size=len(vocabulary),
        hidden_size=hidden,
        num_layers=layers,
        num_heads=num_heads,
        intermediate_size=4 * hidden,
        max_positions=LENGTH,
    )
    save_encoder(random_encoder(config, seed=0), encoder)
    save_tokenizer(vocabulary, encoder, LENGTH)
    model = heads.build(SHAPE.head, load_encoder(encoder), seed=1, **SHAPE.head_options)
    save_task_model(folder / "model", model, SHAPE, encoder)
    return folder / "model"


def row(name: str, model: Path, texts: Sequence[str], repeats: int) -> list[str]:
    """Return a row of the page."""
    seconds: dict[bool, float] = {}
    scores: dict[bool, list[list[float]]] = {}
    for together in (False, True):
        engine = open_engine(EngineSpec(PREDICT, f"{PREDICT}/bench", model, "cpu", together))
        spent = []
        for _ in range(repeats):
            began = time.process_time()
            answers = list(engine.answers(texts))
            spent.append(time.process_time() - began)
        seconds[together] = min(spent) / len(texts)
        scores[together] = [json.loads(one)["scores"] for one in answers]
    apart = float(np.abs(np.array(scores[False]) - np.array(scores[True])).max())
    alone, batch = 1000 * seconds[False], 1000 * seconds[True]
    return [name, f"{alone:.2f}", f"{batch:.2f}", f"{alone / batch:.1f}", f"{apart:.0e}"]


if __name__ == "__main__":
    main()
