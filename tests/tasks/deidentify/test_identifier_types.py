"""The table of kinds: every example is found whole, every counter-example stays, in every profile."""

from __future__ import annotations

import re
from collections.abc import Collection
from itertools import chain

import pytest

from infra.errors import UserError
from tasks.deidentify.forms.identifier import PROFILES, Cues, Number, Way
from tasks.deidentify.forms.numbers import is_date
from tasks.deidentify.kinds import KINDS, MINIMAL, PLACEHOLDERS, kinds_of
from tasks.deidentify.search.find import find_identifiers, finder_of
from tests.support.text.labelled_identifiers import Span, read_marked
from tests.support.text.rules_alone import deidentify

WAYS = [(each.name, way) for each in KINDS.values() for way in each.ways]
FOUND = [(name, way, marked) for name, way in WAYS for marked in way.found]
KEPT = [(name, text) for name, way in WAYS for text in way.kept]
EXAMPLES = [f"{name}-{marked}" for name, _, marked in FOUND]

MEDICAL_VALUES = (
    "高热3周，安定5mg qn，于某日停药",
    "头孢曲松2g q12h，疗程10～14天，共28片",
    "WBC 12.3×10^9/L，CRP 56.7mg/L，PLT 180，血压120/80mmHg，SpO2 93%",
    "ICD-10编码：I21.1、E11.9、C50.9；手术编码51.2300",
    "TP53 c.743G>A (p.Arg248Gln)，rs121912651，VAF 32.5%，EGFR 19del",
    "机械通气：VT 420ml，PEEP 10cmH2O，FiO2 0.5，P/F 188，RASS -3",
    "ROM 0-110°，VAS 2-3分，Apgar评分9-10-10，GCS 3-5-6",
    "HBV DNA 2019 IU/ml，IgE 1998.12 IU/ml，比值1/2，滴度1:320",
    "第3-4腰椎，2-3级，5-6次/日，1/3处，T1-2椎体",
    "孕28周前称早期，3月龄，随访6-12月，术后3月复查",
    "起搏模式DDD，低限频率60次/分，起搏阈值0.5V@0.4ms",
    "90～95岁人群，≥90岁者占3%，平均89岁",
)
"""Values of medicine in which no profile may find anything."""


def spans_of(text: str, kinds: Collection[str]) -> set[Span]:
    """Return what the search for some kinds finds, without its reasons."""
    return {(one.start, one.end, one.type) for one in finder_of(frozenset(kinds)).find(text)}


def test_every_way_has_examples_and_counter_examples() -> None:
    assert [name for name, way in WAYS if not way.found or not way.kept] == []


def test_names_and_placeholders_are_unique_and_so_are_the_cues_of_a_kind() -> None:
    assert len(PLACEHOLDERS) == len(set(PLACEHOLDERS.values())) == len(KINDS)
    # The same word may be a cue twice, with another mark behind it: 病理号 and 病理（B23-1）
    cues = [
        (name, way.pattern_of(spelling))
        for name, way in WAYS
        if isinstance(way, Cues)
        for spelling in way.spellings()
        if name in MINIMAL
    ]
    assert len(set(cues)) == len(cues)


def test_minimal_is_what_every_profile_treats() -> None:
    assert kinds_of("minimal") == MINIMAL
    assert all(kinds_of(profile) >= MINIMAL for profile in PROFILES)
    # HIPAA names dates and devices, GB/T 35273 occupation and people; neither names hospitals
    assert {"date", "age", "device"} <= kinds_of("hipaa") - kinds_of("gbt35273")
    assert {"occupation", "ethnicity", "school"} <= kinds_of("gbt35273") - kinds_of("hipaa")
    assert not {"hospital", "department"} & (kinds_of("hipaa") | kinds_of("gbt35273"))


def test_single_kinds_are_switched() -> None:
    assert kinds_of("minimal", {"hospital": True, "url": False}) == MINIMAL - {"url"} | {"hospital"}
    with pytest.raises(UserError, match="there is no kind 'hopsital'; did you mean hospital"):
        kinds_of("minimal", {"hopsital": True})


