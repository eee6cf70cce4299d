"""Records to tokens and back: nothing is lost silently, whatever the text and its length."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

from models.heads.examples import Pointers
from tasks.downstream.catalogue import task
from tasks.downstream.features.alignment import TextTokenizer
from tasks.downstream.features.base import Features, Piece, longest_first
from tasks.downstream.features.shapes import TaskShape, shape_of
from tasks.downstream.features.spans import IGNORED
from tasks.downstream.features.triples import PairTypes
from tasks.downstream.readers.read import read_split
from tasks.downstream.records import Answer, Entity, Kind, Record, Triple
from tests.support.text.tokenizers import CHARACTERS, save_ours

TYPES = ("sym", "dis", "dru")


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> TextTokenizer:
    return TextTokenizer.from_folder(save_ours(tmp_path_factory.mktemp("model")))


def shape(kind: Kind, max_length: int = 32, labels: tuple[str, ...] = ("0", "1"), **more: Any) -> TaskShape:
    return TaskShape(task="made-up", kind=kind, head="any", max_length=max_length, labels=labels, **more)


def record(*texts: str, answer: Answer | None = None) -> Record:
    return Record("0", texts, answer)


def answered(features: Features, given: Record) -> tuple[Any, list[Piece]]:
    """Predictions of a head that predicts exactly the targets."""
    pieces = features.encode([given])
    targets = [_as_prediction(piece.example.target) for piece in pieces]
    (prediction,) = features.decode([given], pieces, targets)
    return prediction.answer, pieces


def _as_prediction(target: Any) -> Any:
    """A target as the head would predict it: with a prediction for every token, ignored ones too."""
    return np.where(target == IGNORED, 1, target) if isinstance(target, np.ndarray) else target


@st.composite
def tagged_texts(draw: st.DrawFn, nested: bool) -> Record:
    """Texts with white space, control characters and words in Latin letters, and entities anywhere in them."""
    text = draw(st.text(st.sampled_from(CHARACTERS + "CTct mg\t\u200b㎎①Ⅱ"), max_size=60))
    entities, at = set(), 0
    while draw(st.booleans()):
        start = draw(st.integers(at, at + 3))
        end = draw(st.integers(start + 1, start + 12))
        if end > len(text):
            break
        entities.add(Entity(start, end, draw(st.sampled_from(TYPES[1:] if nested else TYPES))))
        at = end
    symptoms, at = set(), 0
    while nested and draw(st.booleans()) and at + 2 < len(text):
        end = draw(st.integers(at + 1, len(text)))
        symptoms.add(Entity(at, end, "sym"))
        at = end
    return record(text, answer=tuple(sorted(entities | symptoms)))


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("max_length", [9, 128])
def test_entities_round_trip_through_any_text_and_windows(
    nested: bool, max_length: int, tokenizer: TextTokenizer
) -> None:
    kind = Kind.NESTED_TAGGING if nested else Kind.TAGGING
    streams = (("sym",), TYPES[1:]) if nested else (TYPES,)

    @given(given_record=tagged_texts(nested))
    def check(given_record: Record) -> None:
        features = shape(kind, max_length, TYPES, streams=streams).features(tokenizer)
        answer, pieces = answered(features, given_record)
        (tokens,) = tokenizer.characters(given_record.texts)
        assert isinstance(given_record.answer, tuple)
        reachable = tuple(e for e in given_record.answer if tokens.span(e.start, e.end))  # type: ignore[union-attr]
        assert answer == reachable
        assert features.counters["entities_without_tokens"] == len(given_record.answer) - len(reachable)
        assert features.counters["windows"] == len(pieces) - 1
        for piece in pieces:
            (sequence,) = piece.example.sequences
            assert len(sequence.input_ids) <= max_length
            assert np.shape(piece.example.target)[-1] == len(sequence.input_ids)
        targets = [np.atleast_2d(piece.example.target)[0] for piece in pieces]
        assert sum((target != IGNORED).sum() for target in targets) == len(tokens.ids)  # each counts once

    check()


def test_entity_nested_in_its_own_stream_is_counted(tokenizer: TextTokenizer) -> None:
    features = shape(Kind.TAGGING, labels=TYPES, streams=(TYPES,)).features(tokenizer)
    inner, outer = Entity(2, 4, "dis"), Entity(0, 5, "sym")
    answer, _ = answered(features, record("高血压头痛", answer=(outer, inner)))
    assert answer == (outer,)
    assert features.counters["entities_overlapped"] == 1


def test_offsets_refer_to_the_original_text(tokenizer: TextTokenizer) -> None:
    text = "  CT\t查 ㎎高血压"
    wanted = (Entity(2, 4, "dis"), Entity(7, 11, "dru"))
    features = shape(Kind.TAGGING, labels=TYPES, streams=(TYPES,)).features(tokenizer)
    answer, (piece,) = answered(features, record(text, answer=wanted))
    assert answer == wanted
    assert [text[e.start : e.end] for e in answer] == ["CT", "㎎高血压"]
    assert len(piece.example.sequences[0].input_ids) == 2 + 2 + 1 + 2 + 3  # C T 查 m g 高 血 压


def test_class_labels_and_probabilities_round_trip(tokenizer: TextTokenizer) -> None:
    labels = ("乙", "甲", "丙")
    single = shape(Kind.SINGLE, labels=labels).features(tokenizer)
    (piece,) = single.encode([record("头痛", answer="甲")])
    assert piece.example.target == 1
    (prediction,) = single.decode([record("头痛")], [piece], [np.array([0.2, 0.1, 0.7], dtype=np.float32)])
    assert prediction.answer == "丙" and prediction.scores == pytest.approx((0.2, 0.1, 0.7))
    several = shape(Kind.MULTI_LABEL, labels=labels).features(tokenizer)
    (piece,) = several.encode([record("头痛", answer=("丙", "乙"))])
    assert piece.example.target.tolist() == [1, 0, 1]
    (prediction,) = several.decode([record("头痛")], [piece], [np.array([0.2, 0.9, 0.7])])
    assert prediction.answer == ("甲", "丙")


def test_ranking_and_choice(tokenizer: TextTokenizer) -> None:
    ranking = shape(Kind.RANKING).features(tokenizer)
    pieces = ranking.encode([record("头痛吗", "是", answer="1"), record("头痛吗", "不", answer="0")])
    assert [piece.example.target for piece in pieces] == [1, 0]
    found = ranking.decode([record("头痛吗", "是"), record("头痛吗", "不")], pieces, [-0.5, 2.0])
    assert [(p.answer, p.scores) for p in found] == [("0", (-0.5,)), ("1", (2.0,))]  # models of before November 2026
    asked = [record("头痛吗", "是")] * 4
    logits = np.array([[0.3, -0.4], [1.0, 5.0], [0.0, 40.0], [0.0, 300.0]], dtype=np.float32)
    shares = torch.softmax(torch.from_numpy(logits), 1).numpy()
    found = ranking.decode(asked, ranking.encode(asked), list(shares))
    assert [p.answer for p in found] == ["0", "1", "1", "1"]
    odds = [p.scores[0] for p in found if p.scores is not None]
    assert odds[:3] == pytest.approx([-0.7, 4.0, 40.0], abs=1e-4)  # probabilities of 40 and 50 both round to 1
    assert np.isfinite(odds[3]) and odds[3] > 80.0
    choice = shape(Kind.CHOICE, 12).features(tokenizer)
    given_record = record("高血压引起的头痛发热", "病是", "糖尿病", "高血压", "肺", answer=1)
    (piece,) = choice.encode([given_record])
    assert piece.example.target == 1 and len(piece.example.sequences) == 3
    evidence = tokenizer.words(["高血压引起的头痛发热"])[0].ids
    assert [len(s.input_ids) for s in piece.example.sequences] == [12, 12, 12]  # the evidence is cut
    assert piece.example.sequences[2].input_ids[-6:-1].tolist() == evidence[:5].tolist()
    assert choice.counters["truncated"] == 3
    assert choice.decode([given_record], [piece], [np.array([0.1, 0.2, 0.9])])[0].answer == 2


@pytest.mark.parametrize("kind", [Kind.SINGLE, Kind.PAIR, Kind.TAGGING, Kind.TRIPLES])
def test_empty_text_is_an_ordinary_example(kind: Kind, tokenizer: TextTokenizer) -> None:
    given_record = record("", "") if kind is Kind.PAIR else record("")
    more: dict[str, Any] = {"streams": (("0", "1"),)} if kind is Kind.TAGGING else {}
    (piece,) = shape(kind, **more).features(tokenizer).encode([given_record])
    (sequence,) = piece.example.sequences
    assert len(sequence.input_ids) == (3 if kind is Kind.PAIR else 2)
    assert piece.example.target is None


LONG = st.integers(0, 30)


@given(LONG, LONG, st.integers(4, 24))
def test_pairs_are_cut_to_the_room_from_the_longer_end(
    tokenizer: TextTokenizer, one: int, other: int, room: int
) -> None:
    first, second = np.arange(one), np.arange(100, 100 + other)
    kept = longest_first([first, second], room)
    assert len(kept[0]) + len(kept[1]) == min(room, one + other)
    assert kept[0].tolist() == first[: len(kept[0])].tolist() and kept[1].tolist() == second[: len(kept[1])].tolist()
    # the shorter text is never cut
    for mine, theirs, length in ((kept[0], kept[1], one), (kept[1], kept[0], other)):
        assert len(mine) == length or len(mine) >= len(theirs) - 1


def test_pair_is_cut_and_framed_like_transformers(tmp_path: Path) -> None:
    theirs = AutoTokenizer.from_pretrained(save_ours(tmp_path))
    tokenizer = TextTokenizer.from_folder(tmp_path)
    features = shape(Kind.PAIR, 16).features(tokenizer)
    one, other = "患者有高血压病吗", "糖尿病患者头痛发热咳嗽怎么办呢"
    for pair in ((one, other), (other, one), (one, one), ("头痛", other), (other, "头痛")):
        (piece,) = features.encode([record(*pair)])
        expected = theirs(*pair, truncation="longest_first", max_length=16, return_token_type_ids=True)
        assert piece.example.sequences[0].input_ids.tolist() == expected["input_ids"]
        assert piece.example.sequences[0].type_ids.tolist() == expected["token_type_ids"]
    assert features.counters["truncated"] == 5


TEXT = "高血压引起的头痛用二甲双胍治疗高血压是不是怎么办"


def triple(subject: str, predicate: str, object_: str, types: tuple[str, str] = ("病", "症")) -> Triple:
    return Triple(subject, types[0], predicate, object_, types[1])


def triples_shape(answer: tuple[Triple, ...], max_length: int = 64) -> TaskShape:
    rows = tuple(tuple(row) for row in PairTypes.of(answer).to_json())
    return shape(Kind.TRIPLES, max_length, ("引起", "治疗"), pair_types=rows)


def test_triples_round_trip_through_pointers(tokenizer: TextTokenizer) -> None:
    answer = (triple("高血压", "引起", "头痛"), triple("高血压", "治疗", "二甲双胍", ("病", "药")))
    features = triples_shape(answer).features(tokenizer)
    found, (piece,) = answered(features, record(TEXT, answer=answer))
    assert set(found) == set(answer)
    target: Pointers = piece.example.target
    assert target.entities.tolist() == [[1, 3], [7, 8], [10, 13], [16, 18]]  # both places of 高血压; [CLS] is 0
    assert target.relations.tolist() == [[1, 0, 7], [16, 1, 10]]  # each from the nearer place


def test_entities_that_begin_together_are_all_read(tokenizer: TextTokenizer) -> None:
    answer = (triple("高血压", "引起", "头痛"), triple("高血压病", "引起", "发热"))
    features = triples_shape(answer).features(tokenizer)
    found, _ = answered(features, record("高血压病有头痛发热", answer=answer))
    assert {(t.subject, t.object) for t in found} == {(s, o) for s in ("高血压", "高血压病") for o in ("头痛", "发热")}


def test_types_depend_on_the_ends_for_a_predicate_with_several() -> None:
    seen = [
        triple("甲", "同", "乙", ("病", "病")), triple("甲", "同", "丙", ("病", "病")),
        triple("丁", "同", "戊", ("药", "药")), triple("庚", "治", "辛", ("病", "药")),
    ]  # fmt: skip
    types = PairTypes.from_json(PairTypes.of(seen).to_json())
    assert types("同", "丁", "乙") == ("药", "药")
    assert types("同", "未", "戊") == ("药", "药")
    assert types("同", "未", "知") == ("病", "病")
    assert types("治", "甲", "甲") == ("病", "药")
    assert types("无", "甲", "乙") == ("", "")


def test_triples_missing_from_the_text_are_counted(tokenizer: TextTokenizer) -> None:
    answer = (triple("高血压", "引起", "头痛"), triple("糖尿病", "引起", "头痛"))
    features = triples_shape(answer).features(tokenizer)
    found, _ = answered(features, record(TEXT, answer=answer))
    assert [t.subject for t in found] == ["高血压"]
    assert features.counters["triples_not_in_text"] == 1


def test_long_texts_are_predicted_window_by_window(tokenizer: TextTokenizer) -> None:
    near, far = triple("糖尿", "引起", "发热"), triple("高血压", "引起", "发热")
    text = "高血压" + "的" * 20 + "糖尿引起发热"
    features = triples_shape((near, far), 12).features(tokenizer)
    found, pieces = answered(features, record(text, answer=(near, far)))
    assert found == (near,)
    assert len(pieces) > 2 and features.counters["triples_across_windows"] == 1
    assert all(len(piece.example.sequences[0].input_ids) == 12 for piece in pieces)


def test_pointers_at_the_frame_are_ignored(tokenizer: TextTokenizer) -> None:
    answer = (triple("高血压", "引起", "头痛"),)
    features = triples_shape(answer).features(tokenizer)
    given_record = record(TEXT)
    (piece,) = features.encode([given_record])
    length = len(piece.example.sequences[0].input_ids)
    wild = Pointers(
        entities=np.array([[0, 3], [1, 3], [7, length - 1], [7, 8]]),
        relations=np.array([[0, 0, 7], [1, 0, 7]]),
        scores=np.array([0.9, 0.8], dtype=np.float32),
    )
    (prediction,) = features.decode([given_record], [piece], [wild])
    assert prediction.answer == answer
    assert prediction.scores == pytest.approx((0.8,))


def test_records_keep_their_order_across_slabs(tokenizer: TextTokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.downstream.features.base.RECORDS_AT_ONCE", 2)
    features = shape(Kind.TAGGING, 8, TYPES, streams=(TYPES,)).features(tokenizer)
    records = [replace(record("头痛" * n, answer=()), record_id=str(n)) for n in range(7)]
    pieces = features.encode(records)
    assert [piece.record for piece in pieces] == sorted(piece.record for piece in pieces)
    assert {piece.record for piece in pieces} == set(range(7))
    assert len(features.decode(records, pieces, [piece.example.target for piece in pieces])) == 7


@pytest.mark.parametrize("name", ["cmedqaner", "cehrner"])
def test_every_entity_of_the_real_data_round_trips_through_windows(
    name: str, shared_data: Path, tokenizer: TextTokenizer
) -> None:
    spec = task(name)
    records = read_split(spec, shared_data / "chineseblue", "train").records
    features = shape_of(spec, records, max_length=64).features(tokenizer)
    pieces = features.encode(records)
    found = features.decode(records, pieces, [_as_prediction(piece.example.target) for piece in pieces])
    assert len(pieces) > 2 * len(records)
    for given_record, prediction in zip(records, found, strict=True):
        assert prediction.answer == tuple(sorted(given_record.answer))
