"""A split of a task, read from a folder of official files or from Parquet files with a column `orig_split`.

The folder itself and one named after the task are searched for the official names of `spec.files`, then for
`spec.parquet`.

If a benchmark leaves a split out, it is made from another one by a hash of the text (of the question, so that its
candidates stay together), which gives the same split on every machine:

- no dev: a tenth of train;
- no train (cMedQA and cMedIR as partly published): four fifths of dev; the rest remains dev. Questions of that dev
  reappear in the test split with other candidates, so scores of such a model mean less than the papers'.

A test split is never made: its scores would be taken for the benchmark's.

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
"""One record in this many goes to a dev split made of train, and of dev."""


def read_split(spec: TaskSpec, folder: str | Path, split: Split) -> SplitRecords:
    """Return the checked records of a split; answers in a test file are read, and used for scores only.

    Raises:
        UserError: the split has no file, a file is not of the task's form (with file, place and field), or a training
            file is empty or has a single class.
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
        rejects = []  # they are reported with the split whose file it is
        origin = f"{given['train'].name}, a tenth of its train: there is no dev file"
    elif split == "train" and "dev" in given:
        records = [record for record in _load(spec, given["dev"], "dev")[0] if not _drawn(record, DEV_OF_DEV)]
        rejects = []
        origin = f"{given['dev'].name}, four fifths of its dev: there is no train file"
    else:
        raise _missing(spec, Path(folder), split)
    if split == "train":
        _check_training(spec, records, origin)
    return SplitRecords(records, rejects, origin)


def available_splits(spec: TaskSpec, folder: str | Path) -> tuple[Split, ...]:
    """Return the splits that `read_split` can return for a folder, including those it makes."""
    given = set(sources(spec, Path(folder)))
    if given & {"train", "dev"}:
        given |= {"train", "dev"}
    return tuple(split for split in SPLITS if split in given)


def labels_of(spec: TaskSpec, train: Iterable[Record]) -> tuple[str, ...]:
    """Return the classes, types or predicates that a model learns: the benchmark's, else those in training, sorted.

    Empty for CHOICE and NORMALISATION, whose answers are not labels.
    """
    if spec.labels is not None:
        return spec.labels
    return tuple(sorted({label for record in train for label in record_labels(spec, record)}))


def unseen_labels(spec: TaskSpec, labels: Iterable[str], records: Iterable[Record]) -> Counter[str]:
    """Return labels of records that a model cannot predict, with their counts: every such answer counts as missed."""
    known = set(labels)
    given = (label for record in records for label in record_labels(spec, record))
    return Counter(label for label in given if label not in known)


def record_labels(spec: TaskSpec, record: Record) -> list[str]:
    """Return the labels in an answer: a class, the types of its entities, the predicates of its triples."""
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
    """Return the file of each split that exists; empty if the folder has no files of the task.

    Raises:
        UserError: it is not a folder, or several files match one split.
    """
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder. Give the one that holds the files of {spec.title}.")
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
    """Return the file that a pattern matches, if any.

    Raises:
        UserError: several match.
    """
    paths = sorted(path for path in place.glob(pattern) if path.is_file())
    if len(paths) > 1:
        raise UserError(
            f"{place} holds {', '.join(path.name for path in paths)}, but {pattern} must match one file. "
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
        f"the folder has {shown or 'no files'}."
    )


def _drawn(record: Record, one_in: int) -> bool:
    question = record.group if record.group is not None else record.texts[0]
    # Python's own hash differs between runs; this one draws the same questions everywhere.
    digest = hashlib.blake2b(question.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") % one_in == 0


def _check_training(spec: TaskSpec, records: list[Record], origin: str) -> None:
    if not records:
        raise UserError(f"{origin} has no records of {spec.title} to train with.")
    if spec.kind in (Kind.SINGLE, Kind.PAIR, Kind.RANKING):
        labels = {record.answer for record in records}
        if len(labels) == 1:
            raise UserError(
                f"{origin}: all {len(records):,} records have the label {labels.pop()!r}; there is nothing to learn. "
                "Is it the whole training file?"
            )
    elif spec.kind not in (Kind.CHOICE,) and not any(record.answer for record in records):
        raise UserError(f"{origin}: none of {len(records):,} records has an answer. Is it the test file?")
