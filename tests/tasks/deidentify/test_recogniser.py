"""The trained recogniser: what it finds that rules do not, what must stay, the same each time, and in linear time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tasks.deidentify import deidentify
from tasks.deidentify.explain import explain
from tasks.deidentify.forms.identifier import Profile
from tasks.deidentify.kinds import KINDS, MINIMAL, kinds_of
from tasks.deidentify.plan import Plan
from tasks.deidentify.recogniser.drawing import Drawing
from tasks.deidentify.recogniser.features import features_of
from tasks.deidentify.recogniser.labels import OUTSIDE, WIDTH, follows
from tasks.deidentify.recogniser.tagging import (
    MODEL,
    Labelled,
    Model,
    best_labels,
    packed,
    reading_told,
    table_of,
    whole_name,
)
from tasks.deidentify.recogniser.tokens import BLANK, CAPITALISED, DIGITS_2, DIGITS_9, PLACEHOLDER, shortened, tokens_of
from tests.support.text.drawn_lines import SOURCE
from tests.support.text.labelled_identifiers import LABELLED, read_sentences
from tests.support.text.linear_time import LINEAR, ratio_of_doubling, repeated

RULES_ALONE = Plan(recogniser=False)
needs_model = pytest.mark.skipif(not MODEL.exists(), reason="the weights are not there")


@pytest.fixture(scope="module")
def model() -> Model:
    return Model(MODEL)


def test_tokens_take_runs_together_and_see_no_difference_between_covers() -> None:
    tokens = tokens_of("王 Anna 36岁")
    assert tokens.symbols.tolist() == [ord("王"), BLANK, CAPITALISED, BLANK, DIGITS_2, ord("岁")]
    assert tokens.starts.tolist() == [0, 1, 2, 6, 7, 9, 10]
    assert tokens_of("13812345。").symbols.tolist() == [DIGITS_9, ord("。")]
    for cover in ("〔姓名〕", "〔〓〓〕", "〔〓〓〓〓〓〓〓〓〓〓〓〓〓〓〓〓〓〓〕"):
        text, places = shortened(f"患者{cover}诉\n{cover}")
        assert tokens_of(text).symbols.tolist()[:4] == [ord("患"), ord("者"), PLACEHOLDER, ord("诉")]
        assert [list(each) for each in tokens_of(text)] == [list(each) for each in tokens_of("患者〔诉\n〔")]
        assert places.tolist() == [0, 1, 2, 2 + len(cover), 3 + len(cover), 4 + len(cover), 4 + 2 * len(cover)]


def test_best_labels_are_the_best_of_all() -> None:
    """Viterbi against every sequence of labels, on random integer weights."""
    rng = np.random.default_rng(1)
    allowed = np.array([[follows(i, j) for j in range(5)] for i in range(5)])
    for _ in range(20):
        keys = rng.integers(1, 9, (4, 3)).astype(np.uint32)
        weights = np.zeros((9, WIDTH), np.int8)
        weights[1:, :5] = rng.integers(-9, 9, (8, 5))
        transitions = np.where(allowed, rng.integers(-5, 5, (5, 5)), -(10**7)).astype(np.int64)
        labels, leads = np.zeros(4, np.int8), np.zeros((2, 4), np.int32)
        costs = np.array([0, 2, 0, 0, 3], np.int32)
        best_labels(keys, *table_of(np.arange(1, 9)), packed(weights[1:]), transitions, costs, labels, leads)

        def total(
            sequence: tuple[int, ...], keys: np.ndarray, weights: np.ndarray, steps: np.ndarray, costs: np.ndarray
        ) -> int:
            before, value = OUTSIDE, 0
            for label, row in zip(sequence, keys, strict=True):
                value += int(steps[before, label] + weights[row, label].sum()) - int(costs[label])
                before = label
            return value if before in (0, 3, 4) else -(10**8)

        every = [tuple(map(int, place)) for place in np.ndindex(5, 5, 5, 5)]
        best = max(total(each, keys, weights, transitions, costs) for each in every)
        assert total(tuple(labels.tolist()), keys, weights, transitions, costs) == best


def test_equal_seeds_draw_equal_lines_whose_spans_are_right() -> None:
    lines, again = ([drawing.line() for _ in range(300)] for drawing in (Drawing(SOURCE, 7), Drawing(SOURCE, 7)))
    assert lines == again
    assert lines != [Drawing(SOURCE, 8).line() for _ in range(300)]
    spans = [(line.text[start:end], kind) for line in lines for start, end, kind in line.spans]
    assert {kind for _, kind in spans} == {"name", "address", "institution", "record"}
    assert all(piece for piece, _ in spans)


def test_labelled_lines_keep_their_words_and_get_other_names() -> None:
    """Words that people are called in one line are what they are called in another; 王建国 is no word."""
    source = SOURCE._replace(labelled=["喊{name:季节}来换药", "叫{name:厚道}把{name:王建国}送走"])
    drawing = Drawing(source, 3, labelled_share=1.0)
    drawn = [line for line in (drawing.line() for _ in range(600)) if line.text.endswith("来换药")]
    called = {line.text[start:end] for line in drawn for start, end, _ in line.spans}
    assert len(drawn) > 60 and {"季节", "厚道"} < called and "王建国" not in called
    kept = sum(line.text in ("喊季节来换药", "喊厚道来换药") for line in drawn)
    assert 0.3 * len(drawn) < kept < 0.8 * len(drawn)  # of 70 %, a quarter is hidden
    without = Drawing(source, 3, labelled_share=0.0)
    assert not any("来换药" in without.line().text for _ in range(600))


def test_a_share_of_the_names_of_labelled_lines_stays_as_it_was_written() -> None:
    source = SOURCE._replace(labelled=["请{name:王建国}来换药"])
    kept = {}
    for share in (0.0, 0.4, 1.0):
        drawing = Drawing(source, 3, labelled_share=1.0, names_kept=share)
        drawn = [line for line in (drawing.line() for _ in range(900)) if line.text.endswith("来换药") and line.spans]
        assert len(drawn) > 100
        kept[share] = sum(line.text == "请王建国来换药" for line in drawn) / len(drawn)
    assert kept[0.0] == 0.0 and 0.25 < kept[0.4] < 0.55 and kept[1.0] == 1.0


@needs_model
@pytest.mark.parametrize(
    "marked",
    [
        "{唐志远}，男，56岁，突发胸痛2小时。",
        "家属{罗小燕}拒绝检查。",
        "今日请心内科{严振华}主任会诊。",
        "{罗小燕}：我也吃过这个药，效果不错",
        "手术者：{孟凡}、{曲晓东}，麻醉：{贺兰}。",
        "由同事{邓国梁}送入急诊。",
    ],
)
def test_names_are_found_wherever_they_are(marked: str) -> None:
    name = marked[marked.index("{") + 1 : marked.index("}")]
    treated = deidentify(marked.replace("{", "").replace("}", ""))[0]
    assert name not in treated and "〔姓名〕" in treated


@needs_model
@pytest.mark.parametrize(
    "text",
    [
        "高热3天，予安定10mg静推，3周后复查，于某日突发抽搐。",
        "帕金森病、克罗恩病、布加综合征、桥本甲状腺炎、川崎病",
        "墨菲征阳性，霍夫曼征阴性，巴宾斯基征未引出。",
        "阿司匹林100mg qd，阿托伐他汀20mg qn，华法林3mg。",
        "黄芪30g 白术12g 茯苓15g 当归10g 何首乌15g 徐长卿9g，水煎服。",
        "连翘、金银花、苏木、郁金、葛根、麦芽各10g",
        "WBC 12.6×10^9/L，CRP 58.2mg/L，HBV-DNA 12345678 IU/ml",
        "EGFR 19del突变，TP53 c.743G>A，rs121912651，HLA-B27阳性",
        "PEEP 8cmH2O，FiO2 60%，R 16次/分，VT 420ml",
        "国药准字H20054321，批号20230512，方案号CTR20212345",
        "ICD-10编码：I21.1、E11.9、C50.9；手术编码51.2300。",
        "肺癌T2N0M0，Killip Ⅱ级，Barthel指数65分",
        "小柴胡汤加减，六味地黄丸，安宫牛黄丸，康复新液",
        "患者黄疸消退，患者张口困难，患者周三来院，患者毛发稀疏",
        "患者钟爱腌笋，护工包饺子，病人尤宜，医生查肌酶",
    ],
)
def test_medicine_stays(text: str) -> None:
    assert deidentify(text) == (text, {})


POLICY = frozenset(("date", "birth_date", "age"))
"""Kinds that the profile hipaa treats whatever they mean: 6月 of a plan is a date too."""


@needs_model
@pytest.mark.parametrize("profile", ["minimal", "hipaa"])
def test_no_medical_value_is_lost(profile: Profile) -> None:
    """Drugs, doses, codes, results, settings, genes and eponyms, marked by somebody who had not seen the rules."""
    plan = Plan(kinds_of(profile))
    values, lost = 0, []
    for text, spans in read_sentences(LABELLED.with_name("medical_values.jsonl")):
        found = [one for one in explain(text, plan)[1] if one.kind not in POLICY]
        values += len(spans)
        lost += [text[start:end] for start, end, _ in spans if any(o.start < end and start < o.end for o in found)]
    assert values > 1_100
    assert lost == []


@needs_model
@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("tuning", 0.93),
        ("hard", 0.91),
        ("reports", 0.96),
        ("dialogues", 0.97),
        ("mixed", 0.91),
        ("notes", 0.96),
        ("records", 0.91),
        ("chats", 0.94),
        ("held_out_mixed", 0.91),
    ],
)
def test_floor_with_the_recogniser(name: str, least: float) -> None:
    """The weights are fitted to these lines. In the hard ones, names are words and herbs."""
    whole = labelled = right = found = 0
    step = 2 if name.startswith("held_out") else 1  # of these files the lines 0, 2, 4 … alone are for tuning
    for text, spans in read_sentences(LABELLED.with_name(f"identifiers_{name}.jsonl"))[::step]:
        seen = explain(text, Plan())[1]
        covered = {at for one in seen for at in range(one.start, one.end)}
        marked = {at for start, end, _ in spans for at in range(start, end)}
        treated = [span for span in spans if span[2] in MINIMAL]
        labelled += len(treated)
        whole += sum(all(at in covered or text[at] in " -\u3000" for at in range(*span[:2])) for span in treated)
        found += len(seen)
        right += sum(not marked.isdisjoint(range(one.start, one.end)) for one in seen)
    assert whole >= least * labelled
    assert right >= 0.98 * found


@needs_model
@pytest.mark.parametrize(("plan", "most"), [(Plan(recogniser=False), 2), (Plan(), 36)], ids=["rules", "recogniser"])
def test_ordinary_text_is_left_alone(plan: Plan, most: int) -> None:
    """A thousand lines without identifiers, full of words that begin like names; no weights were fitted to them."""
    sentences = read_sentences(LABELLED.with_name("plain_lines_held_out.jsonl"))
    assert len(sentences) == 1_000 and not any(spans for _, spans in sentences)
    assert sum(len(explain(text, plan)[1]) for text, _ in sentences) <= most


@needs_model
def test_institutions_are_found_where_their_kinds_are_on() -> None:
    text = "患者曾在枝江市马家店镇卫生院输液，就读于枝江市实验小学。"
    found = {(one.written, one.kind) for one in explain(text, Plan(frozenset(KINDS)))[1]}
    assert {kind for _, kind in found} >= {"hospital", "school"}
    assert deidentify(text)[1].keys() <= {"address"}


@needs_model
def test_the_recogniser_can_be_switched_off() -> None:
    text = "由同事邓国梁送入急诊。"
    assert deidentify(text)[1] == {"name": 1}
    assert deidentify(text, RULES_ALONE) == (text, {})


@needs_model
def test_the_same_text_gives_the_same_spans_and_again_nothing(model: Model) -> None:
    text = "唐志远，男，56岁，由同事邓国梁送入急诊。\n" * 40
    assert model(text) == model(text)
    treated, _ = deidentify(text)
    assert deidentify(treated) == (treated, {})


@needs_model
def test_spans_lie_in_the_text_whatever_it_holds(model: Model) -> None:
    for text in ("", "〔", "〔〓", "〕〔", "\n\n", "王", "A" * 900, "１２３", "王芳\r\n", "😀王芳😀，女"):
        assert all(0 <= one.start < one.end <= len(text) for one in model(text))
        assert len(features_of(tokens_of(text), model.knowledge)) == len(tokens_of(text).symbols)


@needs_model
def test_pieces_of_a_long_text_are_read_once(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where something in a text was replaced it is searched again: a name in the first piece must not cost it all."""
    text = "".join(f"第{number}天头痛如前，血压平稳，继续观察，注意休息。\n" for number in range(10_000))
    read: list[str] = []
    labels = model.labels
    monkeypatch.setattr(model, "labels", lambda piece: read.append(piece) or labels(piece))
    model.forget()
    model(text)
    first = len(read)
    model(text.replace("第1天", "第〔姓名〕天", 1))
    assert first > 500 and len(read) - first < 5


