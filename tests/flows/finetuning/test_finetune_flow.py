"""Flow `finetune`: one task, a suite of which some files are missing, and mistakes reported before any work."""

from __future__ import annotations

import json
import logging
import zipfile
from pathlib import Path
from typing import Any

import pytest

from flows.catalogue import load_catalogue
from flows.cli import main
from flows.finetune import finetune
from flows.normalise import normalise
from infra.artifacts import ArtifactStore
from infra.errors import UserError
from tasks.downstream.catalogue import TASKS, suites
from tasks.downstream.records import Kind
from tasks.finetune.predict import Predictor
from tests.support.heads import toy_task as toy

SMALL: dict[str, Any] = {
    "finetune.epochs": [1],
    "finetune.batch_sizes": [8],
    "finetune.learning_rates": [5e-3],
    "finetune.resources": {"trials_at_once": 1},
}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(toy.save_toy_encoder(tmp_path_factory.mktemp("toy-encoder")))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ArtifactStore:
    monkeypatch.setenv("YIWEN_HOME", str(tmp_path / "home"))
    return ArtifactStore(tmp_path / "home")


def test_one_task_gives_its_model_and_a_second_run_adds_nothing(
    encoder: str, home: ArtifactStore, tmp_path: Path
) -> None:
    data = str(toy.save_cmedqq(tmp_path / "cMedQQ"))
    given: dict[str, Any] = {"tasks": "cmedqq", "model": encoder, "data": data, "seeds": [1], "overrides": SMALL}
    folder = finetune.fn(**given)
    assert Predictor(folder, "cpu").predict([["头痛", "发热"]])[0].answer in ("0", "1")
    made = home.list()
    assert [artifact.stage for artifact in made] == ["finetune", "report_finetune"]
    assert finetune.fn(**given) == folder
    assert home.list() == made


