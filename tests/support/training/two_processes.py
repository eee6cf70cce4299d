"""One of two processes that share a step, and then a run; started by test_distributed.py."""

from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from models.distributed import gather_with_gradient, global_sum, least_over_ranks
from models.objectives import build
from models.training.loop import TrainingConfig, Worker, train
from models.training.parallel import without_averaging
from tests.support.processes.two_workers import WORLD, work_as_members
from tests.support.training.memory_part import stream_of


def work(rank: int, job: dict[str, Any]) -> dict[str, Any]:
    """Everything that the test compares with one process."""
    out = {
        "joint": one_step(job, [job["shares"][rank]]),
        "cut": one_step(job, job["micro_batches"][rank]),
        "gathered": gathering(rank),
        "least": least_over_ranks(5e9 - rank, torch.device("cpu")),
        "runs": {name: run(job, settings, rank, None) for name, settings in job["runs"].items()},
    }
    out["poisoned"] = run(job | {"poisoned": rank == 1}, job["runs"]["ddp"], rank, None)
    first = out["runs"]["ddp"]["states"].get(2) if rank == 0 else None
    handed = [first]
    dist.broadcast_object_list(handed)
    out["resumed"] = {name: run(job, settings, rank, handed[0]) for name, settings in job["runs"].items()}
    return out


def one_step(job: dict[str, Any], cuts: list[list[int]]) -> dict[str, Any]:
    """Losses and gradients of this rank's rows in these micro-batches, and their held-out sums."""
    objective = build("ehealth", job["config"])
    objective.load_state_dict(job["state"])
    batches = [
        objective.collate([job["rows"][i] for i in indices], seed=5, step=7, row_indices=indices) for indices in cuts
    ]
    model = DistributedDataParallel(objective)  # must outlive the backward pass, which it averages
    values: dict[str, float] = {}
    shares = objective.survey(batches) if len(cuts) > 1 else [None]
    for number, (batch, share) in enumerate(zip(batches, shares, strict=True), start=1):
        with without_averaging(model, number < len(batches)):
            losses = model(batch, share)
            losses["loss"].backward()
        for name, value in losses.items():
            values[name] = values.get(name, 0.0) + value.item()
    objective.eval()
    shares = objective.survey(batches) if len(cuts) > 1 else [None]
    sums: dict[str, float] = {}
    for batch, share in zip(batches, shares, strict=True):
        for name, value in objective.metrics(batch, share).items():
            sums[name] = sums.get(name, 0.0) + float(value)
    return {
        "losses": values,
        "gradients": {name: p.grad for name, p in objective.named_parameters()},
        "sums": {name: float(global_sum(torch.tensor(value, dtype=torch.float64))) for name, value in sums.items()},
    }


def gathering(rank: int) -> dict[str, Any]:
    """The gradient of rows that both ranks' losses look at."""
    own = torch.full((rank + 2, 3), float(rank), requires_grad=True)
    gathered, start = gather_with_gradient(own)
    (gathered * torch.arange(5.0)[:, None] * (rank + 1)).sum().backward()
    return {"rows": gathered.detach(), "start": start, "gradient": own.grad}


def run(job: dict[str, Any], settings: dict[str, Any], rank: int, state: dict[str, Any] | None) -> dict[str, Any]:
    """Curves and states of a whole run on two workers."""
    objective = build("ehealth", job["config"])
    objective.load_state_dict(job["state"])
    if job.get("poisoned"):
        poison(objective, step=1)
    curves: dict[tuple[int, str], dict[str, float]] = {}
    states: dict[int, Any] = {}

    def report(step: int, split: str, figures: Any) -> None:
        curves[step, split] = dict(figures)

    def save(step: int, state: Any, held_out: Any) -> None:
        assert (state is None) == (rank != 0)
        states[step] = state

    train(
        objective,
        stream_of(job["rows"]),
        stream_of(job["rows"][:4]),
        TrainingConfig(**settings),
        worker=Worker(rank=rank, world_size=WORLD),
        state=state,
        report=report,
        save=save,
    )
    weights = {name: value.clone() for name, value in objective.state_dict().items() if type(value) is torch.Tensor}
    return {"curves": curves, "states": states if rank == 0 else {}, "weights": weights}


def poison(objective: Any, step: int) -> None:
    """Make the loss of one step, counted from 0, infinite."""
    forward = objective.forward

    def poisoned(batch: Any, share: Any = None) -> Any:
        values = forward(batch, share)
        return {**values, "loss": values["loss"] * float("inf")} if batch.step == step else values

    objective.forward = poisoned


if __name__ == "__main__":
    work_as_members(work)
