"""Flow `ablate`: four models from the same text, one table, and no work done twice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flows.ablate import ablate
from infra.artifacts import ArtifactStore
from infra.errors import UserError
from tests.support.heads import toy_task as toy
from tests.support.text.synthetic_text import write_corpus
from tests.support.training.tiny_flow import TWO_STEPS

pytestmark = pytest.mark.slow


def test_four_settings_differ_in_their_tasks_alone(
    tmp_path: Path,
    work_here: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "flows")
    monkeypatch.setenv("YIWEN_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("YIWEN_WORKERS", "1")
    corpus = str(write_corpus(tmp_path / "corpus"))
    folder = Path(ablate.fn("ehealth-tiny", corpus, overrides=TWO_STEPS))
    said = [record.getMessage() for record in caplog.records if record.getMessage().startswith("Setting ")]
    assert said[0] == "Setting 1 of 4: full" and said[3] == "Setting 4 of 4: without_csp_mts" and len(said) == 4
    table = json.loads((folder / "table.json").read_text(encoding="utf-8"))
    assert [row["Model"] for row in table] == [
        *["The full setting", "w/o CSP", "w/o MTS", "w/o CSP & MTS"],
        "By chance",
    ]
    assert [(row["MTS acc."] == "–", row["CSP acc."] == "–") for row in table] == [
        *[(False, False), (False, True), (True, False), (True, True), (False, False)]
    ]
    assert (folder / "table.md").read_text(encoding="utf-8") in capsys.readouterr().out
    assert "2 steps each" in (folder / "report.html").read_text(encoding="utf-8")
    store = ArtifactStore(tmp_path / "home")
    counts = {stage: len(store.list(stage)) for stage in ("encode", "vocabulary", "train", "export")}
    assert counts == {"encode": 1, "vocabulary": 1, "train": 4, "export": 4}
    scores = {"full": {"cMedQQ": 80.0}}
    scored = Path(ablate.fn("ehealth-tiny", corpus, scores=scores, overrides=TWO_STEPS))
    assert "| The full setting | 80.0 |" in (scored / "table.md").read_text(encoding="utf-8")
    data = str(toy.save_cmedqq(tmp_path / "cMedQQ"))
    tuned = Path(ablate.fn("ehealth-tiny", corpus, tasks="cmedqq", data=data, overrides=TWO_STEPS))
    rows = json.loads((tuned / "table.json").read_text(encoding="utf-8"))
    assert all(0.0 <= float(row["cMedQQ"]) <= 100.0 for row in rows[:4]) and rows[4]["cMedQQ"] == "–"
    assert len(store.list("train")) == 4 and len(store.list("finetune")) == 4


def test_tasks_without_data_are_reported_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="No data was given"):
        ablate.fn("ehealth-tiny", str(write_corpus(tmp_path / "corpus")), tasks="cmedqq")


def test_scores_of_unknown_settings_are_reported_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("YIWEN_HOME", str(tmp_path / "home"))
    with pytest.raises(UserError, match="unknown setting 'base'"):
        ablate.fn("ehealth-tiny", str(write_corpus(tmp_path / "corpus")), scores={"base": {"cMedQQ": 1.0}})
    assert not (tmp_path / "home").exists()
