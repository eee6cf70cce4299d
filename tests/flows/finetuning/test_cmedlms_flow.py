"""Flow finetune/cmedlms on a made graph and made records: a page of all cells, reused. No text here is real."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from flows.cmedlms import DEFAULT_TASKS, _wanted, finetune
from infra.artifacts import ArtifactStore
from infra.errors import UserError
from infra.settings import REPOSITORY
from kg.sources import cmekg
from models.word_vectors import WordVectors
from tasks.finetune.predict import Predictor
from tests.support.heads import toy_task as toy

OVERRIDES = {
    "networks.limit": 24,
    "networks.tagging_limit": 6,
    "networks.epochs": [2],
    "networks.batch_sizes": [8],
    "networks.resources.trials_at_once": 1,
    "graph_texts.fewest": 3,
}


def graph() -> dict[str, dict[str, list[str]]]:
    """Thirty diseases with all sections, in two departments."""
    found = {}
    for number in range(30):
        kind = number % 2
        found[f"{'肺心'[kind]}病{number}"] = {
            "常见症状": [["咳嗽", "咳痰"], ["心悸", "胸痛"]][kind],
            "病因": [["感染"], ["缺血"]][kind],
            "多发群体": ["老年人"],
            "检查": ["血常规"],
            "预防": ["锻炼"],
            "治疗": ["休息"],
            "就诊科室": [["呼吸科"], ["心内科"]][kind],
            "ICD10": [["J18.9"], ["I25.1"]][kind],
        }
    return found


def records(count: int, seed: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(count):
        kind, name = number % 2, f"{'肺心'[number % 2]}病{rng.integers(1, 4) * 2 - (number + 1) % 2 - 1}"
        before = ["患者咳嗽咳痰，诊断", "患者心悸胸痛，诊断"][kind]
        entity = {"start_pos": len(before), "end_pos": len(before) + len(name), "label_type": "疾病和诊断"}
        rows.append({"originalText": f"{before}{name}入院。", "entities": [entity]})
    return rows


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, work_here: None) -> Path:
    monkeypatch.setenv("YIWEN_HOME", str(tmp_path / "home"))
    pickled = tmp_path / "cmekg.pkl"
    pickled.write_bytes(pickle.dumps(graph()))
    monkeypatch.setattr(cmekg, "locate", lambda: pickled)
    folder = tmp_path / "data" / "ccks2019-ner"
    folder.mkdir(parents=True)
    for seed, split in enumerate(("train", "dev", "test")):
        lines = (json.dumps(row, ensure_ascii=False) for row in records(12, seed))
        (folder / f"{split}.json").write_text("\n".join(lines), encoding="utf-8")
    characters = sorted({character for row in records(12, 0) for character in row["originalText"]})
    matrix = np.random.default_rng(0).normal(size=(len(characters), 8)).astype(np.float32)
    WordVectors(characters, matrix).write(tmp_path / "characters.txt")
    toy.save_toy_encoder(tmp_path / "encoder")
    return tmp_path


def test_every_network_meets_every_embedding_on_one_page(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given: dict[str, Any] = {
        "tasks": ["ccks2019-ner", "symptom-department", "cmed-classification"],
        "data": str(world / "data"),
        "embeddings": {"word2vec-char": str(world / "characters.txt"), "cmed-bert": str(world / "encoder")},
        "networks": ["cnn_lstm", "cnn"],
        "quick": True,
        "overrides": OVERRIDES,
    }
    page = Path(finetune.fn(**given))
    assert "cell 9 of 9: cmed-classification, CMed-BERT" in capsys.readouterr().out
    rows = json.loads((page / "table.json").read_text(encoding="utf-8"))
    assert len(rows) == 3 * (1 + 2 + 2)
    of_cell = {(row["Task"], row["Embedding"], row["Model"]): row for row in rows}
    cell = of_cell["CCKS2019-NER", "CMed-BERT", "CNN-LSTM"]
    assert (cell["paper F1"], cell["paper s/epoch"], cell["Epochs"]) == ("0.6839", "18", "2")
    assert of_cell["Symptom-Department", "Bare embedding", "CNN"]["paper F1"] == "0.4719"
    summary = json.loads((page / "summary.json").read_text(encoding="utf-8"))
    assert "at most 24 records per split; 6 in tagging; 48 tokens per sequence; 2 epochs" in summary["notes"][0]
    assert any("stand-in" in note and "CMeKG" in note for note in summary["notes"])
    bare, vectors, _ = summary["tokens"]["symptom-department"]
    assert (bare["without a vector, train"], vectors["Embedding"]) == ("0.00%", "CMed-Word2Vec (characters)")
    # Of 咳嗽、咳痰 only the mark is in no record.
    assert (int(vectors["Tokens of train"]) % 5, vectors["without a vector, train"]) == (0, "20.00%")
    for row in summary["tasks"]["ccks2019-ner"]:
        assert (
            row["records"] == 6
            and len(row["curve"]) == 2
            and row["seconds_per_epoch"] > 0
            and np.isfinite(row["dev_loss"])
        )
    for name in ("ccks2019-ner", "symptom-department", "cmed-classification"):
        assert (page / f"curves_{name}.png").read_bytes().startswith(b"\x89PNG")
    assert (page / "table.md").read_text(encoding="utf-8").count("## ") == 3
    assert "Networks and embeddings" in (page / "report.html").read_text(encoding="utf-8")
    store = ArtifactStore(world / "home")
    (tagger,) = [one for one in store.list() if one.stage == "networks" and one.manifest.inputs.get("states")][:1]
    predictor = Predictor(Path(tagger.path) / "models" / "cnn_lstm", device="cpu")
    assert len(predictor.predict(["患者咳嗽。"])) == 1
    card = (Path(tagger.path) / "models" / "cnn_lstm" / "README.md").read_text(encoding="utf-8")
    assert "a network `cnn_lstm` over `embeddings.cmed-bert`, trained by" in card
    with refused(r"is not a fine-tuned model: it has no task\.json\. Did you mean .*models/cnn(_lstm)?\?"):
        Predictor(Path(tagger.path), device="cpu")
    capsys.readouterr()
    with patch("tasks.finetune.trials.grid.run_trial", side_effect=AssertionError("trained again")):
        assert Path(finetune.fn(**given)) == page


def test_records_with_masked_diagnoses_are_made_and_learnt(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flows.cmedlms.RECORDS", "ccks2019-ner")
    overrides = OVERRIDES | {"masked_diagnoses.task": "ccks2019-ner", "networks.epochs": [25]}
    page = Path(
        finetune.fn(["disease-diagnosis"], str(world / "data"), networks=["cnn"], quick=True, overrides=overrides)
    )
    (row,) = json.loads((page / "summary.json").read_text(encoding="utf-8"))["tasks"]["disease-diagnosis"]
    assert row["f1"] > 0.9
    (made,) = [one for one in ArtifactStore(world / "home").list() if one.stage == "masked_diagnoses"]
    lines = [json.loads(line) for line in made.read_file("train.jsonl").decode().splitlines()]
    assert {tuple(line["labels"]) for line in lines} == {("X",), ("IX",)}
    assert all("某病入院" in line["text"] and "肺病" not in line["text"] for line in lines)


def test_vectors_that_break_off_are_found_out_before_any_training(world: Path) -> None:
    lines = (world / "characters.txt").read_text(encoding="utf-8").splitlines(keepends=True)
    short, twice = world / "short.txt", world / "twice.txt"
    short.write_text("".join(lines)[:-12], encoding="utf-8")
    words, width = lines[0].split()
    twice.write_text(f"{int(words) + 1} {width}\n" + "".join([*lines[1:], lines[3]]), encoding="utf-8")
    asked: dict[str, Any] = {"tasks": ["symptom-department"], "networks": ["cnn"], "quick": True}
    with patch("tasks.finetune.trials.grid.run_trial", side_effect=AssertionError("trained")):
        for file, message in ((short, "A short last line means"), (twice, "already has a vector in line 4")):
            with refused(rf"{file.name}, line {int(words) + 1 + (file == twice)}: .*{message}"):
                finetune.fn(**asked, embeddings={"glove-char": str(file)}, overrides=OVERRIDES)


def refused(message: str) -> Any:
    return pytest.raises(UserError, match=message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tasks": ["cmeee"]}, "cmeee is not a task of this comparison"),
        ({"tasks": ["cmedtc"]}, "needs the files of cMedTC"),
        ({"tasks": ["disease-diagnosis"]}, "needs the files of cEHRNER"),
        ({"embeddings": {"elmo": "x"}}, r"embeddings\.elmo is not an embedding that can be given"),
        ({"embeddings": {"bare": "x"}}, r"embeddings\.bare is not an embedding that can be given"),
        ({"embeddings": {"glove-char": "none.txt"}}, r"There are no word vectors in .*none\.txt"),
        (
            {"embeddings": {"glove-char": str(REPOSITORY / "pyproject.toml")}},
            r"pyproject\.toml, line 1: .* is not the num",
        ),
        ({"embeddings": {"bert": "none"}}, r"as in --param embeddings\.bert=FOLDER"),
        ({"overrides": {"networks.epoch": 3}}, r"networks\.epochs"),
        ({"tasks": ["symptom-department"], "networks": ["bilstm_crf"]}, "None of the tasks symptom-department has"),
        ({"networks": ["bilstm-crf"]}, "networks: There is no network 'bilstm-crf'. Did you mean bilstm_crf"),
        ({"networks": []}, r"networks=\[\] asks for no network"),
        ({"data": "nowhere"}, r"There is no folder nowhere\. .* --param data=FOLDER"),
    ],
)
def test_impossible_requests_are_explained(world: Path, change: dict[str, Any], message: str) -> None:
    with refused(message):
        finetune.fn(**{"data": None, **change})


def test_without_files_the_made_tasks_are_run(world: Path, caplog: pytest.LogCaptureFixture) -> None:
    overrides = OVERRIDES | {"networks.epochs": [1]}
    page = Path(finetune.fn(networks=["cnn"], quick=True, overrides=overrides))
    summary = json.loads((page / "summary.json").read_text(encoding="utf-8"))
    assert list(summary["tasks"]) == ["cmed-classification", "symptom-department"]


def test_the_quick_form_takes_one_task_of_each_table() -> None:
    with patch("flows.cmedlms._lacking", lambda name, data: ""):
        assert _wanted(None, None, True) == ["cehrner", "cmedtc", "disease-diagnosis"]
        assert _wanted(None, None, False) == list(DEFAULT_TASKS)
        assert _wanted(["symptom-department", "disease-diagnosis"], None, True) == [
            "symptom-department",
            "disease-diagnosis",
        ]
