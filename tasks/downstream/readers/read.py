"""A task's split from a folder of official files, or from Parquet files with a column `orig_split`.

Looked for, in this order, in the folder itself and in one called after the task: the official names of `spec.files`,
then `spec.parquet`.

Where a benchmark leaves a split out, one is made of what is there, by a hash of the text (of the question, so that its
candidates stay together), the same on every machine:

- no dev: a tenth of train;
- no train (cMedQA and cMedIR as published in part): four fifths of dev, the rest stays dev. Questions of that dev come
  back in the test with other candidates, so scores of such a model say less than the papers'.

A test split is never made: its answers would decide something.

Time and memory grow with the file: 228,000 pairs of 182 MB take 5 s of CPU and three times their bytes.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from infra.errors import UserError
from tasks.downstream.readers.assemble import assemble
from tasks.downstream.readers.parquet import parquet_splits, read_parquet
from tasks.downstream.records import Kind, Record
from tasks.downstream.spec import SPLITS, Reject, Row, Split, SplitRecords, TaskSpec

DEV_OF_TRAIN, DEV_OF_DEV = 10, 5
"""One in so many goes to the dev that is made, of train and of dev."""


def read_split(spec: TaskSpec, folder: str | Path, split: Split) -> SplitRecords:
    """The checked records of a split; a test file's answers, where it has any, are read and are for scores alone.

    Raises:
        UserError: no file for it; a file that is not of the task's form, with file, place and field; a training file
            that is empty or of one class.
    """
    given = sources(spec, Path(folder))
    if split in given:
        records, rejects = _load(spec, given[split], split)
        origin = given[split].name
        if split == "train" and "dev" not in given:
            records = [record for record in records if not _drawn(record, DEV_OF_TRAIN)]
            origin += ", without the tenth that serves as dev"
        elif split == "dev" and "train" not in given:
            records = [record for record in records if _drawn(record, DEV_OF_DEV)]
            origin += ", without the four fifths that serve as train"
    elif split == "dev" and "train" in given:
        records = [record for record in _load(spec, given["train"], "train")[0] if _drawn(record, DEV_OF_TRAIN)]
        rejects = []  # they are told with the split whose file it is
        origin = f"{given['train'].name}, a tenth of its train: there is no dev"
    elif split == "train" and "dev" in given:
        records = [record for record in _load(spec, given["dev"], "dev")[0] if not _drawn(record, DEV_OF_DEV)]
        rejects = []
        origin = f"{given['dev'].name}, four fifths of its dev: there is no train"
    else:
        raise _missing(spec, Path(folder), split)
    if split == "train":
        _check_training(spec, records, origin)
    return SplitRecords(records, rejects, origin)


def available_splits(spec: TaskSpec, folder: str | Path) -> tuple[Split, ...]:
    """The splits that `read_split` gives for a folder, made ones included."""
    given = set(sources(spec, Path(folder)))
    if given & {"train", "dev"}:
        given |= {"train", "dev"}
    return tuple(split for split in SPLITS if split in given)


def labels_of(spec: TaskSpec, train: Iterable[Record]) -> tuple[str, ...]:
    """The classes, types or predicates that a model learns: the benchmark's, else those in training, sorted.

    Empty for CHOICE and NORMALISATION, whose answers are no labels.
    """
    if spec.labels is not None:
        return spec.labels
    return tuple(sorted({label for record in train for label in record_labels(spec, record)}))


def unseen_labels(spec: TaskSpec, labels: Iterable[str], records: Iterable[Record]) -> Counter[str]:
    """Labels of records that a model cannot give, with their counts: every such answer counts as missed."""
    known = set(labels)
    given = (label for record in records for label in record_labels(spec, record))
    return Counter(label for label in given if label not in known)


def record_labels(spec: TaskSpec, record: Record) -> list[str]:
    """The labels in a record's answer: a class, the types of its entities, the predicates of its triples."""
    answer = record.answer
    if answer is None or spec.kind in (Kind.CHOICE, Kind.NORMALISATION):
        return []
    if isinstance(answer, str):
        return [answer]
    match spec.kind:
        case Kind.TAGGING | Kind.NESTED_TAGGING:
            return [entity.type for entity in answer]  # type: ignore[union-attr]
        case Kind.TRIPLES:
            return [triple.predicate for triple in answer]  # type: ignore[union-attr]
    return list(answer)  # type: ignore[arg-type]


def _load(spec: TaskSpec, path: Path, split: Split) -> tuple[list[Record], list[Reject]]:
    return assemble(_rows(spec, path, split), spec, path, split)


def _rows(spec: TaskSpec, path: Path, split: Split) -> Iterator[Row]:
    return read_parquet(path, split) if path.suffix == ".parquet" else spec.reader(path, spec)


def sources(spec: TaskSpec, folder: Path) -> dict[Split, Path]:
    """The file of each split that is there; none where the folder holds nothing of the task.

    Raises:
        UserError: it is no folder, or several files could be one split.
    """
    if not folder.is_dir():
        raise UserError(f"{folder} is no folder. Give the one that holds the files of {spec.title}.")
    places = [place for place in (folder, folder / spec.title, folder / spec.name) if place.is_dir()]
    found: dict[Split, Path] = {}
    for split in SPLITS:
        names = (name for place in places for pattern in spec.files.get(split, ()) for name in _matches(place, pattern))
        path = next(names, None)
        if path is not None:
            found[split] = path
    if not found and spec.parquet:
        for path in (place / spec.parquet for place in places):
            if path.is_file():
                held = parquet_splits(path)
                return {split: path for split in SPLITS if split in held}
    return found


def _matches(place: Path, pattern: str) -> list[Path]:
    """The file that a pattern names.

    Raises:
        UserError: there are several.
    """
    paths = sorted(path for path in place.glob(pattern) if path.is_file())
    if len(paths) > 1:
        raise UserError(
            f"{place} holds {', '.join(path.name for path in paths)}: one file is expected for {pattern}. "
            "Move the others away."
        )
    return paths


def _missing(spec: TaskSpec, folder: Path, split: Split) -> UserError:
    names = list(spec.files.get(split, ()))
    if spec.parquet:
        names.append(spec.parquet)
    there = sorted(path.name for path in folder.iterdir())
    shown = ", ".join(there[:12]) + (f" and {len(there) - 12} more" if len(there) > 12 else "")
    return UserError(
        f"No {split} file of {spec.title} in {folder}: looked for {', '.join(names)}, also in {spec.title}/; "
        f"there is {shown or 'nothing'}."
    )


def _drawn(record: Record, one_in: int) -> bool:
    question = record.group if record.group is not None else record.texts[0]
    digest = hashlib.blake2b(question.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") % one_in == 0


def _check_training(spec: TaskSpec, records: list[Record], origin: str) -> None:
    if not records:
        raise UserError(f"{origin} holds no record of {spec.title} to train with.")
    if spec.kind in (Kind.SINGLE, Kind.PAIR, Kind.RANKING):
        labels = {record.answer for record in records}
        if len(labels) == 1:
            raise UserError(
                f"{origin}: all {len(records):,} records have the label {labels.pop()!r}; there is nothing to learn. "
                "Is it the whole training file?"
            )
    elif spec.kind not in (Kind.CHOICE,) and not any(record.answer for record in records):
        raise UserError(f"{origin}: none of {len(records):,} records has an answer; is it the test file?")
