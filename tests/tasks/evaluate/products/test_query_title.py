"""Query-title relevance made from indications: the rule of each task, balanced labels, and no title in two splits."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from infra.artifacts import Artifact, ArtifactStore
from infra.errors import UserError
from tasks.downstream.catalogue import task
from tasks.downstream.readers.read import read_split
from tasks.evaluate.products.query_title import QueryTitleParams, is_of_kind, query_title
from tasks.finetune.inputs import TaskFiles
from tests.support.text.stages import do
from tests.support.training.given_records import given_records

ILLNESSES = ["感冒", "头痛", "咳嗽", "胃溃疡", "高血压", "糖尿病", "失眠", "湿疹"]


def rows(count: int = 400) -> list[tuple[str, str, tuple[str, ...], bool]]:
    """Every title names one illness that it is for, and is for another one that it does not name."""
    found = []
    for number in range(count):
        named, other = ILLNESSES[number % 8], ILLNESSES[(number * 3 + 1) % 8]
        found.append((f"{named}灵{number}号", "适应症", tuple(sorted({named, other})), number % 3 == 0))
        found.append((f"{named}灵{number}号", "成份", ("甘草",), number % 3 == 0))
    return found


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    store = ArtifactStore(tmp_path_factory.mktemp("home"))
    records = given_records(store, rows())
    creams = [(f"{name}霜", "适应症", ("皮炎", "脱发"), False) for name in ("甲", "乙", "丙")]
    other = given_records(store, [*creams, *rows(3)])
    return do(store, query_title, QueryTitleParams(), records=records, test=other)


def pairs(made: Artifact, name: str) -> list[tuple[str, str, int]]:
    lines = made.read_file(name).decode().splitlines()
    return [(query, title, int(label)) for query, title, label in (line.split("\t") for line in lines)]


@pytest.mark.parametrize(
    ("query", "title", "kinds"),
    [
        ("感冒", "感冒清热颗粒", {"easy"}),
        ("中耳炎", "999头孢克肟片", {"hard"}),
        ("慢性胃炎", "胃炎宁颗粒", set()),  # 胃炎 is in both, the whole query is not
        ("头痛", "正天丸", {"hard"}),
    ],
)
def test_the_rules_of_both_tasks(query: str, title: str, kinds: set[str]) -> None:
    assert {kind for kind in ("easy", "hard") if is_of_kind(query, title, kind)} == kinds


@pytest.mark.parametrize("folder", ["QTRel-easy", "QTRel-hard"])
def test_labels_are_those_of_the_records_and_balanced(made: Artifact, folder: str) -> None:
    indications = {title: values for title, attribute, values, _ in rows() if attribute == "适应症"}
    for split in ("train", "dev", "test"):
        found = pairs(made, f"{folder}/{split}.tsv")
        assert Counter(label for *_, label in found)[1] * 2 == len(found) > 20
        for query, title, label in found:
            assert (query in indications[title]) == bool(label)
            if label or folder == "QTRel-hard":
                assert is_of_kind(query, title, folder.removeprefix("QTRel-"))


def test_queries_do_not_give_the_label_away(made: Artifact) -> None:
    found = pairs(made, "QTRel-hard/train.tsv")
    of_label = [Counter(query for query, _, one in found if one == label) for label in (0, 1)]
    assert of_label[0].keys() == of_label[1].keys()
    assert all(0.4 < of_label[0][query] / of_label[1][query] < 2.5 for query in of_label[1])


def test_dev_and_test_are_of_held_out_titles(made: Artifact) -> None:
    held_out = {title for title, _, _, flag in rows() if flag}
    for folder in ("QTRel-easy", "QTRel-hard"):
        titles = {s: {title for _, title, _ in pairs(made, f"{folder}/{s}.tsv")} for s in ("train", "dev", "test")}
        assert not titles["train"] & held_out
        assert titles["dev"] | titles["test"] <= held_out and not titles["dev"] & titles["test"]


def test_the_catalogue_reads_the_files(made: Artifact) -> None:
    for folder, name in ((f"{made.path}", "qtrel-easy"), (f"{made.path}/other", "qtrel-hard")):
        spec = task(name)
        given = TaskFiles(spec, folder)
        found: Any = read_split(spec, given.path, "test")
        assert len(found.records) > 1 and not found.rejects


def test_products_without_indications_are_refused(tmp_path: Any) -> None:
    store = ArtifactStore(tmp_path)
    records = given_records(store, [("甘草片", "成份", ("甘草",), False), ("桔梗片", "成份", ("桔梗",), True)])
    with pytest.raises(UserError, match=r"QTRel-easy/train.tsv: no title has a query.*query_title.attributes"):
        do(store, query_title, QueryTitleParams(), records=records)
