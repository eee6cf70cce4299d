"""Stage `finetune`: an encoder and the files of a task in; the best model, its predictions and all scores out.

The recipe is that of eHealth's Tables 8 and 9: AdamW, linear warm-up over a tenth of the steps, averaged weights, a
grid of batch sizes, learning rates and epochs, three seeds. Beside the tables the artifact has `model/`, which predicts
without other files (tasks/finetune/predict.py), `trials.json` with every trial's dev curve, and the submission file if
the benchmark takes one.

Time grows with trials x epochs x tokens. Memory grows with the trials that run at once: each has the model three times
over, and the task's records.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from infra.builds import PartWriter
from infra.errors import UserError
from infra.stage import Output, stage
from models.inference import predict
from tasks.downstream.evaluation import final_predictions, scored_answers
from tasks.downstream.features.alignment import plain_text
from tasks.downstream.features.base import Prediction
from tasks.downstream.own import task_in
from tasks.downstream.records import Kind, Record
from tasks.downstream.scoring import Scored, score
from tasks.downstream.spec import TaskSpec
from tasks.downstream.submission import write_submission
from tasks.downstream.task_data import load_task_data
from tasks.finetune.card import write_finetune_card
from tasks.finetune.inputs import ModelFolder, TaskFiles
from tasks.finetune.params import FinetuneParams
from tasks.finetune.prediction.rows import answer_to_json
from tasks.finetune.saved_model import SavedModel, load_task_model
from tasks.finetune.trials.grid import best_run, run_trials
from tasks.finetune.trials.model import attach_states
from tasks.finetune.trials.result import MODEL, fetch_model
from tasks.finetune.trials.scores import TRIALS, count_trials, score_row, trial_rows, trials_json
from tasks.finetune.trials.task_trial import TaskTrial, check_trials
from tasks.finetune.trials.tracked import track_trials


@stage(name="finetune", version=2, params=FinetuneParams, tables=("scores", "predictions"), unit="epoch", heavy=True)
def finetune(inputs: Mapping[str, Any], params: FinetuneParams, out: Output) -> None:
    """Fine-tune `inputs["model"]` (a `ModelFolder`) on the files `inputs["data"]` (`TaskFiles`).

    With a network over a frozen encoder, `inputs["states"]` may be the artifact of `encoder_states` for both.
    """
    model, files = inputs["model"], inputs["data"]
    spec = task_in(params.task, files.path)
    data = load_task_data(spec, files.path, params.limit)
    states = str(inputs["states"].path) if "states" in inputs else None
    trials = make_trials(spec, params, model, files, f"{out.scratch}/trials", states)
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
        fetch_model(best.trial, folder / MODEL)
        saved = load_task_model(folder / MODEL, model.knowledge)
        attach_states(saved.model, states)
        saved.model.to("cuda" if params.resources.gpu is not False and torch.cuda.is_available() else "cpu")
        scores: dict[str, Scored] = {}
        with out.part() as part:
            part.write("scores", list(trial_rows(spec, results, best)))
            for split, asked in (("dev", data.dev), ("test", data.test)):
                if asked:
                    found = _predict(part, spec, saved, split, asked, params, folder)
                    scores |= {} if found is None else {split: found}
        own = saved.model.transformers_class, saved.model.reader.graph
        records = {"train": len(data.train), "dev": len(data.dev), "test": len(data.test)}
        card = write_finetune_card(spec, best, scores, model.name, *own, records=records, origin=model.origin)
        (folder / MODEL / "README.md").write_text(card, encoding="utf-8")
        record = trials_json(spec, params.grid(spec).source, data, results, best)
        (folder / TRIALS).write_text(record, encoding="utf-8")
        out.add_folder(folder)
    figures = [(split, name, one.score) for split, found in scores.items() for name, one in found.scores.items()]
    track_trials("finetune", out.fingerprint, record, figures)
    count_trials(out, data, results, best)


def make_trials(
    spec: TaskSpec,
    params: FinetuneParams,
    model: ModelFolder,
    files: TaskFiles,
    storage: str,
    states: str | None = None,
) -> list[TaskTrial]:
    """Return all trials; the seeds of a setting follow each other.

    Args:
        states: folder with the encoder's states, for a network over it.

    Raises:
        UserError: an option that the task's head does not have, or states of an encoder that is trained.
    """
    if states is not None and (params.network is None or params.random_weights):
        raise UserError("Only a network over a frozen encoder reads its states. Leave them out, or give a network.")
    if params.crf and params.network is not None:
        raise UserError("Networks have a CRF of their own, such as bilstm_crf and staresgru_cnn_crf. Leave crf out.")
    if params.crf and spec.kind is not Kind.TAGGING:
        raise UserError(f"crf is only for tagging, and {spec.title} is of kind {spec.kind}. Leave it out.")
    if params.pooling != "cls" and (params.network is not None or not spec.answers_whole_texts):
        over = "a network" if params.network is not None else f"{spec.title}, whose tokens are judged one by one"
        raise UserError(f"pooling is for one answer per text, not for {over}. Leave it out.")
    return [
        TaskTrial(
            task=spec.name,
            model=str(model.path),
            knowledge=model.knowledge,
            data=str(files.path),
            data_version=files.fingerprint,
            storage=storage,
            limit=params.limit,
            train_records=params.train_records,
            head_options=params.head_options,
            states=states,
            class_weights=params.class_weights,
            **run,
        )
        for run in params.runs(spec)
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
    """Write the best run's predictions, their scores if answers are known, and the submission file."""
    features = saved.shape.features(saved.tokenizer)
    found = features.predict(records, lambda examples: predict(saved.model, examples, precision=params.precision))
    answers = final_predictions(spec, records, found)
    scored = scored_answers(spec, saved.shape.labels, found)
    part.write("predictions", list(_prediction_rows(spec, split, records, answers, scored)))
    # A submission of limited records would be rejected by the benchmark.
    if split == "test" and spec.submission is not None and params.limit is None:
        write_submission(spec, records, [one.answer for one in answers], folder)
    if any(record.answer is None for record in records):
        return None
    scores = score(spec, records, scored)
    for name, interval in scores.scores.items():
        part.write("scores", [score_row(spec, split, name, interval.score, interval.low, interval.high)])
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
