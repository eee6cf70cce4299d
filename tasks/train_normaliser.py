"""Stage `normaliser`: a term list, its index and labelled diagnoses in; what normalises, and its scores, out.

As eHealth does CHIP-CDN: 100 candidates from the whole list, then a pair classifier on diagnosis and candidate (section
4.3, appendix E). It learns from all right pairs and a sample of wrong ones (tasks/term_pairs.py); how many terms a
diagnosis has, and what retrieval's own order counts beside the ranker, is tuned on dev (tasks/term_decision.py).

Beside the tables lie `model/`, `index/` and `decision.json`, which tasks/normaliser.py opens, `scores.json`, and the
file to hand in where there is a test file without answers. Time grows with pairs x epochs and with candidates of dev
and test; memory with the labelled diagnoses and their candidates.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import Field

from infra.artifacts import Artifact
from infra.errors import UserError
from infra.stage import Output, StageParams, stage
from models import heads
from models.finetuning import FinetuneConfig, FinetuneResult, finetune
from models.heads.task_model import TaskModel
from models.pretrained import load_encoder
from tasks.downstream.alignment import TOKENIZER_FILES, TextTokenizer
from tasks.downstream.catalogue import task
from tasks.downstream.records import Record
from tasks.downstream.scoring import score
from tasks.downstream.submission import write_submission
from tasks.downstream.task_data import TaskData, load_task_data
from tasks.embedded_index import open_index
from tasks.finetune_inputs import ModelFolder
from tasks.metrics import recall_at_k
from tasks.normaliser import INDEX, MODEL, Retrieval, write_decision
from tasks.publish_terms import ALIAS, open_server_index
from tasks.query_settings import load_rules
from tasks.retrieve import Candidate
from tasks.term_decision import Judged, TermDecision, tune_decision
from tasks.term_pairs import Diagnosis, training_pairs
from tasks.term_ranker import MAX_LENGTH, PairEncoder, TermRanker
from tasks.terminology import entries_of

TASK = "chip-cdn"
RECALLS = (1, 10, 50, 100, 200)
"""Numbers of candidates whose recall is told."""
SCORES = "scores.json"


class NormaliserParams(StageParams):
    """How many candidates, and how their ranker learns."""

    k: int = Field(default=100, ge=1, description="candidates of each diagnosis that are ranked (eHealth: 100)")
    hard_negatives: int = Field(default=12, ge=0, description="wrong pairs a diagnosis from its candidates")
    random_negatives: int = Field(default=4, ge=0, description="wrong pairs a diagnosis from the whole list")
    max_length: int = Field(default=MAX_LENGTH, ge=8, description="tokens of a pair (eHealth, Table 9)")
    batch_size: int = Field(default=256, ge=1, description="pairs in a batch (eHealth, Table 9)")
    learning_rate: float = Field(default=6e-5, gt=0, description="the middle of eHealth's Table 9")
    epochs: int = Field(default=4, ge=1)
    seed: int = 1
    ema_decay: float | None = Field(default=0.9999, ge=0, lt=1)
    precision: Literal["fp32", "bf16"] = "fp32"
    engine: Literal["embedded", "elasticsearch"] = Field(
        default="embedded", description="what finds candidates; elasticsearch: the server of ELASTICSEARCH_URL"
    )
    alias: str = Field(default=ALIAS, description="of the list on the server; the flow sets its own")
    limit: int | None = Field(default=None, ge=1, description="the most diagnoses of each split, for a try")
    random_weights: bool = Field(default=False, description="the encoder's architecture with fresh weights")


@stage(name="normaliser", version=1, params=NormaliserParams, tables=("scores", "predictions"), unit="step")
def normaliser(inputs: Mapping[str, Any], params: NormaliserParams, out: Output) -> None:
    """Train on `inputs["data"]` (`TaskFiles` of CHIP-CDN) with the encoder `inputs["model"]` (`ModelFolder`), the
    artifacts `inputs["terminology"]` and `inputs["index"]`.

    Raises:
        UserError: a file is not as it should be, or no label is a term of the list.
    """
    data = load_task_data(task(TASK), inputs["data"].path, params.limit)
    with tempfile.TemporaryDirectory(prefix="yiwen-normaliser-") as name:
        folder = Path(name) / "result"
        index = open_index(inputs["index"], Path(name) / "opened")
        engine = index if params.engine == "embedded" else open_server_index(index, params.alias)
        rules = load_rules(index.folder)
        retrieval = Retrieval(engine, entries_of(inputs["terminology"]), rules=rules, k=params.k)

        def report(step: int, total: int, note: str) -> None:
            out.on_progress("normaliser", step, total, note)

        trained = train_ranker(params, inputs["model"], data, retrieval, index.terms, report)
        ranker = TermRanker(trained.model, trained.tokenizer, params.max_length)
        looked = {split: _look_up(retrieval, records) for split, records in (("dev", data.dev), ("test", data.test))}
        judged = {split: _judge(ranker, retrieval, records, looked[split]) for split, records in _splits(data)}
        decision, _ = tune_decision(judged["dev"], [_terms(record) for record in data.dev])
        _save(folder, trained, inputs, decision, params.k)
        scores: dict[str, Any] = {"decision": asdict(decision), "curve": trained.curve}
        with out.part() as part:
            for split, records in _splits(data):
                ordered = [decision.order(one) for one in judged[split]]
                answers = [decision.choose(own, one.parts) for own, one in zip(ordered, judged[split], strict=True)]
                part.write("predictions", list(_prediction_rows(split, records, answers, ordered)))
                if all(record.answer is not None for record in records):
                    scores[split] = _scores(records, answers, looked[split], ordered)
                    part.write("scores", list(_score_rows(split, records, answers, scores[split])))
                elif split == "test" and params.limit is None:
                    write_submission(task(TASK), records, [tuple(one.term for one in own) for own in answers], folder)
        (folder / SCORES).write_text(json.dumps(scores, ensure_ascii=False, indent=1), encoding="utf-8")
        out.build.add_folder(folder)
    for split, records in (("train", data.train), *_splits(data)):
        out.count(f"records_{split}", len(records))


class Trained:
    """A ranker's parts, and how its training went."""

    def __init__(self, model: TaskModel, tokenizer: TextTokenizer, outcome: FinetuneResult) -> None:
        self.model, self.tokenizer = model, tokenizer
        self.curve = [{"step": one.step, "epoch": one.epoch, "f1": one.score} for one in outcome.curve]


