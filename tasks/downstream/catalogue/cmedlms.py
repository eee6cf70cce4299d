"""CMedLMs' tasks (Tables 7 to 9): records of a hospital, CCKS 2019 and sections of encyclopedias."""

from __future__ import annotations

from tasks.downstream.catalogue.grids import CMEDLMS_GRID
from tasks.downstream.readers.delimited import read_tsv
from tasks.downstream.readers.json import read_ccks, read_json
from tasks.downstream.records import Kind
from tasks.downstream.spec import Fields, TaskSpec, files

TASKS: tuple[TaskSpec, ...] = (
    TaskSpec(
        name="ccks2019-ner",
        title="CCKS2019-NER",
        suites=("cmedlms",),
        kind=Kind.TAGGING,
        reader=read_ccks,
        files=files("{}.json", "{}.txt", "{}.jsonl", "subtask1_{}*.txt"),
        metric="entity_f1",
        max_length=512,
        grid=CMEDLMS_GRID,
        note="CCKS 2019, task 1: six types; CMedLMs draws 1,000 records and cuts them 8:1:1.",
    ),
    TaskSpec(
        name="sahsu-ner",
        title="SAHSU-NER",
        suites=("cmedlms",),
        kind=Kind.TAGGING,
        reader=read_ccks,
        files=files("{}.json", "{}.txt", "{}.jsonl"),
        metric="entity_f1",
        max_length=512,
        grid=CMEDLMS_GRID,
        note="A hospital's records, labelled as CCKS 2019.",
    ),
    TaskSpec(
        name="cmed-classification",
        title="Biomedical-Text-Classification",
        suites=("cmedlms",),
        kind=Kind.SINGLE,
        reader=read_tsv,
        columns=("label", "text"),
        files=files("{}.tsv"),
        metric="macro_f1",
        more_metrics=("accuracy",),
        max_length=512,
        grid=CMEDLMS_GRID,
        note="Six sections of encyclopedias: cause, description, diagnosis, prevention, symptom, treatment.",
    ),
    TaskSpec(
        name="disease-diagnosis",
        title="Disease-Diagnosis-Prediction",
        suites=("cmedlms",),
        kind=Kind.MULTI_LABEL,
        reader=read_json,
        files=files("{}.json", "{}.jsonl"),
        fields=Fields(answer="labels"),
        metric="multi_label_f1",
        max_length=512,
        grid=CMEDLMS_GRID,
        note="44 diagnoses of 2,808 records (SAHSU-CCKS).",
    ),
    TaskSpec(
        name="symptom-department",
        title="Symptom-Department",
        suites=("cmedlms",),
        kind=Kind.SINGLE,
        reader=read_tsv,
        columns=("label", "text"),
        files=files("{}.tsv"),
        metric="macro_f1",
        more_metrics=("accuracy",),
        max_length=512,
        grid=CMEDLMS_GRID,
        note="Not of the paper: a stand-in for its diagnosis prediction with one class, made by finetune/cmedlms.",
    ),
)
