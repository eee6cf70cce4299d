"""Everyday names of diagnoses: the shipped table, and lists of several grammars."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from infra.errors import UserError
from tasks.normalise.terms.everyday_names import EVERYDAY, read_everyday_names, with_everyday_names
from tasks.retrieve.candidates import Entry


def names(entries: list[Entry], codes: dict[str, str]) -> dict[str, tuple[str, ...]]:
    return {entry.code: entry.aliases for entry in with_everyday_names(entries, codes)[0]}


def test_shipped_table_covers_all_chapters() -> None:
    chapters = Counter(code[0] for code in read_everyday_names().values())
    assert set("ABCDEFGHIJKLMNOPQRSTZ") <= set(chapters)
    assert min(chapters[letter] for letter in "ABCDEFGHIJKLMNOPQRST") >= 70


def test_names_go_to_the_code_that_the_list_has() -> None:
    codes = {"胃窦癌": "C16.3", "胃癌": "C16.9", "肝癌": "C22.0"}
    assert names([Entry("C16.3", "幽门窦恶性肿瘤"), Entry("C16", "胃恶性肿瘤")], codes) == {
        "C16.3": ("胃窦癌",),
        "C16": ("胃癌",),
    }
    extended = [Entry("C16.300", "胃窦恶性肿瘤"), Entry("C16.900", "胃恶性肿瘤"), Entry("C16.900X001", "胃间质肿瘤")]
    assert names(extended, codes) == {"C16.300": ("胃窦癌",), "C16.900": ("胃癌",), "C16.900X001": ()}


def test_terms_of_the_list_keep_their_own_code() -> None:
    entries = [Entry("C16.3", "幽门窦恶性肿瘤"), Entry("C16.800X001", "胃窦癌")]
    found, counts = with_everyday_names(entries, {"胃窦癌": "C16.3", "痛风": "M10.9"})
    assert [entry.aliases for entry in found] == [(), ()]
    assert counts == {"everyday_names_already_terms": 1, "everyday_names_without_code": 1}


def test_lists_without_codes_of_icd10_get_no_names() -> None:
    entries = [Entry("51.2300X001", "腹腔镜下胆囊切除术"), Entry("", "胆囊炎")]
    found, _ = with_everyday_names(entries)
    assert found == entries


def test_names_say_where_they_come_from() -> None:
    (found,), counts = with_everyday_names([Entry("M10", "痛风")], {"痛风石": "M10.9"})
    assert found.source_of == {"痛风石": EVERYDAY} and counts["everyday_names_added"] == 1


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (",C16", "row 2: '' needs a name"),
        ("胃癌,胃", "row 2: '胃癌' needs a name and one code of ICD-10, not '胃'"),
        ("胃癌,C16.300", "not 'C16.300'"),
        ("胃癌,C16\n胃癌,C17", "row 3: '胃癌' is there twice"),
    ],
)
def test_fault_in_a_table_is_reported(tmp_path: Path, row: str, message: str) -> None:
    table = tmp_path / "names.csv"
    table.write_text(f"name,code\n{row}\n", encoding="utf-8")
    with pytest.raises(UserError, match=message):
        read_everyday_names(table)
