"""Linking finds what a plain trie finds, at the right place of the original text."""

from __future__ import annotations

import unicodedata
from itertools import pairwise
from pathlib import Path

import ahocorasick_rs
import numpy as np
import pyarrow.parquet as pq
import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.text.near_duplicates import real_texts
from kg.linking.linker import EntityLinker
from kg.linking.surface_forms import forms_of_names, surface_forms
from kg.linking.surface_trie import SurfaceTrie
from models.tokenizer.normal_form import normalise

LETTERS = "小剂量糖尿病abmriI12"
TRICKY = (
    LETTERS + "()<>【〕︻-—－·・〜“、ＭⅡⅻ⓫①㎎ﬁ℃㈠㍿株式会社é\u0301각ᄀ\u1161α。 \u3000\n\r\u200b\ue000\ufe0fß\ud800"
)

BRACKETS = ("[{【〔〖「『《〈⟨﹝", "]}】〕〗」』》〉⟩﹞")
DASHES, DOTS, TILDES = "‐‑‒–—―−─⁃﹘", "•・‧∙⋅●", "～〜∼"
ALIKE = str.maketrans(
    "".join((*BRACKETS, DASHES, DOTS, TILDES)), "(" * 11 + ")" * 11 + "-" * len(DASHES) + "·" * len(DOTS) + "~~~"
)

plain_texts = st.text(LETTERS, max_size=30)
tricky_texts = st.text(TRICKY, max_size=30)


class PlainTrie:
    """The definition, character by character, over forms made by Python's own functions."""

    def __init__(self, names: dict[str, str]) -> None:
        self.root: dict[str, dict] = {}  # type: ignore[type-arg]
        for name, entity in sorted(names.items()):
            form = "".join(self.form(" " if self.form(c) == "\n" else c) for c in name).strip()
            length = min(len(name.strip()), len(unicodedata.normalize("NFC", form)))
            kinds = {unicodedata.category(c) for c in form}
            if length > 1 and kinds != {"Nd"} and any(kind[0] in "LN" for kind in kinds):
                node = self.root
                for character in form:
                    node = node.setdefault(character, {})
                node[""] = min(entity, node.get("", entity))  # type: ignore[call-overload,assignment]

    @staticmethod
    def form(character: str) -> str:
        if character in "Ⅱⅻ⓫":
            return {"Ⅱ": "2", "ⅻ": "12", "⓫": "11"}[character]
        if character.isspace():
            return " " if character in " \u3000" else "\n"
        if unicodedata.category(character) in ("Cf", "Co", "Cs") or character == "\ufe0f":
            return "\ufffd" if character == "\ud800" else ""
        return unicodedata.normalize("NFKD", character).lower().translate(ALIKE)

    def link(self, text: str) -> list[tuple[int, int, str]]:
        form, sources = "", []
        for place, character in enumerate(text):
            form += self.form(character)
            sources += [place] * len(self.form(character))
        in_run = [regex.match(r"[\p{Latin}\p{Greek}\p{Cyrillic}\p{Nd}\p{M}]", c) is not None for c in form]
        cut = [
            (in_run[i] and in_run[i - 1]) or sources[i] == sources[i - 1] if 0 < i < len(form) else False
            for i in range(len(form) + 1)
        ]
        mentions, start = [], 0
        while start < len(form):
            node, best = self.root, None
            for end in range(start, len(form)):
                node = node.get(form[end], {})
                if "" in node and not cut[start] and not cut[end + 1]:
                    best = end + 1, node[""]
            if best is None:
                start += 1
                continue
            mentions.append((sources[start], sources[best[0] - 1] + 1, str(best[1])))
            start = best[0]
        return mentions


@settings(max_examples=400, deadline=None)
@given(
    names=st.lists(plain_texts.filter(lambda name: len(name) < 6) | st.text(TRICKY, max_size=5), max_size=30),
    texts=st.lists(plain_texts | tricky_texts, max_size=5),
)
def test_links_equal_those_of_a_plain_trie(names: list[str], texts: list[str]) -> None:
    ids = {name: f"E{number:02d}" for number, name in enumerate(names)}
    linker, plain = EntityLinker(ids), PlainTrie(ids)
    expected = [plain.link(text) for text in texts]
    assert [linker.link(text) for text in texts] == expected
    found = linker.link_many(texts)
    rows = zip(found.texts, found.starts, found.ends, (linker.entity_ids[e] for e in found.entities), strict=True)
    assert list(rows) == [(number, *mention) for number, mentions in enumerate(expected) for mention in mentions]


