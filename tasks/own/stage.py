"""Stage `own_task`: a user's file in; records in the form of the downstream tasks, with splits, out.

The artifact has `train.jsonl`, `dev.jsonl` and, unless there is no test, `test.jsonl`, which `finetune` reads like the
files of a benchmark, and `own_task.json` with what was found: columns, labels, where each split comes from, rows that
were left out, and warnings.

Time and memory grow with the file, which is in memory.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from infra.errors import UserError
from infra.stage import Output, stage
from tasks.downstream.catalogue import task
from tasks.downstream.own import OWN_TASK_FILE, OwnTask
from tasks.downstream.records import Entity, Kind
from tasks.downstream.spec import SPLITS, Reject, Split, TaskSpec
from tasks.own.checks import check_labels, check_splits, contradictions
from tasks.own.files import OwnFiles
from tasks.own.params import OwnTaskParams
from tasks.own.records import OwnRecord, read_records, spec_name
from tasks.own.splits import Unit, draw, joined

SplitRecords = dict[Split, list[OwnRecord]]


@stage(name="own_task", version=2, params=OwnTaskParams)
def own_task(inputs: Mapping[str, Any], params: OwnTaskParams, out: Output) -> None:
    """Turn `inputs["files"]` (`OwnFiles`) into the records of a task.

    Raises:
        UserError: a file cannot be read, or its records cannot be learnt from; the message names file, row and column.
    """
    files: OwnFiles = inputs["files"]
    given: SplitRecords = {}
    rejects: list[Reject] = []
    for split in (split for split in SPLITS if split in files.files):
        given[split], left_out = read_records(files.files[split], params)
        rejects += left_out
    everything = [record for records in given.values() for record in records]
    spec = task(spec_name(params, everything))
    metric, others = _metrics(spec, params.metric)
    warnings = check_labels(everything, params, spec.kind)
    records, origins = _splits(given, params, spec)
    warnings += check_splits(records, params, spec, is_drawn=len(records) > len(given)) + contradictions(everything)
    own = OwnTask(
        task=spec.name,
        title=f"{files.title}: {spec.title.lower()}",
        metric=metric,
        more_metrics=others,
        text_fields=params.text_fields,
        origins={str(split): origin for split, origin in origins.items()},
        labels=_label_counts(records),
        notes=_notes(rejects),
        warnings=tuple(warnings),
        rejects=tuple(rejects),
    )
    for split, rows in records.items():
        lines = (json.dumps(row, ensure_ascii=True) for row in _rows(rows, spec))
        out.add_bytes(f"{split}.jsonl", "".join(f"{line}\n" for line in lines).encode())
        out.count(f"records_{split}", len(rows))
    out.add_bytes(OWN_TASK_FILE, (own.model_dump_json(indent=1) + "\n").encode())
    for reason, count in Counter(one.reason for one in rejects).items():
        out.count(f"rejected_{reason}", count)
    out.count("labels", len(own.labels))
    out.count("warnings", len(warnings))


def _metrics(spec: TaskSpec, wanted: str | None) -> tuple[str, tuple[str, ...]]:
    """Return the metric that chooses the best run, and the others. Raises `UserError` for one of another task."""
    known = (spec.metric, *spec.more_metrics)
    if wanted is not None and wanted not in known:
        raise UserError(f"metric={wanted} is not a score of this task ({spec.name}). Use {' or '.join(known)}.")
    chosen = wanted or spec.metric
    return chosen, tuple(one for one in known if one != chosen)


def _splits(given: SplitRecords, params: OwnTaskParams, spec: TaskSpec) -> tuple[SplitRecords, dict[Split, str]]:
    """Return the records of each split, and where they come from; what is not given is drawn from train."""
    names = {split: records[0].path.name for split, records in given.items()}
    if params.split_field is not None:
        if len(given) > 1:
            raise UserError("Files of splits and a column of splits exclude each other. Leave split_field out.")
        found: SplitRecords = {
            split: own for split in SPLITS if (own := [one for one in given["train"] if one.split == split])
        }
        if "train" not in found:
            raise UserError(f"{given['train'][0].path}, column {params.split_field!r}: no row is of train.")
        origins = {split: f"{names['train']}, column {params.split_field}" for split in found}
    else:
        found, origins = dict(given), dict(names)
    shares: dict[Split, float] = {}
    if "dev" not in found:
        shares["dev"] = params.dev_share
        if "test" not in found and params.test_share > 0.0:
            shares["test"] = params.test_share
    if shares:
        found, origins = _drawn(found, origins, {"train": 1.0 - sum(shares.values()), **shares}, params, spec)
    return {split: found[split] for split in SPLITS if split in found}, origins


def _drawn(
    given: SplitRecords,
    origins: Mapping[Split, str],
    shares: Mapping[Split, float],
    params: OwnTaskParams,
    spec: TaskSpec,
) -> tuple[SplitRecords, dict[Split, str]]:
    records = given["train"]
    numbers, whole = _together(records, shares["train"], params, spec)
    members: dict[int, list[OwnRecord]] = {}
    for number, record in zip(numbers, records, strict=True):
        members.setdefault(number, []).append(record)
    units = [
        Unit(min(_keys(one, spec)[0] for one in own), len(own), frozenset(label for one in own for label in one.labels))
        for own in members.values()
    ]
    split_of = dict(zip(members, draw(units, shares, params.split_seed), strict=True))
    drawn: SplitRecords = {split: [] for split in shares}
    for number, record in zip(numbers, records, strict=True):
        drawn[split_of[number]].append(record)
    found = {**given, **drawn}
    how = f"drawn from {origins['train']}: stratified by label, {whole} kept together, seed {params.split_seed}"
    total = len(records)
    return found, {**origins, **{split: f"{len(found[split]):,} of {total:,} rows, {how}" for split in shares}}


def _together(
    records: Sequence[OwnRecord], train_share: float, params: OwnTaskParams, spec: TaskSpec
) -> tuple[list[int], str]:
    """Return the number of each record's unit, and what it keeps together, in words.

    Groups with a text in common are one unit. A text that most groups have, such as 复查, would join nearly all rows,
    and no split could be drawn. Then the groups alone stay whole, and `check_splits` warns of the texts.
    """
    whole = "rows of a query" if spec.fields.group else "equal texts"
    numbers = joined([_keys(record, spec) for record in records])
    if params.group_field is None:
        return numbers, whole
    if max(Counter(numbers).values()) <= train_share * len(records):
        return numbers, f"{params.group_field} and {whole}"
    return joined([_keys(record, spec)[:1] for record in records]), params.group_field


def _keys(record: OwnRecord, spec: TaskSpec) -> list[str]:
    """Return the group, where the record has one, and the text: rows with one of them in common stay together."""
    text = "\0".join(record.texts[:1] if spec.fields.group else record.texts)
    return [text] if record.group is None else [f"group\0{record.group}", text]


def _rows(records: Sequence[OwnRecord], spec: TaskSpec) -> Iterator[dict[str, Any]]:
    """Yield records under the field names of the catalogue's entry."""
    taken: Counter[str] = Counter()
    for record in records:
        name = record.place.rpartition(" ")[2]  # the row's own number, which leads back to it
        taken[name] += 1
        row: dict[str, Any] = {"id": name if taken[name] == 1 else f"{record.path.name} {name}"}
        row |= dict(zip(spec.fields.texts, record.texts, strict=True))
        if spec.fields.group is not None:
            row[spec.fields.group] = record.texts[0]
        if spec.kind is Kind.TAGGING:
            row["entities"] = [_entity(one) for one in record.answer]  # type: ignore[union-attr]
        else:
            row[spec.fields.answer] = list(record.answer) if isinstance(record.answer, tuple) else record.answer
        yield row


def _entity(one: Any) -> dict[str, Any]:
    assert isinstance(one, Entity)
    return {"start": one.start, "end": one.end, "type": one.type}


def _label_counts(records: SplitRecords) -> dict[str, dict[str, int]]:
    """Return the counts of each label by split, the most frequent label first."""
    by_split = {split: Counter(label for one in rows for label in one.labels) for split, rows in records.items()}
    total = sum(by_split.values(), Counter[str]())
    ordered = sorted(total, key=lambda label: (-total[label], label))
    return {label: {str(split): counts[label] for split, counts in by_split.items()} for label in ordered}


def _notes(rejects: Sequence[Reject]) -> tuple[str, ...]:
    words = {"empty_text": "without text", "no_answer": "without an answer"}
    notes = []
    for file in dict.fromkeys(one.file for one in rejects):
        counts = Counter(one.reason for one in rejects if one.file == file)
        named = ", ".join(f"{counts[reason]:,} {word}" for reason, word in words.items() if counts[reason])
        notes.append(f"Rows of {file} that were left out: {named}.")
    return tuple(notes)
