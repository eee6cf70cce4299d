"""Warning before a training in bf16 on a CPU without instructions for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from flows.recipes.pretraining import load_preset
from flows.shared.pretraining import warn_of_slow_bf16
from infra.artifacts import ArtifactStore
from models.training.meter import cpu_has_bf16
from tasks.runner import StageRunner

BF16 = {"training.precision": "bf16"}


@pytest.mark.parametrize(
    ("overrides", "fast", "cuda", "warned"),
    [
        (BF16, False, False, True),
        (BF16, False, True, False),
        ({**BF16, "cluster.gpu": False}, False, True, True),
        (BF16, True, False, False),
        ({}, False, False, False),
    ],
)
def test_slow_bf16_is_warned_of_before_any_work(
    overrides: dict[str, Any],
    fast: bool,
    cuda: bool,
    warned: bool,
    store: ArtifactStore,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("models.training.meter.cpu_has_bf16", lambda: fast)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    warn_of_slow_bf16(StageRunner(store, None), load_preset("bert-tiny", overrides))
    assert ("--param training.precision=fp32" in caplog.text) == warned


def test_a_cluster_s_processors_are_not_judged_by_ours(
    store: ArtifactStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("models.training.meter.cpu_has_bf16", lambda: False)
    run = StageRunner(store, None)
    monkeypatch.setattr(run, "nodes", lambda: [{"CPU": 8.0}])
    warn_of_slow_bf16(run, load_preset("bert-tiny", BF16))
    assert not caplog.records


def test_bf16_follows_the_processor_s_flags() -> None:
    flags = set(Path("/proc/cpuinfo").read_text().split())
    if "avx512_bf16" in flags:
        assert cpu_has_bf16()
    if "avx2" in flags and not any(flag.startswith(("avx512", "avx_ne_convert", "amx")) for flag in flags):
        assert not cpu_has_bf16()
