"""Records of a task as fine-tuning uses them: with the origin of each split and whatever was wrong with its files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from infra.errors import UserError
from tasks.downstream.own import OwnTask, read_own_task
from tasks.downstream.readers.read import available_splits, labels_of, read_split, unseen_labels
from tasks.downstream.records import Kind, Record
from tasks.downstream.spec import Reject, TaskSpec


@dataclass(frozen=True)
class TaskData:
    """Records by split."""

    train: Sequence[Record]
    dev: Sequence[Record]
    test: Sequence[Record]
    """Empty where there is no test file."""
    origins: dict[str, str] = field(default_factory=dict)
    """Description of where each split comes from."""
    rejects: Sequence[Reject] = ()
    unseen: dict[str, int] = field(default_factory=dict)
    """Labels of dev that do not occur in training, with their counts: the model misses every one of them."""
    own: OwnTask | None = None
    """Description of the user's files that the records were made from; None for a benchmark's."""

    @property
    def test_has_answers(self) -> bool:
        """True if the test file can be scored here."""
        return bool(self.test) and all(record.answer is not None for record in self.test)


def load_task_data(spec: TaskSpec, folder: str | Path, limit: int | None = None) -> TaskData:
    """Read and check the files of a task.

    Args:
        limit: maximum number of records per split, evenly spaced over the file; a question keeps all its candidates.

    Raises:
        UserError: a file is missing or malformed.
    """
    splits = available_splits(spec, folder)
    found = {split: read_split(spec, folder, split) for split in ("train", "dev")}
    if "test" in splits:
        found["test"] = read_split(spec, folder, "test")
    records = {split: _limited(given.records, limit) for split, given in found.items()}
    if not records["dev"]:
        raise UserError(f"{spec.title}: {found['dev'].origin} has no records to choose the best run by.")
    own = read_own_task(folder)
    origins = {split: given.origin for split, given in found.items()}
    return TaskData(
        train=records["train"],
        dev=records["dev"],
        test=records.get("test", []),
        origins=origins if own is None else origins | own.origins,
        rejects=[*(reject for given in found.values() for reject in given.rejects), *(own.rejects if own else ())],
        unseen=dict(unseen_labels(spec, labels_of(spec, records["train"]), records["dev"])),
        own=own,
    )


def check_kind(spec: TaskSpec) -> None:
    """Raise `UserError` for a task that fine-tuning alone cannot solve."""
    if spec.kind is Kind.NORMALISATION:
        raise UserError(
            f"{spec.title} needs candidates from a term list: run normalise/{spec.name}, and pass the folder that it "
            "prints to a suite with --param normaliser=FOLDER."
        )


def drawn_records(records: Sequence[Record], count: int | None, seed: int) -> list[Record]:
    """Return `count` records, drawn at random, in the order of the file; all for None or if there are fewer.

    A draw of fewer is part of a draw of more with the same seed. A question keeps all its candidates: of the last one
    drawn there may be more than `count`.
    """
    if count is None or len(records) <= count:
        return list(records)
    together = _questions(records)
    order = np.random.default_rng(seed).permutation(len(together))
    ends = np.cumsum([len(together[place]) for place in order])
    chosen = order[: int(np.searchsorted(ends, count)) + 1]
    return [record for place in sorted(chosen.tolist()) for record in together[place]]


def _questions(records: Sequence[Record]) -> list[list[Record]]:
    """Return the records of each question, or each record by itself, in the order of the file."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(record.group if record.group is not None else record.record_id, []).append(record)
    return list(groups.values())


def _limited(records: Sequence[Record], limit: int | None) -> list[Record]:
    if limit is None or len(records) <= limit:
        return list(records)
    together = _questions(records)
    wanted = max(1, limit * len(together) // len(records))
    chosen = [together[number * len(together) // wanted] for number in range(wanted)]
    return [record for group in chosen for record in group]
