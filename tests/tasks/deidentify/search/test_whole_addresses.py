"""An address takes what belongs to its end, and nothing else."""

from __future__ import annotations

import pytest

from tasks.deidentify import deidentify
from tasks.deidentify.forms.identifier import Identifier
from tasks.deidentify.plan import Plan
from tasks.deidentify.search.whole_addresses import whole_addresses


@pytest.mark.parametrize(
    ("text", "found", "whole"),
    [
        ("寄十堰市天河广场旁中百超市楼上，", "十堰市天河广场", "十堰市天河广场旁中百超市楼上"),
        ("住關山街5樓之3，", "關山街", "關山街"),
        ("住关山街5楼之3，", "关山街", "关山街5楼之3"),
        ("住关山街5楼梯口", "关山街", "关山街"),
        ("寄十堰市天河广场中百超市楼上，", "十堰市天河广场", "十堰市天河广场中百超市楼上"),
        ("珞喻路1037号旁边小卖部", "珞喻路1037号", "珞喻路1037号旁边"),
        ("纸坊街7栋楼下，左下肢旁开", "纸坊街7栋", "纸坊街7栋楼下"),
        ("还是玉兰花园7-2-401吧", "玉兰花园", "玉兰花园7-2-401"),
        ("去关山街当代社区补缴", "关山街", "关山街当代社区"),
        ("去建港街社区卫生服务中心", "建港街", "建港街"),
        ("在青州市摔倒在门口", "青州市", "青州市"),
        ("住后湖街2026-11-28入院", "后湖街", "后湖街"),
        ("住后湖街，楼上漏水", "后湖街", "后湖街"),
        ("住后湖街3-5.2级", "后湖街", "后湖街"),
        ("住青州市开元东路工地板房居住，", "青州市开元东路", "青州市开元东路工地板房"),
        ("青州市机械厂北家属区17栋楼道窄", "青州市机械厂", "青州市机械厂北家属区17栋"),
        ("青州市平房第三排2号，独居", "青州市", "青州市平房第三排2号"),
        ("去青州市小区卫生服务站", "青州市", "青州市"),
        ("籍贯青州市患者左腋下旁", "青州市", "青州市"),
        ("去青州市农贸市场卖鱼", "青州市", "青州市农贸市场"),
        ("住青州市A区8-2-602，", "青州市", "青州市A区8-2-602"),
        ("住青州市甲14，", "青州市", "青州市甲14"),
        ("住青州市CT平扫", "青州市", "青州市"),
        ("住青州市2F，", "青州市", "青州市2F"),
    ],
)
def test_an_address_has_its_end(text: str, found: str, whole: str) -> None:
    start = text.index(found)
    one = Identifier(start, start + len(found), "address")
    assert whole_addresses(text, [one]) == [one._replace(end=start + len(whole))]


@pytest.mark.parametrize(
    ("text", "found", "whole"),
    [
        ("现住积玉桥万达公寓", "玉桥万达公寓", "积玉桥万达公寓"),
        ("积玉桥万达公寓", "玉桥万达公寓", "积玉桥万达公寓"),
        ("患者积玉桥万达公寓", "玉桥万达公寓", "玉桥万达公寓"),
        ("，住玉桥万达公寓", "玉桥万达公寓", "玉桥万达公寓"),
        *((f"，{one}玉桥万达公寓", "玉桥万达公寓", "玉桥万达公寓") for one in "她人男女岁的是系来于现居址籍为"),
        (
            "address: Room 1203, Block B, 88 Yingbin Road, Shunde, Foshan; contact daughter",
            "Yingbin Road",
            "Room 1203, Block B, 88 Yingbin Road, Shunde, Foshan",
        ),
        ("home to No. 16 Huaihai Lane, Xuzhou, district nurse", "Huaihai Lane", "No. 16 Huaihai Lane, Xuzhou"),
        ("visiting Yiwu, Chouzhou N. Rd 700; tel", "Yiwu", "Yiwu, Chouzhou N. Rd 700"),
        ("at Huaihai Lane with 2.5mg", "Huaihai Lane", "Huaihai Lane"),
    ],
)
def test_an_address_has_its_beginning(text: str, found: str, whole: str) -> None:
    start, at = text.index(found), text.index(whole)
    one = Identifier(start, start + len(found), "address")
    assert whole_addresses(text, [one]) == [one._replace(start=at, end=at + len(whole))]


def test_parts_of_an_english_address_are_one() -> None:
    text = "Jinyuan District, Taiyuan; c/o"
    parts = [Identifier(0, 16, "address"), Identifier(18, 25, "address")]
    assert whole_addresses(text, parts) == [Identifier(0, 25, "address")]
    parts = [Identifier(0, 7, "address"), Identifier(8, 16, "address")]
    assert whole_addresses("Jinyuan District to", parts) == [Identifier(0, 16, "address")]
    parts = [Identifier(0, 7, "address"), Identifier(11, 19, "address")]
    assert whole_addresses("Jinyuan to District", parts) == parts


def test_the_end_stops_before_the_next_identifier_and_other_kinds_stay() -> None:
    text = "住江岸区后湖街朱河副食隔壁，王芳楼上"
    inside, address = Identifier(7, 9, "name"), Identifier(1, 7, "address")
    assert whole_addresses(text, [address, inside]) == [address, inside]
    assert whole_addresses(text, [address]) == [Identifier(1, 13, "address")]
    name = Identifier(14, 16, "name")
    assert whole_addresses(text, [name]) == [name]


def test_addresses_with_a_word_between_them_are_one() -> None:
    text = "知音湖大道中法新城，后湖街"
    parts = [Identifier(0, 5, "address"), Identifier(7, 9, "address"), Identifier(10, 13, "address")]
    assert whole_addresses(text, parts) == [Identifier(0, 9, "address"), parts[2]]
    before = [Identifier(0, 2, "name"), Identifier(2, 5, "address")]
    assert whole_addresses("王芳后湖街", before) == before
    two = [Identifier(0, 2, "address"), Identifier(3, 5, "address")]
    assert whole_addresses("甲路是乙路", two) == two


def test_rules_find_the_whole_end() -> None:
    text = "地址：湖北省武汉市洪山区珞喻路1037号旁边，电话不详"
    assert deidentify(text, Plan(recogniser=False))[0] == "地址：〔地址〕，电话不详"
