"""Two workers train an objective of two tasks as one does, with DDP and FSDP2: unused parameters included."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.support.processes.two_workers import run_two_workers
from tests.support.training import two_tasks_process
from tests.support.training.synthetic_examples import training
from tests.support.training.two_tasks import build, trained

pytestmark = pytest.mark.slow

SETTINGS = training(steps=8, checkpoint_every=1, weight_decay=0.5, tasks={"classify": {"batch_size": 6, "longest": 12}})
LOSSES = ("loss_detect", "loss_classify", "mlm", "rtd", "class", "loss", "mlm_loss", "rtd_loss", "class_loss")
OTHERS = {"detect": ("second", "classifier"), "classify": ("generator", "generator_head", "rtd_head")}
"""By task, the parts that its steps do not use."""


@pytest.fixture(scope="module")
def alone() -> dict[str, Any]:
    return trained(SETTINGS)


@pytest.fixture(scope="module")
def found(alone: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the first of two workers found; the second reports nothing."""
    whole = {kind: {**SETTINGS, "parallel": kind} for kind in ("ddp", "fsdp2")}
    jobs = {kind: {"settings": settings, "state": None} for kind, settings in whole.items()}
    jobs |= {f"{kind} resumed": {"settings": whole[kind], "state": alone["states"][3]} for kind in whole}
    jobs |= {f"{kind} cut": {"settings": {**whole[kind], "micro_batch_size": 2}, "state": None} for kind in whole}
    first, second = run_two_workers(two_tasks_process, jobs, tmp_path_factory.mktemp("two_workers"))
    assert all(one["curves"] == {} for one in second.values())
    return first


def assert_same_run(ours: dict[str, Any], other: dict[str, Any], after: int = 0) -> None:
    for place, figures in other["curves"].items():
        for name in set(LOSSES) & figures.keys() if place[0] > after else ():
            assert ours["curves"][place][name] == pytest.approx(figures[name], rel=1e-5, abs=1e-5), (place, name)
    left, right = ours["states"][8], other["states"][8]
    assert left["positions"] == right["positions"]
    for name, value in right["model"].items():
        torch.testing.assert_close(left["model"][name], value, rtol=1e-4, atol=1e-4, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.parametrize("way", ["", " cut", " resumed"])
@pytest.mark.parametrize("parallel", ["ddp", "fsdp2"])
def test_two_workers_have_the_losses_of_one(
    parallel: str, way: str, found: dict[str, Any], alone: dict[str, Any]
) -> None:
    assert_same_run(found[parallel + way], alone, after=3 if way == " resumed" else 0)


@pytest.mark.parametrize("way", ["", " cut"])
@pytest.mark.parametrize("parallel", ["ddp", "fsdp2"])
def test_parameters_that_a_step_does_not_use_keep_every_bit(parallel: str, way: str, found: dict[str, Any]) -> None:
    objective, states = build(), found[parallel + way]["states"]
    order = [objective.task(step, 42) for step in range(8)]
    assert set(order[1:]) == {"detect", "classify"}
    for step in range(2, 9):
        before, after = states[step - 1], states[step]
        for name, value in before["model"].items():
            unused = name.split(".")[0] in OTHERS[order[step - 1]]
            assert torch.equal(value, after["model"][name]) == unused, (step, name)
        moments = before["optimizer"]["state"], after["optimizer"]["state"]
        changed = {index for index in moments[1] if not _same(moments[0].get(index), moments[1][index])}
        used = sum(name.split(".")[0] not in OTHERS[order[step - 1]] for name, _ in objective.named_parameters())
        assert len(changed) == used, step


def _same(before: Any, after: Any) -> bool:
    return before is not None and all(torch.equal(value, after[name]) for name, value in before.items())


@pytest.mark.parametrize("parallel", ["ddp", "fsdp2"])
def test_run_of_two_workers_resumes_on_one(parallel: str, found: dict[str, Any], alone: dict[str, Any]) -> None:
    again = trained(SETTINGS, found[parallel]["states"][5])
    assert_same_run(again, alone, after=5)
    assert min(step for step, _ in again["curves"]) == 6
