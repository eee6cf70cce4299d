"""Gain and cost of a ranker on top of retrieval, on the open benchmark of normalisation.

    python benchmarks/terms/normalisation_ranker.py --model ENCODER [--epochs 4] [--diagnoses 10000] [--output FILE.md]

The benchmark is that of benchmarks/terms/normalisation.py: names of diseases in CMeKG against ICD-10 in Chinese, no
code and no mention in two splits, no query of dev or test among the indexed names. The ranker is trained on the queries
of train, its decision tuned on those of dev. An answer is right if its term is that of one of the query's codes.
Seconds are CPU seconds of the process. With --epochs 0 nothing is trained: only the cost per diagnosis is measured, end
to end, with the encoder's weights and a head of random ones, whose cost is the same.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch

from benchmarks.pages import cpu_name, publish, table
from benchmarks.terms.normalisation import Data, prepare
from models import heads
from models.weights.pretrained import load_encoder
from tasks.downstream.features.alignment import TOKENIZER_FILES
from tasks.downstream.records import Record
from tasks.downstream.task_data import TaskData
from tasks.finetune.inputs import ModelFolder
from tasks.finetune.params import Resources
from tasks.metrics.scores import normalisation_f1, recall_at_k
from tasks.normalise.normaliser import INDEX, MODEL, Normaliser, Retrieval, load_ranker, write_decision
from tasks.normalise.params import NormaliserParams
from tasks.normalise.ranking.decision import TermDecision, tune_decision
from tasks.normalise.ranking.training import train_ranker
from tasks.retrieve.candidates import Candidate
from tasks.retrieve.categories import with_categories
from tasks.retrieve.embedded import EmbeddedIndex

AT = (1, 5, 10, 50, 100)


def records_of(data: Data, split: str) -> list[Record]:
    """The queries of a split with the terms of their codes."""
    terms: dict[str, list[str]] = {}
    for entry in data.names:
        terms.setdefault(entry.code, []).append(entry.term)
    return [
        Record(str(number), (mention.text,), tuple(term for code in mention.codes for term in terms[code]))
        for number, mention in enumerate(data.benchmark.queries(split))
    ]


def rows(name: str, gold: Sequence[tuple[str, ...]], found: Sequence[Sequence[Candidate]]) -> list[str]:
    """Recall of an order of candidates."""
    terms = [[one.term for one in own] for own in found]
    return [name, *(f"{recall_at_k(gold, terms, k):.3f}" for k in AT)]


def page(options: argparse.Namespace) -> Iterator[str]:
    """Lines of the page."""
    data = prepare()
    splits = {split: records_of(data, split) for split in ("train", "dev", "test")}
    texts = {split: [record.texts[0] for record in own] for split, own in splits.items()}
    gold = {split: [tuple(map(str, record.answer or ())) for record in own] for split, own in splits.items()}
    params = NormaliserParams(
        epochs=(options.epochs,),
        batch_sizes=(options.batch_size,),
        learning_rates=(options.learning_rate,),
        seeds=(1,),
        ema_decay=None,
        precision=options.precision,
        resources=Resources(trials_at_once=1),
    )
    with tempfile.TemporaryDirectory() as folder:
        index = EmbeddedIndex.build(data.full, folder)
        retrieval = Retrieval(with_categories(index, index), data.full, k=params.k)
        began = time.process_time()
        given = TaskData(splits["train"], splits["dev"], splits["test"])
        found = {split: retrieval.candidates(texts[split]) for split in ("dev", "test")}
        model = ModelFolder(options.model)
        (trained,) = train_ranker(params, model, given, retrieval, index.terms, found["dev"], folder)
        training = time.process_time() - began
        ranker = load_ranker(Path(trained.trial.folder, MODEL))
        began = time.process_time()
        judged = {split: ranker.judge(texts[split], own, retrieval.parts(texts[split])) for split, own in found.items()}
        ranking = time.process_time() - began
    pairs = sum(len(own) for split in found.values() for own in split)
    decision, dev_f1 = tune_decision(judged["dev"], gold["dev"])
    alone = [TermDecision().order(one) for one in judged["test"]]
    both = [decision.order(one) for one in judged["test"]]
    yield f"# Ranking candidates for ICD-10, {date.today().isoformat()}"
    yield ""
    yield (
        f"{len(texts['train']):,}, {len(texts['dev']):,} and {len(texts['test']):,} queries of train, dev and test; "
        f"{cpu_name()}, {torch.get_num_threads()} threads. Encoder: {options.note or Path(options.model).name}; "
        f"{options.epochs} epochs, batch {options.batch_size}, rate {options.learning_rate:g}, {options.precision}, "
        f"{params.hard_negatives} hard and {params.random_negatives} random wrong pairs a query. A query with several "
        "codes has several right terms: recall counts each."
    )
    yield ""
    orders = {"retrieval": found["test"], "ranker alone": alone, "both": both}
    order = [rows(name, gold["test"], own) for name, own in orders.items()]
    yield from table(["test, order by", *(f"@{k}" for k in AT)], order)
    yield ""
    kept = "at most as many as parts" if decision.bounded else "any number"
    yield (
        f"Decision from dev: weight of retrieval {decision.retrieval_weight:g}, score of at least "
        f"{decision.threshold}, {kept}; F1 on dev {dev_f1:.3f}."
    )
    yield ""
    answers = {f"first of {name}": [[one.term for one in own[:1]] for own in found] for name, found in orders.items()}
    answers["both, with decision"] = [
        [term.term for term in decision.choose(own, one.parts)] for own, one in zip(both, judged["test"], strict=True)
    ]
    scores = {name: normalisation_f1(gold["test"], own) for name, own in answers.items()}
    yield from table(
        ["test, answer", "precision", "recall", "F1"],
        [[name, *(f"{own[key]:.3f}" for key in ("precision", "recall", "f1"))] for name, own in scores.items()],
    )
    yield ""
    yield from table(
        ["cost", "CPU s", "rate"],
        [
            ["training, with its candidates and dev scores", f"{training:.0f}", ""],
            ["ranking", f"{ranking:.0f}", f"{pairs / ranking:,.0f} pairs a CPU second"],
        ],
    )


def end_to_end(options: argparse.Namespace) -> Iterator[str]:
    """What diagnoses cost from text to terms, by the steps of `Normaliser`."""
    data = prepare()
    mentions = [mention.text for mention in data.benchmark.mentions]
    diagnoses = random.Random(1).choices(mentions, k=options.diagnoses)
    params = NormaliserParams()
    with tempfile.TemporaryDirectory() as folder:
        EmbeddedIndex.build(data.full, Path(folder, INDEX))
        alone = spent(lambda: Normaliser(folder).normalise(diagnoses))
        model = heads.build("pair", load_encoder(options.model), num_labels=2, seed=1)
        model.save(Path(folder, MODEL))
        for name in TOKENIZER_FILES:
            if (file := Path(options.model, name)).is_file():
                shutil.copyfile(file, Path(folder, MODEL, name))
        write_decision(Path(folder), TermDecision(), params.k)
        normaliser = Normaliser(folder, device="cpu")
        pairs = sum(len(found) for found in normaliser.retrieval.candidates(diagnoses))
        ranked = spent(lambda: normaliser.normalise(diagnoses))
    number = len(diagnoses)
    yield f"## {number:,} diagnoses end to end"
    yield ""
    yield (
        f"Mentions of the benchmark drawn with repeats, {len(set(diagnoses)):,} distinct; {params.k} candidates a "
        f"diagnosis, {pairs:,} pairs. {cpu_name()}, {torch.get_num_threads()} thread, the machine shared with other "
        f"work; CPU seconds of one run. Ranker: {options.note or Path(options.model).name}, with a head of random "
        "weights, which cost what learned ones do."
    )
    yield ""
    yield from table(
        ["from text to terms", "CPU s", "diagnoses a CPU s", "CPU ms a diagnosis"],
        [
            [what, f"{cost:.1f}", f"{number / cost:,.0f}", f"{1000 * cost / number:.2f}"]
            for what, cost in (("without a ranker", alone), ("with the ranker", ranked))
        ],
    )


def spent(work: Callable[[], object]) -> float:
    """CPU seconds."""
    began = time.process_time()
    work()
    return time.process_time() - began


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="folder of an encoder in Hugging Face's layout")
    parser.add_argument("--note", help="what the encoder is, for the page")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--learning-rate", type=float, default=6e-5)
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32", help="of training")
    parser.add_argument("--diagnoses", type=int, default=10_000, help="normalised end to end; 0 for none")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    lines = list(page(options)) if options.epochs else []
    publish([*lines, "", *(end_to_end(options) if options.diagnoses else [])], options.output)


if __name__ == "__main__":
    main()
