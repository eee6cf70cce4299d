"""Tasks made from a graph and from tagged records: what is in a text, which class it has, and what is left out."""

from __future__ import annotations

import csv
import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from infra.artifacts import Artifact, ArtifactStore
from infra.errors import UserError
from infra.stage import Stage, run
from tasks.downstream.catalogue import task
from tasks.downstream.readers.read import read_split
from tasks.evaluate.cmedlms.graph_texts import section_texts, symptom_departments
from tasks.evaluate.cmedlms.masked_diagnoses import Chapters, chapter_of, masked_diagnoses
from tasks.evaluate.cmedlms.matrix import PUBLISHED
from tasks.evaluate.cmedlms.params import GraphTextsParams, MaskedDiagnosesParams
from tasks.evaluate.cmedlms.tables import EMBEDDINGS, TABLES
from tasks.files.raw_input import RawInput
from tasks.finetune.inputs import TaskFiles

SECTIONS = {
    "常见症状": ["咳嗽", "发热\t"],
    "病因": ["感染。"],
    "多发群体": ["老年人"],
    "检查": ["血常规"],
    "预防": ["锻炼"],
    "治疗": ["休息"],
}
GRAPH: dict[str, dict[str, list[str]]] = {
    **{f"病{n}": SECTIONS | {"就诊科室": [["呼吸科", "内科"], ["骨科"]][n % 2]} for n in range(40)},
    "罕见病": {"常见症状": ["皮疹"], "就诊科室": ["皮肤科"]},
    "阿司匹林": {"适应症": ["发热"]},
    "肺炎": {"ICD10": ["J18.9"], "别称": ["肺部感染"]},
    "直肠癌": {"ICD10": ["C20.x00"]},
    "高血压": {"ICD10": ["I10"]},
    "某综合征": {"ICD10": ["C01—C02"]},
}


def graph(folder: Path, content: Any = GRAPH) -> RawInput:
    (folder / "cmekg.pkl").write_bytes(pickle.dumps(content))
    return RawInput([folder / "cmekg.pkl"])


def make(stage: Stage[Any], folder: Path, content: Any = GRAPH, **change: Any) -> Artifact:
    params = GraphTextsParams(**{"fewest": 5, **change})
    return run(stage, ArtifactStore(folder / "store"), params, {"kg": graph(folder, content)}).artifact


def rows_of(artifact: Artifact) -> list[list[str]]:
    files = [artifact.read_file(f"{split}.tsv").decode() for split in ("train", "dev", "test")]
    return [line.split("\t") for file in files for line in file.splitlines()]


def test_sections_are_classes_and_name_no_relation(tmp_path: Path) -> None:
    made = make(section_texts, tmp_path)
    rows = rows_of(made)
    assert len(rows) == 6 * 40 + 1
    assert ["symptom", "病3：咳嗽、发热"] in rows and ["cause", "病3：感染"] in rows
    assert not any(relation in text for _, text in rows for relation in SECTIONS)
    of_split = [made.read_file(f"{split}.tsv").decode() for split in ("train", "dev", "test")]
    names = [{line.split("\t")[1].split("：")[0] for line in file.splitlines()} for file in of_split]
    assert not names[0] & names[1] and not names[0] & names[2] and not names[1] & names[2]
    assert read_split(task("cmed-classification"), str(made.path), "train").rejects == []


def test_the_number_of_records_of_a_class_is_bounded_whatever_the_others(tmp_path: Path) -> None:
    few, many = (rows_of(make(section_texts, tmp_path, most=most)) for most in (5, 20))
    assert len(few) == 6 * 5
    assert {tuple(row) for row in few} <= {tuple(row) for row in many}
    assert all(len(text) <= 8 for _, text in rows_of(make(section_texts, tmp_path, characters=8)))


def test_departments_follow_symptoms_and_rare_ones_are_left_out(tmp_path: Path) -> None:
    made = make(symptom_departments, tmp_path)
    rows = rows_of(made)
    assert {label for label, _ in rows} == {"呼吸科", "骨科"}
    assert all(text == "咳嗽、发热" for _, text in rows)
    assert made.manifest.counters["dropped_rare_departments"] == 1


