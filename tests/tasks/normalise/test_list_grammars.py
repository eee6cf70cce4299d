"""Lists of any code grammar: extended codes of national lists, morphology, and procedures."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.artifacts import ArtifactStore
from infra.stage import run
from tasks.files.raw_input import RawInput
from tasks.normalise.normaliser import Normaliser
from tasks.normalise.terms.everyday_names import NAMES
from tasks.normalise.terms.term_list import read_term_list
from tasks.normalise.terms.terminology import TerminologyParams, entries_of, terminology
from tasks.retrieve.embedded import EmbeddedIndex
from tasks.retrieve.icd_categories import are_procedures, category_of

# Small extracts, invented in the form of 国家临床版 2.0, of 北京临床版 v601, of a morphology list and of ICD-9-CM-3.
NATIONAL = """主要编码,附加编码,疾病名称
C50.900,,乳腺恶性肿瘤
C50.900x011,,乳腺三阴性恶性肿瘤
I10.x00x002,,高血压病
I10.x00x027,,高血压病3级(极高危)
N18.001,,慢性肾脏病5期
K80.100x002,,胆囊结石伴慢性胆囊炎
M81400/3,,腺癌
M81.400,,药物性骨质疏松
"""
PROCEDURES = """51.2300x001,腹腔镜下胆囊切除术
51.2200,胆囊切除术
51.2400,腹腔镜下部分胆囊切除术
47.0101,腹腔镜下阑尾切除术
36.0700x004,冠状动脉药物涂层支架植入术
45.1300x001,胃镜检查
"""


@pytest.mark.parametrize(
    ("code", "category"),
    [
        ("E11.9", "E11"),
        ("C50.900X011", "C50"),
        ("I10.X00X002", "I10"),
        ("M81.400", "M81"),
        ("M81400/3", "M814"),
        ("M8140/3", "M814"),
        ("51.2300X001", "51.2"),
        ("51.23", "51.2"),
        ("AB12-03", "AB12"),
        ("肿瘤1", ""),
        ("12", ""),
        ("", ""),
    ],
)
def test_category_follows_the_grammar_of_the_code(code: str, category: str) -> None:
    assert category_of(code) == category


def index_of(text: str, folder: Path) -> Normaliser:
    file = folder / "list.csv"
    file.write_text(text, encoding="utf-8")
    given = {"list": RawInput(file), "everyday": RawInput(NAMES)}
    store = ArtifactStore(folder / "store")
    listed = run(terminology, store, TerminologyParams(format="list"), given).artifact
    EmbeddedIndex.build(entries_of(listed), folder / "index")
    return Normaliser(folder / "index", threshold=0)


def test_national_list_is_coded_by_everyday_names(tmp_path: Path) -> None:
    found = index_of(NATIONAL, tmp_path).normalise(
        ["左乳浸润性导管癌 T2N1M0", "高血压病3级(极高危)", "原发性高血压", "慢性胆囊炎并胆囊结石", "右乳三阴性乳腺癌"]
    )
    assert [[term.code for term in one.terms] for one in found] == [
        ["C50.900"],
        ["I10.x00x027"],
        ["I10.x00x002"],
        ["K80.100x002"],
        ["C50.900"],
    ]


def test_list_of_procedures_codes_procedures(tmp_path: Path) -> None:
    terms, rejects = read_term_list(PROCEDURES.encode(), "list.csv")
    assert [one.code for one in terms][:2] == ["51.2300x001", "51.2200"] and not rejects
    assert are_procedures([one.code for one in terms]) and not are_procedures(["C50.900", "51.2200", "I10"])
    normaliser = index_of(PROCEDURES, tmp_path)
    found = normaliser.normalise(["腹腔镜胆囊切除术", "冠脉药物支架植入", "胃镜", "否认手术史", "见病历"])
    assert [[term.code for term in one.terms] for one in found] == [
        ["51.2300x001"],
        ["36.0700x004"],
        ["45.1300x001"],
        [],
        [],
    ]
    categories = normaliser.retrieval._categories
    assert [entry.code for entry in categories["51.2"]] == ["51.2200", "51.2300x001", "51.2400"]


def test_list_of_diseases_refuses_procedures(tmp_path: Path) -> None:
    (found,) = index_of(NATIONAL, tmp_path).normalise(["腹腔镜下胆囊切除术"])
    assert found.terms == () and [str(one.status) for one in found.refused] == ["procedure"]
