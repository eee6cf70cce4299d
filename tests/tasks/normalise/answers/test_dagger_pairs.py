"""Dagger and asterisk codes beside each other."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from infra.errors import UserError
from tasks.normalise.answers import DaggerPairs, Pair, PairRow, read_pairs
from tasks.normalise.answers.dagger_pairs import ASTERISK_CATEGORIES
from tasks.normalise.files import normalise_file
from tasks.normalise.normaliser import Normaliser
from tasks.retrieve.candidates import Entry
from tasks.retrieve.embedded import EmbeddedIndex

PAIRS = DaggerPairs()


def test_icd_10_has_83_categories_with_asterisks() -> None:
    assert len(ASTERISK_CATEGORIES) == 83


@pytest.mark.parametrize("row", read_pairs(), ids=lambda row: f"{row.pair.dagger} {row.pair.asterisk}")
def test_example_of_each_row_names_the_manifestation(row: PairRow) -> None:
    assert row.named.search(row.example)
    found = PAIRS.of(row.pair.dagger, "", row.example)
    assert found is not None and found.dagger == row.pair.dagger and found.asterisk[:3] in ASTERISK_CATEGORIES


@pytest.mark.parametrize(
    ("code", "term", "text", "pair"),
    [
        ("E11.2", "2型糖尿病伴有肾的并发症", "2型糖尿病肾病", "E11.2† N08.3*"),
        ("E11.200x021", "2型糖尿病肾病", "2型糖尿病肾病", "E11.2† N08.3*"),
        ("A17.0", "结核性脑膜炎", "结核性脑膜炎", "A17.0† G01*"),
        ("K74.6", "其他和未特指的肝硬变", "肝硬化伴食管静脉曲张", "K74.6† I98.2*"),
        ("K23.0", "结核性食管炎（A18.8+）", "结核性食管炎", "A18.8† K23.0*"),
        ("M05.1", "类风湿性肺病（J99.0*）", "类风湿", "M05.1† J99.0*"),
        ("J99.0", "类风湿性肺病", "类风湿性肺病", "M05.1† J99.0*"),
        ("E11", "2型糖尿病", "2型糖尿病", ""),
        ("K74.6", "其他和未特指的肝硬变", "肝硬化", ""),
        ("G63.1", "肿瘤病引起的多神经病（C00-D48+）", "副肿瘤性多神经病", ""),
        ("I10", "原发性高血压", "高血压", ""),
    ],
)
def test_a_code_is_paired_where_the_text_names_the_manifestation(code: str, term: str, text: str, pair: str) -> None:
    assert str(PAIRS.of(code, term, text) or "") == pair


def test_answers_and_files_have_both_codes(tmp_path: Path) -> None:
    entries = [Entry("E11.2", "2型糖尿病肾病"), Entry("I10", "原发性高血压"), Entry("E11", "2型糖尿病")]
    folder = tmp_path / "index"
    EmbeddedIndex.build(entries, folder)
    normaliser = Normaliser(folder)
    (one,) = normaliser.normalise(["原发性高血压、2型糖尿病肾病"])
    assert {answer.code: answer.pair for answer in one.answers} == {"I10": None, "E11.2": Pair("E11.2", "N08.3")}
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text("text\n2型糖尿病肾病\n原发性高血压\n", encoding="utf-8")
    normalise_file(normaliser, source, target)
    with target.open(encoding="utf-8-sig") as file:
        assert [row["dagger_asterisk"] for row in csv.DictReader(file)] == ["E11.2† N08.3*", ""]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("E11.2,N18.3,肾,肾病", "N18.3 is no asterisk code"),
        ("E11,x,肾,肾病", "must be codes"),
        ("E11,N08.3,(,a", "regular"),
    ],
)
def test_fault_in_the_table_is_reported(tmp_path: Path, row: str, message: str) -> None:
    table = tmp_path / "pairs.csv"
    table.write_text(f"dagger,asterisk,named,example\n{row}\n", encoding="utf-8")
    with pytest.raises(UserError, match=message):
        read_pairs(table)
