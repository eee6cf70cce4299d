"""Nothing is lost without a word: parts of a text that no answer speaks of, and abbreviations of several readings."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from infra.artifacts import ArtifactStore
from infra.errors import UserError
from infra.stage import run
from tasks.files.raw_input import RawInput
from tasks.normalise.files import normalise_file
from tasks.normalise.index import CandidateIndexParams, candidate_index
from tasks.normalise.normaliser import Normaliser
from tasks.normalise.queries.abbreviation_contexts import AbbreviationContexts, Context, read_abbreviation_contexts
from tasks.normalise.queries.compounds import segments_of
from tasks.normalise.queries.spelling import normal_forms
from tasks.normalise.terms.terminology import TerminologyParams, terminology

LIST = """编码,名称
I10,高血压
I25.1,冠心病
K25.9,胃溃疡
K74.6,肝硬化
K74.5,肝硬化失代偿期
I85.0,食管静脉曲张破裂出血
K80.2,胆囊结石
F20.0,偏执型精神分裂症
N18.3,慢性肾脏病3期
I21.9,心肌梗死
I21.0,急性心肌梗死
I34.0,二尖瓣关闭不全
I26.9,肺栓塞
O14.9,子痫前期
J67.9,过敏性肺炎
B98.0,幽门螺杆菌感染
E14.9,糖尿病
E11.9,2型糖尿病
M33.1,皮肌炎
J18.9,肺炎
N05.9,肾炎
J44.9,慢性阻塞性肺病
J44.1,慢性阻塞性肺病伴有急性加重
K29.3,慢性浅表性胃炎
K29.3,浅表性胃炎
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("list")
    (place / "list.csv").write_text(LIST, encoding="utf-8")
    store = ArtifactStore(place / "store")
    listed = run(terminology, store, TerminologyParams(format="list"), {"list": RawInput(place / "list.csv")}).artifact
    return Path(run(candidate_index, store, CandidateIndexParams(), {"terminology": listed}).artifact.path)


@pytest.fixture(scope="module")
def normaliser(folder: Path) -> Normaliser:
    return Normaliser(folder)


def surest(normaliser: Normaliser, text: str) -> dict[str, float]:
    (one,) = normaliser.normalise([text])
    return {answer.code: answer.confidence for answer in (*one.answers, *one.unsure)}


def test_answer_that_does_not_say_the_course_is_less_sure(normaliser: Normaliser) -> None:
    assert surest(normaliser, "慢性肾炎") == {"N05.9": pytest.approx(0.71 * surest(normaliser, "肾炎")["N05.9"])}
    both = surest(normaliser, "慢性肾炎、肺炎")
    assert both == {"N05.9": pytest.approx(0.71 * surest(normaliser, "肾炎、肺炎")["N05.9"]), "J18.9": both["J18.9"]}
    assert both["J18.9"] == surest(normaliser, "肾炎、肺炎")["J18.9"]


def test_course_that_the_answer_says_by_another_name_takes_nothing(normaliser: Normaliser) -> None:
    (one,) = normaliser.normalise(["慢性浅表性胃炎伴糜烂"])
    assert [each.text for each in one.modifiers if each.kind == "course"] == ["慢性"]
    assert one.answers[0].code == "K29.3" and one.answers[0].confidence > 0.9


def test_lost_course_goes_to_review_below_the_threshold(folder: Path) -> None:
    (one,) = Normaliser(folder, threshold=0.8).normalise(["慢性肾炎"])
    assert (one.answers, [each.code for each in one.unsure], one.statuses) == ((), ["N05.9"], ("review",))


def codes(normaliser: Normaliser, text: str) -> set[str]:
    (one,) = normaliser.normalise([text])
    return {answer.code for answer in one.answers}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("冠心病，心功能Ⅲ级，高血压", {"I25.1", "I10"}),
        ("冠心病、NYHA III级、高血压", {"I25.1", "I10"}),
        ("高血压3级、肝硬化失代偿期、胃溃疡", {"I10", "K74.5", "K25.9"}),
        ("肝硬化失代偿期、食管胃底静脉曲张破裂出血", {"K74.5", "I85.0"}),
        ("肺炎；胃溃疡", {"J18.9", "K25.9"}),
        # One diagnosis each.
        ("高血压3级 很高危", {"I10"}),
        ("精神分裂症，偏执型", {"F20.0"}),
        ("慢性肾脏病，3期", {"N18.3"}),
        ("肝、胆囊结石", {"K80.2"}),
    ],
)
def test_no_diagnosis_of_a_compound_is_lost(normaliser: Normaliser, text: str, expected: set[str]) -> None:
    assert codes(normaliser, text) == expected


def test_a_grade_of_its_own_is_a_modifier(normaliser: Normaliser) -> None:
    first, second = normaliser.normalise(["冠心病，心功能Ⅲ级，高血压", "高血压、NYHA II级"])
    assert [(one.kind, one.text) for one in first.modifiers] == [("grade", "心功能III级")]
    assert [(one.kind, one.text) for one in second.modifiers] == [("grade", "NYHA II级")]
    assert not first.missed and not second.missed and not second.refused


