"""Numbers beside names: beds before them, extensions and numbers of records in brackets behind them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.deidentify.kinds import MINIMAL
from tasks.deidentify.search.find import find_identifiers
from tasks.deidentify.search.numbers_beside_names import numbers_beside
from tests.support.text.labelled_identifiers import read_marked


def found(marked: str, treated: frozenset[str] = MINIMAL) -> list[tuple[str, str]]:
    """Kinds and numbers that are found beside the names of a marked text."""
    text, spans = read_marked(marked)
    names = [(start, end) for start, end, _ in sorted(spans)]
    return [(one.type, text[one.start : one.end]) for one in numbers_beside(text, names, treated)]


@pytest.mark.parametrize(
    ("marked", "numbers"),
    [
        ("9/18出院:4{name:许珊}✓ 9{name:何启明}✓ 31{name:窦尔梅}(等药)", ["4", "9", "31"]),
        ("出3（4{name:和珅林}、19{name:辛弃}、+2{name:古月}）", ["4", "19", "+2"]),
        ("加1{name:王芳}拔管", ["加1"]),
        ("失访:S005{name:刘爱国}(住院)、S009{name:张春梅}", ["S005", "S009"]),
    ],
)
def test_what_stands_before_a_name_is_a_bed_or_a_subject(marked: str, numbers: list[str]) -> None:
    assert found(marked) == [("record", number) for number in numbers]


@pytest.mark.parametrize(
    "marked",
    [
        "下午3:30{name:王芳}来",
        "评分8{name:王芳}",
        "第3{name:王芳}",
        "37.5{name:王芳}",
        "共120{name:王芳}",
        "行CT120{name:王芳}",
        "4 {name:王芳}",
        "3:AB1234{name:王芳}",
        "4、{name:王芳}",
        "0{name:王芳}",
        "{name:王芳}（2019）报道",
        "{name:王芳}（12）",
        "{name:王芳}（45岁）",
        "{name:王芳}一直说不舒服（6628）",
        "{name:王芳}（6628",
    ],
)
def test_times_scores_counts_and_years_stay(marked: str) -> None:
    assert found(marked) == []


@pytest.mark.parametrize(
    ("marked", "kind", "number"),
    [
        ("告知{name:滕}大夫（6628）。", "landline", "6628"),
        ("值班{name:燕}(6205) 9/14", "landline", "6205"),
        ("{name:王建华}（30114）阿卡波糖", "record", "30114"),
        ("{name:陈敏}（T3301-2）核对", "record", "T3301-2"),
        ("{name:陈敏}（1628）核对", "record", "1628"),
    ],
)
def test_number_in_brackets_behind_a_name(marked: str, kind: str, number: str) -> None:
    assert found(marked) == [(kind, number)]
    assert found(marked, frozenset({"name"})) == []


@given(text=st.text(st.sampled_from("王芳0123456789（()）加+：:. ，SA-"), max_size=30), data=st.data())
def test_numbers_lie_beside_the_names_and_inside_the_text(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 4)))
    for one in numbers_beside(text, [(start, end)], MINIMAL):
        assert 0 <= one.start < one.end <= len(text)
        assert one.end == start or (one.start > end and text[one.start - 1] in "（(" and text[one.end] in "）)")
        assert any(character.isdigit() for character in text[one.start : one.end])


def test_search_finds_them_where_a_rule_finds_the_name() -> None:
    text, _ = read_marked("联系人：{name:王芳}（30114），签名：{name:李强}（2019）")
    assert [text[one.start : one.end] for one in find_identifiers(text)] == ["王芳", "30114", "李强"]
