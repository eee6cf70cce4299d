"""Placement of trials: they share what the nodes have, and only Ray assigns the GPUs of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from infra.errors import UserError
from infra.settings import JOB_VARIABLE
from tasks.finetune.params import Resources
from tasks.finetune.trials import grid as finetune_grid
from tasks.finetune.trials import placement as finetune_placement
from tasks.finetune.trials.grid import run_trials
from tasks.finetune.trials.placement import TrialPlacement, place_trials, placement_for
from tasks.finetune.trials.result import TrialResult
from tasks.finetune.trials.task_trial import TaskTrial
from tasks.finetune.trials.trial import Trial

HEAD = {"CPU": 4.0, "node:__internal_head__": 1.0}
GPU_NODE = {"CPU": 32.0, "GPU": 4.0}


@pytest.mark.parametrize(
    ("trials", "resources", "nodes", "expected"),
    [
        (81, {}, [HEAD, GPU_NODE, GPU_NODE], TrialPlacement(8, True, 8, True)),
        (3, {}, [HEAD, GPU_NODE, GPU_NODE], TrialPlacement(3, True, 8, True)),
        (1, {"gpu": True}, [HEAD, GPU_NODE], TrialPlacement(1, True, 8, True)),
        (81, {"trials_at_once": 2}, [HEAD, GPU_NODE], TrialPlacement(2, True, 8, True)),
        (81, {"trials_at_once": 20}, [HEAD, GPU_NODE], TrialPlacement(4, True, 8, True)),
        (81, {}, [HEAD, GPU_NODE, {"CPU": 2.0, "GPU": 1.0}], TrialPlacement(5, True, 2, True)),
        (81, {"gpu": False}, [HEAD, GPU_NODE], TrialPlacement(18, False, 2, False)),
        (81, {}, [HEAD, {"CPU": 7.0}], TrialPlacement(5, False, 2, False)),
        (2, {}, [HEAD, {"CPU": 7.0}], TrialPlacement(2, False, 4, False)),
        (81, {}, [{"GPU": 0.0}], TrialPlacement(1, False, 1, False)),
        (81, {"gpu": True}, [HEAD], TrialPlacement(1, True, 1, True)),
        (81, {"trials_per_gpu": 3}, [HEAD, GPU_NODE], TrialPlacement(12, True, 2, True, 3)),
        (81, {"trials_per_gpu": 3, "trials_at_once": 5}, [HEAD, GPU_NODE], TrialPlacement(5, True, 2, True, 3)),
        (81, {"trials_per_gpu": 3, "gpu": True}, [HEAD], TrialPlacement(3, True, 1, True, 3)),
        (81, {"trials_per_gpu": 3}, [HEAD, {"CPU": 7.0}], TrialPlacement(5, False, 2, False)),
    ],
)
def test_trials_share_the_nodes_of_a_cluster(
    trials: int, resources: dict[str, Any], nodes: list[dict[str, float]], expected: TrialPlacement
) -> None:
    assert place_trials(trials, Resources(**resources), nodes, cluster=True) == expected


@given(st.integers(1, 64))
def test_trials_that_share_a_gpu_ask_for_no_more_than_one(per_gpu: int) -> None:
    share = TrialPlacement(per_gpu, True, 1, False, per_gpu).gpus
    assert 1 - 0.0001 * per_gpu < share * per_gpu <= 1 and round(share, 4) == share
    assert TrialPlacement(per_gpu, False, 1, False, per_gpu).gpus == 0


def test_ray_is_asked_for_the_share_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    from ray import tune

    asked: list[dict[str, float]] = []

    def ask(work: Any, resources: dict[str, float]) -> Any:
        asked.append(resources)
        raise KeyboardInterrupt  # before anything starts

    monkeypatch.setattr(tune, "with_resources", ask)
    for name in ("start_ray", "stop_ray"):
        monkeypatch.setattr(finetune_grid, name, lambda *given: None)
    trial = TaskTrial(
        task="cmedtc",
        model="",
        data="",
        data_version="",
        storage="",
        batch_size=8,
        learning_rate=1e-3,
        epochs=1,
        seed=1,
    )
    for placement in (TrialPlacement(8, True, 2, False, 8), TrialPlacement(2, False, 3, False)):
        with pytest.raises(KeyboardInterrupt):
            finetune_grid._tune([trial], placement, finetune_grid._Watch([trial], lambda done, note: None))
    assert asked == [{"cpu": 2, "gpu": 0.125}, {"cpu": 3, "gpu": 0.0}]


@given(st.integers(1, 90), st.integers(1, 64), st.none() | st.integers(1, 80))
def test_trials_share_the_cores_of_a_machine(trials: int, cores: int, wanted: int | None) -> None:
    placement = place_trials(trials, Resources(trials_at_once=wanted), [{"CPU": cores, "GPU": 0}], cluster=False)
    assert placement.at_once == max(1, min(trials, wanted or cores // 2))
    assert placement.threads == max(1, cores // placement.at_once)
    assert not placement.gpu and not placement.only_by_ray


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """A cluster of a head without GPU and a node with four; the addresses that were connected to."""
    asked: list[str | None] = []
    monkeypatch.setattr(finetune_placement, "start_ray", lambda cores, address: asked.append(address))
    monkeypatch.setattr(finetune_placement, "nodes", lambda: [HEAD, GPU_NODE])
    monkeypatch.setattr(finetune_placement, "available_cores", lambda: 4)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for name in ("RAY_ADDRESS", JOB_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    return asked


def test_gpus_are_counted_where_the_trials_will_run(cluster: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = TrialPlacement(2, False, 2, False), TrialPlacement(4, True, 8, True)
    assert placement_for(81, Resources()) == here
    monkeypatch.setenv("RAY_ADDRESS", "http://head:8265")  # takes whole jobs, not trials
    assert placement_for(81, Resources()) == here and cluster == []
    monkeypatch.setenv("RAY_ADDRESS", "head:6379")
    assert placement_for(81, Resources()) == there and cluster == ["head:6379"]
    monkeypatch.delenv("RAY_ADDRESS")
    monkeypatch.setenv(JOB_VARIABLE, "{}")
    assert placement_for(81, Resources()) == there


def test_missing_gpu_error_names_the_remedy(cluster: list[Any]) -> None:
    with pytest.raises(UserError, match=r"resources ask for a GPU.*RAY_ADDRESS"):
        placement_for(1, Resources(gpu=True))


@pytest.mark.parametrize(
    ("address", "resources", "expected"),
    [
        ("head:6379", {}, ("ray", True, 8)),
        ("head:6379", {"gpu": True}, ("ray", True, 8)),
        ("head:6379", {"gpu": False}, ("here", False, None)),
        (None, {}, ("here", False, None)),
    ],
)
def test_a_single_trial_goes_to_the_clusters_gpu(
    address: str | None,
    resources: dict[str, Any],
    expected: tuple[str, bool, int | None],
    cluster: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    if address is not None:
        monkeypatch.setenv("RAY_ADDRESS", address)
    ran: list[tuple[str, bool, int | None]] = []

    def note(where: str, trials: Sequence[Trial]) -> None:
        ran.extend((where, trial.gpu, trial.threads) for trial in trials)

    def store(trial: Trial, listen: Any) -> TrialResult:
        note("here", [trial])
        return TrialResult(trial=trial, stopped="finished")

    monkeypatch.setattr(finetune_grid, "_tune", lambda trials, placement, watch: note("ray", trials))
    monkeypatch.setattr(finetune_grid, "run_trial", store)
    trial = TaskTrial(
        task="t", model="m", data="d", data_version="v", storage=str(tmp_path),
        batch_size=8, learning_rate=1e-4, epochs=1, seed=1,
    )  # fmt: skip
    run_trials([trial], Resources(**resources), lambda epochs, note: None)
    assert ran == [expected]
