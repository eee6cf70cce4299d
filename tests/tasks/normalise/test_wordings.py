"""Wordings and details: what a diagnosis says otherwise than the list, or beyond it."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest

from infra.errors import UserError
from tasks.normalise.queries.rules import QueryRules
from tasks.normalise.reading import Details, Reader, Status, Wordings, read_details, read_wordings
from tasks.normalise.reading.details import Detail
from tasks.normalise.reading.wordings import Wording


@pytest.mark.parametrize("row", read_wordings(), ids=lambda row: row.example)
def test_example_of_each_wording_is_written_as_a_list_has_it(row: Wording) -> None:
    example = unicodedata.normalize("NFKC", row.example)
    assert row.pattern.search(example) or row.written == "", "the row itself must fit its example"
    assert Wordings().written(example) == row.result != example


@pytest.mark.parametrize("row", read_details(), ids=lambda row: row.example)
def test_example_of_each_detail_is_left_without_it(row: Detail) -> None:
    (bared,) = Details([row]).bared(row.example)
    assert bared.text == row.left
    assert bared.details and all(one.text in row.example for one in bared.details)


@pytest.mark.parametrize("text", ["肺炎", "急性", "(2023)", ""])
def test_text_without_details_or_of_nothing_else_is_left_alone(text: str) -> None:
    assert list(Details().bared(text)) == []


def reading(*names: str) -> Reader:
    """Return a reader for a list of a few names."""
    rules = QueryRules.read()
    return Reader(lambda texts: [text in names for text in texts], is_short=rules.is_short, spelled=rules.spelled)


@pytest.mark.parametrize(
    ("text", "names", "searched", "modifiers"),
    [
        ("左锁骨中段骨折", ("锁骨骨折",), "锁骨骨折", "side=左 detail=中段"),
        ("肩关节前脱位", ("肩关节脱位",), "肩关节脱位", "detail=前"),
        ("肩关节前脱位", ("肩关节脱位", "肩关节前脱位"), "", ""),
        ("中度脂肪肝", (), "", ""),
        ("注意缺陷多动障碍（ADHD）", ("注意缺陷多动障碍",), "注意缺陷多动障碍", "detail=ADHD"),
        ("脑梗塞急性期", ("脑梗死",), "脑梗塞", "detail=急性期"),
        ("慢性肾炎", ("肾炎",), "肾炎", "course=慢性"),
        ("慢性肾炎", ("肾炎", "慢性肾炎"), "", ""),
        ("COPD稳定期", ("慢性阻塞性肺病",), "COPD", "detail=稳定期"),
    ],
)
def test_details_fall_only_if_the_list_has_the_rest(
    text: str, names: tuple[str, ...], searched: str, modifiers: str
) -> None:
    ((one,),) = reading(*names).read([text])
    assert (one.searched, " ".join(f"{each.kind}={each.text}" for each in one.modifiers)) == (searched, modifiers)


@pytest.mark.parametrize(
    ("text", "names", "status"),
    [
        ("自发性气胸(肺压缩40%)", ("自发性气胸",), Status.CODED),
        ("自发性气胸(肺压缩40%)", (), Status.NOT_DIAGNOSIS),
        ("CML慢性期 伊马替尼治疗", ("慢性髓系白血病",), Status.CODED),
        ("右乳癌改良根治术", ("乳腺癌",), Status.PROCEDURE),
        ("尿蛋白(++)", ("尿蛋白",), Status.NOT_DIAGNOSIS),
        ("PSA 12.5", ("关节病型银屑病",), Status.NOT_DIAGNOSIS),
        ("糖尿病家族史", ("糖尿病家族史",), Status.FAMILY),
        ("无脑儿", ("无脑儿",), Status.CODED),
        ("无肝硬化", ("肝硬化",), Status.NEGATED),
    ],
)
def test_names_outdo_only_cues_that_deny_that_they_are_diagnoses(
    text: str, names: tuple[str, ...], status: Status
) -> None:
    ((one,),) = reading(*names).read([text])
    assert one.status == status


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("①肺炎 ②肾炎", ["肺炎", "肾炎"]),
        ("膀胱结石 BPH", ["膀胱结石", "BPH"]),
        ("COPD HTN", ["COPD", "HTN"]),
        ("肛裂 陈旧性 肛乳头肥大", ["肛裂 陈旧性", "肛乳头肥大"]),
        ("先心病 房间隔缺损(继发孔型)", ["先心病", "房间隔缺损(继发孔型)"]),
        ("肺炎 CT", ["肺炎 CT"]),
        ("胃癌 T2N0M0", ["胃癌 T2N0M0"]),
    ],
)
def test_diseases_after_blanks_and_circled_numbers_are_apart(text: str, parts: list[str]) -> None:
    (found,) = reading().read([text])
    assert [each for one in found for each in one.text.strip(";").replace("、", ";").split(";")] == parts


@pytest.mark.parametrize(
    ("read", "header", "row", "message"),
    [
        (read_wordings, "wording,written,example,result", ",a,b,c", "row 2 needs a wording"),
        (read_wordings, "wording,written,example,result", r"a(,b,a,c", "row 2 is not a regular"),
        (read_wordings, "wording,written,example,result", r"a,\3,a,c", "row 2 is not a regular"),
        (read_details, "kind,detail,example,left", "detail,,a,b", "row 2 has no detail"),
        (read_details, "kind,detail,example,left", "detail,a(,a,b", "row 2 is not a regular"),
        (read_details, "kind,detail,example,left", "side,a,a,b", "row 2: the kind 'side' is neither detail nor course"),
    ],
)
def test_fault_in_a_table_is_reported(tmp_path: Path, read: object, header: str, row: str, message: str) -> None:
    table = tmp_path / "table.csv"
    table.write_text(f"{header}\n{row}\n", encoding="utf-8")
    with pytest.raises(UserError, match=message):
        read(table)  # type: ignore[operator]
