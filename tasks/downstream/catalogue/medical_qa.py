"""Medical question answering (eHealth, Tables 5 and 9): entailment, answer ranking and multiple choice."""

from __future__ import annotations

from tasks.downstream.catalogue.grids import ehealth_grid
from tasks.downstream.catalogue.labels import YES_NO
from tasks.downstream.readers.delimited import read_tsv
from tasks.downstream.readers.question import read_options
from tasks.downstream.records import Kind
from tasks.downstream.spec import Fields, TaskSpec, files

TASKS: tuple[TaskSpec, ...] = (
    TaskSpec(
        name="cmedqnli",
        title="cMedQNLI",
        suites=("medical-qa", "chineseblue"),
        kind=Kind.PAIR,
        reader=read_tsv,
        columns=("label", "text_a", "text_b"),
        files=files("{}.txt", "{}.tsv", "cMedQNLI_{}.tsv"),
        fields=Fields(texts=("text_a", "text_b")),
        metric="micro_f1",
        more_metrics=("positive_f1",),
        labels=YES_NO,
        max_length=512,
        grid=ehealth_grid((8, 16, 32), (3e-5, 6e-5, 1e-4), (1, 2, 4)),
        parquet="cMedQNLI.parquet",
        sizes=(80_950, 9_065, 9_969),
        note="eHealth reports micro-F1, ELECTRA+EM+PAP the positive class's.",
    ),
    TaskSpec(
        name="webmedqa",
        title="webMedQA",
        suites=("medical-qa",),
        kind=Kind.RANKING,
        reader=read_tsv,
        columns=("question_id", "label", "category", "question", "answer"),
        files=files("medQA.{}.txt", "{}.txt", dev="valid"),
        fields=Fields(texts=("question", "answer"), group="question_id"),
        metric="precision_at_1",
        more_metrics=("mrr",),
        labels=YES_NO,
        max_length=512,
        grid=ehealth_grid((8, 16), (2e-5, 3e-5, 6e-5), (1, 2, 4)),
        sizes=(252_850, 31_605, 31_655),
        note="One right and four wrong answers to each question.",
    ),
    TaskSpec(
        name="nlpec",
        title="NLPEC",
        suites=("medical-qa",),
        kind=Kind.CHOICE,
        reader=read_options,
        files=files("{}.json", "{}.jsonl", "NLPEC_{}.json"),
        fields=Fields(texts=("evidence", "question", "options"), answer="answer"),
        metric="accuracy",
        max_length=512,
        grid=ehealth_grid((32,), (2e-5, 3e-5, 6e-5), (10, 20, 30, 40)),
        sizes=(18_117, 2_500, 550),
    ),
)
