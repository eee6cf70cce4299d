"""Names that fill the field of a role, and what else such fields hold."""

from __future__ import annotations

import pytest

from tasks.deidentify.forms.role_fields import role_field_end


def end_in(field: str) -> int | None:
    """Return the end of the name behind the first colon of a field."""
    colon = field.index("：")
    return role_field_end(field, colon, colon + 1)


@pytest.mark.parametrize(
    ("field", "name"),
    [
        ("责任护士：幸福", "幸福"),
        ("复核：左。", "左"),
        ("评估人：安静；", "安静"),
        ("家属签名：平安（与患者关系：子）", "平安"),
        ("审核：令狐/王", "令狐"),
        ("录入员：欧阳建国\n", "欧阳建国"),
        ("核对者：章慧敏 ", "章慧敏"),
    ],
)
def test_what_fills_the_field_of_a_role_is_a_name(field: str, name: str) -> None:
    assert end_in(field) == field.index(name) + len(name)


@pytest.mark.parametrize(
    "field",
    [
        "护士：安静，别动",  # a speaker
        "工作人员：温和",
        "患者：左。",
        "签名：高兴",
        "审核：通过",
        "复核：符合",
        "操作者：左下肺",
        "记录者：白带多",
        "评估人：安静下来了",
        "报告人：不详",
        "采集者：阴",
    ],
)
def test_anything_else_stays(field: str) -> None:
    assert end_in(field) is None