def test_graphs_without_texts_are_explained(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no texts for prevention"):
        make(section_texts, tmp_path, {"病": {name: own for name, own in SECTIONS.items() if name != "预防"}})
    with pytest.raises(UserError, match="Fewer than two departments have 30 diseases"):
        make(symptom_departments, tmp_path, fewest=30)


@pytest.mark.parametrize(
    ("code", "chapter"),
    [
        ("A15.6", "I"), ("B99", "I"), ("C00", "II"), ("D48.9", "II"), ("D49", "II"), ("D50", "III"), ("D89.1", "III"),
        ("E14.9", "IV"), ("H59", "VII"), ("H60.1", "VIII"), ("I10", "IX"), ("J18.9", "X"), ("K25.9", "XI"),
        ("R05", "XVIII"), ("S72", "XIX"), ("T14", "XIX"), ("U07.1", "XXII"), ("V01", "XX"), ("Y98", "XX"),
        ("Z51", "XXI"), ("M95600/0", "XIII"), ("MESH:D003920", ""), ("", ""),
    ],
)  # fmt: skip
def test_chapters_of_codes(code: str, chapter: str) -> None:
    assert chapter_of(code) == chapter


def test_the_longest_coded_name_decides() -> None:
    chapters = Chapters(GRAPH | {"癌症晚期": {"ICD10": ["C80"]}, "直肠": {"ICD10": ["K62"]}})
    assert [chapters.of(one) for one in ("直肠癌术后", "双侧肺部感染", "高血压病3级", "骨折", "某综合征")] == [
        "II", "X", "IX", "", "",
    ]  # fmt: skip


def tagged(folder: Path, texts: list[tuple[str, list[tuple[int, int, str]]]]) -> TaskFiles:
    folder.mkdir()
    rows = [
        {"originalText": text, "entities": [{"start_pos": s, "end_pos": e, "label_type": t} for s, e, t in found]}
        for text, found in texts
    ]
    for split in ("train", "dev", "test"):
        lines = "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
        (folder / f"{split}.json").write_text(lines, encoding="utf-8")
    return TaskFiles(task("ccks2019-ner"), folder)


def test_diagnoses_are_masked_and_become_labels(tmp_path: Path) -> None:
    diagnosis = "疾病和诊断"
    data = tagged(
        tmp_path / "data",
        [
            ("患直肠癌术后，查体肺炎。", [(1, 6, diagnosis), (9, 11, diagnosis)]),
            ("高血压，服阿司匹林。", [(0, 3, diagnosis), (5, 9, "药物")]),
            ("骨折三天。", [(0, 2, diagnosis)]),
            ("无不适。", []),
        ],
    )
    store, params = ArtifactStore(tmp_path / "store"), MaskedDiagnosesParams(task="ccks2019-ner")
    made = run(masked_diagnoses, store, params, {"data": data, "kg": graph(tmp_path)}).artifact
    rows = [json.loads(line) for line in made.read_file("dev.jsonl").decode().splitlines()]
    assert rows == [
        {"text": "患某病，查体某病。", "labels": ["II", "X"]},
        {"text": "某病，服阿司匹林。", "labels": ["IX"]},
    ]
    assert made.manifest.counters["records_without_chapter"] == 6
    assert len(read_split(task("disease-diagnosis"), str(made.path), "test").records) == 2
    unknown = MaskedDiagnosesParams(task="ccks2019-ner", types=("disease",))
    with pytest.raises(UserError, match=r"No entity of the types disease .* Name the types of diagnoses"):
        run(masked_diagnoses, store, unknown, {"data": data, "kg": graph(tmp_path)})


def test_published_cells_are_whole_and_those_of_the_tables() -> None:
    with PUBLISHED.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    expected = {
        (table.published, embedding, network)
        for table in TABLES.values()
        for embedding in EMBEDDINGS
        for network in table.networks
    }
    assert {(row["task"], row["embedding"], row["network"]) for row in rows} == expected and len(rows) == len(expected)
    best = {
        name: max((row for row in rows if row["task"] == name), key=lambda row: row["f1"]) for name, _, _ in expected
    }
    # The abstract of section 7.1: the best pipeline of each task.
    assert {(row["embedding"], row["network"], row["f1"]) for row in best.values()} == {
        ("cmed-bert", "staresgru_cnn_crf", "0.7632"),
        ("cmed-bert", "staresgru_cnn_crf", "0.8864"),
        ("cmed-bert", "staresgru_cnn", "0.9619"),
        ("glove-word", "staresgru_cnn", "0.7660"),
    }
