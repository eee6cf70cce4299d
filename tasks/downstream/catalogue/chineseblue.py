"""ChineseBLUE, as ELECTRA+EM+PAP (Table 4) reports it.

The suite also includes cMedQNLI, whose entry is in medical_qa.py. Where the paper does not say which F1 it means, its
released code does: F1 of the positive class for pairs, and micro-F1 over weak and firm intention for cMedIC.
"""

from __future__ import annotations

from tasks.downstream.catalogue.grids import SMEDBERT_GRID
from tasks.downstream.catalogue.labels import CTC_LABELS, YES_NO
from tasks.downstream.readers.delimited import read_tsv
from tasks.downstream.readers.question import read_documents
from tasks.downstream.readers.tagged import read_chineseblue
from tasks.downstream.records import Kind
from tasks.downstream.spec import Fields, TaskSpec, files

TASKS: tuple[TaskSpec, ...] = (
    TaskSpec(
        name="cmedqaner",
        title="cMedQANER",
        suites=("chineseblue",),
        kind=Kind.TAGGING,
        reader=read_chineseblue,
        files=files("{}.json", "{}.txt"),
        metric="entity_f1",
        max_length=128,
        grid=SMEDBERT_GRID,
        parquet="cMedQANER.parquet",
        sizes=(1_673, 175, 215),
    ),
    TaskSpec(
        name="cehrner",
        title="cEHRNER",
        suites=("chineseblue",),
        kind=Kind.TAGGING,
        reader=read_chineseblue,
        files=files("{}.json", "{}.txt"),
        metric="entity_f1",
        max_length=128,
        grid=SMEDBERT_GRID,
        parquet="cEHRNER.parquet",
        sizes=(915, 44, 41),
    ),
    TaskSpec(
        name="cmedqq",
        title="cMedQQ",
        suites=("chineseblue",),
        kind=Kind.PAIR,
        reader=read_tsv,
        columns=("label", "text_a", "text_b"),
        files=files("{}.txt", "{}.tsv"),
        fields=Fields(texts=("text_a", "text_b")),
        metric="positive_f1",
        more_metrics=("accuracy",),
        labels=YES_NO,
        max_length=128,
        grid=SMEDBERT_GRID,
        parquet="cMedQQ.parquet",
        sizes=(16_071, 1_793, 1_935),
    ),
    TaskSpec(
        name="cmedqa",
        title="cMedQA",
        suites=("chineseblue",),
        kind=Kind.PAIR,
        reader=read_tsv,
        columns=("label", "text_a", "text_b"),
        files=files("{}.txt", "{}.tsv"),
        fields=Fields(texts=("text_a", "text_b"), group="text_a"),
        metric="positive_f1",
        more_metrics=("accuracy",),
        labels=YES_NO,
        max_length=512,
        grid=SMEDBERT_GRID,
        parquet="cMedQA.parquet",
        note="ChineseBLUE's, scored by pairs; EMBERT's is cmedqa-embert.",
    ),
    TaskSpec(
        name="cmedir",
        title="cMedIR",
        suites=("chineseblue",),
        kind=Kind.PAIR,
        reader=read_documents,
        files=files("{}.txt", "{}.json", "{}.tsv"),
        fields=Fields(texts=("query", "title"), group="query"),
        metric="pair_score",
        more_metrics=("accuracy",),
        labels=("0", "1", "2", "3", "4"),
        max_length=128,
        grid=SMEDBERT_GRID,
        parquet="cMedIR.parquet",
    ),
    TaskSpec(
        name="cmedic",
        title="cMedIC",
        suites=("chineseblue",),
        kind=Kind.SINGLE,
        reader=read_tsv,
        columns=("label", "text"),
        files=files("{}.tsv", "{}.txt"),
        metric="intent_f1",
        more_metrics=("accuracy", "macro_f1"),
        labels=("0", "1", "2"),
        max_length=128,
        grid=SMEDBERT_GRID,
        parquet="cMedIC.parquet",
        note="0 no intention, 1 weak, 2 firm.",
    ),
    TaskSpec(
        name="cmedtc",
        title="cMedTC",
        suites=("chineseblue",),
        kind=Kind.SINGLE,
        reader=read_tsv,
        columns=("label", "text"),
        files=files("{}.tsv", "{}.txt"),
        metric="micro_f1",
        more_metrics=("macro_f1",),
        labels=CTC_LABELS,
        max_length=128,
        grid=SMEDBERT_GRID,
        parquet="cMedTC.parquet",
        note="CHIP-CTC's classes, split differently. The papers call it multi-label; each text of the files has one.",
    ),
)
