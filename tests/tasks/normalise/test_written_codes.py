"""Written codes, notes in brackets and affirmations: what records of hospitals contain beside names."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.normalise.files.written import written_codes
from tasks.normalise.normaliser import Normaliser
from tasks.normalise.reading import Reader, WrittenCodes
from tasks.normalise.reading.notes import moved_notes
from tasks.retrieve.candidates import Entry
from tasks.retrieve.embedded import EmbeddedIndex

ENTRIES = [
    Entry("I10", "高血压"),
    Entry("E10", "1型糖尿病"),
    Entry("E11.9", "2型糖尿病"),
    Entry("E14", "糖尿病"),
    Entry("I21", "急性心肌梗死"),
    Entry("I21.0", "急性前壁心肌梗死"),
    Entry("S22.0", "胸椎骨折"),
    Entry("T12", "下肢骨折"),
    Entry("J15.7", "支原体肺炎"),
    Entry("J18.9", "肺炎"),
    Entry("T60.0", "有机磷中毒"),
]
CODES = WrittenCodes(entry.code for entry in ENTRIES)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("index")
    EmbeddedIndex.build(ENTRIES, path)
    return path


@pytest.fixture(scope="module")
def normaliser(folder: Path) -> Normaliser:
    return Normaliser(folder, threshold=0.5)


@pytest.mark.parametrize(
    ("item", "left", "code"),
    [
        ("E11.9 2型糖尿病", "2型糖尿病", "E11.9"),
        ("e11.900x001:2型糖尿病", "2型糖尿病", "e11.900x001"),
        ("2型糖尿病(E11.9)", "2型糖尿病", "E11.9"),
        ("[I10]高血压", "高血压", "I10"),
        ("高血压I10", "高血压", "I10"),
        ("I10.x00x002 高血压", "高血压", "I10.x00x002"),
        ("E11.9糖尿病", "糖尿病", "E11.9"),
        ("I10", "", "I10"),
        ("E14.9† 糖尿病", "糖尿病", "E14.9†"),
        ("糖尿病E11.9伴肾病", "糖尿病伴肾病", "E11.9"),
        ("T12 下肢骨折", "下肢骨折", "T12"),
    ],
)
def test_a_code_is_taken_off(item: str, left: str, code: str) -> None:
    rest, (found,) = CODES.taken_off(item)
    assert (rest, found.kind, found.text) == (left, "code", code)


@pytest.mark.parametrize(
    "item",
    [
        "T12椎体骨折",  # a vertebra
        "椎体骨折T12",
        "T12 椎体骨折",
        "椎体骨折(T12)",
        "截瘫 T12",
        "E10 突变",  # as P53 突变
        "HLA E10",
        "维生素B12缺乏",  # B12 is no category of the list
        "B12 缺乏",
        "VE14 缺乏",
        "高血压 1I10",
        "I10-1高血压",
        "H1N1流感",
        "高血压",
        "",
    ],
)
def test_what_is_no_code_stays(item: str) -> None:
    assert CODES.taken_off(item) == (item, ())
    assert WrittenCodes().taken_off(item) == (item, ())


@given(st.text("E1I0.x49 ()[]:高血压-", max_size=12))
def test_no_character_is_lost(item: str) -> None:
    left, codes = CODES.taken_off(item)
    taken = "".join(one.text for one in codes)
    dropped = set(" ()[]:,、-")
    assert sorted(set(item) - dropped) == sorted(set(left + taken) - dropped)
    assert len(left) + len(taken) <= len(item)


def codes_of(normaliser: Normaliser, text: str) -> tuple[list[str], list[str], list[str]]:
    (found,) = normaliser.normalise([text])
    return (
        sorted(one.code for one in found.answers),
        [one.code for one in found.unsure if one.confidence >= 0.5],
        [str(one.status) for one in found.refused],
    )


def test_written_codes_do_not_disturb_the_search(normaliser: Normaliser) -> None:
    assert codes_of(normaliser, "1.I10 高血压 2.E11.9 2型糖尿病") == (["E11.9", "I10"], [], [])
    (found,) = normaliser.normalise(["高血压，I10"])
    assert [(one.kind, one.text) for one in found.modifiers] == [("code", "I10")] and not found.refused


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("E11.9 2型糖尿病 I10 高血压", "E11.9 2型糖尿病、I10 高血压"),
        ("2型糖尿病 E11.9 高血压 I10", "2型糖尿病 E11.9、高血压 I10"),
        ("肺炎J18.9 高血压I10", "肺炎J18.9、高血压I10"),
        ("E11.9 2型糖尿病", "E11.9 2型糖尿病"),
        ("B12 缺乏 B13 缺乏", "B12 缺乏 B13 缺乏"),
    ],
)
def test_codes_separate_diagnoses(normaliser: Normaliser, text: str, parts: str) -> None:
    assert CODES.separated(text) == parts
    if parts != text:
        assert len(codes_of(normaliser, text)[0]) == 2


def test_a_contradiction_of_code_and_text_is_left_to_a_person(normaliser: Normaliser) -> None:
    assert codes_of(normaliser, "E10 2型糖尿病") == ([], ["E11.9"], [])
    assert codes_of(normaliser, "E11.5 2型糖尿病") == (["E11.9"], [], []), "the same category"
    assert codes_of(normaliser, "E10 糖尿病、高血压") == (["E14", "I10"], [], []), "one code may be of either"


def test_a_code_alone_is_no_diagnosis(normaliser: Normaliser) -> None:
    assert codes_of(normaliser, "I10") == ([], [], ["code_only"])
    assert codes_of(normaliser, "I10、E11.9") == ([], [], ["code_only"])
    (found,) = normaliser.normalise(["E11.9、I10、I10.x00"])
    assert [(one.code, one.term) for one in found.considered] == [("E11.9", "2型糖尿病"), ("I10", "高血压")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("E14.901 糖尿病", [("E14.901", "finer")]),
        ("E14 糖尿病、高血压 I10.x00", [("E14", "same"), ("I10.x00", "same")]),
        ("E11 2型糖尿病", [("E11", "coarser")]),
        ("E11.5 2型糖尿病", [("E11.5", "category")]),
        ("E10 2型糖尿病", [("E10", "other")]),
        ("E11.900 2型糖尿病", [("E11.900", "same")]),
        ("I10", [("I10", "")]),
        ("高血压", []),
    ],
)
def test_a_written_code_is_kept_beside_the_answer(
    normaliser: Normaliser, text: str, expected: list[tuple[str, str]]
) -> None:
    (found,) = normaliser.normalise([text])
    assert written_codes(found) == expected


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("糖尿病(2型)", ("2型糖尿病",)),
        ("急性心肌梗死(前壁)", ("急性前壁心肌梗死", "前壁急性心肌梗死")),
        ("糖尿病", ()),
        ("(2型)糖尿病", ()),
        ("肺炎(左)(支原体)", ()),
    ],
)
def test_notes_may_belong_before_the_name(text: str, names: tuple[str, ...]) -> None:
    assert moved_notes(text) == names


def test_a_note_goes_where_the_list_has_it(normaliser: Normaliser) -> None:
    assert codes_of(normaliser, "糖尿病（2型）")[0] == ["E11.9"]
    assert codes_of(normaliser, "肺炎（支原体）、急性心肌梗死（前壁）")[0] == ["I21.0", "J15.7"]
    assert codes_of(normaliser, "高血压（门诊）")[0] == ["I10"], "no name with the note"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("否认糖尿病，有高血压", [("否认糖尿病", "negated"), ("有高血压", "coded")]),
        ("否认糖尿病、肺炎，患有高血压、肺炎", [("否认糖尿病、肺炎", "negated"), ("患有高血压、肺炎", "coded")]),
        ("无糖尿病，但有高血压", [("无糖尿病", "negated"), ("但有高血压", "coded")]),
        ("否认糖尿病，有机磷中毒", [("否认糖尿病,有机磷中毒", "negated")]),
        ("否认糖尿病，有无高血压", [("否认糖尿病,有无高血压", "negated")]),
        ("母亲有糖尿病，有高血压", [("母亲有糖尿病,有高血压", "family")]),
        ("否认肺炎、有高血压", [("否认肺炎、有高血压", "negated")]),
        ("否认肺炎，有害气体中毒", [("否认肺炎,有害气体中毒", "negated")]),
        ("否认肺炎，有关糖尿病", [("否认肺炎,有关糖尿病", "negated")]),
    ],
)
def test_a_denial_ends_where_something_is_affirmed(folder: Path, text: str, expected: list[tuple[str, str]]) -> None:
    (read,) = Reader(EmbeddedIndex(folder).are_names).read([text])
    assert [(one.text, str(one.status)) for one in read] == expected


def test_what_is_affirmed_is_searched_by_its_name(normaliser: Normaliser) -> None:
    assert codes_of(normaliser, "否认糖尿病，有高血压") == (["I10"], [], ["negated"])
