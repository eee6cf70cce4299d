"""Two processes compute what one would: dropout, sampling, micro-batches, sharded weights and checkpoints included."""

import math
from typing import Any

import pytest
import torch

from models.distributed import gather_with_gradient, global_sum, world
from models.objectives import build
from models.training.loop import TrainingConfig, train
from tests.support.processes.two_workers import run_two_workers
from tests.support.training import two_processes
from tests.support.training.memory_part import stream_of
from tests.support.training.token_rows import TINY, random_rows

pytestmark = pytest.mark.slow

RUN = {
    "steps": 4,
    "batch_size": 4,
    "micro_batch_size": 1,
    "learning_rate": 1e-3,
    "warmup_steps": 1,
    "log_every": 1,
    "evaluate_every": 2,
    "held_out_batches": 1,
    "checkpoint_every": 2,
}


def make_job() -> dict[str, Any]:
    """Six rows, shared four to two, and cut unevenly; the default dropout is on."""
    torch.manual_seed(0)
    config = TINY | {"initializer_range": 0.1}
    return {
        "config": config,
        "state": build("ehealth", config).state_dict(),
        "rows": random_rows([20, 12, 33, 12, 20, 40]),
        "shares": [[5, 0, 2, 3], [4, 1]],
        "micro_batches": [[[5], [0, 2, 3]], [[4], [1]]],
        "runs": {"ddp": RUN | {"parallel": "ddp"}, "fsdp2": RUN | {"parallel": "fsdp2"}},
    }


@pytest.fixture(scope="module")
def job() -> dict[str, Any]:
    return make_job()


@pytest.fixture(scope="module")
def found(job: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Results of each of the two processes."""
    return run_two_workers(two_processes, job, tmp_path_factory.mktemp("two_processes"))


@pytest.mark.parametrize("way", ["joint", "cut"])
def test_step_of_two_processes_equals_that_of_one(job: dict[str, Any], found: list[dict[str, Any]], way: str) -> None:
    objective = build("ehealth", job["config"])
    objective.load_state_dict(job["state"])
    batch = objective.collate(job["rows"], seed=5, step=7)
    losses = objective(batch)
    losses["loss"].backward()
    for name, value in losses.items():
        mean = sum(f[way]["losses"][name] for f in found) / 2
        assert mean == pytest.approx(value.item(), abs=1e-6, rel=1e-6), name
    for name, parameter in objective.named_parameters():
        scale = max(1.0, float(parameter.grad.abs().max()))
        for f in found:
            torch.testing.assert_close(
                f[way]["gradients"][name],
                parameter.grad,
                rtol=1e-6,
                atol=1e-6 * scale,
                msg=lambda m, n=name: f"{n}: {m}",
            )
    sums = {name: float(value) for name, value in objective.eval().metrics(batch).items()}
    for f in found:
        assert f[way]["sums"] == pytest.approx(sums, rel=1e-5)


def test_gathering_sends_every_ranks_gradient_back(found: list[dict[str, Any]]) -> None:
    for rank, f in enumerate(found):
        gathered = f["gathered"]
        assert f["least"] == 5e9 - 1
        assert gathered["rows"][:, 0].tolist() == [0, 0, 1, 1, 1] and gathered["start"] == 2 * rank
        own_places = [[0.0, 1.0], [2.0, 3.0, 4.0]][rank]
        assert gathered["gradient"][:, 0].tolist() == [3 * place for place in own_places]  # both ranks' losses


@pytest.fixture(scope="module")
def alone(job: dict[str, Any]) -> dict[str, Any]:
    """Curves and states of the same run in one process, its batches uncut."""
    return run_alone(job, None)


def run_alone(job: dict[str, Any], state: dict[str, Any] | None) -> dict[str, Any]:
    objective = build("ehealth", job["config"])
    objective.load_state_dict(job["state"])
    curves: dict[tuple[int, str], dict[str, float]] = {}
    states: dict[int, Any] = {}
    train(
        objective,
        stream_of(job["rows"]),
        stream_of(job["rows"][:4]),
        TrainingConfig(**{**RUN, "micro_batch_size": None}),
        state=state,
        report=lambda step, split, figures: curves.update({(step, split): dict(figures)}),
        save=lambda step, state, held_out: states.update({step: state}),
    )
    return {"curves": curves, "states": states}


def assert_same_run(ours: dict[str, Any], other: dict[str, Any]) -> None:
    """Losses to 1e-5 at every step, and weights at the end."""
    assert ours["curves"].keys() == other["curves"].keys()
    for place, figures in other["curves"].items():
        for name in ("loss", "mlm", "rtd", "mts", "csp", "gradient_norm", "mlm_loss", "csp_loss"):
            if name in figures:
                assert ours["curves"][place][name] == pytest.approx(figures[name], rel=1e-5, abs=1e-5), (place, name)
    left, right = ours["states"][4]["model"], other["states"][4]["model"]
    assert left.keys() == right.keys()
    for name, value in right.items():
        assert type(left[name]) is torch.Tensor  # whole, and readable without a process group
        torch.testing.assert_close(left[name], value, rtol=1e-4, atol=1e-4, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.parametrize("parallel", ["ddp", "fsdp2"])
def test_run_on_two_workers_equals_that_on_one(
    found: list[dict[str, Any]], alone: dict[str, Any], parallel: str
) -> None:
    assert_same_run(found[0]["runs"][parallel], alone)
    assert found[1]["runs"][parallel]["curves"] == {}  # the first worker alone reports


@pytest.mark.parametrize("parallel", ["ddp", "fsdp2"])
def test_checkpoint_resumes_in_another_way_and_on_another_number_of_workers(
    job: dict[str, Any], found: list[dict[str, Any]], alone: dict[str, Any], parallel: str
) -> None:
    rest = {
        "curves": {place: figures for place, figures in alone["curves"].items() if place[0] > 2},
        "states": alone["states"],
    }
    assert_same_run(found[0]["resumed"][parallel], rest)  # from DDP's checkpoint
    assert_same_run(run_alone(job, found[0]["runs"][parallel]["states"][2]), rest)  # from two workers to one


def test_all_workers_skip_a_step_that_is_bad_on_one(found: list[dict[str, Any]]) -> None:
    first, second = (f["poisoned"] for f in found)
    assert [place for place in first["curves"] if place[1] == "skipped"] == [(2, "skipped")]
    assert first["states"][4]["skipped"]["ehealth"]["steps"] == [2]
    assert math.isfinite(first["curves"][4, "train"]["loss"])
    assert all(torch.equal(second["weights"][name], value) for name, value in first["weights"].items())


def test_world_of_one_needs_no_process_group() -> None:
    rows = torch.randn(3, 2, requires_grad=True)
    gathered, start = gather_with_gradient(rows)
    assert world() == (0, 1) and gathered is rows and start == 0
    assert torch.equal(global_sum(rows), rows) and not global_sum(rows).requires_grad
