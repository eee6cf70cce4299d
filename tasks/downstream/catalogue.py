"""The downstream tasks of the papers, one entry each.

A new task is one entry of `TASKS`, here one with a file `a_train.tsv` of lines `label<tab>text`:

    TaskSpec(
        name="my-intent",
        title="MyIntent",
        suites=("mine",),
        kind=Kind.SINGLE,
        reader=read_tsv,
        columns=("label", "text"),
        files=files("a_{}.tsv"),
        metric="accuracy",
        max_length=64,
        grid=SMEDBERT_GRID,
    ),

Then `read_split(task("my-intent"), folder, "train")` gives its checked records, and `finetune/my-intent` trains on
them. A file format of its own is a reader beside: a function that yields `Row`s (tasks/downstream/readers/json.py).

Names of files and fields are the benchmarks' own, metrics those of the papers' tables; where a paper does not say which
F1 it means, its released code does (ELECTRA+EM+PAP: positive class for pairs; cMedIC: micro over weak and firm
intention).
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from infra.errors import UserError
from tasks.downstream.readers.delimited import read_tsv
from tasks.downstream.readers.json import read_ccks, read_cmeee, read_json
from tasks.downstream.readers.question import read_candidates, read_documents, read_options
from tasks.downstream.readers.tagged import read_bio, read_chineseblue, read_piped
from tasks.downstream.records import Kind
from tasks.downstream.spec import Fields, Grid, Split, TaskSpec

__all__ = ["TASKS", "Fields", "Grid", "TaskSpec", "suite", "suites", "task"]


def files(*patterns: str, dev: str = "dev") -> Mapping[Split, tuple[str, ...]]:
    """Names of the files of each split: `{}` stands for train, dev (or what is said) and test."""
    words: Mapping[Split, str] = {"train": "train", "dev": dev, "test": "test"}
    return {split: tuple(pattern.format(word) for pattern in patterns) for split, word in words.items()}


def _ehealth(batch_sizes: tuple[int, ...], learning_rates: tuple[float, ...], epochs: tuple[int, ...]) -> Grid:
    return Grid(batch_sizes, learning_rates, epochs, "eHealth, Table 9")


CBLUE_GRID = _ehealth((8, 16, 32), (3e-5, 6e-5, 1e-4), (2, 4, 8, 12, 16))
"""Of CTC, STS, QIC, QTR and QQR."""

SMEDBERT_GRID = Grid((8, 16), (2e-5, 4e-5, 6e-5), (2, 3, 4), "SMedBERT, appendix B")
"""Also for what only EMBERT and ELECTRA+EM+PAP use: they give no ranges."""

PAP_GRID = Grid((32,), (1e-4,), (3,), "ELECTRA's fine-tuning defaults, which ELECTRA+EM+PAP, 4.2.1, keeps")

CMEDLMS_GRID = Grid((64,), (5e-5,), (3,), "CMedLMs, Table 5 (batch); BERT's middle rate and epochs, as it gives none")

CMEEE_TYPES = ("dis", "sym", "dru", "equ", "pro", "bod", "ite", "mic", "dep")

CMEIE_PREDICATES = tuple(
    """
    预防 阶段 就诊科室 同义词 辅助治疗 化疗 放射治疗 手术治疗 实验室检查 影像学检查 辅助检查 组织学检查
    内窥镜检查 筛查 多发群体 发病率 发病年龄 多发地区 发病性别倾向 死亡率 多发季节 传播途径 并发症 病理分型
    相关（导致） 鉴别诊断 相关（转化） 相关（症状） 临床表现 治疗后症状 侵及周围组织转移的症状 病因 高危因素
    风险评估因素 病史 遗传因素 发病机制 病理生理 药物治疗 发病部位 转移部位 外侵部位 预后状况 预后生存率
    """.split()  # noqa: SIM905
)

CTC_LABELS = (
    "Addictive Behavior", "Address", "Age", "Alcohol Consumer", "Allergy Intolerance", "Bedtime", "Blood Donation",
    "Capacity", "Compliance with Protocol", "Consent", "Data Accessible", "Device", "Diagnostic", "Diet",
    "Disabilities", "Disease", "Education", "Encounter", "Enrollment in other studies", "Ethical Audit", "Ethnicity",
    "Exercise", "Gender", "Healthy", "Laboratory Examinations", "Life Expectancy", "Literacy", "Multiple",
    "Neoplasm Status", "Non-Neoplasm Disease Stage", "Nursing", "Oral related", "Organ or Tissue Status",
    "Pharmaceutical Substance or Drug", "Pregnancy-related Activity", "Receptor Status", "Researcher Decision",
    "Risk Assessment", "Sexual related", "Sign", "Smoking Status", "Special Patient Characteristic", "Symptom",
    "Therapy or Surgery",
)  # fmt: skip

QIC_LABELS = tuple(
    "病情诊断 病因分析 治疗方案 就医建议 指标解读 疾病表述 后果表述 注意事项 功效作用 医疗费用 其他".split()  # noqa: SIM905
)

YES_NO = ("0", "1")

TASKS: tuple[TaskSpec, ...] = (
    TaskSpec(
        name="cmeee",
        title="CMeEE",
        suites=("cblue",),
        kind=Kind.NESTED_TAGGING,
        reader=read_cmeee,
        files=files("CMeEE_{}.json"),
        metric="entity_f1",
        labels=CMEEE_TYPES,
        nested_types=("sym",),
        max_length=128,
        grid=_ehealth((32,), (6e-5, 1e-4), (2, 4, 8, 12)),
        submission="CMeEE_test.json",
        sizes=(15_000, 5_000, 3_000),
    ),
    TaskSpec(
        name="cmeie",
        title="CMeIE",
        suites=("cblue",),
        kind=Kind.TRIPLES,
        reader=read_json,
        files=files("CMeIE_{}.jsonl", "CMeIE_{}.json"),
        metric="triple_f1",
        labels=CMEIE_PREDICATES,
        max_length=300,
        grid=_ehealth((12,), (6e-5,), (50, 100, 150, 200, 250)),
        submission="CMeIE_test.jsonl",
        sizes=(14_339, 3_585, 4_482),
    ),
    TaskSpec(
        name="chip-cdn",
        title="CHIP-CDN",
        suites=("cblue",),
        kind=Kind.NORMALISATION,
        reader=read_json,
        files=files("CHIP-CDN_{}.json"),
        fields=Fields(answer="normalized_result"),
        metric="normalisation_f1",
        max_length=32,
        grid=_ehealth((256,), (3e-5, 6e-5, 1e-4), (2, 4, 8, 12, 16)),
        submission="CHIP-CDN_test.json",
        sizes=(6_000, 2_000, 10_192),
        note="Pairs of a mention and each of its 100 candidates from ICD-10 (Beijing clinical edition v601).",
    ),
    TaskSpec(
        name="chip-ctc",
        title="CHIP-CTC",
        suites=("cblue",),
        kind=Kind.SINGLE,
        reader=read_json,
        files=files("CHIP-CTC_{}.json"),
        fields=Fields(record_id="id"),
        metric="macro_f1",
        labels=CTC_LABELS,
        max_length=160,
        grid=CBLUE_GRID,
        submission="CHIP-CTC_test.json",
        sizes=(22_962, 7_682, 10_000),
    ),
    TaskSpec(
        name="chip-sts",
        title="CHIP-STS",
        suites=("cblue",),
        kind=Kind.PAIR,
        reader=read_json,
        files=files("CHIP-STS_{}.json"),
        fields=Fields(texts=("text1", "text2"), record_id="id"),
        metric="macro_f1",
        labels=YES_NO,
        max_length=96,
        grid=CBLUE_GRID,
        submission="CHIP-STS_test.json",
        sizes=(16_000, 4_000, 10_000),
    ),
    TaskSpec(
        name="kuake-qic",
        title="KUAKE-QIC",
        suites=("cblue",),
        kind=Kind.SINGLE,
        reader=read_json,
        files=files("KUAKE-QIC_{}.json"),
        fields=Fields(texts=("query",), record_id="id"),
        metric="accuracy",
        labels=QIC_LABELS,
        max_length=128,
        grid=CBLUE_GRID,
        submission="KUAKE-QIC_test.json",
        sizes=(6_931, 1_955, 1_994),
    ),
    TaskSpec(
        name="kuake-qtr",
        title="KUAKE-QTR",
        suites=("cblue",),
        kind=Kind.PAIR,
        reader=read_json,
        files=files("KUAKE-QTR_{}.json"),
        fields=Fields(texts=("query", "title"), record_id="id"),
        metric="accuracy",
        labels=("0", "1", "2", "3"),
        max_length=64,
        grid=CBLUE_GRID,
        submission="KUAKE-QTR_test.json",
        sizes=(24_174, 2_913, 5_465),
    ),
    TaskSpec(
        name="kuake-qqr",
        title="KUAKE-QQR",
        suites=("cblue",),
        kind=Kind.PAIR,
        reader=read_json,
        files=files("KUAKE-QQR_{}.json"),
        fields=Fields(texts=("query1", "query2"), record_id="id"),
        metric="accuracy",
        labels=("0", "1", "2"),
        same_labels={"NA": "0"},
        max_length=64,
        grid=CBLUE_GRID,
        submission="KUAKE-QQR_test.json",
        sizes=(15_000, 1_600, 1_596),
        note="CBLUE's own baseline reads NA as 0.",
    ),
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
        grid=_ehealth((8, 16, 32), (3e-5, 6e-5, 1e-4), (1, 2, 4)),
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
        grid=_ehealth((8, 16), (2e-5, 3e-5, 6e-5), (1, 2, 4)),
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
        grid=_ehealth((32,), (2e-5, 3e-5, 6e-5), (10, 20, 30, 40)),
        sizes=(18_117, 2_500, 550),
    ),
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
        note="cMedQA 1.0 (Zhang et al., 2017), scored by questions; 2.0 reads alike. SMedBERT samples it to save time.",
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
        note="CHIP-CTC's classes in another cut. The papers call it multi-label; each text of the files has one.",
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
        note="CHIP 2020, evaluation 1: CMeEE's texts in another cut.",
    ),
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
        note="No word of the query stands in the title of its product.",
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
)

_BY_NAME = {spec.name: spec for spec in TASKS}


def task(name: str) -> TaskSpec:
    """The task of a name.

    Raises:
        UserError: there is none; the closest names are told.
    """
    if name in _BY_NAME:
        return _BY_NAME[name]
    known = {word.lower(): spec.name for spec in TASKS for word in (spec.title, spec.name)}
    close = dict.fromkeys(known[one] for one in difflib.get_close_matches(name.lower(), known, cutoff=0.5))
    hint = f"Did you mean {' or '.join(close)}?" if close else f"There are: {', '.join(_BY_NAME)}."
    raise UserError(f"There is no task {name!r}. {hint}")


def suites() -> tuple[str, ...]:
    """The names of all groups of tasks."""
    return tuple(dict.fromkeys(name for spec in TASKS for name in spec.suites))


def suite(name: str) -> tuple[TaskSpec, ...]:
    """The tasks of a group, in the order of its paper's table.

    Raises:
        UserError: there is no such group.
    """
    found = tuple(spec for spec in TASKS if name in spec.suites)
    if not found:
        close = difflib.get_close_matches(name.lower(), suites(), n=1)
        hint = f"Did you mean {close[0]}?" if close else f"There are: {', '.join(suites())}."
        raise UserError(f"There is no suite {name!r}. {hint}")
    return found
