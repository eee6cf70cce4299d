"""Joining of lines in scanned books: prose is joined, everything else stays as it is."""

from __future__ import annotations

import textwrap

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.clean.line_joining import join_lines
from tasks.clean.profile import adapted
from tasks.clean.stage import clean_text

TEXTBOOK = adapted("ehealth", "textbook")

PROSE = (
    "慢性阻塞性肺疾病是一种常见的、可以预防和治疗的疾病，以持续呼吸症状和气流受限为特征，通常由有毒颗粒或气体暴露"
    "引起的气道和肺泡异常所导致。肺功能检查对确定气流受限有重要意义，在吸入支气管扩张剂后，第一秒用力呼气容积占用力"
    "肺活量之比小于百分之七十即表明存在持续的气流受限。"
)
ENGLISH = (
    "Chronic obstructive pulmonary disease is a common, preventable and treatable disease that is characterised by "
    "persistent respiratory symptoms, and by airflow limitation that is due to airway abnormalities."
)


def broken(text: str, width: int) -> str:
    return "\n".join(text[i : i + width] for i in range(0, len(text), width))


@pytest.mark.parametrize("width", [18, 20, 26, 33, 40])
def test_prose_is_joined_at_every_width(width: int) -> None:
    assert clean_text(f"第一节 概述\n{broken(PROSE, width)}\n二、治疗\n{broken(PROSE, width)}", TEXTBOOK) == (
        f"第一节 概述\n{PROSE}\n二、治疗\n{PROSE}"
    )


def test_words_get_their_blank_and_lose_their_hyphen() -> None:
    assert join_lines("\n".join(textwrap.wrap(ENGLISH, 40))) == ENGLISH
    hyphenated = "The patient, a man of sixty, had hyper-\ntension, and was given an old and\nproven drug, at last."
    assert "hypertension, and was given an old and proven" in join_lines(hyphenated)
    mixed = "既往有慢性乙型肝炎病史多年，血清HBV\nDNA阳性，给予恩替卡韦治疗，血清IL-\n6升高，此后复查肝功能恢复正常。"
    assert join_lines(mixed) == mixed.replace("HBV\nDNA", "HBV DNA").replace("\n", "")


def test_number_that_a_line_end_broke_is_joined() -> None:
    text = (
        "患者既往体健，因发热咳嗽收入院，每日静脉滴注剂量为100毫克，"
        "连用三天以后体温正常，咳嗽减轻，未诉不适，予以出院，门诊随访。"
    )
    place = text.index("00毫克")
    width = next(width for width in range(20, place + 1) if place % width == 0)
    assert "剂量为1\n00毫克" in broken(text, width)
    assert join_lines(broken(text, width)) == text
    english = "The patients of the group, who were sixty in 2019\n12 of whom had diabetes, and hypertension in\nmost"
    assert "in 2019 12 of" in join_lines(english)


@pytest.mark.parametrize(
    ("before", "after", "between"),
    [
        ("维生素B1", "100mg", " "),
        ("其中CD4", "200 cells", " "),
        ("血清IL-6", "10 pg", " "),
        ("T3、T4", "2例", " "),
        ("其中IFN-γ2", "3例", " "),
        ("mean 25±3", "12 patients", " "),
        ("mean 25.4 ± 3.1", "12 patients", " "),
        ("aged 18-65", "120 of them", " "),
        ("aged 18–65", "120 of them", " "),
        ("1998~2003", "2005", " "),
        ("比例为1:2", "30例", " "),
        ("血压120/80", "90例", " "),
        ("剂量为1", "00毫克", ""),
        ("体重6", "5.5公斤", ""),
        ("共1,2", "00例", ""),
    ],
)
def test_two_numbers_at_a_line_break_stay_apart(before: str, after: str, between: str) -> None:
    filler = "患者因咳嗽、发热入院后予以抗感染治疗，" * 3
    first = next(
        filler[cut:] + before for cut in range(99) if len((filler[cut:] + before).encode("gbk", "replace")) <= 60
    )
    joined = join_lines(f"{first}\n{after}{filler[:28]}\n{filler[:30]}\n此后好转")
    assert f"{before}{between}{after}" in joined


