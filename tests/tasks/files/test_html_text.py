"""HTML pages give their title and their visible text."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.clean.stage import clean_text
from tasks.files.html_text import page_text
from tasks.text.raised_digits import with_raised_digits
from tests.support.text.linear_time import LINEAR, ratio_of_doubling, repeated
from tests.support.text.reading import ingested, rejects
from tests.support.text.stages import texts_of

PAGE = """<!DOCTYPE html>
<html><head><meta charset="{charset}"><title>糖尿病 &amp; 血糖</title>
<style>p > a {{ color: red }}</style><script>if (a < b) document.write("<p>no</p>");</script></head>
<body><header><h2>站点</h2></header><nav><ul><li>首页<li>关于</ul></nav>
<h1>糖尿病</h1><!-- <p>注释</p> --><p>患者应<b>控制</b>血糖，
体温&lt;38℃。<p>空腹血糖 &ge; 7.0&nbsp;mmol/L<br>复查
<table><tr><th>药物<th>剂量</tr><tr><td>二甲双胍</td><td>0.5 g</td></tr></table>
<form>搜索<input value="x"><button>提交</button></form>
<footer>版权所有</footer></body></html>"""

TEXT = "糖尿病\n患者应控制血糖，体温<38℃。\n空腹血糖 ≥ 7.0 mmol/L\n复查\n药物\t剂量\n二甲双胍\t0.5 g"


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("12.5×10<sup>9</sup>/L", "12.5×10⁹/L"),
        ("10<SUP class='x'>-3</SUP>mol", "10⁻³mol"),
        ("10<sup>&minus;3</sup>、10<sup>−3</sup>、10<sup> ６ </sup>", "10⁻³、10⁻³、10⁶"),
        ("10<sup><span style='a'>12</span></sup>", "10¹²"),
        ("CO<sub>2</sub>、Ca<sup>2+</sup>、HCO<sub>3</sub><sup>-</sup>、B<sub>12</sub>", "CO₂、Ca²⁺、HCO₃⁻、B₁₂"),
        ("10<sup>1.5</sup>", "10^1.5"),
        ("研究<sup>[1]</sup>、HbA<sub>1c</sub>、C<sub>max</sub>、x<sup>n</sup>", "研究[1]、HbA1c、Cmax、xn"),
        ("甲<sup>乙", "甲乙"),
    ],
)
def test_raised_and_lowered_digits_remain_distinct(markup: str, text: str) -> None:
    assert page_text(f"<p>{markup}</p>")[1] == text
    assert clean_text(f"结果：{markup}") == f"结果：{text}"
    assert clean_text(f"结果：{html.escape(markup)}") == f"结果：{text}"


@pytest.mark.parametrize("attack", ["<sup>", "<sup>9", "<sup><b>", "<sub "])
def test_raised_digits_without_an_end_take_linear_time(attack: str) -> None:
    assert ratio_of_doubling(with_raised_digits, repeated(attack), 400_000) < LINEAR


@pytest.mark.parametrize(
    ("charset", "encoding"),
    [
        ("utf-8", "utf-8"),
        ("gb2312", "gb18030"),
        ("gbk", "gb18030"),
        ("utf-8", "gb18030"),
        ("gbk", "utf-8"),
        ("", "utf-16"),
    ],
)
@pytest.mark.parametrize("name", ["a.html", "a.htm"])
def test_a_page_is_one_document(tmp_path: Path, charset: str, encoding: str, name: str) -> None:
    artifact = ingested(tmp_path, {name: PAGE.format(charset=charset).encode(encoding)})
    (document,) = artifact.to_table("documents").to_pylist()
    assert (document["title"], document["text"]) == ("糖尿病 & 血糖", TEXT)


def test_the_declared_charset_is_used_if_the_page_is_valid_in_it(tmp_path: Path) -> None:
    page = '<meta http-equiv="Content-Type" content="text/html; charset=big5"><p>頭痛病歷，血壓</p>'
    assert texts_of(ingested(tmp_path, {"a.html": page.encode("big5")})) == ["頭痛病歷，血壓"]


@pytest.mark.parametrize(
    ("page", "title", "text"),
    [
        ("<h1>标题<small>副</small></h1><p>文", "标题副", "标题副\n文"),
        ("<title></title><h1>甲</h1><h1>乙</h1>", "甲", "甲\n乙"),
        ("没有标签", "", "没有标签"),
        ("<form><p>整页都是表单</p><select><option>甲</select></form>", "", "整页都是表单"),
        ("血糖 < 7 且 a<b", "", "血糖 < 7 且 a<b"),
        ("<p title='a > b' data-x=it's>文</p>", "", "文"),
        ('<a href="x>文</a><p>字</p>', "", "文\n字"),
        ("<svg><title>图</title></svg><title>页</title>文", "页", "文"),
        ("<script>没有结尾 <p>文", "", ""),
        ("<p>前<!-- 没有结尾 <p>文", "", "前"),
        ("<textarea><p>x</textarea><noscript>y</noscript>文", "", "文"),
        ("<b><div>甲</b>乙</div>丙", "", "甲乙\n丙"),
        ("</p></div></nav>文", "", "文"),
        ("<pre>一\n  二</pre>", "", "一\n二"),
        ("a\n b<br/>c", "", "a b\nc"),
        ("&#x7cd6;&#23615;&notanentity;&", "", "糖尿¬anentity;&"),
        ("<?xml version='1.0'?><![CDATA[x]]>文", "", "文"),
        ("<ul><li>甲<li>乙</ul><dl><dt>丙<dd>丁</dl>", "", "甲\n乙\n丙\n丁"),
        ("<tr><td></td><td>甲</td></tr>", "", "甲"),
    ],
)
def test_the_visible_text_is_kept(page: str, title: str, text: str) -> None:
    assert page_text(page) == (title, text)


def test_a_page_without_text_is_rejected(tmp_path: Path) -> None:
    artifact = ingested(tmp_path, {"a.html": b"<script>x</script>", "b.html": "<p>甲".encode()}, text_field="note")
    assert texts_of(artifact) == ["甲"]
    assert rejects(artifact) == {"a.html#1": "empty_text"}


TAGS = "<div>|<b>|</b>|<td>|<form>|<pre> |<title>|<script>|</script|<p|<|</|<!--|<![CDATA[|&|&#| |\n|\t|中\n"
QUOTES = ["<a ='\">", '<a ="', "<a =\">'", "<a '", "<a b=\"><c d='>", "=\"'>"]
HOSTILE = [*TAGS.split("|"), *QUOTES]


@pytest.mark.parametrize("piece", HOSTILE)
def test_hostile_pages_take_linear_time(piece: str) -> None:
    assert ratio_of_doubling(lambda text: page_text(f"甲{text}乙"), repeated(piece), 100_000) < LINEAR


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.sampled_from(HOSTILE), st.text(max_size=5), st.sampled_from(["</div>", "</form>", "<nav>", ">", "'"])
        )
    )
)
def test_any_page_can_be_read(pieces: list[str]) -> None:
    title, text = page_text("".join(pieces))
    assert all(line == line.strip() and line for line in text.split("\n")) or not text
    assert title == " ".join(title.split())


PARAGRAPH = (
    st.text(st.characters(categories=["L", "N", "P"], include_characters="<>&\"' "), min_size=1)
    .map(str.strip)
    .filter(bool)
)


@given(st.lists(PARAGRAPH, min_size=1), st.sampled_from(["p", "div", "li", "h2", "blockquote"]))
def test_paragraphs_are_preserved(paragraphs: list[str], name: str) -> None:
    page = "".join(f"<{name} class='x'>{html.escape(text)}</{name}>\n" for text in paragraphs)
    assert page_text(f"<body>{page}</body>")[1].split("\n") == [re.sub(" +", " ", text) for text in paragraphs]
