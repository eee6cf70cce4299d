"""A user's own rules: what they find and say, files that cannot be used, patterns that take too long."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.errors import UserError
from tasks.deidentify.explain import explain
from tasks.deidentify.plan import Plan, make_plan
from tasks.deidentify.stage import DeidentifyParams
from tasks.deidentify.treatment import Treatment
from tasks.deidentify.user_rules import parse_rules, read_rules
from tests.support.text.linear_time import LINEAR, ratio_of_doubling
from tests.support.text.linear_time import repeated as text_of
from tests.support.text.rules_alone import RULES_ALONE, deidentify

RULES = r"""
allow = ["张仲景", "王氏保赤丸"]

[kinds.project]
placeholder = "〔课题号〕"
what = "numbers of research projects"

[[recogniser]]
kind = "project"
pattern = 'KT-\d{4}-\d{3}'
found = ["课题{KT-2023-017}"]
kept = ["KT-12"]

[[recogniser]]
kind = "name"
words = ["老柴头", "老柴头家"]

[deny]
address = ["梅园三号"]

[cues]
record = ["科研暗号"]
name = ["填表"]
project = ["课题代码"]
"""


def plan(text: str = RULES) -> Plan:
    return make_plan(rules=parse_rules(text, "ward/rules.toml"))


@pytest.mark.parametrize(
    ("said", "treated", "rule"),
    [
        ("见课题KT-2023-017。", "见课题〔课题号〕。", "recogniser 1 of rules.toml"),
        ("老柴头家来电", "〔姓名〕来电", "recogniser 2 of rules.toml"),
        ("住梅园三号", "住〔地址〕", "deny list of rules.toml"),
        ("科研暗号：SF93", "科研暗号：〔编号〕", "cue 科研暗号 of rules.toml"),
        ("填表：李小雨 日期", "填表：〔姓名〕 日期", "cue 填表 of rules.toml"),
        ("课题代码 AB1234，", "课题代码 〔课题号〕，", "cue 课题代码 of rules.toml"),
    ],
)
def test_own_rule_finds_and_says_so(said: str, treated: str, rule: str) -> None:
    assert deidentify(said)[0] == said
    done, found = explain(said, plan())
    assert done == treated == deidentify(said, plan())[0]
    assert [one.rule for one in found] == [rule]
    assert said[found[0].start : found[0].end] == found[0].written


def test_allowed_words_stay_and_names_beside_them_do_not() -> None:
    said = "患者张仲景，女，50岁。患者王伟，男，服王氏保赤丸。"
    assert deidentify(said, plan())[0] == "患者张仲景，女，50岁。患者〔姓名〕，男，服王氏保赤丸。"


def test_allowed_word_stays_inside_what_is_found_around_it() -> None:
    own = plan("allow = ['张仲景']\n[deny]\nname = ['老韦']")
    said = "参加KT-2023-017课题，老韦的儿子，科研暗号A7781，张仲景方"
    assert deidentify(said, own)[0] == "参加KT-2023-017课题，〔姓名〕的儿子，科研暗号〔编号〕，张仲景方"


@pytest.mark.parametrize(
    ("denied", "treated"),
    [
        ("张仲景", "我见张仲景 方剂与张仲景，"),
        ("仲景", "我见张仲景 方剂与张仲景，"),
        ("见张仲景", "我见张仲景 方剂与张仲景，"),
        ("与张仲", "我见张仲景 方剂与张仲景，"),
        ("我见张仲景 方", "〔姓名〕张仲景 方剂与张仲景，"),
        ("仲景 方剂", "我见张仲景 〔姓名〕与张仲景，"),
        ("我见张", "〔姓名〕张仲景 方剂与张仲景，"),
        ("我见张仲景 方剂与张仲景，", "〔姓名〕张仲景 〔姓名〕张仲景，"),
        ("方剂", "我见张仲景 〔姓名〕与张仲景，"),
    ],
)
def test_rest_beside_an_allowed_word_is_replaced_unless_it_is_one_character(denied: str, treated: str) -> None:
    own = make_plan(rules=parse_rules(f"allow = ['张仲景']\n[deny]\nname = ['{denied}']", "a.toml"), recogniser=False)
    assert deidentify("我见张仲景 方剂与张仲景，", own)[0] == treated


def test_allowed_word_is_no_name_to_be_found_again_in_part() -> None:
    own = make_plan(rules=parse_rules("allow = ['张仲景']", "a.toml"), recogniser=False)
    assert deidentify("患者张仲景，女，张总，来电", own)[0] == "患者张仲景，女，张总，来电"


def test_allowed_speaker_of_a_dialogue_stays() -> None:
    own = make_plan(rules=parse_rules("allow = ['张仲景']", "a.toml"), recogniser=False)
    said = "张仲景：你好\n王建国：你好\n张仲景：坐吧\n王建国：好的"
    assert Treatment(own).of_turns(said) == "张仲景：你好\n〔姓名〕：你好\n张仲景：坐吧\n〔姓名〕：好的"


def test_pattern_that_matches_placeholders_too_comes_to_an_end() -> None:
    own = plan("[[recogniser]]\nkind='name'\npattern='[\u4e00-\u9fff]{2}'\n[deny]\nrecord=['编号', '0编号']")
    assert deidentify("电话13812345678，大家来了0编号", own)[0] == "〔姓名〕〔手机号〕，〔姓名〕〔姓名〕〔编号〕"


def test_explanation_gives_the_places_of_the_text_that_was_given() -> None:
    said = "患者王伟，电话13812345678，王伟诉头痛"
    treated, found = explain(said, RULES_ALONE)
    assert treated == "患者〔姓名〕，电话〔手机号〕，〔姓名〕诉头痛"
    assert [(said[one.start : one.end], one.kind, one.becomes, one.rule) for one in found] == [
        ("王伟", "name", "〔姓名〕", "cue 患者"),
        ("13812345678", "mobile", "〔手机号〕", "digits of this form"),
        ("王伟", "name", "〔姓名〕", "found before"),
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("alow = ['ab']", r"rules.toml: unknown key 'alow'; there are allow, kinds, recogniser, deny and cues"),
        ("allow = [", "is not valid TOML"),
        ("allow = 3", r"rules.toml: allow must be a list of words: allow = \["),
        ("allow = '张仲景'", r"rules.toml: allow must be a list of words: allow = \["),
        ("[deny]\nname = '老韦'", r"deny.name must be a list of words: name = \["),
        ("[recogniser]\nkind='name'", r"recogniser: write \[\[recogniser\]\]"),
        ("allow = ['王']", r"allow\[0\]: '王' needs 2 to 300 characters"),
        ("[[recogniser]]\nkind='name'", "recogniser 1 needs either a pattern or words"),
        ("[[recogniser]]\nkind='naem'\nwords=['ab']", r"there is no kind 'naem'. Add \[kinds.naem\]"),
        ("[[recogniser]]\nkind='name'\npattern='('", "recogniser 1, pattern '.' is not a regular expression"),
        ("[[recogniser]]\nkind='name'\npattern='a{0,3}'", "also matches nothing"),
        ("[[recogniser]]\nkind='name'\npattern='ab'\nfound=['{ac}']", r"recogniser 1, found: in '\{ac\}' it finds"),
        (
            "[[recogniser]]\nkind='name'\npattern='ab'\nfound=['ab']",
            r"'ab' marks nothing. Put .* into braces: 床\{X12\}",
        ),
        ("[[recogniser]]\nkind='name'\npattern='ab'\nkept=['xab']", "recogniser 1, kept: in 'xab' it finds"),
        ("[kinds.name]\nplaceholder='〔某〕'", "kinds.name is a kind of the table already"),
        ("[kinds.ward]\nplaceholder='ward'", "must be a word of up to 12 characters in brackets"),
        ("[kinds.ward]\nplaceholder='〔姓名〕'", "that no other kind has"),
        ("[cues]\nurl=['主页']", "recognised by its form alone; add a"),
        ("[cues]\nname=['填 表']", "holds a blank"),
    ],
)
def test_unusable_file_is_refused_by_key_and_remedy(content: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        parse_rules(content, "ward/rules.toml")


@pytest.mark.parametrize(
    "pattern",
    [
        "a+",
        "x.*y",
        "(a{1,20}){1,20}b",
        "(a|a){1,40}b",
        "(?:a{0,9}){9}b",
        ".{0,60}x.{0,60}y",
        "(?=(a{1,30}){1,30})a",
        r"(\d\d)\1",
        "[A-Z]{1,400}",
        "(?:(?:a|b){1,9}c{0,9}){2}d",
    ],
)
def test_pattern_that_could_take_too_long_is_refused(pattern: str) -> None:
    with pytest.raises(UserError, match="recogniser 1, pattern"):
        parse_rules(f"[[recogniser]]\nkind='name'\npattern='{pattern}'", "rules.toml")


@pytest.mark.parametrize(
    ("pattern", "repeated"),
    [("[A-Z]{2,4}-?\\d{6,12}", "AB12"), ("a{0,30}b{0,30}c", "a"), ("(?:ab|ba){1,8}x", "ab"), ("\\S{1,20}公司", "王")],
)
def test_accepted_pattern_takes_linear_time(pattern: str, repeated: str) -> None:
    own = plan(f"[[recogniser]]\nkind='name'\npattern='{pattern}'")
    (recogniser,) = own.finder._own
    assert ratio_of_doubling(lambda text: list(recogniser[1].spans(text)), text_of(repeated), 5_000) < LINEAR


def test_rules_are_part_of_the_identity_by_their_content_and_stay_out_of_it(tmp_path: Path) -> None:
    file, copy = tmp_path / "a.toml", tmp_path / "b.toml"
    file.write_text(RULES, encoding="utf-8")
    copy.write_text(RULES, encoding="utf-8")
    written = [DeidentifyParams(rules=str(path)).model_dump(mode="json") for path in (file, copy)]
    assert written[0] == written[1] == {"sources": ["emr", "dialogue"], "rules": read_rules(file).fingerprint}
    assert "老柴头" not in str(written)
    copy.write_text(RULES + "\n[deny]\n".replace("[deny]", "# other"), encoding="utf-8")
    assert DeidentifyParams(rules=str(copy)).model_dump(mode="json") != written[0]
    with pytest.raises(ValueError, match=r"deidentify.rules: there is no file .*c.toml\."):
        DeidentifyParams(rules=str(tmp_path / "c.toml"))
    with pytest.raises(ValueError, match=r"cannot be read: Is a directory"):
        DeidentifyParams(rules=str(tmp_path))
    copy.write_bytes("allow = ['张仲景']".encode("gb18030"))
    with pytest.raises(ValueError, match=r"b.toml is not UTF-8 text .*convert it"):
        DeidentifyParams(rules=str(copy))


def test_params_work_where_the_file_is_not(tmp_path: Path) -> None:
    import pickle

    file = tmp_path / "a.toml"
    file.write_text(RULES, encoding="utf-8")
    sent = pickle.dumps(DeidentifyParams(rules=str(file)))
    file.unlink()
    assert deidentify("住梅园三号", pickle.loads(sent).plan())[0] == "住〔地址〕"


def test_a_rule_or_an_operator_for_a_kind_that_stays_is_refused() -> None:
    rules = parse_rules('[deny]\nhospital = ["绍兴二院"]', "rules.toml")
    with pytest.raises(UserError, match="Your rules look for the kind hospital, which the profile minimal leaves"):
        make_plan(rules=rules)
    assert "hospital" in make_plan(rules=rules, kinds={"hospital": True}).kinds
    assert "hospital" not in make_plan(rules=rules, kinds={"hospital": False}).kinds
    with pytest.raises(UserError, match=r"operators\.date: the profile minimal leaves date as it is"):
        make_plan(operators={"date": "month"})
    assert make_plan(operators={"date": "month"}, kinds={"date": False}).operators == ()
    assert dict(make_plan("hipaa", operators={"date": "month"}).operators) == {"date": "month"}
