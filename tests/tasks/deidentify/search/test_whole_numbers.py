"""A number of a paper takes what belongs to it, before and behind, and nothing else."""

from __future__ import annotations

import pytest

from tasks.deidentify import deidentify
from tasks.deidentify.forms.identifier import Identifier
from tasks.deidentify.search.whole_numbers import whole_numbers


@pytest.mark.parametrize(
    ("text", "found", "whole"),
    [
        ("工伤认定决定书 穗人社工认〔2024〕第30217号，", "30217", "穗人社工认〔2024〕第30217号"),
        ("证号（2024）苏锡证字第3127号，领", "3127", "（2024）苏锡证字第3127号"),
        ("鉴定 公(刑)鉴字〔2024〕0417号，", "0417", "公(刑)鉴字〔2024〕0417号"),
        ("证号 浙临卫健字2024-118203 有效", "2024-118203", "浙临卫健字2024-118203"),
        ("诊断证明书 鲁职诊2026-0093 逄某", "2026-0093", "鲁职诊2026-0093"),
        ("老年证鄂老字30417，", "30417", "鄂老字30417"),
        ("老年证医字第30417，", "30417", "医字第30417"),
        ("蜡块C25-17734-③，", "C25-17734", "C25-17734-③"),
        ("病理号1926/2026，", "1926", "1926/2026"),
        ("芯片204668830021_R05C01 对应", "204668830021", "204668830021_R05C01"),
        ("报告26-18021-补1：", "26-18021", "26-18021-补1"),
        ("样本TB0087-01/-02阳性", "TB0087", "TB0087-01/-02"),
        # Not: labels, dates, ages, doses, units, rooms, and numbers that are too short to be of a paper.
        ("病历号2200761，", "2200761", "2200761"),
        ("新病案号2200761", "2200761", "2200761"),
        ("住院号2200761-2024-05-06入院", "2200761", "2200761"),
        ("男，2200761/32岁", "2200761", "2200761"),
        ("样本2200761/0.5g", "2200761", "2200761"),
        ("样本2200761-3天", "2200761", "2200761"),
        ("编号2200761号楼", "2200761", "2200761"),
        ("编号2200761号，", "2200761", "2200761"),
        ("医字第2200761号楼，", "2200761", "医字第2200761"),
        ("床12-3，", "12", "12"),
    ],
)
def test_a_number_has_its_beginning_and_its_end(text: str, found: str, whole: str) -> None:
    start = text.index(found)
    at = text.index(whole)
    one = Identifier(start, start + len(found), "record")
    assert whole_numbers(text, [one]) == [one._replace(start=at, end=at + len(whole))]


def test_a_number_takes_nothing_of_its_neighbours_and_other_kinds_stay() -> None:
    text = "医字第2200761-S3-S4"
    before, number, behind = Identifier(0, 3, "name"), Identifier(3, 10, "record"), Identifier(13, 16, "record")
    assert whole_numbers(text, [before, number, behind]) == [before, number._replace(end=13), behind]
    name = Identifier(3, 10, "mobile")
    assert whole_numbers(text, [name]) == [name]


def test_rules_and_the_recogniser_find_the_whole_number() -> None:
    assert deidentify("工伤认定决定书 编号：人社工认字〔2026〕0419号，腰痛")[0] == "工伤认定决定书 编号：〔编号〕，腰痛"