@pytest.mark.parametrize(
    "text",
    [
        "春眠不觉晓，\n处处闻啼鸟。\n夜来风雨声，\n花落知多少。",
        "四君子汤中和义，参术茯苓甘草比，\n益以夏陈名六君，祛痰补气阳虚饵，\n除却半夏名异功，或加香砂胃寒使，\n加入木香功更效。",
        "四君子汤中和义 参术茯苓甘草比 健脾\n益以夏陈名六君 祛痰补气阳虚饵 化湿\n除却半夏名异功 或加香砂胃寒使 理气",
        "项目 结果 单位 参考值 提示 备注\n白细胞 5.6 10^9/L 3.5-9.5 正常\n"
        "血红蛋白 120 g/L 115-150 正常值\n血小板计数 210 10^9/L 125-350",
        "│ 白细胞计数升高 │ 提示细菌感染，应进一步检查 │\n│ 白细胞计数降低 │ 提示病毒感染，应进一步检查 │\n"
        "│ 血小板计数降低 │ 提示骨髓抑制，应进一步检查 │",
        "第一章 呼吸系统疾病的诊断与治疗，总论部分\n第一节 慢性支气管炎的诊断与治疗，及预防措施\n"
        "第二节 支气管哮喘的诊断与治疗，以及预防措施",
        "（1）慢性支气管炎的诊断、治疗，以及预防措施\n（2）支气管哮喘的诊断与治疗，以及预防的措施\n（3）慢性肺源性心脏病的诊断、治疗与预防措施",
        "一、慢性支气管炎的诊断、治疗，以及预防措施\n二、支气管哮喘的诊断与治疗，以及预防的措施\n三、慢性肺源性心脏病的诊断、治疗与预防措施",
        "1.慢性支气管炎的诊断、治疗，以及预防措施\n2.支气管哮喘的诊断与治疗，以及预防的措施\n3.慢性肺源性心脏病的诊断、治疗与预防措施",
        "①慢性支气管炎的诊断、治疗，以及预防措施\n②支气管哮喘的诊断与治疗，以及预防的措施\n③慢性肺源性心脏病的诊断、治疗与预防措施",
        "【用法】口服，一次两片，一日三次，饭后服用\n【禁忌】孕妇、哺乳期妇女以及对本品过敏者禁用\n【贮藏】密封，置阴凉干燥处保存，避免阳光直射",
        "功能主治：清热解毒，用于风热感冒、咽喉肿痛\n用法用量：口服，一次两片，一日三次，饭后服用\n注意事项：忌烟酒，忌食辛辣、生冷、油腻的食物",
        "糖尿病患者应当控制饮食，坚持适量的运动。\n高血压患者应当低盐饮食，坚持每日测血压。\n冠心病患者应当避免劳累，坚持按时服药物。",
        "短\n行\n文字",
        "",
    ],
    ids=lambda text: text[:6],
)
def test_text_other_than_broken_prose_stays(text: str) -> None:
    assert join_lines(text) == text


def test_other_sources_keep_their_lines() -> None:
    text = broken(PROSE, 20)
    assert clean_text(text, adapted("ehealth", "dialogue")) == text


@given(
    st.lists(st.text("甲乙丙，。（）ab1- ;一、", min_size=1, max_size=40).map(lambda s: s.strip() or "甲"), max_size=9)
)
def test_all_visible_characters_stay_in_order(lines: list[str]) -> None:
    text = "\n".join(lines)
    joined = join_lines(text)
    assert "".join(joined.split()).replace("-", "") == "".join(text.split()).replace("-", "")
    assert joined.count("\n") <= text.count("\n")


def test_scanned_books_are_joined(shared_data: object) -> None:
    """At least a fifth of the lines of real books is joined; only white space changes, and headings stay lines."""
    books = pl.read_parquet(f"{shared_data}/tcm_ancient_books/sections.parquet", n_rows=3000)
    before = after = 0
    for section, text in books.select("section", "text").iter_rows():
        plain, joined = clean_text(text, adapted("ehealth", "article")), clean_text(text, TEXTBOOK)
        before, after = before + plain.count("\n"), after + joined.count("\n")
        assert "".join(joined.split()) == "".join(plain.split())
        if plain.startswith(f"{section}\n"):
            assert joined.startswith(f"{section}\n")
    assert after < 0.8 * before