@pytest.mark.parametrize(("name", "way", "marked"), FOUND, ids=EXAMPLES)
def test_example_is_found_whole(name: str, way: Way, marked: str) -> None:
    text, spans = read_marked(marked.replace("{", f"{{{name}:"))
    assert spans
    assert spans_of(text, {name}) == spans
    for profile in PROFILES:
        kinds = kinds_of(profile)
        found = spans_of(text, kinds)
        assert spans <= found if name in kinds else name not in {kind for _, _, kind in found}


@pytest.mark.parametrize(("name", "way", "marked"), FOUND, ids=EXAMPLES)
def test_example_is_replaced_by_the_default(name: str, way: Way, marked: str) -> None:
    text, spans = read_marked(marked.replace("{", f"{{{name}:"))
    if name in MINIMAL:
        assert {(one.start, one.end, one.type) for one in find_identifiers(text)} == spans
        treated, counts = deidentify(text)
        assert treated == re.sub(r"\{[^{}]*\}", PLACEHOLDERS[name], marked)
        assert counts == {name: len(spans)}


@pytest.mark.parametrize(("name", "way", "marked"), FOUND, ids=EXAMPLES)
def test_example_belongs_to_its_way(name: str, way: Way, marked: str) -> None:
    text, spans = read_marked(marked.replace("{", f"{{{name}:"))
    if isinstance(way, Number):
        assert {match.span() for match in way.pattern.finditer(text)} == {(start, end) for start, end, _ in spans}
    elif isinstance(way, Cues):
        assert any(re.search(way.pattern_of(spelling), text) for spelling in way.spellings())


@pytest.mark.parametrize(("name", "text"), KEPT)
def test_counter_example_stays(name: str, text: str) -> None:
    assert spans_of(text, {name}) == set()
    for profile in PROFILES:
        assert name not in {kind for _, _, kind in spans_of(text, kinds_of(profile))}
    if name in MINIMAL:
        assert deidentify(text) == (text, {})


@pytest.mark.parametrize("text", MEDICAL_VALUES)
def test_medical_values_stay_whatever_is_switched_on(text: str) -> None:
    assert spans_of(text, KINDS) == set()


def test_a_kind_that_is_off_is_not_taken_for_another() -> None:
    said = "手机号13812345678，住院号20190871"
    assert [one.type for one in finder_of(MINIMAL - {"mobile"}).find(said)] == ["record"]


def test_values_below_headers_are_read_as_behind_them() -> None:
    rows = "姓名 性别 年龄 出生日期 职业 民族\n王芳 女 92 1930-05-06 农民 满\n李强 男 46 19770812 律师 汉\n"
    found = [(one.type, rows[one.start : one.end]) for one in finder_of(frozenset(KINDS)).find(rows)]
    assert found == [
        ("name", "王芳"),
        ("age", "92"),
        ("birth_date", "1930-05-06"),
        ("occupation", "农民"),
        ("ethnicity", "满"),
        ("name", "李强"),
        ("birth_date", "19770812"),
        ("occupation", "律师"),
        ("ethnicity", "汉"),
    ]
    assert [one.type for one in find_identifiers(rows)] == ["name", "name"]


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ("name,sex,ward,bed,mrn,dx\nLi Wenhao,M,Cardiology,12,0087123,I10\n", ["12", "0087123"]),
        ("住院号,姓名,性别,床号,费用编码\n0012874566,黄芪,女,26,310701003\n", ["0012874566", "黄芪", "26"]),
        ("姓名|床号|费用\n王芳|26|130\n", ["王芳", "26"]),
        ("姓名,床号,费用\n黄芪,26,130\n", []),  # two of three between commas may be prose
        ("姓名,性别,床号,费用,天数,单价,合计\n黄芪,女,26,1,2,3,4\n", []),  # fewer than half
        ("姓名,性别,床号,费用：\n黄芪,女,26,130\n", []),  # no header
        ("姓名 性别 床号 费用\n黄芪 女 26 130\n", []),  # blanks separate words, too
    ],
)
def test_a_header_that_nobody_knows_spoils_no_table(rows: str, found: list[str]) -> None:
    assert [rows[one.start : one.end] for one in find_identifiers(rows)] == found