def train_ranker(
    params: NormaliserParams,
    source: ModelFolder,
    data: TaskData,
    retrieval: Retrieval,
    terms: Sequence[str],
    report: Callable[[int, int, str], None] = lambda step, total, note: None,
) -> Trained:
    """Train on `data.train`, the best epoch by F1 on `data.dev`.

    Args:
        terms: the standard terms of the list.
        report: told the steps done, all steps, and the figures worth showing.

    Raises:
        UserError: no label is a term of the list.
    """
    tokenizer = TextTokenizer.from_folder(source.path)
    torch.manual_seed(params.seed)
    encoder = load_encoder(source.path)
    if params.random_weights:
        encoder = type(encoder)(encoder.config)
    model = heads.build("pair", encoder, num_labels=2, seed=params.seed)
    model.to("cuda" if torch.cuda.is_available() else "cpu")
    examples = _examples(params, tokenizer, data.train, retrieval, terms)
    dev, parts = _look_up(retrieval, data.dev), retrieval.parts([record.texts[0] for record in data.dev])
    gold = [_terms(record) for record in data.dev]

    def evaluate(model: TaskModel) -> float:
        ranker = TermRanker(model, tokenizer, params.max_length)
        judged = ranker.judge([record.texts[0] for record in data.dev], [own[: params.k] for own in dev], parts)
        return tune_decision(judged, gold)[1]

    config = FinetuneConfig(
        epochs=params.epochs,
        batch_size=params.batch_size,
        learning_rate=params.learning_rate,
        seed=params.seed,
        ema_decay=params.ema_decay,
        precision=params.precision,
    )
    total = params.epochs * -(-len(examples) // params.batch_size)

    def tell(step: int, split: str, figures: Mapping[str, float]) -> None:
        note = ", ".join(f"{name} {value:.3f}" for name, value in figures.items() if name in ("loss", "best_score"))
        report(step, total, note)

    return Trained(model, tokenizer, finetune(model, examples, config, evaluate=evaluate, report=tell))


def _examples(
    params: NormaliserParams,
    tokenizer: TextTokenizer,
    records: Sequence[Record],
    retrieval: Retrieval,
    terms: Sequence[str],
) -> list[Any]:
    known = set(terms)
    found = retrieval.candidates([record.texts[0] for record in records])
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
    pairs = training_pairs(
        diagnoses,
        list(dict.fromkeys(terms)),
        hard=params.hard_negatives,
        random=params.random_negatives,
        seed=params.seed,
    )
    return PairEncoder(tokenizer, params.max_length).examples(list(pairs))


def _splits(data: TaskData) -> list[tuple[str, Sequence[Record]]]:
    return [(split, records) for split, records in (("dev", data.dev), ("test", data.test)) if records]


def _look_up(retrieval: Retrieval, records: Sequence[Record]) -> list[list[Candidate]]:
    """More candidates than are ranked, as far as recall is told."""
    return retrieval.candidates([record.texts[0] for record in records], max(retrieval.k, *RECALLS)) if records else []


def _judge(
    ranker: TermRanker, retrieval: Retrieval, records: Sequence[Record], found: Sequence[Sequence[Candidate]]
) -> list[Judged]:
    texts = [record.texts[0] for record in records]
    return ranker.judge(texts, [own[: retrieval.k] for own in found], retrieval.parts(texts))


def _terms(record: Record) -> tuple[str, ...]:
    assert isinstance(record.answer, tuple)
    return tuple(str(term) for term in record.answer)


def _save(folder: Path, trained: Trained, inputs: Mapping[str, Any], decision: TermDecision, k: int) -> None:
    index: Artifact = inputs["index"]
    trained.model.cpu().save(folder / MODEL)
    for name in TOKENIZER_FILES:
        if (inputs["model"].path / name).is_file():
            shutil.copyfile(inputs["model"].path / name, folder / MODEL / name)
    index.download(folder / INDEX)
    write_decision(folder, decision, k)


def _scores(
    records: Sequence[Record],
    answers: Sequence[Sequence[Candidate]],
    found: Sequence[Sequence[Candidate]],
    ordered: Sequence[Sequence[Candidate]],
) -> dict[str, Any]:
    """Recall of retrieval, by number of gold terms too, and how often the first after ranking is right."""
    gold = [_terms(record) for record in records]
    terms = [[one.term for one in own] for own in found]
    by_count = {label: [place for place, own in enumerate(gold) if test(len(own))] for label, test in _GROUPS}
    groups = {label: places for label, places in {"all": list(range(len(gold))), **by_count}.items() if places}
    first = [bool(one) and one[0].term in own for one, own in zip(ordered, gold, strict=True)]
    return {
        "recall": {
            label: {str(k): recall_at_k([gold[i] for i in places], [terms[i] for i in places], k) for k in RECALLS}
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


def _score_rows(
    split: str, records: Sequence[Record], answers: Sequence[Sequence[Candidate]], figures: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    scored = score(task(TASK), records, [tuple(one.term for one in own) for own in answers])
    intervals = {name: (one.score, one.low, one.high) for name, one in scored.scores.items()}
    plain = {f"recall_at_{k}": figures["recall"]["all"][str(k)] for k in RECALLS}
    plain |= {name: figures[name] for name in ("accuracy_at_1", "right_number_of_terms")}
    for name, (value, low, high) in (intervals | {key: (one, None, None) for key, one in plain.items()}).items():
        yield {
            "task": TASK,
            "split": split,
            "of": "best run",
            "metric": name,
            "main": name == scored.metric,
            "value": value,
            "low": low,
            "high": high,
            "best": True,
            **dict.fromkeys(("batch_size", "learning_rate", "epochs", "seed")),
        }
