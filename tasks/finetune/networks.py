"""Stage `networks`: several networks over one embedding, trained and scored on one task (CMedLMs, Tables 7 to 9).

The trials of all networks and seeds are one grid: they share the cores or GPUs, as trials of Ray Tune where several run
at a time, and a killed run resumes the unfinished ones. Each network's best run by the dev score is scored on test, or
on dev if test has no answers. The artifact has `networks.json`, and each network's model in `models/<network>/`, which
predicts without other files.

Counters tell how many tokens of each split the networks read, and how many of them have no vector of their own: words
that a file of vectors lacks, characters that bare embeddings never saw in training, and [UNK] of an encoder.

Time grows with networks x seeds x epochs x tokens of train. Memory is that of fine-tuning one network.
"""

from __future__ import annotations

import json
import logging
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import torch

from infra.errors import UserError
from infra.stage import Output, stage
from models.heads.task_model import TaskModel
from models.inference import BATCH_TOKENS, batches_by_length, predict
from tasks.downstream.catalogue import task
from tasks.downstream.evaluation import final_predictions
from tasks.downstream.features.base import Features
from tasks.downstream.features.shapes import shape_of
from tasks.downstream.records import Record
from tasks.downstream.scoring import score
from tasks.downstream.spec import TaskSpec
from tasks.downstream.task_data import TaskData, load_task_data
from tasks.finetune.card import write_finetune_card
from tasks.finetune.params import NetworksParams
from tasks.finetune.precision_recall import precision_recall
from tasks.finetune.saved_model import load_task_model
from tasks.finetune.stage import make_trials
from tasks.finetune.trials.grid import best_run, run_trials
from tasks.finetune.trials.model import attach_states, load_start
from tasks.finetune.trials.result import DIVERGED, TrialResult, fetch_model
from tasks.finetune.trials.task_trial import TaskTrial, check_trials

logger = logging.getLogger(__name__)

FIGURES = "networks.json"
MODELS = "models"
SPLITS = ("train", "dev", "test")
MANY_UNKNOWN = 0.5
"""Share of training tokens without a vector above which a warning asks whether the file is the right one."""


@stage(name="networks", version=2, params=NetworksParams, unit="epoch", heavy=True)
def networks(inputs: Mapping[str, Any], params: NetworksParams, out: Output) -> None:
    """Train `params.networks` over `inputs["model"]` (`ModelFolder`) on the files `inputs["data"]` (`TaskFiles`).

    `inputs["states"]` may be the artifact of `encoder_states` for both.

    Raises:
        UserError: a network is unknown; model, files or settings do not fit; or no token of train has a vector.
    """
    spec = task(params.task)
    model, files = inputs["model"], inputs["data"]
    states = str(inputs["states"].path) if "states" in inputs else None
    if params.network is not None or len(set(params.networks)) < len(params.networks):
        raise UserError("Give every network once, in networks.")
    data = load_task_data(spec, files.path, params.limit)
    trials: list[TaskTrial] = []
    for network in params.networks:
        own = params.model_copy(update={"network": network})
        made = make_trials(spec, own, model, files, f"{out.scratch}/trials", states)
        check_trials(made, data)
        trials += made
    tokens = _count_tokens(spec, trials[0], data, model.parameter)
    total = sum(trial.epochs for trial in trials)
    results = run_trials(
        trials,
        params.resources,
        lambda epochs, note: out.on_progress(f"networks-{spec.name}", round(epochs), total, note),
    )
    with tempfile.TemporaryDirectory(prefix="yiwen-networks-") as name:
        folder = Path(name)
        rows = []
        for network in params.networks:
            found = [result for result in results if result.trial.contest == network]
            figures = _figures(spec, found, data, folder / MODELS / network, states, params, model.parameter)
            rows.append({"network": network} | figures)
        (folder / FIGURES).write_text(json.dumps(rows, ensure_ascii=False, indent=1), encoding="utf-8")
        out.add_folder(folder)
    out.count("trials", len(trials))
    for split in SPLITS:
        out.count(f"records_{split}", len(getattr(data, split)))
    for name, count in tokens.items():
        out.count(name, count)


