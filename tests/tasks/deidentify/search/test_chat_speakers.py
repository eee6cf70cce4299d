"""Speakers of chats: who begins several lines, and what only looks like it."""

from __future__ import annotations

import pytest

from tasks.deidentify.search.find import may_hold
from tests.support.text.linear_time import LINEAR, ratio_of_doubling, repeated
from tests.support.text.rules_alone import deidentify

CHATS = [
    "朵朵妈：有人得手足口\n嘟嘟爸：谁啊\n朵朵妈：不知道\n嘟嘟爸：停课不",
    "茶茶：就诊卡丢了\n患者：挂失\n茶茶：好",
    "老K：牙疼\n医生：多久了\n老K：三天",
    "Linda:像不像EM?\n护士:查查\nLinda:有",
    "晁：CT约到几点？\n冼：下午两点",
    "【阮】会诊谁去？【欧阳】我去",
    "[晁小宁] 血钾补了没\n[闵春兰] 补了",
]


@pytest.mark.parametrize("text", CHATS)
def test_speakers_of_several_lines_are_replaced(text: str) -> None:
    treated, counts = deidentify(text)
    assert counts["name"] >= 2
    assert not any(
        name in treated for name in ("朵朵妈", "嘟嘟爸", "茶茶", "老K", "Linda", "晁", "冼", "阮", "欧阳", "闵")
    )
    assert may_hold([text]).all()


@pytest.mark.parametrize(
    ("text", "treated"),
    [
        ("静待花开:姐妹们吃来曲唑关节疼吗\n荔枝:我就是", "〔姓名〕:姐妹们吃来曲唑关节疼吗\n〔姓名〕:我就是"),
        ("骑手小杜:到北门了,您下来拿\n顾客:好的谢谢", "骑手〔姓名〕:到北门了,您下来拿\n顾客:好的谢谢"),
        ("momo_77: 能结扎吗\n主任: 可以呀", "〔姓名〕: 能结扎吗\n主任: 可以呀"),
    ],
)
def test_whoever_talks_has_a_name(text: str, treated: str) -> None:
    assert deidentify(text)[0] == treated
    assert may_hold([text]).all()


@pytest.mark.parametrize(
    "text",
    [
        "抬头:转给您\n正文:我来了吗",
        "二姐:爸能喝点米汤吗\n大舅:我看能",
        "主诉：我头痛\n现病史：我妈说三天了吗",
        "荔枝：糖12%\n香蕉：糖20%",
        "荔枝：你能吃吗",
        "荔枝：你能吃吗\n能的",
        "荔枝：糖12%\n香蕉：我看糖20%\n苹果：糖13%",
        "CT：我们科做\nMRI：你们科做吗",
        "血压：120\n血糖：6\n血压：130\n血糖：7",
        "患者：头痛\n医生：多久\n患者：三天\n医生：好",
        "Plan: rest\nExam: fine\nPlan: CT",
        "小便：清\n大便：干\n小便：黄",
        "BP：120/80\nHR：70\nBP：130/80",
        "茶茶：一行不是聊天\n另一行\n第三行",
        "空腹糖：7\n餐后糖：9\n空腹糖：6",
        "左：4.8\n右：4.7\n方：柴胡10g",
        "【现病史】发热【查体】无【方】四逆散",
        "[平扫] 无\n[增强] 无",
        "晁：一行不是聊天\n主诉：无",
    ],
)
def test_headings_and_roles_stay(text: str) -> None:
    assert deidentify(text) == (text, {})


@pytest.mark.parametrize(
    "family", ["茶茶：\n", "\n", "老周：好\n", "Linda：", "老", "\n老", "晁：\n", "【阮】", "[", "【"]
)
def test_twice_the_text_takes_twice_the_time(family: str) -> None:
    assert ratio_of_doubling(deidentify, repeated(family), 20_000) < LINEAR
