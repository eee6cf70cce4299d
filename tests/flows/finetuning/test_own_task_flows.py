"""Own tasks from a table to a model, a page and answers, as a stranger runs them; and mistakes before any work."""

from __future__ import annotations

import csv
import io
import json
import logging
import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from flows import own_classify, own_pairs, own_rank, own_tag
from flows.cli import main
from flows.cli.stored.ancestry import Lineage
from flows.cli.stored.summary import described
from infra.artifacts import ArtifactStore
from infra.errors import UserError
from tasks.downstream.records import Record
from tasks.downstream.task_data import drawn_records
from tasks.finetune.predict import Predictor
from tasks.finetune.trials import task_trial
from tasks.runner.planning import plan_of
from tests.support.heads import toy_task as toy

torch.set_num_threads(1)

SMALL: dict[str, Any] = {
    "finetune.epochs": [6],
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


def write(path: Path, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    file = io.StringIO()
    csv.writer(file).writerows([header, *rows])
    path.write_text(file.getvalue(), encoding="utf-8-sig")
    return str(path)


def visits(count: int = 90) -> list[tuple[str, str]]:
    """Texts that name a symptom, and the symptom."""
    draw = random.Random(0)
    return [
        (f"{toy._filler(draw)}{toy.SYMPTOMS[number % 3]}{toy._filler(draw)}", toy.SYMPTOMS[number % 3])
        for number in range(count)
    ]


def summary_of(home: ArtifactStore) -> dict[str, Any]:
    page = home.latest("report_finetune")
    assert page is not None
    return json.loads(page.read_file("summary.json"))


def test_from_a_table_to_a_model_a_page_and_answers(
    encoder: str,
    home: ArtifactStore,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = write(tmp_path / "门诊.csv", ("编号", "主诉", "症状"), [(f"{n}", *row) for n, row in enumerate(visits())])
    given: dict[str, Any] = {"data": data, "model": encoder, "text_field": "主诉", "label_field": "症状", "quick": True}
    given |= {"class_weights": True, "learning_curve": [20, 40], "overrides": SMALL}
    drawn: list[tuple[int | None, int]] = []

    def noting(records: Sequence[Record], count: int | None, seed: int) -> list[Record]:
        drawn.append((count, seed))
        return drawn_records(records, count, seed)

    monkeypatch.setattr(task_trial, "drawn_records", noting)
    with caplog.at_level(logging.INFO):
        folder = own_classify.finetune.fn(**given)
    # Class weights are counted on the same records that are learnt.
    assert dict.fromkeys(drawn) == {(None, 1): None, (20, 1): None, (40, 1): None}
    assert "rows, drawn from 门诊.csv: stratified by label" in caplog.text
    made = home.list()
    assert {artifact.stage for artifact in made} == {"own_task", "finetune", "learning_curve", "report_finetune"}
    (model,) = home.list("finetune")
    comes_from = {one.record.stage: described(one) for one in Lineage(home).tree(model).walk()}
    assert list(comes_from) == ["finetune", "model", "own_task", "own_files"]
    assert comes_from["own_files"].startswith("your files '门诊' ")
    (records,) = home.list("own_task")
    assert model in Lineage(home).made_from(records)
    assert own_classify.finetune.fn(**given) == folder and home.list() == made
    assert [one.state for one in plan_of(lambda: own_classify.finetune.fn(**given)).stages] == ["reused"] * 4
    assert plan_of(lambda: own_classify.finetune.fn(**given, split_seed=1)).open_after == "own_task"
    more = plan_of(lambda: own_classify.finetune.fn(**{**given, "seeds": [5]}))
    assert [one.state for one in more.stages] == ["reused", "run", "run", "run"] and not more.open_after

    found = summary_of(home)
    assert (found["title"], found["metric"]) == ("门诊: classification", "macro_f1")
    assert {(row["split"], row["metric"]) for row in found["scores"]} == {
        (split, metric) for split in ("dev", "test") for metric in ("macro_f1", "micro_f1")
    }
    assert [row["size"] for row in found["learning_curve"] if row["split"] == "dev"] == [20, 40, 72]
    dev = next(row["value"] for row in found["scores"] if row["split"] == "dev" and row["main"])
    assert found["learning_curve"][-2]["mean"] == pytest.approx(dev) and dev > 0.8
    page = home.latest("report_finetune")
    assert page is not None
    shown = page.read_file("report.html").decode()
    assert "drawn from 门诊.csv" in shown and "Learning curve" in shown and "<circle" in shown

    output = tmp_path / "out.csv"
    asked = write(tmp_path / "new.csv", ("主诉", "备注"), [("患者咳嗽", "=1+1"), ("", "无")])
    assert main(["predict", "--model", folder, "--input", asked, "--output", str(output), "--device", "cpu"]) == 0
    rows = list(csv.DictReader(io.StringIO(output.read_text("utf-8-sig"))))
    assert (rows[0]["answer"], rows[0]["备注"]) == ("咳嗽", "'=1+1")
    assert float(rows[0]["p(咳嗽)"]) == float(rows[0]["probability"]) > 0.5
    assert (rows[1]["answer"], rows[1]["error"]) == ("", "the text is empty")


def test_several_labels_per_row(encoder: str, home: ArtifactStore, tmp_path: Path) -> None:
    both = [
        (f"{text}，{toy.DISEASES[n % 2]}", f"{label}；{toy.DISEASES[n % 2]}")
        for n, (text, label) in enumerate(visits())
    ]
    data = write(tmp_path / "a.csv", ("text", "label"), both)
    folder = own_classify.finetune.fn(data=data, model=encoder, label_separator="；", quick=True, overrides=SMALL)
    found = Predictor(folder, "cpu")
    assert found.shape.head == "multi_label" and found.labels is not None and len(found.labels) == 5
    assert {row["metric"] for row in summary_of(home)["scores"]} == {"multi_label_f1", "macro_label_f1"}


def test_pairs_and_their_trials_in_mlflow(
    encoder: str, home: ArtifactStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("YIWEN_TRACKING", "mlflow")
    for name in ("MLFLOW_DISABLE_TELEMETRY", "GIT_PYTHON_REFRESH"):  # set by the tracker itself
        monkeypatch.setenv(name, os.environ.get(name, "true" if "MLFLOW" in name else "quiet"))
    rows = [(one, other, label) for label, one, other in toy.pairs(60, 0)]
    data = write(tmp_path / "a.csv", ("问一", "问二", "同"), rows)
    names = {"text_field": "问一", "second_text_field": "问二", "label_field": "同"}
    folder = own_pairs.finetune.fn(data=data, model=encoder, quick=True, overrides=SMALL, **names)
    assert Predictor(folder, "cpu").shape.text_fields == ("问一", "问二")

    client = mlflow.MlflowClient(f"sqlite:///{home.root}/.tracking/mlflow.db")
    (tracked,) = client.search_runs([client.get_experiment_by_name("finetune").experiment_id])
    assert tracked.info.run_name.startswith("pairs b") and tracked.info.status == "FINISHED"
    assert tracked.data.params["epochs"] == "6"
    scores = {(row["split"], row["metric"]): row["value"] for row in summary_of(home)["scores"]}
    best = {f"best/{split}_{metric}": pytest.approx(value) for (split, metric), value in scores.items()}
    assert {name: value for name, value in tracked.data.metrics.items() if name.startswith("best/")} == best
    curve = client.get_metric_history(tracked.info.run_id, "curve/dev_score")
    assert len(curve) == 6 and max(one.value for one in curve) == pytest.approx(scores["dev", "macro_f1"])


def test_entities_in_brackets(encoder: str, home: ArtifactStore, tmp_path: Path) -> None:
    draw = random.Random(0)
    texts = [
        f"{toy._filler(draw)}[{draw.choice(toy.DISEASES)}|疾病][{draw.choice(toy.SYMPTOMS)}|症状]" for _ in range(60)
    ]
    data = write(tmp_path / "a.csv", ("text",), [(text,) for text in texts])
    folder = own_tag.finetune.fn(data=data, model=encoder, markup="brackets", quick=True, overrides=SMALL)
    answer = Predictor(folder, "cpu").predict(["患者高血压头痛"])[0].answer
    assert isinstance(answer, tuple)
    assert {row["metric"] for row in summary_of(home)["scores"]} == {"entity_f1", "macro_entity_f1"}


@pytest.mark.parametrize(("grades", "metric"), [(("1", "0", "0"), "mrr"), (("2", "1", "0"), "pair_score")])
def test_ranking(grades: Sequence[str], metric: str, encoder: str, home: ArtifactStore, tmp_path: Path) -> None:
    rows = [(f"检查{n // 3}", f"{toy.SYMPTOMS[n % 3]}", grades[n % 3]) for n in range(90)]
    data = write(tmp_path / "a.csv", ("query", "candidate", "relevance"), rows)
    folder = own_rank.finetune.fn(data=data, model=encoder, quick=True, overrides=SMALL)
    found = Predictor(folder, "cpu")
    best, *others = (found.probabilities(one) for one in found.predict([["检查", text] for text in toy.SYMPTOMS]))
    assert best is not None and sum(best.values()) == pytest.approx(1.0)
    assert all(one is not None and one[grades[0]] < best[grades[0]] for one in others)
    assert summary_of(home)["metric"] == metric


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data": None}, r"No data was given\. Give a file with a row for each record"),
        ({"model": None}, "No encoder was given"),
        ({"data": "absent.csv"}, "There is no file"),
        ({"text_field": "主訴"}, r"no column '主訴'; its columns are '主诉', '症状'.* Name yours with text_field"),
        ({"dev_share": 0.7}, r"own_task\.dev_share is 0\.7 .*less than 0\.5"),
        ({"metric": "mrr"}, "metric=mrr is not a score of this task"),
        ({"overrides": {"finetune.epoch": [1]}}, r"did you mean 'finetune\.epochs'"),
        ({"learning_curve": [0]}, r"learning_curve\.sizes has 0"),
    ],
)
def test_mistakes_are_reported(
    changes: dict[str, Any], message: str, encoder: str, home: ArtifactStore, tmp_path: Path
) -> None:
    data = write(tmp_path / "a.csv", ("主诉", "症状"), visits(30))
    given: dict[str, Any] = {"data": data, "model": encoder, "text_field": "主诉", "label_field": "症状", "quick": True}
    with pytest.raises(UserError, match=message):
        own_classify.finetune.fn(**{**given, "overrides": {**SMALL, "finetune.epochs": [1]}, **changes})


def test_texts_of_ten_thousand_characters_are_counted(
    encoder: str, home: ArtifactStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [(f"{text}{'检查' * 5_000 if n < 3 else ''}", label) for n, (text, label) in enumerate(visits(30))]
    data = write(tmp_path / "a.csv", ("text", "label"), rows)
    with caplog.at_level(logging.WARNING):
        own_classify.finetune.fn(
            data=data, model=encoder, quick=True, overrides={**SMALL, "finetune.epochs": [1]}, dev_share=0.2
        )
    assert "3 texts are longer than a sequence, and their ends are not read" in caplog.text
    assert summary_of(home)["counters"]["truncated"] == 3