@settings(max_examples=200, deadline=None)
@given(
    names=st.sets(st.text("小剂量糖尿病症", min_size=2, max_size=6), min_size=1, max_size=30),
    text=st.text("小剂量糖尿病症。", max_size=60),
)
def test_links_without_letters_equal_those_of_an_automaton(names: set[str], text: str) -> None:
    order = sorted(names)
    automaton = ahocorasick_rs.AhoCorasick(order, matchkind=ahocorasick_rs.MatchKind.LeftmostLongest)
    expected = [(start, end, order[name]) for name, start, end in automaton.find_matches_as_indexes(text)]
    assert EntityLinker({name: name for name in names}).link(text) == expected


@pytest.mark.parametrize(
    ("names", "text", "mentions"),
    [
        (["剂量", "小剂量"], "小剂量", ["小剂量"]),
        (["小剂量阿司匹林", "剂量", "小剂"], "小剂量阿司", ["小剂"]),
        (["糖尿病", "糖尿病足", "足病"], "糖尿病足病", ["糖尿病足"]),
        (["mri"], "MRI和mris、fmri、3mri、mri2、mri_ＭＲＩ", ["MRI", "mri", "ＭＲＩ"]),
        (["t细胞", "细胞"], "ct细胞与T细胞", ["细胞", "T细胞"]),
        (["维生素b", "维生素b12", "维生素"], "维生素b1、维生素b12", ["维生素", "维生素b12"]),
        (["β受体", "受体阻滞剂"], "β受体阻滞剂", ["β受体"]),
        (["2型糖尿病", "糖尿病"], "Ⅱ型糖尿病，12型糖尿病", ["Ⅱ型糖尿病", "糖尿病"]),
        (["5型", "mg"], "15型 5mg 5 mg", ["mg"]),
        (["会社"], "㍿会社", ["会社"]),
        (["(一)型", "一)"], "㈠型", ["㈠型"]),
        (["caf\u00e9"], "cafe\u0301", ["cafe\u0301"]),
        (["cafe"], "caf\u00e9 cafe\u0301 cafe", ["cafe"]),
        ([" 肺炎 "], "肺\u200b炎", ["肺\u200b炎"]),
        (["肺炎\n咳嗽"], "肺炎 咳嗽肺炎\n咳嗽", ["肺炎 咳嗽"]),
        (["热", "12", "１２", "", " ", "㎎", "é", "\u200b热"], "热12 mg é", []),
        (["1,25", "--", "%%"], "1,25--1,255——%%", ["1,25"]),
        (["糖尿病（成人）"], "糖尿病【成人】〔糖尿病〈成人］〕", ["糖尿病【成人】", "糖尿病〈成人］"]),
        (["抗-HBs"], "抗—HBs、抗－hbs、抗——HBs", ["抗—HBs", "抗－hbs"]),
        (["Ａ·乙"], "a・乙，A•乙", ["a・乙", "A•乙"]),
        (["糖尿病,足病", "糖尿病"], "糖尿病、足病“糖尿病”糖“尿病", ["糖尿病", "糖尿病"]),
    ],
)
def test_what_is_linked(names: list[str], text: str, mentions: list[str]) -> None:
    linker = EntityLinker({name: name for name in names})
    assert [text[start:end] for start, end, _ in linker.link(text)] == mentions


def test_shared_name_links_to_the_most_likely_entity() -> None:
    names = {"发热": ["S2", "D1", "S1"], "低热": "S1"}
    types = {"D1": "disease", "S1": "symptom", "S2": "symptom"}

    def chosen(**evidence: dict[str, float]) -> str:
        return EntityLinker(names, types, **evidence).link("发热")[0][2]  # type: ignore[arg-type]

    assert chosen() == "D1", "the smallest id"
    assert chosen(type_priors={"symptom": 2.0}) == "S1"
    assert chosen(frequencies={"S2": 3, "D1": 2}) == "S2"
    assert chosen(type_priors={"disease": 2.0}, frequencies={"S2": 3, "D1": 2}) == "D1"
    assert chosen(type_priors={"symptom": 0.0}, frequencies={"S2": 300}) == "D1"


entity_ids = st.sampled_from("abcdef")


