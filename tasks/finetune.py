"""Stage `finetune`: an encoder and the files of a task in; the best model, its predictions and all scores out.

The recipe is that of eHealth's Tables 8 and 9: AdamW, linear warm-up over a tenth of the steps, averaged weights, a
grid of batch sizes, learning rates and epochs, three seeds. Beside the tables the artifact holds `model/` (it predicts
alone, see tasks/predict.py), `trials.json` with every trial's dev curve, and the submission file where the benchmark
takes one.

Time grows with trials x epochs x tokens; memory with the trials that run at once, each the model three times over and
the task's records.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import fsspec
import torch
from pydantic import Field

from infra.builds import PartWriter
from infra.errors import UserError
from infra.stage import Output, StageParams, stage
from models.inference import predict
from tasks.downstream.alignment import plain_text
from tasks.downstream.catalogue import task
from tasks.downstream.evaluation import final_predictions, scored_answers
from tasks.downstream.features import Prediction
from tasks.downstream.records import Kind, Record
from tasks.downstream.scoring import Scored, score
from tasks.downstream.spec import Grid, TaskSpec
from tasks.downstream.submission import write_submission
from tasks.downstream.task_data import TaskData, load_task_data
from tasks.finetune_card import write_finetune_card
from tasks.finetune_grid import best_run, run_trials, settings_of
from tasks.finetune_inputs import ModelFolder, TaskFiles
from tasks.finetune_placement import Resources
from tasks.finetune_trial import MODEL, Trial, TrialResult, check_trials
from tasks.prediction_rows import answer_to_json
from tasks.saved_model import SavedModel, load_task_model


class FinetuneParams(StageParams):
    """What is tuned and how. `resources` is left out of the fingerprint: it changes speed, not results."""

    task: str
    quick: bool = False
    """One setting and the first seed, instead of the whole grid."""
    seeds: tuple[int, ...] = Field(default=(1, 2, 3), min_length=1)
    batch_sizes: tuple[int, ...] | None = None
    """None: the grid's; so for the next two."""
    learning_rates: tuple[float, ...] | None = None
    epochs: tuple[int, ...] | None = None
    max_length: int | None = None
    """Tokens of a sequence; None: the task's, or the encoder's if it has fewer positions."""
    limit: int | None = Field(default=None, ge=1)
    """The most records of each split, for a try."""
    patience: int | None = Field(default=None, ge=1)
    """Epochs without a better dev score after which a trial stops."""
    ema_decay: float | None = Field(default=0.9999, ge=0.0, lt=1.0)
    ema_warmup: bool = True
    """The decay rises to its value, so that short runs are not spoilt; false is the paper's plain form."""
    dropout: float | None = Field(default=None, ge=0.0, lt=1.0)
    """Rate in the encoder (hidden states and attention) and before the head, 0.1 throughout in eHealth's Table 8. None:
    the encoder's rates are those of its config.json, which may be 0, and the head's is 0.1."""
    head_learning_rate: float | None = Field(default=None, gt=0.0)
    crf: bool = False
    """TAGGING: a conditional random field over the tags."""
    precision: Literal["fp32", "bf16"] = "fp32"
    random_weights: bool = False
    """The encoder's architecture with fresh weights: what pre-training is worth shows against it."""
    resources: Resources = Field(default_factory=Resources, exclude=True)

    def grid(self, spec: TaskSpec) -> Grid:
        """The task's grid with what is given here in its place."""
        own = spec.grid
        given = [name for name in ("batch_sizes", "learning_rates", "epochs") if getattr(self, name)]
        source = own.source + (f", but for {', '.join(given)}, which were given" if given else "")
        return Grid(
            self.batch_sizes or own.batch_sizes,
            self.learning_rates or own.learning_rates,
            self.epochs or own.epochs,
            f"one setting of {source}" if self.quick else source,
        )


@stage(name="finetune", version=1, params=FinetuneParams, tables=("scores", "predictions"), unit="epoch")
def finetune(inputs: Mapping[str, Any], params: FinetuneParams, out: Output) -> None:
    """Fine-tune `inputs["model"]` (a `ModelFolder`) on the files `inputs["data"]` (`TaskFiles`)."""
    spec = task(params.task)
    model, files = inputs["model"], inputs["data"]
    data = load_task_data(spec, files.path, params.limit)
    trials = make_trials(spec, params, model, files, f"{out.build.scratch}/trials")
    check_trials(trials, data)
    total = sum(trial.epochs for trial in trials)
    results = run_trials(
        trials,
        params.resources,
        lambda epochs, note: out.on_progress(f"finetune-{spec.name}", round(epochs), total, note),
    )
    best = best_run(results)
    with tempfile.TemporaryDirectory(prefix="yiwen-finetune-") as name:
        folder = Path(name)
        _fetch(f"{best.trial.folder}/{MODEL}", folder / MODEL)
        saved = load_task_model(folder / MODEL)
        saved.model.to("cuda" if params.resources.gpu is not False and torch.cuda.is_available() else "cpu")
        scores: dict[str, Scored] = {}
        with out.part() as part:
            part.write("scores", [row for result in results for row in _trial_rows(spec, result, best)])
            for split, records in (("dev", data.dev), ("test", data.test)):
                if records:
                    found = _predict(part, spec, saved, split, records, params, folder)
                    scores |= {} if found is None else {split: found}
        card = write_finetune_card(spec, best, scores, model.path.name)
        (folder / MODEL / "README.md").write_text(card, encoding="utf-8")
        told = _trials_json(spec, params.grid(spec).source, data, results, best)
        (folder / "trials.json").write_text(told, encoding="utf-8")
        out.build.add_folder(folder)
    _count(out, data, results, best)