@pytest.mark.parametrize(
    "marked",
    [
        '{"姓名":"〈安康〉","床号": "〈23〉","住院号":"〈0012874566〉"}',
        '{"姓名": "〈安康〉", "床号":〈23〉, "电话" : "〈13305751234〉"}',
        "姓名=〈安康〉 床号=〈23〉 住院号=〈0012874566〉",
    ],
)
def test_values_are_found_behind_the_marks_of_json(marked: str) -> None:
    text = marked.replace("〈", "").replace("〉", "")
    wanted = [part.split("〉")[0] for part in marked.split("〈")[1:]]
    assert [text[one.start : one.end] for one in find_identifiers(text)] == wanted


@pytest.mark.parametrize(
    "before",
    ["入院日期 2024.3.15\n", "签名：李志强   2024.3.15\n", "签名：李志强   2024.3.15\r\n", "入院日期：2024.3.15 "],
)
@pytest.mark.parametrize("cue", ["出生于", "生于", "出生日期：", "生日 "])
def test_date_before_the_cue_of_a_birth_is_none(before: str, cue: str) -> None:
    said = f"{before}{cue}1932年5月12日。"
    place = said.index("1932")
    assert {one for one in spans_of(said, kinds_of("gbt35273")) if one[2] != "name"} == {
        (place, place + 10, "birth_date")
    }
    dates = {one for one in spans_of(said, kinds_of("hipaa")) if one[2] != "name"}
    assert dates == {(said.index("2024"), said.index("2024") + 9, "date"), (place, place + 10, "birth_date")}


def test_every_find_says_its_rule() -> None:
    said = "姓名 性别\n王芳 女\n见www.a.cn，电话13812345678，患者王芳，93岁，微信号lyr_wuxi87"
    rules = {one.rule for one in finder_of(frozenset(KINDS)).find(said)}
    assert rules == {
        "below the header 姓名",
        "form of an internet address",
        "digits of this form",
        "cue 患者",
        "words around digits",
        "cue 微信",
    }


def test_profiles_and_regulations_are_told_of_every_kind() -> None:
    for kind in KINDS.values():
        about = kind.about
        assert about.what
        assert ("hipaa" in about.profiles) <= bool(about.hipaa)
        assert ("gbt35273" in about.profiles and kind.name not in MINIMAL) <= bool(about.gbt)
    assert len(set(chain.from_iterable(each.about.profiles for each in KINDS.values()))) == len(PROFILES)


@pytest.mark.parametrize(
    "digits", ["20241008220014783390", "2024100822001478", "20241000000008", "2024108", "20241008" + "9" * 400]
)
def test_long_numbers_that_begin_like_dates_are_read(digits: str) -> None:
    assert is_date(digits) is False
    treated = deidentify(f"支付宝扣了两笔,流水 {digits} 和 {digits[:-1]}1,只做了一次CT")[0]
    assert treated.startswith("支付宝扣了两笔,流水 ") and treated.endswith(",只做了一次CT")


@pytest.mark.parametrize(
    ("digits", "expected"),
    [("18900101", True), ("18891231", False), ("21001231", True), ("21010101", False), ("67550921", False)],
)
def test_eight_digits_are_a_date_of_two_centuries(digits: str, expected: bool) -> None:
    assert is_date(digits) is expected


def test_a_second_number_beside_a_transaction_is_found() -> None:
    text = "支付宝扣了两笔,流水 20241008220014783390 和 20241008220014783391,只做了一次CT"
    assert deidentify(text)[0] == "支付宝扣了两笔,流水 〔编号〕 和 〔编号〕,只做了一次CT"
