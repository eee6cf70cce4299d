"""ELECTRA+EM+PAP's own tasks (Table 5): searches for medicinal products."""

from __future__ import annotations

from tasks.downstream.catalogue.grids import PAP_GRID
from tasks.downstream.catalogue.labels import YES_NO
from tasks.downstream.readers.delimited import read_tsv
from tasks.downstream.readers.tagged import read_bio
from tasks.downstream.records import Kind
from tasks.downstream.spec import Fields, TaskSpec, files

TASKS: tuple[TaskSpec, ...] = (
    TaskSpec(
        name="qtrel-easy",
        title="QTRel-easy",
        suites=("pap",),
        kind=Kind.PAIR,
        reader=read_tsv,
        columns=("query", "title", "label"),
        files=files("{}.tsv"),
        fields=Fields(texts=("query", "title")),
        metric="positive_f1",
        more_metrics=("accuracy",),
        labels=YES_NO,
        max_length=128,
        grid=PAP_GRID,
        sizes=(9_303, 1_000, 1_000),
    ),
    TaskSpec(
        name="qtrel-hard",
        title="QTRel-hard",
        suites=("pap",),
        kind=Kind.PAIR,
        reader=read_tsv,
        columns=("query", "title", "label"),
        files=files("{}.tsv"),
        fields=Fields(texts=("query", "title")),
        metric="positive_f1",
        more_metrics=("accuracy",),
        labels=YES_NO,
        max_length=128,
        grid=PAP_GRID,
        sizes=(8_941, 1_000, 1_000),
        note="No word of the query occurs in the title of its product.",
    ),
    TaskSpec(
        name="qic-pap",
        title="QIC",
        suites=("pap",),
        kind=Kind.SINGLE,
        reader=read_tsv,
        columns=("query", "label"),
        files=files("{}.txt", "{}.tsv"),
        fields=Fields(texts=("query",)),
        metric="micro_f1",
        more_metrics=("macro_f1",),
        max_length=128,
        grid=PAP_GRID,
        sizes=(34_929, 13_234, 13_234),
        note="22 intents of searches for medicinal products.",
    ),
    TaskSpec(
        name="qner",
        title="QNER",
        suites=("pap",),
        kind=Kind.TAGGING,
        reader=read_bio,
        files=files("{}.txt"),
        metric="entity_f1",
        max_length=128,
        grid=PAP_GRID,
        sizes=(135_411, 14_047, 14_047),
        note="28 types: brand, main ingredient, dosage form, …",
    ),
)