def make_trials(
    spec: TaskSpec, params: FinetuneParams, model: ModelFolder, files: TaskFiles, storage: str
) -> list[Trial]:
    """All trials, the seeds of a setting after each other.

    Raises:
        UserError: an option that the task's head does not have.
    """
    if params.crf and spec.kind is not Kind.TAGGING:
        raise UserError(f"crf is for tagging; {spec.title} is a task of kind {spec.kind}.")
    return [
        Trial(
            task=spec.name,
            model=str(model.path),
            data=str(files.path),
            data_version=files.fingerprint,
            storage=storage,
            batch_size=batch_size,
            learning_rate=rate,
            epochs=epochs,
            seed=seed,
            max_length=params.max_length,
            limit=params.limit,
            options={
                "patience": params.patience,
                "ema_decay": params.ema_decay,
                "ema_warmup": params.ema_warmup,
                "head_learning_rate": params.head_learning_rate,
                "precision": params.precision,
            },
            head_options={"crf": True} if params.crf else {},
            dropout=params.dropout,
            random_weights=params.random_weights,
        )
        for batch_size, rate, epochs in settings_of(params.grid(spec), params.quick)
        for seed in (params.seeds[:1] if params.quick else params.seeds)
    ]


def _predict(
    part: PartWriter,
    spec: TaskSpec,
    saved: SavedModel,
    split: str,
    records: Sequence[Record],
    params: FinetuneParams,
    folder: Path,
) -> Scored | None:
    """Write the best run's predictions, their scores where answers are known, and the file to hand in."""
    features = saved.shape.features(saved.tokenizer)
    found = features.predict(records, lambda examples: predict(saved.model, examples, precision=params.precision))
    answers = final_predictions(spec, records, found)
    scored = scored_answers(spec, saved.shape.labels, found)
    part.write("predictions", list(_prediction_rows(spec, split, records, answers, scored)))
    if split == "test" and spec.submission is not None and params.limit is None:
        write_submission(spec, records, [one.answer for one in answers], folder)
    if any(record.answer is None for record in records):
        return None
    scores = score(spec, records, scored)
    for name, interval in scores.scores.items():
        row = _score_row(spec, split, "best run", name, interval.score, interval.low, interval.high, best=True)
        part.write("scores", [row])
    return scores


def _prediction_rows(
    spec: TaskSpec, split: str, records: Sequence[Record], found: Sequence[Prediction], scored: Sequence[Any]
) -> Iterator[dict[str, Any]]:
    for record, prediction, value in zip(records, found, scored, strict=True):
        gold = record.answer
        yield {
            "task": spec.name,
            "split": split,
            "record_id": plain_text(record.record_id),
            "group": None if record.group is None else plain_text(record.group),
            "texts": [plain_text(text) for text in record.texts],
            "answer": answer_to_json(prediction.answer),
            "gold": None if gold is None else answer_to_json(gold),
            "correct": None if gold is None else _same(gold, prediction.answer),
            "scores": None if prediction.scores is None else [float(one) for one in prediction.scores],
            "value": float(value) if isinstance(value, float) else None,
        }


def _same(gold: Any, answer: Any) -> bool:
    return set(gold) == set(answer) if isinstance(gold, tuple) else gold == answer


def _trial_rows(spec: TaskSpec, result: TrialResult, best: TrialResult) -> Iterator[dict[str, Any]]:
    for split, scores in (("dev", result.dev), ("test", result.test)):
        for name, value in scores.items():
            row = _score_row(spec, split, "trial", name, value, best=result.trial.name == best.trial.name)
            trial = result.trial
            yield row | {
                "batch_size": trial.batch_size,
                "learning_rate": trial.learning_rate,
                "epochs": trial.epochs,
                "seed": trial.seed,
            }


def _score_row(
    spec: TaskSpec,
    split: str,
    of: str,
    metric: str,
    value: float,
    low: float | None = None,
    high: float | None = None,
    *,
    best: bool,
) -> dict[str, Any]:
    return {
        "task": spec.name,
        "split": split,
        "of": of,
        "metric": metric,
        "main": metric == spec.metric,
        "value": value,
        "low": low,
        "high": high,
        "best": best,
        "batch_size": None,
        "learning_rate": None,
        "epochs": None,
        "seed": None,
    }


def _trials_json(spec: TaskSpec, grid: str, data: TaskData, results: Sequence[TrialResult], best: TrialResult) -> str:
    """What the tables do not hold: dev curves, speeds, where the records come from and what was wrong with them."""
    hidden = {"trial": {"model", "data", "storage", "threads"}}
    content = {
        "task": spec.name,
        "metric": spec.metric,
        "grid": grid,
        "best": best.trial.name,
        "origins": data.origins,
        "records": {"train": len(data.train), "dev": len(data.dev), "test": len(data.test)},
        "rejects": [asdict(reject) for reject in data.rejects],
        "unseen": data.unseen,
        "trials": [{"name": r.trial.name, **r.model_dump(mode="json", exclude=hidden)} for r in results],
    }
    return json.dumps(content, ensure_ascii=False, indent=1)


def _count(out: Output, data: TaskData, results: Sequence[TrialResult], best: TrialResult) -> None:
    out.count("trials", len(results))
    for split, records in (("train", data.train), ("dev", data.dev), ("test", data.test)):
        out.count(f"records_{split}", len(records))
    for name, count in (Counter(f"rejected_{one.reason}" for one in data.rejects) + Counter(best.counters)).items():
        out.count(name, count)
    if data.unseen:
        out.count("dev_labels_unseen_in_train", sum(data.unseen.values()))


def _fetch(source: str, target: Path) -> None:
    filesystem, path = fsspec.core.url_to_fs(source)
    filesystem.get(path, str(target), recursive=True)
