"""Stage `normaliser`: a term list, its index and labelled diagnoses in; what normalises, and its scores, out.

As eHealth does CHIP-CDN: 100 candidates from the whole list, then a pair classifier on diagnosis and candidate (section
4.3, appendix E). It learns from all right pairs and a sample of wrong ones (tasks/normalise/pairs.py); how many terms a
diagnosis has, and what retrieval's own order counts beside the ranker, is tuned on dev (tasks/normalise/decision.py).
The grid of Table 9 and its seeds are trials as those of all other tasks (tasks/finetune/grid.py).

Beside the tables lie `model/`, `index/` and `decision.json`, which tasks/normalise/normaliser.py opens, `scores.json`,
`trials.json` with every trial's dev curve, and the file to hand in where there is a test file without answers. Time
grows with trials x epochs x (pairs + candidates of dev), then with candidates of test; memory with the trials that run
at once, each the model three times over, and with the labelled diagnoses, their pairs and candidates.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import Field

from infra.errors import UserError
from infra.stage import Output, stage
from tasks.downstream.catalogue import task
from tasks.downstream.records import Record
from tasks.downstream.scoring import score
from tasks.downstream.submission import write_submission
from tasks.downstream.task_data import TaskData, load_task_data
from tasks.finetune.grid import Progress, best_run, run_trials
from tasks.finetune.inputs import ModelFolder
from tasks.finetune.params import TuningParams
from tasks.finetune.scores import TRIALS, count_trials, score_row, trial_rows, trials_json
from tasks.finetune.trial import TrialResult, fetch_model
from tasks.metrics.scores import recall_at_k
from tasks.normalise.index import open_index
from tasks.normalise.normaliser import INDEX, MODEL, Retrieval, load_ranker, write_decision
from tasks.normalise.pairs import Diagnosis, Pair, training_pairs
from tasks.normalise.publish import ALIAS, open_server_index
from tasks.normalise.query_settings import load_rules
from tasks.normalise.ranker_data import LabelledDiagnoses, save_ranker_data
from tasks.normalise.ranker_trial import RankerTrial, check_ranker_trials, decision_of
from tasks.normalise.terminology import entries_of
from tasks.retrieve.candidates import MOST_CANDIDATES, Candidate
from tasks.retrieve.categories import with_categories

TASK = "chip-cdn"
RECALLS = (1, 10, 50, 100, 200)
"""Numbers of candidates whose recall is told."""
SCORES = "scores.json"
PAIRS_SEED = 1
"""Of the draw of wrong pairs, which all trials share."""


class NormaliserParams(TuningParams):
    """How many candidates, and how their ranker learns."""

    k: int = Field(
        default=100, ge=1, le=MOST_CANDIDATES, description="candidates of each diagnosis that are ranked (eHealth: 100)"
    )
    hard_negatives: int = Field(default=12, ge=0, description="wrong pairs a diagnosis from its candidates")
    random_negatives: int = Field(default=4, ge=0, description="wrong pairs a diagnosis from the whole list")
    engine: Literal["embedded", "elasticsearch"] = Field(
        default="embedded", description="what finds candidates; elasticsearch: the server of ELASTICSEARCH_URL"
    )
    alias: str = Field(default=ALIAS, description="of the list on the server; the flow sets its own")


@stage(
    name="normaliser",
    version=5,
    params=NormaliserParams,
    tables=("scores", "predictions", "gold_ranks"),
    unit="epoch",
)
def normaliser(inputs: Mapping[str, Any], params: NormaliserParams, out: Output) -> None:
    """Train on `inputs["data"]` (`TaskFiles` of CHIP-CDN) with the encoder `inputs["model"]` (`ModelFolder`), the
    artifacts `inputs["terminology"]` and `inputs["index"]`.

    Raises:
        UserError: a file is not as it should be, no label is a term of the list, or a setting cannot be.
    """
    spec = task(TASK)
    data = load_task_data(spec, inputs["data"].path, params.limit)
    with tempfile.TemporaryDirectory(prefix="yiwen-normaliser-") as name:
        folder = Path(name) / "result"
        folder.mkdir()
        index = open_index(inputs["index"], Path(name) / "opened")
        engine = index if params.engine == "embedded" else open_server_index(index, params.alias)
        rules = load_rules(index.folder)
        searched = with_categories(engine, index)
        retrieval = Retrieval(searched, entries_of(inputs["terminology"]), rules=rules, k=params.k)
        total = sum(run["epochs"] for run in params.runs(spec))
        found = {split: retrieval.candidates(_texts(records)) for split, records in _splits(data)}
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
        ranker = load_ranker(folder / MODEL, "cuda" if gpu else "cpu", params.max_length)
        judged = {
            split: ranker.judge(_texts(records), found[split], retrieval.parts(_texts(records)))
            for split, records in _splits(data)
        }
        scores: dict[str, Any] = {"decision": asdict(decision)}
        with out.part() as part:
            part.write("scores", list(trial_rows(spec, results, best)))
            for split, records in _splits(data):
                ordered = [decision.order(one) for one in judged[split]]
                answers = [decision.choose(own, one.parts) for own, one in zip(ordered, judged[split], strict=True)]
                part.write("predictions", list(_prediction_rows(split, records, answers, ordered)))
                part.write("gold_ranks", list(_rank_rows(split, records, ordered)))
                if all(record.answer is not None for record in records):
                    recalled = _recalled(retrieval, records, found[split])
                    scores[split] = _scores(records, answers, recalled, ordered)
                    part.write("scores", list(_score_rows(split, records, answers, scores[split])))
                elif split == "test" and params.limit is None:
                    write_submission(spec, records, [tuple(one.term for one in own) for own in answers], folder)
        (folder / SCORES).write_text(json.dumps(scores, ensure_ascii=False, indent=1), encoding="utf-8")
        told = trials_json(spec, params.grid(spec).source, data, results, best)
        (folder / TRIALS).write_text(told, encoding="utf-8")
        out.add_folder(folder)
    count_trials(out, data, results, best)


def train_ranker(
    params: NormaliserParams,
    source: ModelFolder,
    data: TaskData,
    retrieval: Retrieval,
    terms: Sequence[str],
    found: list[list[Candidate]],
    storage: str,
    progress: Progress = lambda epochs, note: None,
) -> list[TrialResult]:
    """The results of all trials of the grid, trained on `data.train` and chosen by F1 on `data.dev`.

    Trials look for no candidates: they read what was found.

    Args:
        terms: the standard terms of the list.
        found: the candidates of `data.dev`, as `retrieval` gives them.
        storage: folder or URI of what trials read, and of their own folders; what is finished there is taken over.
        progress: told the epochs done over all trials, and a note.

    Raises:
        UserError: no label is a term of the list, or a setting cannot be.
    """
    trials = _trials(params, source, storage, version="")
    check_ranker_trials(trials)
    texts = _texts(data.dev)
    dev = LabelledDiagnoses(texts, retrieval.parts(texts), found, [_terms(record) for record in data.dev])
    version = save_ranker_data(storage, _pairs(params, data.train, retrieval, terms), dev)
    return run_trials(_trials(params, source, storage, version), params.resources, progress)


def _trials(params: NormaliserParams, source: ModelFolder, storage: str, version: str) -> list[RankerTrial]:
    """All trials, the seeds of a setting after each other."""
    return [
        RankerTrial(
            task=TASK, model=str(source.path), data=storage, data_version=version, storage=f"{storage}/trials", **run
        )
        for run in params.runs(task(TASK))
    ]


def _pairs(
    params: NormaliserParams, records: Sequence[Record], retrieval: Retrieval, terms: Sequence[str]
) -> Iterator[Pair]:
    known = set(terms)
    found = retrieval.candidates(_texts(records))
    diagnoses = [
        Diagnosis(record.texts[0], _terms(record), tuple(one.term for one in own))
        for record, own in zip(records, found, strict=True)
    ]
    if not any(known.intersection(one.terms) for one in diagnoses):
        shown = ", ".join(sorted({term for one in diagnoses for term in one.terms})[:3])
        raise UserError(
            f"None of the training labels ({shown} …) is a term of the list. Give the list that the labels are from, "
            "as in --param terms=FILE."
        )
    return training_pairs(
        diagnoses,
        list(dict.fromkeys(terms)),
        hard=params.hard_negatives,
        random=params.random_negatives,
        seed=PAIRS_SEED,
    )


def _splits(data: TaskData) -> list[tuple[str, Sequence[Record]]]:
    return [(split, records) for split, records in (("dev", data.dev), ("test", data.test)) if records]


def _recalled(
    retrieval: Retrieval, records: Sequence[Record], found: Sequence[Sequence[Candidate]]
) -> dict[int, list[list[str]]]:
    """For each of `RECALLS` the terms of so many candidates: of those that are ranked, or of more, looked up anew (the
    first of more are others: places are kept for siblings, by their number).
    """
    looked = {k: found if k <= retrieval.k else retrieval.candidates(_texts(records), k) for k in RECALLS}
    return {k: [[one.term for one in own] for own in each] for k, each in looked.items()}


def _texts(records: Sequence[Record]) -> list[str]:
    return [record.texts[0] for record in records]


def _terms(record: Record) -> tuple[str, ...]:
    assert isinstance(record.answer, tuple)
    return tuple(str(term) for term in record.answer)


def _scores(
    records: Sequence[Record],
    answers: Sequence[Sequence[Candidate]],
    recalled: Mapping[int, Sequence[Sequence[str]]],
    ordered: Sequence[Sequence[Candidate]],
) -> dict[str, Any]:
    """Recall of retrieval, by number of gold terms too, and how often the first after ranking is right."""
    gold = [_terms(record) for record in records]
    by_count = {label: [place for place, own in enumerate(gold) if test(len(own))] for label, test in _GROUPS}
    groups = {label: places for label, places in {"all": list(range(len(gold))), **by_count}.items() if places}
    first = [bool(one) and one[0].term in own for one, own in zip(ordered, gold, strict=True)]
    return {
        "recall": {
            label: {
                str(k): recall_at_k([gold[i] for i in places], [terms[i] for i in places], k)
                for k, terms in recalled.items()
            }
            for label, places in groups.items()
        },
        "diagnoses": {label: len(places) for label, places in groups.items()},
        "accuracy_at_1": sum(first) / len(first),
        "right_number_of_terms": sum(len(a) == len(g) for a, g in zip(answers, gold, strict=True)) / len(gold),
    }


_GROUPS: tuple[tuple[str, Callable[[int], bool]], ...] = (
    ("1 term", lambda count: count == 1),
    ("2 terms", lambda count: count == 2),
    ("3 or more", lambda count: count > 2),
)


def _prediction_rows(
    split: str,
    records: Sequence[Record],
    answers: Sequence[Sequence[Candidate]],
    ordered: Sequence[Sequence[Candidate]],
) -> Iterator[dict[str, Any]]:
    for record, answer, one in zip(records, answers, ordered, strict=True):
        terms, gold = [each.term for each in answer], record.answer
        yield {
            "task": TASK,
            "split": split,
            "record_id": record.record_id,
            "group": None,
            "texts": list(record.texts),
            "answer": json.dumps(terms, ensure_ascii=False),
            "gold": None if gold is None else json.dumps(list(_terms(record)), ensure_ascii=False),
            "correct": None if gold is None else set(_terms(record)) == set(terms),
            "scores": [each.score for each in answer],
            "value": one[0].score if one else None,
        }


def _rank_rows(
    split: str, records: Sequence[Record], ordered: Sequence[Sequence[Candidate]]
) -> Iterator[dict[str, Any]]:
    for record, own in zip(records, ordered, strict=True):
        places = {one.term: place for place, one in reversed(list(enumerate(own, start=1)))}
        for term in () if record.answer is None else _terms(record):
            yield {"split": split, "record_id": record.record_id, "term": term, "rank": places.get(term)}


def _score_rows(
    split: str, records: Sequence[Record], answers: Sequence[Sequence[Candidate]], figures: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    scored = score(task(TASK), records, [tuple(one.term for one in own) for own in answers])
    intervals = {name: (one.score, one.low, one.high) for name, one in scored.scores.items()}
    plain = {f"recall_at_{k}": figures["recall"]["all"][str(k)] for k in RECALLS}
    plain |= {name: figures[name] for name in ("accuracy_at_1", "right_number_of_terms")}
    for name, interval in (intervals | {key: (one, None, None) for key, one in plain.items()}).items():
        yield score_row(task(TASK), split, name, *interval)
