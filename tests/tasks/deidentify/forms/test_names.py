"""Names behind a patient or a relation: a short way says where none begins, and must agree with the long one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.deidentify.forms.names import latin_end, likely_end, may_begin_person, name_end
from tasks.deidentify.forms.word_names import person_end
from tests.support.text.rules_alone import deidentify

_PARTS = st.sampled_from(
    [
        *"王欧阳和勇古丽娜能吃的张某伟芳欧，、（( ：男女性孕岁58·〔〕aBM.之",
        "先生",
        "女士",
        "13812345678",
        "(长子)",
        "Maria Silva",
    ]
)


@given(st.lists(_PARTS, max_size=9).map("".join))
def test_where_none_may_begin_none_is_found(text: str) -> None:
    if not may_begin_person(text, 0):
        assert [find(text, 0) for find in (name_end, likely_end, person_end, latin_end)] == [None] * 4


@pytest.mark.parametrize(
    ("text", "may"),
    [
        ("能吃辣", False),
        ("的病", False),
        ("古丽娜尔，女", True),  # by what is behind
        ("丽娜尔，女", True),
        ("丽娜尔来了", False),
        ("王", True),
        ("欧阳", True),
        ("和平13812345678", True),
        ("勇先生", True),
        ("Maria", True),
        ("：王芳", True),
        ("", True),
    ],
)
def test_a_name_may_begin_with_a_surname_a_mark_or_before_a_sex(text: str, may: bool) -> None:
    assert may_begin_person(text, 0) is may


@pytest.mark.parametrize(
    ("text", "treated"),
    [
        ("病人能吃辣吗", "病人能吃辣吗"),
        ("患者丽娜尔汗，女，58岁", "患者〔姓名〕，女，58岁"),
        ("患者梁敏之女", "患者〔姓名〕之女"),
        ("家属和平13812345678", "家属〔姓名〕〔手机号〕"),
    ],
)
def test_names_behind_patients_and_relations_are_found_as_before(text: str, treated: str) -> None:
    assert deidentify(text)[0] == treated
