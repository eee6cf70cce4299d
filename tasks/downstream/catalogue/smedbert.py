"""Tasks that only SMedBERT (Table 2) reports."""

from __future__ import annotations

from tasks.downstream.catalogue.grids import SMEDBERT_GRID
from tasks.downstream.catalogue.labels import CMEIE_PREDICATES
from tasks.downstream.readers.json import read_json
from tasks.downstream.records import Kind
from tasks.downstream.spec import TaskSpec, files

TASKS: tuple[TaskSpec, ...] = (
    TaskSpec(
        name="chip-re",
        title="CHIP-RE",
        suites=("smedbert",),
        kind=Kind.TRIPLES,
        reader=read_json,
        files=files("{}_data.json", "{}.json", "{}1.json", dev="val"),
        metric="triple_f1",
        labels=CMEIE_PREDICATES,
        max_length=300,
        grid=SMEDBERT_GRID,
        note="CHIP 2020, evaluation 2, as CMeIE. SMedBERT classifies 43,649 / 10,622 given pairs, without dev.",
    ),
)
