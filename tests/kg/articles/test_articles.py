"""Articles have every fact, are Chinese sentences, and depend only on the subject's facts."""

from __future__ import annotations

import importlib.util
import re
from string import Formatter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kg.articles import article_phrases
from kg.articles.articles import MAX_SENTENCE, kind_of, render_article
from kg.sources import cmekg

VALUES = st.lists(st.text(st.characters(categories=["Lo", "Nd"]), min_size=1, max_size=12), min_size=1, max_size=40)
RELATIONS = st.sampled_from([*article_phrases.PHRASES, *article_phrases.TAXONOMY, "手术_麻醉方式", "硬度", "甲_乙_丙"])


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(RELATIONS, VALUES, min_size=1, max_size=8))
def test_article_has_every_value_and_paragraphs_are_sentences(attributes: dict[str, list[str]]) -> None:
    title, text = render_article("某物", attributes)
    assert title == "某物"
    assert all(paragraph.endswith("。") for paragraph in text.split("\n"))
    assert "{" not in text and "、、" not in text
    for relation, values in attributes.items():
        if (relation, values[0]) not in article_phrases.WHOLE_ANSWERS:
            assert all(value in text for value in values)


def test_text_does_not_depend_on_the_order_of_facts() -> None:
    facts = {"不良反应": ["恶心", "呕吐"], "成份": ["水杨酸"], "贮藏": ["密封"], "规格": ["0.1g"]}
    assert render_article("甲药", facts) == render_article("甲药", dict(reversed(facts.items())))


def test_different_subjects_get_different_wording() -> None:
    texts = {render_article(f"药{n}", {"成份": ["水"]})[1].replace(f"药{n}", "X") for n in range(40)}
    assert len(texts) == len(article_phrases.PHRASES["成份"].sentences)


def test_long_list_becomes_short_sentences() -> None:
    values = [f"反应{n}" for n in range(200)]
    _, text = render_article("某药", {"成份": ["水"], "不良反应": values})
    sentences = text.split("。")
    assert len(sentences) > 15
    assert max(map(len, sentences)) < MAX_SENTENCE + 30
    assert all(value in text for value in values)


def test_headings_taxonomy_and_yes_no_answers_have_their_own_wording() -> None:
    _, text = render_article("某病", {"手术_麻醉方式": ["全身麻醉"], "传染性": ["无"], "ICD10": ["A01"]})
    assert "手术" in text and "麻醉方式" in text and "_" not in text
    assert "没有传染性" in text or "不具有传染性" in text
    _, text = render_article("某草", {"科": ["豆科"], "界": ["植物界"], "属": ["甘草属", "黄芪属"]})
    assert "植物界、豆科、甘草属或黄芪属" in text


def test_kind_of_a_subject_follows_from_its_relations() -> None:
    assert kind_of({"成份": []}) == "drug"
    assert kind_of({"性味": [], "成份": []}) == "herb"
    assert kind_of({"所属分类": []}) == "examination"
    assert kind_of({"相关疾病": [], "就诊科室": []}) == "disease"
    assert kind_of({}) == "disease"


def test_blank_values_give_no_sentence() -> None:
    assert render_article("某物", {"成份": ["", " ，"]}) == ("某物", "")


def test_every_template_has_its_values_once_and_ends_a_sentence() -> None:
    templates = [
        *article_phrases.GENERIC,
        *article_phrases.GENERIC_UNDER,
        *article_phrases.CONTINUATIONS,
        *(sentence for phrases in article_phrases.PHRASES.values() for sentence in phrases.sentences),
    ]
    for template in templates:
        names = [name for _, name, _, _ in Formatter().parse(template) if name]
        assert names.count("v") == 1 and set(names) <= {"s", "v", "r", "t"} and template.endswith("。"), template


@pytest.mark.skipif(importlib.util.find_spec("pyCMeKG") is None, reason="PyCMeKG is not installed")
def test_real_graph_renders_completely() -> None:
    graph = cmekg.load()
    for subject in sorted(graph)[::500]:
        title, text = render_article(subject, graph[subject])
        assert title and text.endswith("。")
        missing = [
            value
            for relation, values in graph[subject].items()
            for value in values
            if value.strip(" 。；;，,、") not in text and (relation, value) not in article_phrases.WHOLE_ANSWERS
        ]
        assert not missing
        assert not re.search(r"。。|、。|\{", text)