def test_segment_without_an_answer_is_in_the_review_file(normaliser: Normaliser, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("高血压、磨蹭蹊跷\n高血压、魑魅魍魉病、胃溃疡\n高血压、胃溃疡\n", encoding="utf-8")
    summary = normalise_file(normaliser, tmp_path / "in.txt", tmp_path / "out.csv", review=tmp_path / "review.csv")
    with (tmp_path / "review.csv").open(encoding="utf-8-sig", newline="") as file:
        assert {row["text"] for row in csv.DictReader(file)} >= {"磨蹭蹊跷", "魑魅魍魉病"}
    with (tmp_path / "out.csv").open(encoding="utf-8-sig", newline="") as file:
        first, second, third = csv.DictReader(file)
    assert first["status"] == "coded##not_found" and first["normalised_code"] == "I10"
    assert set(second["normalised_code"].split("##")) == {"I10", "K25.9"}
    assert third["status"] == "coded##coded"
    assert (summary.coded, summary.to_review) == (3, 2)


def test_own_names_answer_a_missed_segment(normaliser: Normaliser, tmp_path: Path) -> None:
    (tmp_path / "names.csv").write_text("text,choice\n磨蹭蹊跷,K25.9\n弯弯绕绕,-\n", encoding="utf-8")
    own = Normaliser(normaliser._own.folder, names=tmp_path / "names.csv")
    known, dismissed = own.normalise(["高血压、磨蹭蹊跷", "高血压、弯弯绕绕"])
    assert {one.code for one in known.answers} == {"I10", "K25.9"} and not known.missed
    assert dismissed.statuses == ("coded", "not_diagnosis")


@pytest.mark.parametrize(
    ("text", "segments"),
    [
        ("血脂,高血压", ["血脂", "高血压"]),
        ("肺炎;肾炎。胃炎", ["肺炎", "肾炎", "胃炎"]),
        ("精神分裂症,偏执型", ["精神分裂症"]),
        ("溃疡,不伴有出血", ["溃疡"]),
        ("肺炎(左肺,右肺)", ["肺炎(左肺,右肺)"]),
        ("肝,胆囊结石", ["胆囊结石"]),
    ],
)
def test_segments_stand_between_marks(text: str, segments: list[str]) -> None:
    assert segments_of(text) == segments


@pytest.mark.parametrize(
    ("text", "code", "other"),
    [("MI", "I21.9", "I34.0"), ("PE", "I26.9", "O14.9"), ("Hp", "B98.0", "J67.9"), ("HP(+)", "B98.0", "J67.9")],
)
def test_abbreviation_of_several_readings_is_for_review(
    normaliser: Normaliser, text: str, code: str, other: str
) -> None:
    for written in (text, f"高血压、{text}"):
        (one,) = normaliser.normalise([written])
        (answer,) = one.unsure
        assert answer.code == code and answer.confidence < normaliser.threshold
        assert {code, other} <= {each.code for each in answer.candidates[:2]}
        assert code not in {each.code for each in one.answers}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("HP感染", "B98.0"),
        ("急性MI", "I21.0"),
        ("2型DM", "E11.9"),
        ("DM(糖尿病)", "E14.9"),
        ("COPD", "J44.9"),
    ],
)
def test_text_that_decides_on_a_reading_is_coded(normaliser: Normaliser, text: str, code: str) -> None:
    assert codes(normaliser, text) == {code}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("妊娠高血压、PE", "O14.9"),
        ("下肢深静脉血栓形成、PE", "I26.9"),
        ("冠心病、MI", "I21.9"),
        ("风湿性心脏病、MI", "I34.0"),
        ("胃溃疡、HP", "B98.0"),
        ("高血压、DM", "E14.9"),
        ("间质性肺病、DM", "M33.1"),
    ],
)
def test_rest_of_the_diagnosis_decides_on_an_abbreviation(normaliser: Normaliser, text: str, expected: str) -> None:
    assert expected in codes(normaliser, text)
    both = {"O14.9", "I26.9", "I21.9", "I34.0", "B98.0", "J67.9", "E14.9", "M33.1"}
    assert codes(normaliser, text) & both == {expected}


@pytest.mark.parametrize("row", read_abbreviation_contexts(), ids=lambda row: f"{row.example} {row.expansion}")
def test_example_of_each_context_decides(row: Context) -> None:
    (whole,) = normal_forms([row.example])
    assert AbbreviationContexts().decided(row.short, whole) == row.expansion
    assert AbbreviationContexts().decided(row.short, row.short) == ""


def test_contexts_of_two_readings_decide_nothing() -> None:
    contexts = AbbreviationContexts()
    assert contexts.decided("pe", "妊娠,肺炎,pe") == "" and contexts.decided("ope", "妊娠,ope") == ""
    assert contexts.decided("急性mi", "冠心病,急性mi") == "急性心肌梗死"


def test_faulty_context_is_named(tmp_path: Path) -> None:
    path = tmp_path / "contexts.csv"
    for row, message in (
        ("ms,,心,x", "row 2 has an empty cell"),
        ("ms,甲,(,x", "row 2: .* is not a regular expression"),
    ):
        path.write_text(f"short,expansion,context,example\n{row}\n", encoding="utf-8")
        with pytest.raises(UserError, match=message):
            read_abbreviation_contexts(path)


def test_an_exacerbation_does_not_contradict_a_chronic_disease(normaliser: Normaliser) -> None:
    (one,) = normaliser.normalise(["慢性阻塞性肺病急性加重"])
    assert one.considered[0].code == "J44.1"