def _count_tokens(spec: TaskSpec, trial: TaskTrial, data: TaskData, parameter: str) -> dict[str, int]:
    """Return the tokens of each split that are read, and those without a vector; warn if these are many.

    Neighbouring characters without a vector are one token, unless each character is tagged.

    Raises:
        UserError: no token of train has a vector.
    """
    start = load_start(trial)
    features = shape_of(spec, data.train, start.max_length).features(start.tokenizer)
    framing = start.tokenizer.frame(np.array([], dtype=np.int64))[0]
    found: dict[str, int] = {}
    for split in SPLITS:
        sequences = [one for piece in features.encode(getattr(data, split)) for one in piece.example.sequences]
        ids = np.concatenate([one.input_ids for one in sequences]) if sequences else framing
        ids = ids[~np.isin(ids, framing)]
        found[f"tokens_{split}"] = len(ids)
        found[f"tokens_without_vector_{split}"] = int((ids == start.tokenizer.unknown).sum())
    total, unknown = found["tokens_train"], found["tokens_without_vector_train"]
    said = f"{parameter}: {unknown:,} of the {total:,} tokens of {spec.title}'s training records have no vector"
    if total and unknown == total:
        raise UserError(f"{said}. Give vectors that were trained on Chinese text.")
    if unknown > MANY_UNKNOWN * total:
        logger.warning("%s. Check that these are the vectors you meant.", said)
    return found


def _figures(
    spec: TaskSpec,
    results: Sequence[TrialResult],
    data: TaskData,
    folder: Path,
    states: str | None,
    params: NetworksParams,
    read: str,
) -> dict[str, Any]:
    """Score the best run of a network, and keep its model in `folder`, with a card that names what it reads."""
    best = best_run(results)
    fetch_model(best.trial, folder)
    saved = load_task_model(folder)
    attach_states(saved.model, states)
    saved.model.to("cuda" if params.resources.gpu is not False and torch.cuda.is_available() else "cpu")
    features = saved.shape.features(saved.tokenizer)
    split = "test" if data.test_has_answers else "dev"
    records = data.test if split == "test" else data.dev
    answers, scored = _answers(spec, saved.model, features, records, params.precision)
    card = write_finetune_card(spec, best, {split: scored}, read, None)
    (folder / "README.md").write_text(card, encoding="utf-8")
    whole = [result for result in results if result.stopped != DIVERGED]
    return {
        "split": split,
        "records": len(records),
        **precision_recall(spec.kind, [record.answer for record in records], answers)._asdict(),
        "metric": spec.metric,
        "score": scored.scores[spec.metric].score,
        "parameters": sum(one.numel() for one in saved.model.parameters() if one.requires_grad),
        "seconds_per_epoch": mean(one.seconds / one.curve[-1].epoch for one in whole),
        "train_loss": best.curve[-1].train_loss,
        "dev_loss": _loss(saved.model, features, data.dev),
        "best": best.trial.name,
        "seeds": {str(one.trial.seed): one.score for one in results},
        "epochs": best.curve[-1].epoch,
        "stopped": best.stopped,
        "curve": [[point.epoch, point.score] for point in best.curve],
    }


def _answers(
    spec: TaskSpec, model: TaskModel, features: Features, records: Sequence[Record], precision: str
) -> tuple[list[Any], Any]:
    found = features.predict(records, lambda examples: predict(model, examples, precision=precision))
    answers = [one.answer for one in final_predictions(spec, records, found)]
    return answers, score(spec, records, answers)


@torch.no_grad()
def _loss(model: TaskModel, features: Features, records: Sequence[Record]) -> float:
    """Return the mean loss of batches of like length, weighted by their examples."""
    examples = [piece.example for piece in features.encode(records)]
    device = next(model.parameters()).device
    total = 0.0
    for rows in batches_by_length(examples, BATCH_TOKENS[device.type]):
        batch = model.collate([examples[row] for row in rows]).to(device)
        total += len(rows) * model(batch)["loss"].item()
    return total / len(examples)
