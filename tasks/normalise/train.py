"""Stage `normaliser`: trains a normaliser on a term list, its index and labelled diagnoses, and scores it.

As in eHealth for CHIP-CDN, 100 candidates are retrieved from the whole list, and a classifier judges each pair of
diagnosis and candidate (section 4.3, appendix E). It learns from all right pairs and a sample of wrong ones
(tasks/normalise/ranking/pairs.py). The number of answers and the weight of retrieval are tuned on dev
(tasks/normalise/ranking/decision.py). The grid of Table 9 and its seeds are trials, as for all other tasks
(tasks/finetune/trials/grid.py).

Besides its tables the artifact contains `model/`, `index/` and `decision.json`, which tasks/normalise/normaliser.py
opens; `scores.json`; `trials.json` with the dev curves of all trials; and the submission, if the test file has no
answers.

Time grows with trials x epochs x (pairs + candidates of dev), then with the candidates of test. Memory grows with the
trials that run at once, each of which holds three copies of the model, and with the labelled diagnoses, their pairs and
candidates.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from infra.artifacts import Artifact
from infra.stage import Output, stage
from tasks.downstream.catalogue import task
from tasks.downstream.records import Record
from tasks.downstream.submission import write_submission
from tasks.downstream.task_data import TaskData, load_task_data
from tasks.finetune.trials.grid import best_run
from tasks.finetune.trials.result import fetch_model
from tasks.finetune.trials.scores import TRIALS, count_trials, trial_rows, trials_json
from tasks.finetune.trials.tracked import track_trials
from tasks.normalise.index import open_index
from tasks.normalise.meaning.search import with_meaning
from tasks.normalise.normaliser import INDEX, MODEL, Retrieval, load_ranker, write_decision
from tasks.normalise.params import TASK, NormaliserParams
from tasks.normalise.publish import open_server_index
from tasks.normalise.queries.settings import load_rules
from tasks.normalise.ranking.decision import TermDecision
from tasks.normalise.ranking.ranker import TermRanker
from tasks.normalise.ranking.training import texts_of, train_ranker
from tasks.normalise.ranking.trial import decision_of
from tasks.normalise.scores import (
    SCORES,
    AnsweredSplit,
    figures_of,
    prediction_rows,
    rank_rows,
    recalled,
    split_score_rows,
)
from tasks.normalise.terms.terminology import entries_of
from tasks.retrieve.candidates import Candidate
from tasks.retrieve.categories import with_categories
from tasks.retrieve.embedded import EmbeddedIndex


@stage(
    name="normaliser",
    version=6,
    params=NormaliserParams,
    tables=("scores", "predictions", "gold_ranks"),
    unit="epoch",
    heavy=True,
)
def normaliser(inputs: Mapping[str, Any], params: NormaliserParams, out: Output) -> None:
    """Train on `inputs["data"]` (`TaskFiles` of CHIP-CDN) with the encoder `inputs["model"]` (`ModelFolder`) and the
    artifacts `inputs["terminology"]` and `inputs["index"]`.

    Raises:
        UserError: a file is invalid, no label is a term of the list, or a setting is invalid.
    """
    spec = task(TASK)
    data = load_task_data(spec, inputs["data"].path, params.limit)
    with tempfile.TemporaryDirectory(prefix="yiwen-normaliser-") as name:
        folder = Path(name) / "result"
        folder.mkdir()
        index = open_index(inputs["index"], Path(name) / "opened")
        retrieval = _retrieval(index, inputs["terminology"], params)
        found = {split: retrieval.candidates(texts_of(records)) for split, records in _splits(data)}
        total = sum(run["epochs"] for run in params.runs(spec))
        results = train_ranker(
            params,
            inputs["model"],
            data,
            retrieval,
            index.terms,
            found["dev"],
            out.scratch,
            lambda epochs, note: out.on_progress("normaliser", round(epochs), total, note),
        )
        best = best_run(results)
        decision = decision_of(best)
        fetch_model(best.trial, folder / MODEL)
        inputs["index"].download(folder / INDEX)
        write_decision(folder, decision, params.k, params.max_length)
        gpu = params.resources.gpu is not False and torch.cuda.is_available()
        device = "cuda" if gpu else "cpu"
        ranker = load_ranker(folder / MODEL, device, params.max_length, inputs["model"].knowledge)
        figures: dict[str, Any] = {"decision": asdict(decision)}
        with out.part() as part:
            part.write("scores", list(trial_rows(spec, results, best)))
            for split, records in _splits(data):
                answered = _answered(split, records, found[split], retrieval, ranker, decision)
                part.write("predictions", list(prediction_rows(answered)))
                part.write("gold_ranks", list(rank_rows(answered)))
                if answered.is_labelled:
                    figures[split] = figures_of(answered, recalled(retrieval, records, found[split]))
                    part.write("scores", list(split_score_rows(answered, figures[split])))
                elif split == "test" and params.limit is None:
                    write_submission(spec, records, answered.terms, folder)
        (folder / SCORES).write_text(json.dumps(figures, ensure_ascii=False, indent=1), encoding="utf-8")
        trials = trials_json(spec, params.grid(spec).source, data, results, best)
        (folder / TRIALS).write_text(trials, encoding="utf-8")
        out.add_folder(folder)
    track_trials("normaliser", out.fingerprint, trials, ())
    count_trials(out, data, results, best)


def _retrieval(index: EmbeddedIndex, terminology: Artifact, params: NormaliserParams) -> Retrieval:
    engine = index if params.engine == "embedded" else open_server_index(index, params.alias)
    rules = load_rules(index.folder)
    searched = with_meaning(with_categories(engine, index), index, engine=engine)
    return Retrieval(searched, entries_of(terminology), rules=rules, k=params.k)


def _splits(data: TaskData) -> list[tuple[str, Sequence[Record]]]:
    return [(split, records) for split, records in (("dev", data.dev), ("test", data.test)) if records]


def _answered(
    name: str,
    records: Sequence[Record],
    found: Sequence[Sequence[Candidate]],
    retrieval: Retrieval,
    ranker: TermRanker,
    decision: TermDecision,
) -> AnsweredSplit:
    texts = texts_of(records)
    judged = ranker.judge(texts, found, retrieval.parts(texts))
    ordered = [decision.order(one) for one in judged]
    answers = [decision.choose(own, one.parts) for own, one in zip(ordered, judged, strict=True)]
    return AnsweredSplit(name, records, ordered, answers)
