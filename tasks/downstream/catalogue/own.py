"""Tasks on users' own files: one entry per shape of answer, whatever the columns of the file are called.

The stage `own_task` (tasks/own/) turns a user's file into the files of an entry, with the fields named here. It writes
title and metric beside them, which replace those of the entry (tasks/downstream/own.py). To add a shape, add an entry
here, to `_ANSWERS` in tasks/own/records.py the function that reads its answers, and a flow like flows/own_pairs.py.
"""

from __future__ import annotations

from tasks.downstream.catalogue.grids import OWN_GRID
from tasks.downstream.readers.json import read_json
from tasks.downstream.records import Kind
from tasks.downstream.spec import Fields, TaskSpec, files


def _own(
    name: str, title: str, kind: Kind, metric: str, more: tuple[str, ...], fields: Fields, **rest: object
) -> TaskSpec:
    return TaskSpec(
        name=name,
        title=title,
        suites=(),
        kind=kind,
        reader=read_json,
        files=files("{}.jsonl"),
        fields=fields,
        metric=metric,
        more_metrics=more,
        max_length=512,
        grid=OWN_GRID,
        **rest,  # type: ignore[arg-type]
    )


_ONE = Fields(record_id="id")
_TWO = Fields(texts=("text", "text2"), record_id="id")
_ASKED = Fields(texts=("text", "text2"), record_id="id", group="group")

TASKS: tuple[TaskSpec, ...] = (
    _own("classify", "Classification", Kind.SINGLE, "macro_f1", ("micro_f1",), _ONE),
    _own("labels", "Labels", Kind.MULTI_LABEL, "multi_label_f1", ("macro_label_f1",), _ONE),
    _own("pairs", "Pairs", Kind.PAIR, "macro_f1", ("micro_f1",), _TWO),
    _own("tag", "Entities", Kind.TAGGING, "entity_f1", ("macro_entity_f1",), _ONE),
    _own("rank", "Ranking", Kind.RANKING, "mrr", ("precision_at_1",), _ASKED, labels=("0", "1")),
    _own("grades", "Graded ranking", Kind.PAIR, "pair_score", ("accuracy", "macro_f1"), _ASKED),
)
"""micro_f1 of one label per record is its accuracy; multi_label_f1 and entity_f1 are micro-averages."""
