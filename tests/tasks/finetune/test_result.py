"""Results of trials on disk are read back, those of earlier versions too."""

from __future__ import annotations

import json
import math
from pathlib import Path

from tasks.finetune.trials.result import RESULT, TrialResult, read_result
from tasks.finetune.trials.task_trial import TaskTrial


def make_trial(storage: Path) -> TaskTrial:
    return TaskTrial(
        task="cmeee",
        model="m",
        data="d",
        data_version="1",
        storage=str(storage),
        batch_size=8,
        learning_rate=1e-4,
        epochs=2,
        seed=1,
    )


def keep(result: TrialResult, text: str | None = None) -> None:
    Path(result.trial.folder).mkdir()
    Path(result.trial.folder, RESULT).write_text(text or result.model_dump_json(), encoding="utf-8")


def test_extra_results_are_read_back(tmp_path: Path) -> None:
    trial = make_trial(tmp_path)
    extra = {"decision": {"threshold": math.inf, "bounded": False}}
    result = TrialResult(trial=trial, stopped="finished", score=0.5, extra=extra)
    keep(result)
    assert read_result(trial) == result


def test_unknown_results_of_earlier_versions_become_extra_results(tmp_path: Path) -> None:
    trial = make_trial(tmp_path)
    result = TrialResult(trial=trial, stopped="finished", score=0.5)
    content = json.loads(result.model_dump_json())
    assert "extra" not in content
    decision = {"threshold": 0.4, "bounded": True, "retrieval_weight": 2.0}
    keep(result, json.dumps(content | {"decision": decision}))
    found = read_result(trial)
    assert found is not None and found.score == 0.5
    assert found.extra == {"decision": decision}