@settings(max_examples=200, deadline=None)
@given(
    names=st.dictionaries(
        st.sampled_from(["ＭＲI", "mri", "MRI ", "2型", "Ⅱ型", "12", "热", "发热", "（）"]),
        entity_ids | st.lists(entity_ids, max_size=4),
        max_size=9,
    ),
    types=st.dictionaries(entity_ids, st.sampled_from(["疾病", "药物"])),
    priors=st.dictionaries(st.sampled_from(["疾病", "药物"]), st.sampled_from([0.0, 0.5, 2.0])),
    frequencies=st.dictionaries(entity_ids, st.integers(0, 3)),
)
def test_every_form_has_the_most_likely_of_its_entities(
    names: dict[str, str | list[str]],
    types: dict[str, str],
    priors: dict[str, float],
    frequencies: dict[str, int],
) -> None:
    linker = EntityLinker(names, types, priors, frequencies)
    sharing: dict[str, set[str]] = {}
    for name, form in zip(names, forms_of_names(names), strict=True):
        if len(form) > 1 and form not in ("12", "()") and names[name]:
            sharing.setdefault(form, set()).update(names[name])

    def order(entity: str) -> tuple[float, str]:
        return -priors.get(types.get(entity, ""), 1.0) * (frequencies.get(entity, 0) + 1), entity

    for name, form, number in zip(names, forms_of_names(names), linker.forms, strict=True):
        assert (number >= 0) == (form in sharing and bool(names[name]))
        if number >= 0:
            assert linker.entity_ids[linker.entities[number]] == min(sharing[form], key=order), name
            assert linker.link_many([form]).shared.tolist() == [len(sharing[form]) > 1]
    assert linker.entity_ids == sorted({entity for given in names.values() for entity in given})
    assert (linker.num_surfaces, linker.num_ambiguous) == (len(sharing), sum(len(one) > 1 for one in sharing.values()))


def test_names_with_the_same_form_share_an_entity() -> None:
    linker = EntityLinker({"ＭＲI": "b", "mri": "a", "Ⅱ型": "c", "2型": "c"})
    assert linker.link("mrI") == [(0, 3, "a")]
    assert (linker.num_surfaces, linker.num_ambiguous, linker.num_left_out) == (2, 1, 0)


def test_mention_shows_whether_its_name_is_shared() -> None:
    found = EntityLinker({"发热": ["S1", "D1"], "低热": "S1"}).link_many(["低热，发热", "发热"])
    assert found.shared.tolist() == [False, True, True]


def test_alias_of_hundreds_is_one_surface() -> None:
    linker = EntityLinker({"综合征": [f"E{number:03d}" for number in range(500)], "症": "X", "": "Y"})
    assert linker.link("综合征") == [(0, 3, "E000")]
    assert (linker.num_surfaces, linker.num_ambiguous, linker.num_left_out) == (1, 1, 2)
    assert len(linker.entity_ids) == 502


def test_no_names_link_nothing() -> None:
    linker = EntityLinker({})
    assert linker.link("糖尿病") == []
    assert [len(array) for array in linker.link_many([])] == [0, 0, 0, 0, 0, 0]


def test_forms_equal_those_of_the_tokeniser() -> None:
    """Except for marks, which are decomposed here, two kinds of white space, and brackets, dashes and dots."""
    assigned = [
        chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) not in ("Cn", "Cs") and code < 0xF0010
    ]
    letters = [character for character in assigned if not character.isspace()]
    forms = forms_of_names(letters)
    plain = (unicodedata.normalize("NFKD", normalise(character)).strip(" ") for character in letters)
    expected = [form.translate(ALIKE) for form in plain]
    different = {c for c, form, other in zip(letters, forms, expected, strict=True) if form != other}
    assert different <= set("ꟲꟳꟴ🅬"), "these alone are younger than the Unicode tables of the tokeniser"


@settings(max_examples=200, deadline=None)
@given(texts=st.lists(tricky_texts, max_size=4))
def test_every_character_of_a_form_has_its_place_in_the_text(texts: list[str]) -> None:
    forms = surface_forms(texts)
    laid_out = "\n".join([*texts, ""])
    sources = np.arange(len(laid_out)) if forms.sources is None else forms.sources
    for place, character in enumerate(laid_out):
        of_place = forms.points[sources == place].tobytes().decode("utf-32-le")
        assert of_place == PlainTrie.form(character)


@pytest.mark.parametrize("names", [["热"], ["", "发热"], ["发热", "发热"]])
def test_trie_rejects_repeated_and_short_names(names: list[str]) -> None:
    with pytest.raises(ValueError, match="distinct"):
        SurfaceTrie(names)


def test_real_names_in_real_text(shared_data: Path) -> None:
    triples = pq.read_table(shared_data / "kg_cmekg" / "triples.parquet", columns=["head"])
    ids = {name: name for name in triples["head"].unique().to_pylist()}
    texts = real_texts(shared_data / "chineseblue")[:600]
    linker, plain = EntityLinker(ids), PlainTrie(ids)
    found = linker.link_many(texts)
    borders = np.searchsorted(found.texts, np.arange(len(texts) + 1))
    assert len(found.texts) > len(texts)
    for text, (first, last) in zip(texts, pairwise(borders), strict=True):
        rows = zip(found.starts[first:last], found.ends[first:last], found.entities[first:last], strict=True)
        assert [(s, e, linker.entity_ids[i]) for s, e, i in rows] == plain.link(text)
