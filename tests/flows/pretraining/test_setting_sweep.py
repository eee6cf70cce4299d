"""Flow `sweep` over a setting: a model for each value, one table, one picture, and no work done twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flows.sweep_setting import sweep
from infra.artifacts import ArtifactStore
from infra.errors import UserError
from tasks.evaluate.settings.sweep import panel_title
from tests.support.heads import toy_task as toy
from tests.support.text.synthetic_text import write_corpus
from tests.support.training.tiny_flow import TWO_STEPS

pytestmark = pytest.mark.slow


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("YIWEN_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("YIWEN_WORKERS", "1")
    return {
        "key": "model.mask_probability",
        "values": [0.15, 0.4],
        "title": "masked share",
        "preset": "bert-tiny",
        "corpus": str(write_corpus(tmp_path / "corpus")),
        "mentions": False,
        "overrides": TWO_STEPS,
    }


def test_models_differ_in_the_setting_alone(
    asked: dict[str, Any],
    tmp_path: Path,
    work_here: None,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "flows")
    data = str(toy.save_cmedqq(tmp_path / "cMedQQ"))
    folder = Path(sweep.fn(**asked, tasks="cmedqq", data=data))
    assert "Setting 2 of 2: model.mask_probability = 0.4" in caplog.text
    table = json.loads((folder / "table.json").read_text(encoding="utf-8"))
    assert [row["masked share"] for row in table] == ["0.15", "0.4"]
    assert {"cMedQQ", "MLM loss"} < set(table[0]) and table[0]["MLM loss"] != table[1]["MLM loss"]
    assert (folder / "table.md").read_text(encoding="utf-8") in capsys.readouterr().out
    assert (folder / "sweep.png").read_bytes().startswith(b"\x89PNG")
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "bert over masked share" in page and "2 steps each" in page
    store = ArtifactStore(tmp_path / "home")
    counts = {stage: len(store.list(stage)) for stage in ("encode", "vocabulary", "train", "finetune")}
    assert counts == {"encode": 1, "vocabulary": 1, "train": 2, "finetune": 2}
    masks = {run.manifest.params["model"]["mask_probability"] for run in store.list("train")}
    assert masks == {0.15, 0.4}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"values": []}, r"values=\[\]: give one or more different values of model.mask_probability"),
        ({"values": [0.1, 0.1]}, "give one or more different values"),
        ({"values": [0.1, 2.0]}, "mask_probability"),
        ({"key": "model.mask_probabilty"}, "mask_probabilty"),
        ({"tasks": "cmedqq"}, "No data was given"),
        ({"preset": "smedbert-tiny", "key": "model.hit_ratio"}, "mentions=true"),
    ],
)
def test_mistakes_are_told_before_any_work(
    asked: dict[str, Any], tmp_path: Path, changed: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        sweep.fn(**{**asked, **changed})
    assert ArtifactStore(tmp_path / "home").list() == []


def test_panel_of_a_set_says_how_large_the_set_is() -> None:
    rows = [{"samples": {"Acc@1 D1": 1_991, "Acc@1 D2": 1}}, {"samples": {"Acc@1 D1": 1_991, "Acc@1 D2": 2}}]
    titles = [panel_title(name, rows) for name in ("Acc@1 D1", "Acc@1 D2", "MLM loss")]
    assert titles == ["Acc@1 D1 (n = 1,991, chance 0.05)", "Acc@1 D2 (n = 1 or 2, chance 0.05)", "MLM loss"]
