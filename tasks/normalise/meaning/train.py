"""Stage `name_encoder`: an encoder learns from pairs of synonyms which names mean the same (SapBERT, self-alignment).

The artifact is a folder of a model in transformers' layout, with its tokeniser and `pooling.json`, and `trials.json`
with the dev curves. Settings and seeds are trials, as for all tasks (tasks/finetune/trials/grid.py): the best one is
kept, and a killed run resumes after its last whole epoch.

Time grows with trials x epochs x tokens of all pairs. Memory grows with the pairs, three copies of the model, and the
square of the names in a batch.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from infra.builds import open_scratch
from infra.stage import Output, stage
from tasks.downstream.catalogue import task
from tasks.finetune.trials.grid import best_run, run_trials
from tasks.finetune.trials.result import fetch_model
from tasks.normalise.meaning.params import NameEncoderParams
from tasks.normalise.meaning.synonyms import read_pairs
from tasks.normalise.meaning.trial import METRIC, PAIRS, EncoderTrial, check_encoder_trials
from tasks.normalise.params import TASK

TRIALS = "trials.json"


@stage(name="name_encoder", version=1, params=NameEncoderParams, unit="epoch", heavy=True)
def name_encoder(inputs: Mapping[str, Any], params: NameEncoderParams, out: Output) -> None:
    """Train the encoder `inputs["model"]` (`ModelFolder`) on `inputs["pairs"]` (of the stage `synonym_pairs`).

    Raises:
        UserError: the folder has no encoder, its vocabulary knows no name, or a setting is invalid.
    """
    source, pairs = inputs["model"], inputs["pairs"]
    runs = params.runs(task(TASK))
    trials = [
        EncoderTrial(
            task=TASK,
            model=str(source.path),
            knowledge=source.knowledge,
            data=out.scratch,
            data_version=f"{pairs.fingerprint}-{params.limit}",
            storage=f"{out.scratch}/trials",
            pooling=params.pooling,
            loss=params.loss,
            **run,
        )
        for run in runs
    ]
    check_encoder_trials(trials)
    table = read_pairs(pairs)
    with open_scratch(f"{out.scratch}/{PAIRS}") as file:
        # `limit` counts pairs of each split; the table is in the order of the concepts.
        (
            table if params.limit is None else table.group_by("split", maintain_order=True).head(params.limit)
        ).write_parquet(file)
    total = sum(run["epochs"] for run in runs)
    results = run_trials(
        trials, params.resources, lambda epochs, note: out.on_progress("name_encoder", round(epochs), total, note)
    )
    best = best_run(results)
    with tempfile.TemporaryDirectory(prefix="yiwen-encoder-") as name:
        fetch_model(best.trial, Path(name) / "model")
        out.add_folder(Path(name) / "model")
    kept = [json.loads(result.model_dump_json(exclude={"trial": {"data", "storage"}})) for result in results]
    out.add_bytes(TRIALS, json.dumps({"best": best.trial.name, "trials": kept}, ensure_ascii=False, indent=1).encode())
    out.count("trials", len(results))
    out.count("dev_per_mille", round(1000 * best.dev[METRIC]))
    for counter, number in sorted(best.counters.items()):
        out.count(counter, number)
