"""Own tasks against the benchmarks' own readers: the same records in a table with other column names.

    python -m benchmarks.training.own_tasks cehrner --model ENCODER --data ChineseBLUE/ --epochs 3

cMedTC becomes three CSV files in GB18030, cEHRNER one CSV file with its entities in brackets and a column of splits.
Both are then learnt by `finetune/<task>` and by the flow of own tasks, with the same seeds and grid, in one thread.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import torch

from flows import own_classify, own_tag
from flows.finetune import finetune
from infra.artifacts import ArtifactStore
from infra.settings import store_root
from tasks.downstream.catalogue import task
from tasks.downstream.readers.read import read_split
from tasks.finetune.prediction.rows import marked

SPLITS = {"train": "训练", "dev": "验证", "test": "测试"}


def main() -> None:
    """Print every score of both runs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", choices=("cehrner", "cmedtc"))
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    given = parser.parse_args()
    torch.set_num_threads(1)
    overrides = {
        "finetune.resources": {"trials_at_once": 1},
        "finetune.max_length": 128,
        "finetune.batch_sizes": [32],
        "finetune.learning_rates": [1e-3],
        "finetune.epochs": [given.epochs],
    }
    common: dict[str, Any] = {"model": given.model, "seeds": given.seeds, "overrides": overrides}
    began = time.perf_counter()
    official = finetune.fn(tasks=given.task, data=given.data, **common)
    between = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        own = _own(given.task, given.data, Path(folder), common)
    print(f"seconds: {between - began:.1f} and {time.perf_counter() - between:.1f}")
    found = _scores(own)
    for name, value in _scores(official).items():
        print(f"{name:24} {value:.6f} {found[name]:.6f} {'equal' if value == found[name] else 'DIFFERENT'}")


def _own(name: str, data: str, folder: Path, common: dict[str, Any]) -> str:
    if name == "cehrner":
        marked_rows = [
            (marked(record.texts[0], record.answer), word)  # type: ignore[arg-type]
            for split, word in SPLITS.items()
            for record in read_split(task(name), data, split).records  # type: ignore[arg-type]
        ]
        _write(folder / "病历.csv", ("病历文本", "集合"), marked_rows, "utf-8-sig")
        columns: dict[str, Any] = {"text_field": "病历文本", "markup": "brackets", "split_field": "集合"}
        return own_tag.finetune.fn(data=str(folder / "病历.csv"), strict=False, **columns, **common)
    for split in SPLITS:
        records = read_split(task(name), data, split).records  # type: ignore[arg-type]
        rows = [(record.texts[0], str(record.answer)) for record in records]
        _write(folder / f"{split}.csv", ("入排标准", "标准类别"), rows, "gb18030")
    columns: dict[str, Any] = {"text_field": "入排标准", "label_field": "标准类别", "metric": "micro_f1"}
    return own_classify.finetune.fn(data=str(folder), strict=False, **columns, **common)


def _write(path: Path, header: Sequence[str], rows: Sequence[Sequence[str]], encoding: str) -> None:
    with path.open("w", encoding=encoding, newline="") as file:
        csv.writer(file).writerows([header, *rows])


def _scores(folder: str) -> dict[str, float]:
    run = ArtifactStore(store_root()).get("finetune", Path(folder).parent.name)
    assert run is not None
    best = run.scan("scores").filter(pl.col("of") == "best run").sort("split", "metric").collect()
    return {f"{row['split']} {row['metric']}": row["value"] for row in best.to_dicts()}


if __name__ == "__main__":
    main()