def test_a_suite_runs_tasks_with_files_and_names_the_others(
    encoder: str, home: ArtifactStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    toy.save_cmeee(tmp_path / "data" / "CMeEE")
    toy.save_cmeie(tmp_path / "data")
    with caplog.at_level(logging.WARNING):
        folder = finetune.fn(tasks="cblue", model=encoder, data=str(tmp_path / "data"), quick=True, overrides=SMALL)
    assert "CHIP-STS is skipped" in caplog.text and "CHIP-CDN needs candidates" in caplog.text
    summary = json.loads((Path(folder) / "summary.json").read_text(encoding="utf-8"))
    assert {row["task"] for row in summary["scores"]} == {"CMeEE", "CMeIE"}
    assert summary["missing"] == ["CHIP-CDN", "CHIP-CTC", "CHIP-STS", "KUAKE-QIC", "KUAKE-QTR", "KUAKE-QQR"]
    assert summary["left_out"] == summary["missing"]
    assert (Path(folder) / "submission.zip").is_file()


@pytest.fixture
def normaliser(encoder: str, home: ArtifactStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Folder that normalise/chip-cdn prints, for a list of three terms."""
    monkeypatch.delenv("ELASTICSEARCH_URL", raising=False)
    terms, data = tmp_path / "list.csv", tmp_path / "CHIP-CDN"
    terms.write_text("编码,名称\nI10,高血压\nE11,糖尿病\nJ18,肺炎\n", encoding="utf-8")
    data.mkdir()
    rows = [{"text": f"患者{term}", "normalized_result": term} for term in ("高血压", "糖尿病", "肺炎")]
    for split, content in (
        ("train", rows),
        ("dev", rows),
        ("test", [{**row, "normalized_result": ""} for row in rows]),
    ):
        (data / f"CHIP-CDN_{split}.json").write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    given = {"normaliser.quick": True, "normaliser.epochs": 1, "normaliser.k": 3}
    return normalise.fn(rank=True, terms=str(terms), data=str(data), model=encoder, synonyms=False, overrides=given)


def test_a_normaliser_answers_chip_cdn_in_the_suite(
    encoder: str, home: ArtifactStore, tmp_path: Path, caplog: pytest.LogCaptureFixture, normaliser: str
) -> None:
    data = toy.save_cmeee(tmp_path / "data" / "CMeEE").parent
    given: dict[str, Any] = {"tasks": "cblue", "model": encoder, "data": str(data), "quick": True, "overrides": SMALL}
    with caplog.at_level(logging.WARNING):
        folder = Path(finetune.fn(**given, normaliser=normaliser))
    assert "CHIP-STS is skipped" in caplog.text and "CHIP-CDN" not in caplog.text
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    assert "CHIP-CDN" not in summary["missing"] and "CHIP-CDN" not in summary["left_out"]
    made = home.latest("normaliser")
    assert made is not None
    (f1,) = made.scan("scores").filter(metric="normalisation_f1", split="dev", of="best run").collect()["value"]
    own = dict(zip(summary["columns"], summary["rows"][-1]["cells"], strict=True))
    assert own["CHIP-CDN test"] == f"{100 * f1:.1f} (dev)" and own["Avg."] == "–"
    assert {row["task"] for row in summary["scores"]} == {"CMeEE", "CHIP-CDN"}
    with zipfile.ZipFile(folder / "submission.zip") as archive:
        assert sorted(archive.namelist()) == ["CHIP-CDN_test.json", "CMeEE_test.json"]
        assert archive.read("CHIP-CDN_test.json") == Path(normaliser, "CHIP-CDN_test.json").read_bytes()
    other = str(toy.save_toy_encoder(tmp_path / "other", seed=1))
    with pytest.raises(UserError, match="was trained with another encoder than"):
        finetune.fn(**{**given, "model": other}, normaliser=normaliser)
    with pytest.raises(UserError, match="is not a trained normaliser"):
        finetune.fn(**given, normaliser=str(folder))
    with pytest.raises(UserError, match="answers CHIP-CDN, which is not among the tasks"):
        finetune.fn(**{**given, "tasks": ["cmeee", "cmeie"]}, normaliser=normaliser)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": None}, "No encoder was given"),
        ({"data": None}, "No data was given"),
        ({"model": "nowhere"}, "There is no folder"),
        ({"data": "nowhere"}, "is not a folder"),
        ({"tasks": "cblue", "data": "nowhere"}, "There is no folder"),
        ({"tasks": "cmee"}, "There is no task 'cmee'"),
        ({"tasks": "chip-cdn"}, "run normalise/chip-cdn"),
        ({"tasks": []}, "No task was given"),
        ({"overrides": {"finetune.epoch": [1]}}, r"did you mean 'finetune\.epochs'"),
        ({"overrides": {"training.epochs": [1]}}, r"unknown key 'training\.epochs' .*did you mean 'finetune\.epochs'"),
        (
            {"overrides": {"finetune.ema_decay": 2}},
            r"finetune\.ema_decay is 2 .*: must be less than 1",
        ),
        ({"overrides": {"finetune.epochs": [0]}}, "epochs is 0"),
    ],
)
def test_mistakes_are_reported(
    changes: dict[str, Any], message: str, encoder: str, home: ArtifactStore, tmp_path: Path
) -> None:
    data = str(toy.save_cmedqq(tmp_path / "data"))
    given = {"tasks": "cmedqq", "model": encoder, "data": data, "seeds": [1], **changes}
    with pytest.raises(UserError, match=message):
        finetune.fn(**given)


def test_faulty_files_are_reported_with_file_and_line(encoder: str, home: ArtifactStore, tmp_path: Path) -> None:
    folder = toy.save_cmedqq(tmp_path / "data")
    given: dict[str, Any] = {"tasks": "cmedqq", "model": encoder, "data": str(folder), "overrides": SMALL}
    (folder / "train.txt").write_text("1\t头痛\t发热\n1\t咳嗽\t发热\n", encoding="utf-8")
    with pytest.raises(UserError, match="have the label '1'"):
        finetune.fn(**given)
    (folder / "train.txt").write_text("1\t头痛\t发热\n0\t咳嗽\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"train\.txt, line 2"):
        finetune.fn(**given)


def test_every_task_and_suite_that_fine_tuning_solves_is_deployed() -> None:
    deployed = {entry.name for entry in load_catalogue()}
    wanted = {spec.name for spec in TASKS if spec.kind is not Kind.NORMALISATION}
    assert {f"finetune/{name}" for name in wanted | {"cblue", "chineseblue", "medical-qa"}} <= deployed
    for entry in load_catalogue():
        # Other modules have flows of their own: networks over embeddings, and tasks on users' own files.
        if entry.name.startswith("finetune/") and entry.module == "flows.finetune":
            assert entry.parameters["tasks"] == entry.name.partition("/")[2]
            assert entry.parameters["tasks"] in wanted | set(suites())


def test_compare_prints_the_paired_test(
    encoder: str, home: ArtifactStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = str(toy.save_cmedqq(tmp_path / "data"))
    runs = [finetune.fn(tasks="cmedqq", model=encoder, data=data, seeds=[seed], overrides=SMALL) for seed in (1, 2)]
    assert main(["compare", *runs]) == 0
    shown = capsys.readouterr().out
    assert "cmedqq, positive_f1 on 16 records of dev" in shown and "95 % interval" in shown and "p = " in shown
    assert main(["compare", runs[0], str(tmp_path)]) == 2
