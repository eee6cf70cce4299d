"""Plain forms keep the places of a text; traditional text is treated like the same text in simplified characters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.deidentify import deidentify
from tasks.deidentify.explain import explain
from tasks.deidentify.forms.plain import TRADITIONAL, plain_form, simplified
from tasks.deidentify.plan import Plan, make_plan
from tasks.deidentify.treatment import Treatment
from tasks.deidentify.user_rules import parse_rules

PAIRS = (
    (
        "患者劉洋，男，電話13812345678，主治醫師：陳國強。劉洋自述頭痛。",
        "患者刘洋，男，电话13812345678，主治医师：陈国强。刘洋自述头痛。",
    ),
    (
        "主訴：發熱。體溫38度，給予麻黃湯，診斷為傷寒、頭痛、脈浮緊。",
        "主诉：发热。体温38度，给予麻黄汤，诊断为伤寒、头痛、脉浮紧。",
    ),
    ("護士張麗華：病歷號A123456，床號12", "护士张丽华：病历号A123456，床号12"),
)


@given(st.text())
def test_forms_keep_the_length_and_doing_it_again_changes_nothing(text: str) -> None:
    for form in (plain_form, simplified):
        once = form(text)
        assert len(once) == len(text) and form(once) == once


def test_wide_blanks_between_digits_are_blanks() -> None:
    assert plain_form("电１３３　９３１７，男　３６岁") == "电133 9317，男　36岁"
    assert deidentify("电　１３３　９３１７　００２５　单位")[0] == "电　〔手机号〕　单位"


def test_no_simplified_character_changes() -> None:
    for old, new in TRADITIONAL.items():
        new.encode("gb2312")
        with pytest.raises(UnicodeEncodeError):
            old.encode("gb2312")
    assert len(TRADITIONAL) > 2000


@pytest.mark.parametrize(("traditional", "other"), PAIRS)
@pytest.mark.parametrize("plan", [Plan(), Plan(recogniser=False)])
def test_a_traditional_text_is_treated_as_its_simplified_form(traditional: str, other: str, plan: Plan) -> None:
    assert simplified(traditional) == other
    found = [(one.start, one.end, one.kind) for one in explain(traditional, plan)[1]]
    assert found == [(one.start, one.end, one.kind) for one in explain(other, plan)[1]]
    treated = explain(traditional, plan)[0]
    assert simplified(treated) == explain(other, plan)[0]
    assert not TRADITIONAL.keys().isdisjoint(treated)  # what stays is as it was written


def test_a_name_is_known_in_both_scripts() -> None:
    treatment = Treatment(Plan(recogniser=False))
    assert treatment.of("患者劉洋入院") == "患者〔姓名〕入院"
    assert treatment.of("刘洋诉头痛，劉洋拒絕") == "〔姓名〕诉头痛，〔姓名〕拒絕"


def test_the_rules_of_a_user_are_read_in_their_own_script() -> None:
    rules = parse_rules(
        "[[recogniser]]\nkind = 'record'\npattern = '樣本[0-9]{3}'\nfound = ['{樣本123}已送']\nkept = ['樣本']\n"
        "[cues]\nrecord = ['龍門碼']\n[deny]\nname = ['龍哥']\n",
        "own.toml",
    )
    plan = make_plan(rules=rules, recogniser=False)
    assert (
        deidentify("樣本123已送，龍門碼：AB1234，龍哥來電", plan)[0] == "〔编号〕已送，龍門碼：〔编号〕，〔姓名〕來電"
    )
