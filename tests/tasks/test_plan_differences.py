"""What a plan says about work that differs from earlier work in settings within a section."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import Field

from infra.artifacts import ArtifactStore
from infra.stage import Output, StageParams, run, stage
from tasks.runner import stage_runner
from tasks.runner.planning import PlannedStage, plan_of


class SectionParams(StageParams):
    training: dict[str, Any] = Field(default_factory=dict)
    model: dict[str, Any] = Field(default_factory=dict)


@stage(name="with_sections", version=1, params=SectionParams)
def with_sections(inputs: Any, params: SectionParams, out: Output) -> None:
    out.add_bytes("x", b"1")


LONG = {name: 1 for name in ("batch_size", "adam_epsilon", "checkpoint_every", "log_every")}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ArtifactStore:
    monkeypatch.setenv("YIWEN_HOME", str(tmp_path))
    return ArtifactStore(tmp_path)


def planned(**given: Any) -> PlannedStage:
    def flow() -> None:
        with stage_runner() as runner:
            runner(with_sections, SectionParams(**given))

    (found,) = plan_of(flow).stages
    return found


def test_settings_of_a_section_are_compared_one_by_one(store: ArtifactStore) -> None:
    run(with_sections, store, SectionParams(training={**LONG, "steps": 2000}, model={"size": {"layers": 3}}), {})
    why = planned(training={**LONG, "steps": 20000}, model={"size": {"layers": 3}}).why
    assert why.partition(": ")[2] == "training.steps: 2000 → 20000"
    why = planned(training={**LONG, "steps": 2000, "seed": 7}, model={"size": {"layers": 4}}).why
    assert why.partition(": ")[2] == "model.size.layers: 3 → 4, training.seed: None → 7"


def test_nearest_work_is_that_with_the_fewest_other_settings(store: ArtifactStore) -> None:
    near = run(with_sections, store, SectionParams(training={"steps": 1, "seed": 1, "rows": 1}), {}).artifact
    run(with_sections, store, SectionParams(training={"steps": 9, "seed": 9, "rows": 9}), {})
    assert planned(training={"steps": 1, "seed": 1, "rows": 2}).why == (
        f"unlike {near.fingerprint[:8]}: training.rows: 1 → 2"
    )
