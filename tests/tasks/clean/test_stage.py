"""Cleaning: what is removed, what stays, and that no text makes it slow or unstable."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Callable

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from infra.errors import UserError
from tasks.clean.boilerplate import ANYWHERE, AT_THE_BEGINNING
from tasks.clean.profile import adapted
from tasks.clean.stage import PROFILES, CleanProfile, clean_text
from tests.support.text.linear_time import LINEAR, ratio_of_doubling

EVERYTHING = CleanProfile(
    strip_addresses=True, only_text=True, join_lines=True, collapse_repeats=True, simplify=True, boilerplate=("患a",)
)
RULES = (*PROFILES.values(), adapted("ehealth", "textbook"), adapted("ehealth", "emr"), EVERYTHING)

marks = st.sampled_from(
    "患者 Aa1<>/&;#bpr=\"'\n\r\t\u00a0\u200b\ue000。，@.:wht-乾頭髮e\u0301\u0338\ud800\ufffd⻓⼈\uf900\ufe0f"
)
words = st.sampled_from(
    (
        "版权所有",
        "上一篇：",
        "<b>",
        "</b>",
        "<script>",
        "</script>",
        "&lt;",
        "&nbsp",
        "www.",
        "http://a.b",
        "a@b.c",
        "\n",
    )
)
lines = st.lists(st.text("甲乙丙，。（）ab -1<", min_size=1, max_size=22), max_size=8).map("\n".join)
texts = st.one_of(
    st.text(marks | st.characters(), max_size=60), st.lists(marks | words, max_size=30).map("".join), lines
)


@settings(max_examples=500, deadline=None)
@given(text=texts, rules=st.sampled_from(RULES))
@example(text="&amp;amp;lt;b>x", rules=PROFILES["ehealth"])
@example(text="<<b>b>x&<i>lt;", rules=PROFILES["ehealth"])
@example(text="e★\u0301", rules=PROFILES["smedbert"])
@example(text="版权所\n版权所有\n有", rules=EVERYTHING)
@example(text="<b\n版权所有\n>" * 20, rules=EVERYTHING)
@example(text="a@" * 40 + ("b@c." + "d" * 64 + "x.y") * 40, rules=EVERYTHING)
def test_cleaning_again_changes_nothing(text: str, rules: CleanProfile) -> None:
    once = clean_text(text, rules)
    assert clean_text(once, rules) == once
    assert not any(mark in once for mark in "\r\u00a0\u200b\ue000\t\ud800\ufe0f⻓⼈\uf900")
    assert "  " not in once and "\n\n" not in once and " \n" not in once
    assert unicodedata.is_normalized("NFC", once)


@pytest.mark.parametrize(
    ("raw", "cleaned"),
    [
        ("血压\u00a0140/90\u3000mmHg", "血压 140/90 mmHg"),
        ("第一行 \r\n\r\n 第二行\r第三行\x0c第四行\x85第五行", "第一行\n第二行\n第三行\n第四行\n第五行"),
        ("甲\ue81f状\u200b腺\x00\ufeff\u202e\ufe0f\U000e0100", "甲状腺"),
        ("半个\ud83d字", "半个字"),
        ("⼼⼒衰竭，⻓期⻛湿\uf9b4\uf92c", "心力衰竭，长期风湿領郎"),
        ("Me\u0301nie\u0300re 病，α\u0301，β\u0308x\u0302", "Ménière 病，ά，β\u0308x\u0302"),
        ("Ａ型，ⅢＢ期，①，ﬁ", "Ａ型，ⅢＢ期，①，ﬁ"),
        ('<p class="x">甲</p><p>乙<br/>丙', "甲\n乙\n丙"),
        ("甲<script type='a'>if (a<b) alert('乙')</script>丙<STYLE>p{}</style>丁", "甲\n丙\n丁"),
        ("甲<script>没有结束", "甲没有结束"),
        ("P&lt;0.05，&amp;lt;重要&amp;gt;", "P<0.05，<重要>"),
        ("甲&nbsp;乙&nbsp丙&#8203;&#x4e01;", "甲 乙 丙丁"),
        ("a=1&para=2&lt=3", "a=1&para=2&lt=3"),
        ("收缩压<a 且 b>c", "收缩压<a 且 b>c"),
        ("年龄18~65岁，血小板≥75×10⁹/L，Ⅱ期", "年龄18~65岁，血小板≥75×10⁹/L，Ⅱ期"),
    ],
)
def test_noise_is_removed_and_medicine_stays(raw: str, cleaned: str) -> None:
    assert clean_text(raw) == cleaned


def test_smedbert_profile_removes_addresses_and_symbols() -> None:
    assert clean_text("见http://a.b/c?d=1，邮箱x.y@z.com★，体温38.5℃", "smedbert") == "见，邮箱，体温38.5℃"
    assert clean_text("见WWW.a.b/c或HTTPS://x.y。", "smedbert") == "见或。"


def test_smedbert_profile_keeps_powers_and_units_in_one_character() -> None:
    text = "白细胞10^9/L，10^-3，10^６，剂量100㎎，大小3㎝×2㎝，5㎍，10⁹，10⁻³"
    assert clean_text(text, "smedbert") == text
    assert clean_text("(^_^) 好^ ^5 1^^9", "smedbert") == "(_) 好 5 19"
    assert clean_text("见http://a.b/c★", "ehealth") == "见http://a.b/c★"


@pytest.mark.parametrize("name", ["ehealth", "smedbert", "embert"])
def test_every_paper_has_a_preset(name: str) -> None:
    assert clean_text("<b>糖尿病</b>", name) == "糖尿病"


@pytest.mark.parametrize(
    "line",
    [
        "版权所有 © 2019 某某健康网 京ICP备12345678号-1",
        "未经授权，禁止转载",
        "未经本网授权不得转载、摘编",
        "上一篇：糖尿病能吃西瓜吗",
        "下一篇：没有了",
        "责任编辑：小王",
        "（责任编辑：小王）",
        "点击查看更多",
        "扫描二维码下载",
        "扫一扫下方二维码",
        "关注公众号",
        "欢迎关注我们的微信公众号“健康”",
        "免责声明：本文仅供参考",
        "转载请注明出处",
        "相关阅读：",
        "分享到：微信 微博 QQ空间",
        "All Rights Reserved",
        "您现在的位置：首页 > 内科",
        "违法和不良信息举报电话",
        "发布时间：2015年3月3日 阅读次数：125次",
        "24小时热线，关注公众号，3天内回复",
        "分享到：http://a.b/?u=http%3A%2F%2F%E4%BA 微信 微博",
    ],
)
def test_lines_of_a_portal_are_removed(line: str) -> None:
    article = "糖尿病是一种代谢病。\n应控制血糖。"
    assert clean_text(f"{line}\n{article}\n{line}") == article
    assert clean_text(line, adapted("ehealth", "emr")) == line


@pytest.mark.parametrize(("pattern", "line"), [*ANYWHERE.items(), *AT_THE_BEGINNING.items()])
def test_boilerplate_pattern_matches_its_example(pattern: str, line: str) -> None:
    assert re.search(pattern, line)
    assert clean_text(f"血糖偏高。\n{line}") == "血糖偏高。"


@pytest.mark.parametrize("example", AT_THE_BEGINNING.values())
def test_boilerplate_pattern_for_beginnings_does_not_match_within_a_line(example: str) -> None:
    assert clean_text(f"患者诉{example}") == f"患者诉{example}"


@pytest.mark.parametrize(
    "line",
    [
        "好的",
        "谢谢",
        "上一次月经是什么时候？",
        "下一步建议复查肝功能。",
        "肝功能异常的来源有多种。",
        "点击式注射笔使用前应排气。",
        "患者反复点击痛处，诉疼痛减轻。",
        "相关阅读障碍多见于儿童。",
        "推荐剂量：一次10mg，一日2次。",
        "更新：伤口愈合。",
        "患者近日通过微信咨询，诉头晕。",
        "我在微信朋友圈看到这种药，能吃吗？",
        "此药未经许可的适应症不得使用。",
        "李红医生：吃药，王小明，有问题添加我的微信号，布洛芬0.3g每日3次",
        "请点击查看检查结果：白细胞12.5×10^9/L，建议头孢克肟0.1g每日两次口服三天后复查。",
        "点击查看结果：WBC12.5×10⁹/L，SpO2 98%",
        "添加我的微信号，阿莫西林每次2粒，一日三次",
        "点击查看，剂量5㎎",
        "本文介绍糖尿病。" * 12 + "版权所有。",
    ],
)
def test_lines_of_medicine_and_dialogue_stay(line: str) -> None:
    assert clean_text(f"血糖偏高。\n{line}\n{line}") == f"血糖偏高。\n{line}\n{line}"


def test_given_phrases_are_not_patterns() -> None:
    rules = CleanProfile(boilerplate=("某某健康网[首页]",))
    assert clean_text("某某健康网[首页] > 内科\n血糖偏高。\n某某健康网首", rules) == "血糖偏高。\n某某健康网首"


def test_repeats_in_a_row_are_collapsed_on_request() -> None:
    text = "体温36.5℃\n体温36.5℃\n血压正常\n体温36.5℃"
    assert clean_text(text) == text
    assert clean_text(text, CleanProfile(collapse_repeats=True)) == "体温36.5℃\n血压正常\n体温36.5℃"


def test_traditional_becomes_simplified_by_phrases() -> None:
    rules = CleanProfile(simplify=True)
    assert (
        clean_text("皮膚乾燥，頭髮脫落，乾坤，憑藉經驗，心臟瓣膜", rules)
        == "皮肤干燥，头发脱落，乾坤，凭借经验，心脏瓣膜"
    )
    assert clean_text("皮膚乾燥") == "皮膚乾燥"


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("<tr><td>收缩压</td><td>120</td><td>80</td></tr><tr><th>体温</th></tr>", "收缩压 120 80\n体温"),
        ('<?xml:namespace prefix = o ns = "urn:a:office" />每日<o:p></o:p>一次', "每日一次"),
        ('每次<st1:chmetcnv UnitName="mg" w:st="on">5mg</st1:chmetcnv>口服', "每次5mg口服"),
        ("<!--[if gte mso 9]><xml><w:View>Normal</w:View></xml><![endif]-->头痛", "头痛"),
        ("<![if !supportLists]>1、<![endif]>甲<!--[if !vml]-->乙<!--[endif]-->", "1、甲乙"),
        ("收缩压<!--[if 未闭合]>120", "收缩压<!--[if 未闭合]>120"),
    ],
)
def test_markup_of_tables_and_of_word_is_removed(markup: str, text: str) -> None:
    assert clean_text(markup) == text


def test_missing_converter_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    from tasks.clean import simplify

    monkeypatch.setitem(sys.modules, "opencc", None)
    simplify._converter.cache_clear()
    with pytest.raises(UserError, match="OpenCC: install it"):
        clean_text("皮膚", CleanProfile.model_construct(**{**CleanProfile().model_dump(), "simplify": True}))
    simplify._converter.cache_clear()


@pytest.mark.parametrize("rules", [PROFILES["smedbert"], adapted("ehealth", "textbook")], ids=["smedbert", "textbook"])
@pytest.mark.parametrize(
    "attack",
    [
        lambda size: "<a " * size,
        lambda size: "<!--" * size,
        lambda size: "<!--[if]>" * size,
        lambda size: "<!--[if]>" + "<![" * size,
        lambda size: "<script>" * size,
        lambda size: "a.b-" * size,
        lambda size: "&" + "amp;" * size,
        lambda size: "<" * size + "b>" * size,
        lambda size: "a@" * size + "b.c",
        lambda size: "\u0301" * size,
        lambda size: "版权所有" * size,
        lambda size: "版权所有\n" * size,
        lambda size: "未经" * size,
        lambda size: " \n" * size,
        lambda size: ("甲" * 20 + "\n") * (size // 10),
    ],
    ids=lambda attack: repr(attack(10)[:12]),
)
def test_twice_the_hostile_text_takes_twice_the_time(attack: Callable[[int], str], rules: CleanProfile) -> None:
    assert ratio_of_doubling(lambda text: clean_text(text, rules), attack, 20_000) < LINEAR


def test_text_buried_under_too_many_layers_loses_its_markup_signs() -> None:
    buried = "甲" + "<b" * 30 + ">" * 30 + "乙"
    assert clean_text(buried) == clean_text(clean_text(buried))
    assert "<" not in clean_text(buried) and clean_text(buried).startswith("甲")


def test_real_texts_lose_little(shared_data: object) -> None:
    answers = pl.read_parquet(f"{shared_data}/toyhom_dialogue/im_sample.parquet")["answer"].to_list()
    labels = pl.read_parquet(f"{shared_data}/products/qizhen_indication_eval.parquet")["label_text_html"].to_list()
    for text in answers[:1000]:
        cleaned = clean_text(text, adapted("ehealth", "dialogue"))
        assert clean_text(cleaned, adapted("ehealth", "dialogue")) == cleaned
        assert len(cleaned) >= 0.9 * len("".join(text.split()))
    for text in labels:
        assert text.startswith("<p>") and "<p>" not in clean_text(text)
