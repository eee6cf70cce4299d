"""Submission files follow the official rules and hold the given answers."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.errors import UserError
from tasks.downstream.catalogue import suite, task
from tasks.downstream.catalogue.labels import CMEEE_TYPES, CMEIE_PREDICATES
from tasks.downstream.readers.assemble import assemble
from tasks.downstream.records import Answer, Entity, Kind, Record, Triple
from tasks.downstream.spec import TaskSpec
from tasks.downstream.submission import check_submission, write_submission, write_zip
from tests.support.heads.official_files import write_official

CBLUE = [spec.name for spec in suite("cblue")]


def _test_records(name: str, folder: Path) -> list[Record]:
    spec = task(name)
    path = next(iter(write_official(name, folder, split="test").iterdir()))
    return assemble(spec.reader(path, spec), spec, path, "test")[0]


def _read_back(spec: TaskSpec, path: Path) -> list[Answer | None]:
    return [record.answer for record in assemble(spec.reader(path, spec), spec, path, "test")[0]]


@pytest.mark.parametrize("name", CBLUE)
def test_written_submission_reads_back_as_the_answers(name: str, tmp_path: Path) -> None:
    spec, records = task(name), _test_records(name, tmp_path / "given")
    answers: list[Any] = [record.answer for record in records]
    path = write_submission(spec, records, answers, tmp_path / "out")
    assert path.name == spec.submission
    assert check_submission(path, {name: records}) == []
    assert _read_back(spec, path) == answers


TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20).filter(str.strip)


@given(TEXT, st.data())
def test_entities_round_trip_with_inclusive_ends(
    tmp_path_factory: pytest.TempPathFactory, text: str, data: st.DataObject
) -> None:
    starts = data.draw(st.lists(st.integers(0, len(text) - 1), max_size=4))
    types = st.sampled_from(CMEEE_TYPES)
    entities = {Entity(one, data.draw(st.integers(one + 1, len(text))), data.draw(types)) for one in starts}
    spec, folder = task("cmeee"), tmp_path_factory.mktemp("out")
    records = [Record("0", (text,)), Record("1", ("无。",))]
    path = write_submission(spec, records, [tuple(entities), ()], folder)
    written = json.loads(path.read_text(encoding="utf-8"))
    assert [one["entity"] for one in written[0]["entities"]] == [
        text[one["start_idx"] : one["end_idx"] + 1] for one in written[0]["entities"]
    ]
    answers = _read_back(spec, path)
    assert answers[0] == (tuple(sorted(entities)) if entities else None)


@given(
    st.lists(
        st.builds(Triple, TEXT, st.just("疾病"), st.sampled_from(CMEIE_PREDICATES), TEXT, st.just("药物")),
        min_size=1,
        max_size=4,
    )
)
def test_triples_round_trip(tmp_path_factory: pytest.TempPathFactory, triples: list[Triple]) -> None:
    spec, folder = task("cmeie"), tmp_path_factory.mktemp("out")
    path = write_submission(spec, [Record("0", ("肺炎\u2028予头孢。",))], [tuple(triples)], folder)
    assert check_submission(path) == []
    assert _read_back(spec, path) == [tuple(sorted(set(triples)))]


def test_combined_is_true_for_a_triple_across_sentences(tmp_path: Path) -> None:
    spec = task("cmeie")
    record = Record("0", ("患者咳嗽，诊断为肺炎。予头孢治疗。",))
    answer = tuple(Triple("肺炎", "疾病", "临床表现", name, "症状") for name in ("咳嗽", "头孢"))
    path = write_submission(spec, [record], [answer], tmp_path)
    row = json.loads(path.read_text(encoding="utf-8"))
    assert {one["object"]["@value"]: one["Combined"] for one in row["spo_list"]} == {"咳嗽": False, "头孢": True}


def test_other_fields_are_returned_and_labels_are_strings(tmp_path: Path) -> None:
    spec, records = task("chip-sts"), _test_records("chip-sts", tmp_path / "given")
    path = write_submission(spec, records, ["0", "1"], tmp_path / "out")
    assert json.loads(path.read_text(encoding="utf-8"))[0] == {
        "id": "0",
        "text1": "糖尿病能吃西瓜吗",
        "text2": "糖尿病可以吃西瓜么",
        "category": "diabetes",
        "label": "0",
    }


def test_zip_is_flat_and_reproducible(tmp_path: Path) -> None:
    paths, tests = [], {}
    for name in CBLUE:
        tests[name] = _test_records(name, tmp_path / name)
        answers: list[Any] = [record.answer for record in tests[name]]
        paths.append(write_submission(task(name), tests[name], answers, tmp_path / "out"))
    archive = write_zip(paths, tmp_path / "cblue.zip")
    assert zipfile.ZipFile(archive).namelist() == sorted(str(spec.submission) for spec in suite("cblue"))
    assert check_submission(archive, tests) == []
    assert write_zip(paths[::-1], tmp_path / "again.zip").read_bytes() == archive.read_bytes()
    assert check_submission(write_zip(paths[:2], tmp_path / "some.zip")) == CBLUE[2:]
    with pytest.raises(UserError, match="twice"):
        write_zip([paths[0], paths[0]], tmp_path / "twice.zip")
    with pytest.raises(UserError, match="no files to pack"):
        write_zip([], tmp_path / "none.zip")


def _drop_last(rows: list[Any]) -> list[Any]:
    return rows[:-1]


def _change(**fields: Any) -> Callable[[list[Any]], list[Any]]:
    return lambda rows: [{**rows[0], **fields}, *rows[1:]]


def _entity(**fields: Any) -> Callable[[list[Any]], list[Any]]:
    one = {"start_idx": 0, "end_idx": 1, "type": "dis", "entity": "呼吸"}
    return _change(entities=[{**one, **fields}])


@pytest.mark.parametrize(
    ("name", "spoil", "message"),
    [
        ("kuake-qtr", _drop_last, "1 records, the test file has 2"),
        ("kuake-qtr", _change(label=3), "record 1: label must be a string, got 3"),
        ("kuake-qtr", _change(label="9"), "record 1: label '9' is not one of 0, 1, 2, 3"),
        ("kuake-qtr", _change(id="s2"), "id 's2' occurs 2 times"),
        ("kuake-qtr", _change(query="感冒"), "record 1: query differs from the test file"),
        ("kuake-qtr", lambda rows: rows[::-1], "record 1: id 's2', the test file has 's1'"),
        ("kuake-qtr", lambda rows: [{"label": "1"}, rows[1]], "record 1: id is missing"),
        ("chip-cdn", _change(normalized_result=["甲"]), "normalized_result must be a string"),
        ("cmeee", _entity(end_idx=11), r"0 to 11 \(inclusive\) is outside the 11 characters"),
        ("cmeee", _entity(start_idx="0"), "start_idx and end_idx must be whole numbers"),
        ("cmeee", _entity(type="organ"), "type 'organ' is not one of dis, sym"),
        ("cmeee", _change(entities=None), "entities must be a list"),
        ("cmeie", _change(spo_list=[{"subject": 1}]), "subject must be a string"),
        ("cmeie", _change(spo_list=[{"subject": "甲", "object": "乙"}]), "object must be"),
        (
            "cmeie",
            _change(spo_list=[{"subject": "甲", "object": {"@value": "乙"}, "predicate": "治"}]),
            "not one of the 44",
        ),
    ],
)
def test_error_names_what_the_server_would_refuse(
    name: str, spoil: Callable[[list[Any]], list[Any]], message: str, tmp_path: Path
) -> None:
    spec, records = task(name), _test_records(name, tmp_path / "given")
    path = write_submission(spec, records, [record.answer for record in records], tmp_path / "out")  # type: ignore[misc]
    text = path.read_text(encoding="utf-8")
    rows = spoil([json.loads(line) for line in text.splitlines()] if path.suffix == ".jsonl" else json.loads(text))
    lines = "\n".join(json.dumps(row) for row in rows)
    path.write_text(lines if path.suffix == ".jsonl" else json.dumps(rows), encoding="utf-8")
    with pytest.raises(UserError, match=message):
        check_submission(path, {name: records})


def test_unofficial_names_and_folders_are_refused(tmp_path: Path) -> None:
    (tmp_path / "cmeee_test.json").write_text("[]", encoding="utf-8")
    with pytest.raises(
        UserError, match=r"cmeee_test\.json is not the name of a submission file; call it CMeEE_test\.json"
    ):
        check_submission(tmp_path / "cmeee_test.json")
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("result/CMeEE_test.json", "[]")
    with pytest.raises(UserError, match=r"result/CMeEE_test\.json is in a folder"):
        check_submission(tmp_path / "a.zip")
    (tmp_path / "b.zip").write_bytes(b"no zip")
    with pytest.raises(UserError, match="cannot be read"):
        check_submission(tmp_path / "b.zip")
    (tmp_path / "CMeEE_test.json").write_text("{}", encoding="utf-8")
    with pytest.raises(UserError, match="expected a list of records, got a JSON dict"):
        check_submission(tmp_path / "CMeEE_test.json")


def test_answers_must_match_the_records_in_number_and_form(tmp_path: Path) -> None:
    spec = task("kuake-qtr")
    records = [Record("s1", ("甲", "乙"))]
    with pytest.raises(UserError, match="1 test records but 0 answers"):
        write_submission(spec, records, [], tmp_path)
    with pytest.raises(UserError, match="label '5' is not one of"):
        write_submission(spec, records, ["5"], tmp_path)
    with pytest.raises(UserError, match="takes no submission"):
        write_submission(task("cmedqq"), records, ["1"], tmp_path)
    assert not (tmp_path / str(spec.submission)).exists()


def test_exactly_the_tasks_of_cblue_have_submissions() -> None:
    assert {spec.name for spec in suite("cblue")} == {
        spec.name for name in CBLUE for spec in [task(name)] if spec.submission
    }
    assert {spec.kind for spec in suite("cblue")} == {
        Kind.NESTED_TAGGING,
        Kind.TRIPLES,
        Kind.NORMALISATION,
        Kind.SINGLE,
        Kind.PAIR,
    }
