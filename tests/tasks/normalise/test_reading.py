"""Reading of diagnoses: cues, their reach, and what then gets no code."""

from __future__ import annotations

import csv
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.cli import main
from infra.errors import UserError
from infra.settings import REPOSITORY
from tasks.normalise.normaliser import Normaliser
from tasks.normalise.queries.compounds import separated
from tasks.normalise.reading import Cue, Reader, Statement, Status, read_cues
from tasks.retrieve.candidates import Entry
from tasks.retrieve.embedded import EmbeddedIndex

LISTED = ("高血压", "糖尿病", "冠心病", "肺炎", "无脑儿", "无精子症", "家族性痉挛性截瘫", "可疑青光眼", "肝、胆囊结石")
LABELLED = REPOSITORY / "tests" / "support" / "terms"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("index")
    EmbeddedIndex.build([Entry(f"A{place:02d}", name) for place, name in enumerate(LISTED)], path)
    return path


@pytest.fixture(scope="module")
def reader(folder: Path) -> Reader:
    return Reader(EmbeddedIndex(folder).are_names)


def read(reader: Reader, text: str) -> list[tuple[str, str]]:
    return [(one.text, str(one.status)) for one in reader.read([text])[0]]


@pytest.mark.parametrize("cue", read_cues(), ids=lambda cue: cue.example)
def test_example_of_each_cue_has_its_status(reader: Reader, cue: Cue) -> None:
    assert cue.pattern.search(cue.example)
    (found,) = reader.read([cue.example])
    assert {one.status for one in found} == {cue.status}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("高血压、糖尿病，否认冠心病", [("高血压、糖尿病", "coded"), ("否认冠心病", "negated")]),
        ("否认高血压，糖尿病、冠心病史；肺炎", [("否认高血压,糖尿病、冠心病史", "negated"), ("肺炎", "coded")]),
        ("肺炎，高血压、糖尿病家族史", [("肺炎", "coded"), ("高血压、糖尿病家族史", "family")]),
        ("1.肺炎 2.冠心病待排 3.糖尿病", [("肺炎", "coded"), ("冠心病待排", "uncertain"), ("糖尿病", "coded")]),
        ("高血压 糖尿病 冠心病", [("高血压、糖尿病、冠心病", "coded")]),
        ("高血压、低盐饮食", [("高血压", "coded"), ("低盐饮食", "not_diagnosis")]),
        ("肺炎？", [("肺炎?", "uncertain")]),
        ("高血压 肺炎？", [("高血压", "coded"), ("肺炎?", "uncertain")]),
        ("糖尿病 血液透析", [("糖尿病 血液透析", "coded")]),
        ("血液透析", [("血液透析", "procedure")]),
        ("高血压（－）", [("高血压(-)", "negated")]),
        ("无脑儿、无精子症", [("无脑儿、无精子症", "coded")]),
        ("可疑青光眼", [("可疑青光眼", "coded")]),
        ("肺炎、可疑青光眼", [("肺炎、可疑青光眼", "coded")]),
        ("否认可疑青光眼", [("否认可疑青光眼", "negated")]),
        ("肝、胆囊结石", [("肝、胆囊结石", "coded")]),
        ("肝炎、结核病史均否认", [("肝炎、结核病史均否认", "negated")]),
        ("糖尿病（无）", [("糖尿病(无)", "negated")]),
        ("鼓膜无穿孔", [("鼓膜无穿孔", "negated")]),
        ("产后无出血", [("产后无出血", "negated")]),
        ("股骨头无菌性坏死", [("股骨头无菌性坏死", "coded")]),  # 无 begins a word of its own
        ("脑无性细胞瘤", [("脑无性细胞瘤", "coded")]),
        ("未发生压疮", [("未发生压疮", "negated")]),
        ("旧有哮喘", [("旧有哮喘", "history")]),
        ("肺炎（已治愈）", [("肺炎(已治愈)", "history")]),
        ("肺炎（治愈出院）", [("肺炎(治愈出院)", "coded")]),
        ("", []),
    ],
)
def test_each_part_has_its_own_status(reader: Reader, text: str, expected: list[tuple[str, str]]) -> None:
    assert read(reader, text) == expected


def test_a_name_is_no_name_without_its_list() -> None:
    nothing = Reader(lambda texts: [False] * len(texts))
    assert read(nothing, "可疑青光眼") == [("可疑青光眼", "uncertain")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("高血压 糖尿病", "高血压、糖尿病"),
        ("肺炎.肾炎", "肺炎、肾炎"),
        ("高血压3级 很高危", "高血压3级 很高危"),
        ("高血压3级 很高危、肺炎", "高血压3级 很高危、肺炎"),
        ("糖尿病 高血压3级 很高危 肺炎", "糖尿病、高血压3级 很高危、肺炎"),
        ("2型糖尿病 高血压3级", "2型糖尿病、高血压3级"),
        ("慢性 胃炎", "慢性 胃炎"),
        ("肺癌 cT2N1M0", "肺癌 cT2N1M0"),
        ("肺炎 不伴出血", "肺炎 不伴出血"),
        ("食管 狭窄", "食管 狭窄"),
        ("1.肺炎 2.肾炎", ";肺炎 ;肾炎"),
        ("右肺上叶占位性病变 肺癌？", "右肺上叶占位性病变、肺癌？"),
        ("肺癌？ 高血压", "肺癌？、高血压"),
        ("肺炎待排 高血压", "肺炎待排、高血压"),
        ("高血压 可能", "高血压 可能"),
    ],
)
def test_blanks_and_stops_separate_diseases_only(text: str, expected: str) -> None:
    assert separated(text) == expected


