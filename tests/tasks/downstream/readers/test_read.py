"""Official files become records; errors name file, place and field."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.errors import UserError
from tasks.downstream.catalogue import TASKS, suite, task
from tasks.downstream.readers.assemble import assemble
from tasks.downstream.readers.read import available_splits, labels_of, read_split, unseen_labels
from tasks.downstream.readers.tagged import read_bio
from tasks.downstream.records import Entity, Kind, Record, Triple
from tests.support.heads.official_files import BIO, LUNG, OFFICIAL, WEBMEDQA, as_lines, as_list, as_tsv, write_official


def _read(
    name: str, folder: Path, change: Callable[[str], str] = lambda text: text, split: str = "train"
) -> list[Record]:
    """All records of a file; no dev split is made of it."""
    spec = task(name)
    folder = write_official(name, folder, change, split)
    path = next(iter(sorted(folder.glob(f"*{split}*"))))
    return assemble(spec.reader(path, spec), spec, path, split)[0]  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [spec.name for spec in TASKS])
def test_every_task_reads_its_official_form(name: str, tmp_path: Path) -> None:
    spec = task(name)
    records = _read(name, tmp_path)
    assert records
    assert len({record.record_id for record in records}) == len(records)
    for record in records:
        assert record.answer is not None
        assert all(isinstance(text, str) for text in record.texts)
        assert (record.group is not None) == (spec.fields.group is not None)
        if spec.kind in (Kind.TAGGING, Kind.NESTED_TAGGING):
            assert all(0 <= one.start < one.end <= len(record.texts[0]) for one in record.answer)  # type: ignore[union-attr]


def test_answers_match_the_files(tmp_path: Path) -> None:
    def answers(name: str) -> list[object]:
        return [record.answer for record in _read(name, tmp_path / name)]

    assert answers("cmeee") == [(Entity(0, 3, "bod"), Entity(0, 5, "sym"), Entity(8, 10, "dis")), ()]
    assert answers("cnner") == [(Entity(0, 3, "bod"), Entity(0, 5, "sym"))]
    assert answers("cmedqaner") == [(Entity(0, 2, "symptom"), Entity(2, 4, "disease"))]
    assert answers("qner") == [(Entity(0, 2, "symptom"), Entity(3, 5, "disease"))]
    assert answers("ccks2019-ner") == [(Entity(10, 12, "疾病和诊断"),)]
    assert answers("cmeie") == [
        (Triple("肺炎", "疾病", "临床表现", "咳嗽", "症状"), Triple("肺炎", "疾病", "药物治疗", "头孢", "药物"))
    ]
    assert answers("chip-cdn") == [("膝骨关节病", "膝关节游离体")]
    assert answers("disease-diagnosis") == [("肺炎", "高血压")]
    assert answers("nlpec") == [1, 4]
    assert answers("kuake-qqr") == ["2", "0"]  # NA, as CBLUE's baseline reads it
    assert answers("cmedqa-embert") == ["1", "0", "0"]


def test_texts_and_questions_are_assigned(tmp_path: Path) -> None:
    assert _read("nlpec", tmp_path / "n")[0].texts == (
        "乙药用于退热。",
        "成人退热首选",
        "甲药",
        "乙药",
        "丙药",
        "丁药",
        "戊药",
    )
    assert [(one.texts, one.group) for one in _read("cmedir", tmp_path / "i")] == [
        (("牙结石", "洗牙"), "牙结石"),
        (("牙结石", "天气"), "牙结石"),
    ]
    assert [(one.group, one.answer) for one in _read("webmedqa", tmp_path / "w")] == [("q1", "1"), *[("q1", "0")] * 4]
    assert _read("cmedqa-embert", tmp_path / "e")[0].texts == ("头疼,怎么办", "休息")
    sts = _read("chip-sts", tmp_path / "s")[0]
    assert (sts.record_id, sts.texts, sts.extra["category"]) == (
        "0",
        ("糖尿病能吃西瓜吗", "糖尿病可以吃西瓜么"),
        "diabetes",
    )


@pytest.mark.parametrize("encoding", ["gb18030", "utf-8-sig", "utf-16"])
def test_encodings_make_no_difference(encoding: str, tmp_path: Path) -> None:
    for name in ("cmeie", "cmedqq", "cmeee", "qner"):
        plain = _read(name, tmp_path / f"{name}-plain")
        folder = write_official(name, tmp_path / name)
        path = next(folder.iterdir())
        path.write_bytes(path.read_text(encoding="utf-8").replace("\n", "\r\n").encode(encoding))
        assert assemble(task(name).reader(path, task(name)), task(name), path, "train")[0] == plain


def test_answers_of_a_test_file_are_read_but_not_passed_on(tmp_path: Path) -> None:
    records = _read("kuake-qtr", tmp_path, split="test")
    assert [record.answer for record in records] == ["3", "0"]
    assert all("label" not in record.extra for record in records)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("kuake-qtr", lambda text: text.replace('"3"', '""').replace('"0"', '""')),
        ("cmeee", lambda text: json.dumps([{**row, "entities": []} for row in json.loads(text)])),
        ("cmeee", lambda text: json.dumps([{"text": row["text"]} for row in json.loads(text)])),
        ("chip-cdn", lambda text: json.dumps([{**row, "normalized_result": ""} for row in json.loads(text)])),
        ("qner", lambda text: "\n".join(line.split("\t")[0] for line in text.split("\n"))),
        ("cnner", lambda text: text.split("|||")[0] + "\n"),
    ],
)
def test_unanswered_test_file_has_no_answers(name: str, change: Callable[[str], str], tmp_path: Path) -> None:
    records = _read(name, tmp_path, change, "test")
    assert records and all(record.answer is None for record in records)


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("kuake-qtr", '"title": "天气"', '"head": "天气"', r"_train\.json, record 2, field title: it is missing"),
        ("kuake-qtr", '"label": "3"', '"label": "7"', r"field label: '7' is not a label of KUAKE-QTR; use 0, 1, 2, 3"),
        ("kuake-qtr", '"query": "咳嗽"', '"query": 12', r"record 1, field query: expected a text, got '12' \(int\)"),
        ("kuake-qtr", '"label": "3"', '"label": [3]', r"field label: expected a label, got .* \(list\)"),
        ("kuake-qtr", "[", "[1,", r"record 1: expected a JSON object"),
        ("kuake-qtr", "]", "", r"KUAKE-QTR_train\.json is not a JSON list"),
        ("cmeie", '{"text"', '{"text', r"CMeIE_train\.jsonl, line 1: not JSON"),
        ("cmeie", '"subject": "肺炎", ', "", r"line 1, field spo_list: triple 1: 'subject' is missing"),
        ("cmeie", "药物治疗", "治疗", r"field predicate: '治疗' is not one of the 44 predicates"),
        ("cmeee", '"type": "bod"', '"type": "organ"', r"record 1, field type: 'organ' is not a type of CMeEE"),
        ("cmeee", '"start_idx": 8', '"begin": 8', r"record 1, entities 3: 'start_idx' is missing"),
        ("cmeee", '"start_idx": 8', '"start_idx": "八号"', r"entities 3: field start_idx is '八号', which is not a"),
        ("cmeee", '"start_idx": 8', '"start_idx": 8.5', r"entities 3: field start_idx is 8\.5, which is not a whole"),
        ("cmedqq", "1\t糖", "糖", r"train\.txt, line 1: 2 columns, expected 3 \(label, text_a, text_b\)"),
        ("webmedqa", "q1\t1", "\t1", r"line 1, field question_id: it is missing"),
        ("qner", "B_symptom", "begin", r"train\.txt, line 1: 'begin' is not a tag"),
        ("qner", "\tO", "", r"train\.txt, lines 1 to 5: 5 words but 4 tags"),
        ("cnner", "0 2 bod", "0-2 bod", r"train_data\.txt, line 1: '0-2 bod' is not a span"),
        ("nlpec", '"answer": "B"', '"answer": "F"', r"record 1: answer 'F' is not one of the options A, B, C, D, E"),
        ("nlpec", '"options"', '"choices"', r"record 1: the field options must hold at least two"),
        ("cmedir", '"documents"', '"docs"', r"line 1: the field documents is missing"),
        ("cmedqaner", '"offset": 2', '"offset": "two"', r"line 1, mention_data 2: field offset is 'two', which"),
    ],
)  # fmt: skip
def test_error_names_place_and_field(name: str, old: str, new: str, message: str, tmp_path: Path) -> None:
    def change(text: str) -> str:
        assert old in json.dumps(json.loads(text), ensure_ascii=False) if text.startswith("[") else old in text
        text = json.dumps(json.loads(text), ensure_ascii=False) if text.startswith("[") else text
        return text[: -len(old)] if new == "" and text.endswith(old) else text.replace(old, new, 1)

    with pytest.raises(UserError, match=message):
        _read(name, tmp_path, change)


def _entities(entities: list[dict[str, object]], text: str) -> tuple[list[Record], Counter[str]]:
    spec = task("cmedqaner")
    from tasks.downstream.spec import Row

    records, rejects = assemble([Row("line 1", {"text": text, "entities": entities})], spec, Path("a.json"), "train")
    return records, Counter(reject.reason for reject in rejects)


def _one(start: int, end: int, mention: str | None, kind: str = "test") -> dict[str, object]:
    return {"start": start, "end": end, "type": kind, "mention": mention}


@pytest.mark.parametrize(
    ("entity", "placed", "reason"),
    [
        (_one(2, 5, "tct"), (2, 5), None),
        (_one(2, 5, None), (2, 5), None),
        (_one(2, 5, "TCT"), (2, 5), "case_differs"),
        (_one(1, 4, "TCT"), (2, 5), "offset_moved"),
        (_one(40, 43, "tct"), (2, 5), "offset_moved"),
        (_one(0, 2, "复查"), None, "offset_mismatch"),
        (_one(0, 2, "hpv"), None, "offset_mismatch"),
        (_one(6, 99, None), None, "offset_out_of_range"),
        (_one(-1, 2, None), None, "offset_out_of_range"),
        (_one(3, 3, None), None, "offset_out_of_range"),
    ],
)
def test_offsets_must_fit_or_be_found(
    entity: dict[str, object], placed: tuple[int, int] | None, reason: str | None
) -> None:
    records, reasons = _entities([entity], "做了tct，复查又复查")
    assert records[0].answer == (() if placed is None else (Entity(*placed, "test"),))
    assert reasons == Counter([reason] if reason else [])


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(1, 6), st.sampled_from("ab")), max_size=12))
def test_flat_entities_never_overlap_and_the_longest_are_kept(spans: list[tuple[int, int, str]]) -> None:
    given_ones = {Entity(start, min(start + size, 13), kind) for start, size, kind in spans if start < 13}
    records, reasons = _entities([_one(one.start, one.end, None, one.type) for one in given_ones], "一" * 13)
    kept = records[0].answer
    assert isinstance(kept, tuple)
    assert all(one.end <= other.start for one, other in itertools.pairwise(kept))  # type: ignore[union-attr]
    assert len(kept) + reasons["overlaps"] == len(given_ones)
    for lost in given_ones - set(kept):  # type: ignore[arg-type]
        assert any(
            lost.start < one.end and one.start < lost.end and one.end - one.start >= lost.end - lost.start  # type: ignore[union-attr]
            for one in kept
        )


def test_repeated_ids_are_renamed_in_training_and_refused_in_the_test(tmp_path: Path) -> None:
    rows = json.loads(OFFICIAL["kuake-qtr"][1])
    again = [*rows, rows[0], {**rows[1], "query": "别的"}]
    spec, path = task("kuake-qtr"), tmp_path / "KUAKE-QTR_train.json"
    path.write_text(as_list(again), encoding="utf-8")
    records, rejects = assemble(spec.reader(path, spec), spec, path, "train")
    assert [record.record_id for record in records] == ["s1", "s2", "s2#record 4"]
    assert [(one.place, one.reason, one.lost) for one in rejects] == [
        ("record 3", "repeated", "record"),
        ("record 4", "duplicate_id", "nothing"),
    ]
    with pytest.raises(UserError, match=r"record 3, field id: the id 's1' occurs twice"):
        assemble(spec.reader(path, spec), spec, path, "test")


def test_empty_texts_are_dropped_in_training_and_kept_in_the_test(tmp_path: Path) -> None:
    spec, path = task("kuake-qic"), tmp_path / "KUAKE-QIC_train.json"
    path.write_text(OFFICIAL["kuake-qic"][1].replace("什么叫痔", " "), encoding="utf-8")
    records, rejects = assemble(spec.reader(path, spec), spec, path, "train")
    assert (len(records), [(one.reason, one.place) for one in rejects]) == (1, [("empty_text", "record 2")])
    assert len(assemble(spec.reader(path, spec), spec, path, "test")[0]) == 2


def test_labels_may_be_numbers(tmp_path: Path) -> None:
    whole = _read("chip-sts", tmp_path / "a", lambda text: text.replace('"label": "1"', '"label": 1'))
    assert [record.answer for record in whole] == ["1", "0"]


def test_unseen_labels_are_counted() -> None:
    spec = task("qic-pap")
    train = [Record("0", ("a",), "101"), Record("1", ("b",), "102")]
    dev = [Record("0", ("c",), "103"), Record("1", ("d",), "101"), Record("2", ("e",), "103")]
    labels = labels_of(spec, train)
    assert labels == ("101", "102")
    assert unseen_labels(spec, labels, dev) == {"103": 2}
    entities = [Record("0", ("ab",), (Entity(0, 1, "x"), Entity(1, 2, "y")))]
    assert labels_of(task("qner"), entities) == ("x", "y")


def test_training_file_of_one_class_is_refused(tmp_path: Path) -> None:
    rows = [("1", f"甲{number}", f"乙{number}") for number in range(60)]
    (tmp_path / "train.txt").write_text(as_tsv(rows), encoding="utf-8")
    with pytest.raises(UserError, match=r"all \d+ records have the label '1'; there is nothing to learn"):
        read_split(task("cmedqq"), tmp_path, "train")
    (tmp_path / "train.txt").write_text("\n", encoding="utf-8")
    with pytest.raises(UserError, match="has no records of cMedQQ"):
        read_split(task("cmedqq"), tmp_path, "train")


def test_missing_file_error_lists_the_folder(tmp_path: Path) -> None:
    (tmp_path / "CMeEE_train (1).json").write_text("[]", encoding="utf-8")
    with pytest.raises(
        UserError,
        match=r"No train file of CMeEE in .*looked for CMeEE_train\.json, .*the folder has CMeEE_train \(1\)\.json",
    ):
        read_split(task("cmeee"), tmp_path, "train")
    with pytest.raises(UserError, match="is not a folder"):
        read_split(task("cmeee"), tmp_path / "nowhere", "train")


def test_files_may_be_in_a_folder_named_after_the_task(tmp_path: Path) -> None:
    write_official("kuake-qtr", tmp_path / "KUAKE-QTR", split="test")
    assert len(read_split(task("kuake-qtr"), tmp_path, "test").records) == 2
    assert available_splits(task("kuake-qtr"), tmp_path) == ("test",)


def test_undecodable_bytes_error_names_the_line(tmp_path: Path) -> None:
    text = as_tsv([("1", f"糖尿病能吃西瓜吗{number}", "糖尿病可以吃西瓜么") for number in range(40)]).encode()
    (tmp_path / "train.txt").write_bytes(text + b"1\t\xff\xfe\xfa\t\xe7\n" + text)
    with pytest.raises(UserError, match=r"train\.txt, line 41: bytes that are not utf-8"):
        read_split(task("cmedqq"), tmp_path, "train")


def test_missing_dev_split_is_made_of_train_by_questions(tmp_path: Path) -> None:
    rows = [
        (f"q{number}", label, "内科", f"问{number}", f"答{number}{label}") for number in range(300) for label in "10"
    ]
    (tmp_path / "medQA.train.txt").write_text(as_tsv(rows), encoding="utf-8")
    spec = task("webmedqa")
    train, dev = (read_split(spec, tmp_path, split).records for split in ("train", "dev"))
    assert len(train) + len(dev) == 600
    assert 20 <= len(dev) <= 100
    assert not {record.group for record in train} & {record.group for record in dev}
    (tmp_path / "medQA.valid.txt").write_text(as_tsv(list(WEBMEDQA)), encoding="utf-8")
    assert len(read_split(spec, tmp_path, "train").records) == 600


@given(
    st.lists(
        st.lists(
            st.tuples(st.sampled_from("甲乙 ，a"), st.sampled_from(["O", "B-x", "I-x", "B-y", "I-y"])),
            min_size=1,
            max_size=9,
        ),
        min_size=1,
        max_size=4,
    )
)
def test_bio_entities_match_a_plain_reader(
    tmp_path_factory: pytest.TempPathFactory, sentences: list[list[tuple[str, str]]]
) -> None:
    path = tmp_path_factory.mktemp("bio") / "train.txt"
    path.write_text("\n\n".join("\n".join("\t".join(pair) for pair in one) for one in sentences), encoding="utf-8")
    for row, sentence in zip(read_bio(path, task("qner")), sentences, strict=True):
        assert row.fields["text"] == "".join(sign for sign, _ in sentence)
        expected: list[tuple[int, int, str]] = []
        for place, (_, tag) in enumerate(sentence):
            before = sentence[place - 1][1] if place else "O"
            if tag[0] == "I" and before[1:] == tag[1:]:
                expected[-1] = (expected[-1][0], place + 1, tag[2:])
            elif tag != "O":
                expected.append((place, place + 1, tag[2:]))
        assert [(one["start"], one["end"], one["type"]) for one in row.fields["entities"]] == expected


def test_chineseblue_entities_may_be_tags(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text(f"{BIO}\n\n" * 3 + BIO.replace("咳", "喘"), encoding="utf-8")
    records = (
        read_split(task("cmedqaner"), tmp_path, "train").records
        + read_split(task("cmedqaner"), tmp_path, "dev").records
    )
    assert [record.answer for record in records] == [(Entity(0, 2, "symptom"), Entity(3, 5, "disease"))] * 4


def test_bmes_and_bioes_are_read(tmp_path: Path) -> None:
    path = tmp_path / "train.txt"
    path.write_text("上 B-x\n呼 M-x\n吸 E-x\n痛 S-y\n。 O\n", encoding="utf-8")
    row = next(iter(read_bio(path, task("qner"))))
    assert [(one["start"], one["end"], one["type"]) for one in row.fields["entities"]] == [(0, 3, "x"), (3, 4, "y")]


@pytest.mark.parametrize(
    "spec",
    [spec for spec in suite("chineseblue") if spec.parquet and spec.name != "cmedqnli"],
    ids=lambda spec: spec.name,
)
def test_real_data_sets_are_read_completely(spec: object, shared_data: Path) -> None:
    given_spec = task(spec.name)  # type: ignore[attr-defined]
    folder = shared_data / "chineseblue"
    rows = pl.scan_parquet(folder / str(given_spec.parquet)).select(pl.len()).collect().item()
    splits = {split: read_split(given_spec, folder, split) for split in ("train", "dev", "test")}  # type: ignore[arg-type]
    assert sum(len(one.records) for one in splits.values()) == rows
    labels = labels_of(given_spec, splits["train"].records)
    assert not unseen_labels(given_spec, labels, splits["test"].records)
    lost = [reject for one in splits.values() for reject in one.rejects if reject.lost != "nothing"]
    assert {reject.reason for reject in lost} <= {"overlaps"}


def test_real_offsets_differ_in_case_only(shared_data: Path) -> None:
    frame = pl.read_parquet(shared_data / "chineseblue" / "cMedQANER.parquet")
    wrong = frame.explode("entities").unnest("entities").filter(~pl.col("offset_ok")).height
    reasons: Counter[str] = Counter()
    for split in ("train", "dev", "test"):
        read = read_split(task("cmedqaner"), shared_data / "chineseblue", split)  # type: ignore[arg-type]
        reasons.update(reject.reason for reject in read.rejects)
    assert reasons["case_differs"] == wrong > 0


def test_unusable_parquet_file_is_refused(tmp_path: Path) -> None:
    pl.DataFrame({"label": ["1"], "text": ["a"]}).write_parquet(tmp_path / "cMedIC.parquet")
    with pytest.raises(UserError, match=r"cMedIC\.parquet has no column orig_split; its columns are label, text"):
        read_split(task("cmedic"), tmp_path, "train")
    (tmp_path / "cMedTC.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(UserError, match=r"cMedTC\.parquet cannot be read as Parquet"):
        read_split(task("cmedtc"), tmp_path, "train")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 9) | st.floats() | st.sampled_from(["", "1", "A", "咳嗽", "甲##乙"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["@value", "A", "B", "label"]), inner, max_size=3)
    ),
    max_leaves=4,
)


@given(st.data())
def test_any_json_gives_records_or_a_user_error(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    name = data.draw(
        st.sampled_from([name for name, (file, _) in sorted(OFFICIAL.items()) if file.endswith(("json", "jsonl"))])
    )
    file, text = OFFICIAL[name]
    rows = json.loads(text) if text.startswith("[") else [json.loads(line) for line in text.splitlines()]
    spoilt = _spoilt(rows[0], data)
    path = tmp_path_factory.mktemp("any") / file
    path.write_text(json.dumps([spoilt, *rows[1:]], ensure_ascii=False), encoding="utf-8")
    spec = task(name)
    try:
        records, rejects = assemble(spec.reader(path, spec), spec, path, "train")
    except UserError as error:
        assert file in str(error)
    else:
        assert len(records) + sum(reject.lost == "record" for reject in rejects) == len(rows)


PIECES = [
    "\t",
    "\n",
    "\r\n",
    '"',
    ",",
    "|||",
    " ",
    "0",
    "1",
    "B-x",
    "I-x",
    "O",
    "甲",
    "\ufeff",
    "\x00",
    "\u2028",
    "[",
    "{",
]


@given(
    st.sampled_from(["cmedqq", "webmedqa", "qner", "cnner", "cmedqa-embert"]),
    st.lists(st.sampled_from(PIECES), max_size=30),
)
def test_any_lines_give_records_or_a_user_error(
    tmp_path_factory: pytest.TempPathFactory, name: str, pieces: list[str]
) -> None:
    folder = write_official(name, tmp_path_factory.mktemp("any"))
    path = next(iter(sorted(folder.glob("*train*"))))
    path.write_bytes("".join(pieces).encode())
    try:
        records, _ = assemble(task(name).reader(path, task(name)), task(name), path, "test")
    except UserError as error:
        assert path.name in str(error)
    else:
        assert all(isinstance(text, str) for record in records for text in record.texts)


def _spoilt(row: dict[str, Any], data: st.DataObject) -> dict[str, Any]:
    """A row with one value, at any depth, replaced by another."""
    key = data.draw(st.sampled_from(sorted(row)))
    value = row[key]
    if isinstance(value, list) and value and isinstance(value[0], dict) and data.draw(st.booleans()):
        return {**row, key: [_spoilt(value[0], data), *value[1:]]}
    if isinstance(value, dict) and data.draw(st.booleans()):
        return {**row, key: _spoilt(value, data)}
    return {**row, key: data.draw(JSON)}


def test_triples_outside_the_text_are_kept_and_reported(tmp_path: Path) -> None:
    path = tmp_path / "CMeIE_train.jsonl"
    path.write_text(OFFICIAL["cmeie"][1].replace(LUNG, LUNG.replace("头孢", "青霉素")), encoding="utf-8")
    spec = task("cmeie")
    records, rejects = assemble(spec.reader(path, spec), spec, path, "train")
    assert len(records[0].answer) == 2  # type: ignore[arg-type]
    assert [(one.reason, one.detail, one.lost) for one in rejects] == [("not_in_text", "object '头孢'", "nothing")]
    assert as_lines([]) == ""
