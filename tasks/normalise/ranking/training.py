"""Training of a ranker: pairs from labelled diagnoses, and the trials of the grid."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from infra.errors import UserError
from tasks.downstream.catalogue import task
from tasks.downstream.records import Record
from tasks.downstream.task_data import TaskData
from tasks.finetune.inputs import ModelFolder
from tasks.finetune.trials.grid import Progress, run_trials
from tasks.finetune.trials.result import TrialResult
from tasks.normalise.normaliser import Retrieval
from tasks.normalise.params import TASK, NormaliserParams
from tasks.normalise.ranking.data import LabelledDiagnoses, save_ranker_data
from tasks.normalise.ranking.pairs import Diagnosis, Pair, training_pairs
from tasks.normalise.ranking.trial import RankerTrial, check_ranker_trials
from tasks.retrieve.candidates import Candidate

PAIRS_SEED = 1
"""Seed of the sample of wrong pairs, which all trials share."""


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
    """Train all trials of the grid on `data.train` and score them by F1 on `data.dev`.

    Candidates are retrieved here, once; the trials read them from `storage`.

    Args:
        terms: standard terms of the list.
        found: candidates of `data.dev`, as returned by `retrieval`.
        storage: folder or URI for the data of trials and for their own folders. Finished trials in it are reused.
        progress: called with the number of epochs done over all trials, and a note.

    Raises:
        UserError: no label is a term of the list, or a setting is invalid.
    """
    # An invalid setting fails here, before the candidates of train are retrieved.
    check_ranker_trials(_trials(params, source, storage, version=""))
    texts = texts_of(data.dev)
    dev = LabelledDiagnoses(texts, retrieval.parts(texts), found, [terms_of(record) for record in data.dev])
    version = save_ranker_data(storage, _pairs(params, data.train, retrieval, terms), dev)
    return run_trials(_trials(params, source, storage, version), params.resources, progress)


def texts_of(records: Sequence[Record]) -> list[str]:
    """Return the diagnoses of records."""
    return [record.texts[0] for record in records]


def terms_of(record: Record) -> tuple[str, ...]:
    """Return the correct terms of a labelled record."""
    assert isinstance(record.answer, tuple)
    return tuple(str(term) for term in record.answer)


def _trials(params: NormaliserParams, source: ModelFolder, storage: str, version: str) -> list[RankerTrial]:
    """Return all trials, with the seeds of a setting next to each other."""
    return [
        RankerTrial(
            task=TASK,
            model=str(source.path),
            knowledge=source.knowledge,
            data=storage,
            data_version=version,
            storage=f"{storage}/trials",
            **run,
        )
        for run in params.runs(task(TASK))
    ]


def _pairs(
    params: NormaliserParams, records: Sequence[Record], retrieval: Retrieval, terms: Sequence[str]
) -> Iterator[Pair]:
    known = set(terms)
    found = retrieval.candidates(texts_of(records))
    diagnoses = [
        Diagnosis(record.texts[0], terms_of(record), tuple(one.term for one in own))
        for record, own in zip(records, found, strict=True)
    ]
    if not any(known.intersection(one.terms) for one in diagnoses):
        shown = ", ".join(sorted({term for one in diagnoses for term in one.terms})[:3])
        raise UserError(
            f"None of the training labels ({shown} …) is a term of the list. Give the list that the labels come from, "
            "such as --param terms=FILE."
        )
    return training_pairs(
        diagnoses,
        list(dict.fromkeys(terms)),
        hard=params.hard_negatives,
        random=params.random_negatives,
        seed=PAIRS_SEED,
    )