@given(
    st.lists(st.sampled_from(LISTED[:4]), min_size=1, max_size=4),
    st.sampled_from(["否认{}", "无{}病史", "已排除{}", "{}已除外", "未见{}", "{}（-）", "从未患过{}"]),
    st.sampled_from(["、", "，", " "]),
)
def test_nothing_negated_gets_a_code(names: list[str], form: str, mark: str) -> None:
    reader = Reader(lambda texts: [text in LISTED for text in texts])
    # A sign stands for its own item only.
    text = mark.join(form.format(name) for name in names) if "-" in form else form.format(mark.join(names))
    if form in ("{}已除外",) and mark != "、":
        text = mark.join(form.format(name) for name in names)
    assert not [one for one in reader.read([text])[0] if one.status == Status.CODED]


@given(st.text(alphabet="高血压糖尿病肺炎否认无史待排?？、，。；+（）() 1.-父母术年前\n", max_size=40))
def test_statements_cover_the_text(text: str) -> None:
    (found,) = Reader(lambda texts: [False] * len(texts)).read([text])
    kept = Counter(character for one in found for character in one.text if "\u4e00" <= character <= "\u9fff")
    assert kept == Counter(character for character in text if "\u4e00" <= character <= "\u9fff")
    assert all(one.text for one in found)
    assert all(one.status != other.status for one, other in pairwise(found))


def test_only_what_a_text_states_is_coded(folder: Path) -> None:
    mixed, denied, nothing, whole = Normaliser(folder).normalise(
        ["高血压、肺炎，否认糖尿病", "否认糖尿病", "今天天气很好", "无脑儿"]
    )
    assert {one.term for one in mixed.terms} == {"高血压", "肺炎"}
    assert mixed.refused == (Statement("否认糖尿病", Status.NEGATED),)
    assert "糖尿病" in {one.term for one in mixed.considered}
    assert denied.terms == () and "糖尿病" in {one.term for one in denied.considered}
    assert nothing.terms == () == nothing.considered
    assert [one.term for one in whole.terms] == ["无脑儿"] and whole.refused == ()
    (every,) = Normaliser(folder, reads=False).normalise(["否认糖尿病"])
    assert [one.term for one in every.terms] == ["糖尿病"] and every.refused == ()


def test_command_says_what_got_no_code(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = tmp_path / "in.txt", tmp_path / "out.csv"
    source.write_text("高血压、否认糖尿病\n肺炎？\n今天天气很好\n\n@@\n", encoding="utf-8")
    asked = ["normalise", "--model", str(folder), "--input", str(source), "--output", str(target)]
    assert main(asked) == 0
    said = capsys.readouterr().out
    assert "5 diagnoses: 1 coded, 1 uncertain, 2 refused" in said
    assert "Rows with parts that got no code: 1 empty, 1 negated, 2 not diagnosis, 1 uncertain" in said
    rows = list(csv.DictReader(target.read_text(encoding="utf-8-sig").splitlines()))
    assert [(row["normalised_code"], row["status"]) for row in rows] == [
        ("A00", "coded##negated"),
        ("", "uncertain"),
        ("", "not_diagnosis"),
        ("", "empty"),
        ("", "not_diagnosis"),
    ]
    assert main([*asked, "--every-text"]) == 0
    rows = list(csv.DictReader(target.read_text(encoding="utf-8-sig").splitlines()))
    assert [row["status"] for row in rows[:2]] == ["coded##coded", "coded"] and rows[4]["status"] == "not_found"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("否认,denied,anywhere,item,否认肺炎", "row 2: status 'denied' must be one of negated"),
        ("否认,coded,anywhere,item,否认肺炎", "row 2: status 'coded'"),
        ("否认,negated,nowhere,item,否认肺炎", "row 2: place 'nowhere'"),
        ("否认,negated,anywhere,page,否认肺炎", "row 2: reach 'page'"),
        (",negated,anywhere,item,否认肺炎", "row 2 has no cue"),
        ("否认(,negated,anywhere,item,否认肺炎", "row 2: '否认\\(' is not a regular expression"),
    ],
)
def test_fault_in_a_table_of_cues_is_reported(tmp_path: Path, row: str, message: str) -> None:
    table = tmp_path / "cues.csv"
    table.write_text(f"cue,status,place,reach,example\n{row}\n", encoding="utf-8")
    with pytest.raises(UserError, match=message):
        read_cues(table)


def test_own_cues_replace_the_default_ones(tmp_path: Path) -> None:
    table = tmp_path / "cues.csv"
    table.write_text("cue,status,place,reach,example\n绝非,negated,before,item,绝非肺炎\n", encoding="utf-8")
    own = Reader(lambda texts: [False] * len(texts), read_cues(table))
    assert read(own, "绝非肺炎") == [("绝非肺炎", "negated")] and read(own, "否认肺炎") == [("否认肺炎", "coded")]


def test_labelled_texts_without_codes_are_refused(reader: Reader) -> None:
    """The floor is what the tuning half reaches; a lower share means that a cue was lost."""
    with (LABELLED / "no_codes_tuning.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    found = reader.read([row["query"] for row in rows])
    statuses = [{str(one.status) for one in own} for own in found]
    assert sum("coded" not in own for own in statuses) >= 134
    assert sum(own == {row["status"]} for own, row in zip(statuses, rows, strict=True)) >= 133


def test_labelled_diagnoses_are_not_refused(reader: Reader) -> None:
    with (LABELLED / "diagnoses_tuning.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    found = reader.read([row["query"] for row in rows])
    refused = [row["query"] for row, own in zip(rows, found, strict=True) if {one.status for one in own} != {"coded"}]
    assert refused == []