@needs_model
def test_a_listener_is_told_how_much_is_read(model: Model) -> None:
    text = "患者王小明诉头痛三天。" * 200
    told: list[tuple[int, int]] = []
    with reading_told(lambda *how_far: told.append(how_far)):
        model(text)
    model(text)  # nobody listens any more
    read = [done for done, _ in told]
    assert read[0] == 0 and read == sorted(set(read)) and len(text) - 800 <= read[-1] < len(text)
    assert {of for _, of in told} == {len(text)}


@needs_model
@pytest.mark.parametrize(
    "family",
    ["王芳，", "患者", "123456卡号", "A1", "〔", "。", "湖北省武汉市", "王", "、李强", "参加：", " ", "\n王", "：王 "],
)
def test_twice_the_text_takes_twice_the_time(family: str, model: Model) -> None:
    def work(text: str) -> None:
        model.forget()
        model(text)

    assert ratio_of_doubling(work, repeated(family), 20_000) < LINEAR


@needs_model
@pytest.mark.parametrize("ends", ["", "。", "\n"])
def test_each_character_is_read_once_in_pieces_of_a_bounded_length(ends: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model(MODEL)
    pieces: list[str] = []
    labels = model.labels

    def noted(text: str) -> Labelled:
        pieces.append(text)
        return labels(text)

    monkeypatch.setattr(model, "labels", noted)
    signs = list("王芳患者头痛三天，医生") + ([ends] if ends else [])
    text = "".join(np.random.default_rng(0).choice(signs, 20_000))
    model(text)
    assert "".join(pieces) == text
    assert max(map(len, pieces)) <= 1_000


@pytest.mark.parametrize(
    ("marked", "name"),
    [
        ("、向{春花}，", "向春花"),
        ("妹尤{小萍}）", "尤小萍"),
        ("向{春花}，", "向春花"),
        ("方向{春花}，", "春花"),
        ("〕于{小萍}，", "小萍"),
        ("，于{王芳}，", "王芳"),
        ("，于{春}，", "春"),
        ("老{李}头腿疼", "老李头"),
        ("，老{马}爷子", "老马爷子"),
        ("老{李}头痛三天", "李"),
        ("和{李}头腿", "李"),
        ("老{李强}头腿疼", "李强"),
        ("用户{wangfan}g02登录", "wangfang02"),
        ("用户{wang}_3，", "wang_3"),
        ("患者{Anna}CT示", "Anna"),
        ("患者{王伟}CT2示", "王伟"),
        ('"name": "{汤雨}晴",', "汤雨晴"),
        ("“{汤雨}晴”说", "汤雨晴"),
        ("“{汤雨}说痛”", "汤雨"),
        ('说{汤雨}晴",', "汤雨"),
        ('"{汤}雨晴",', "汤"),
        ('"{汤}雨",', "汤雨"),
        ('{汤雨}晴"', "汤雨"),
    ],
)
def test_a_name_takes_what_belongs_to_it(marked: str, name: str) -> None:
    text, *span = marked.replace("{", "").replace("}", ""), marked.index("{"), marked.index("}") - 1
    start, end = whole_name(text, *span, 0)
    assert text[start:end] == name


def test_a_name_takes_nothing_of_another_identifier() -> None:
    assert whole_name("、向春花，", 2, 4, 2) == (2, 4)
    assert whole_name("老李头腿疼", 1, 2, 1) == (1, 2)


def test_the_weights_are_small(tmp_path: Path) -> None:
    assert not MODEL.exists() or MODEL.stat().st_size < 2 << 20
