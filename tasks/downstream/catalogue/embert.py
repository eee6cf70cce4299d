"""Tasks that only EMBERT (Table 3) reports."""

from __future__ import annotations

from tasks.downstream.catalogue.grids import SMEDBERT_GRID
from tasks.downstream.catalogue.labels import CMEEE_TYPES, YES_NO
from tasks.downstream.readers.question import read_candidates
from tasks.downstream.readers.tagged import read_piped
from tasks.downstream.records import Kind
from tasks.downstream.spec import Fields, TaskSpec, files

TASKS: tuple[TaskSpec, ...] = (
    TaskSpec(
        name="cmedqa-embert",
        title="cMedQA-EMBERT",
        suites=("embert",),
        kind=Kind.RANKING,
        reader=read_candidates,
        files=files("{}_candidates.txt"),
        fields=Fields(texts=("question", "answer"), group="question_id"),
        metric="precision_at_1",
        more_metrics=("mrr",),
        labels=YES_NO,
        max_length=512,
        grid=SMEDBERT_GRID,
        sizes=(186_771, 46_600, 46_600),
        note="cMedQA 1.0 (Zhang et al., 2017), scored by questions, as is 2.0. SMedBERT samples it to save time.",
    ),
    TaskSpec(
        name="cnner",
        title="cNNER",
        suites=("embert",),
        kind=Kind.NESTED_TAGGING,
        reader=read_piped,
        files=files("{}_data.txt", "{}.txt", "{}1.txt", dev="val"),
        metric="entity_f1",
        labels=CMEEE_TYPES,
        nested_types=("sym",),
        max_length=128,
        grid=SMEDBERT_GRID,
        sizes=(12_000, 3_000, 5_000),
        note="CHIP 2020, evaluation 1: CMeEE's texts, split differently.",
    ),
)
