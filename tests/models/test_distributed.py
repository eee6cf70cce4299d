"""Two processes compute what one would, dropout and sampling included."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from models.distributed import gather_with_gradient, global_sum, world
from models.objectives import build

SCRIPT = Path(__file__).with_name("two_processes.py")
ROOT = Path(__file__).parents[2]


@pytest.fixture
def job(tiny: dict[str, Any], make_rows: Callable[..., list[Any]]) -> dict[str, Any]:
    """Six rows, shared four to two; the default dropout is on."""
    torch.manual_seed(0)
    config = tiny | {"initializer_range": 0.1}
    rows = make_rows([20, 12, 33, 12, 20, 40])
    return {
        "config": config,
        "state": build("ehealth", config).state_dict(),
        "rows": rows,
        "shares": [[5, 0, 2, 3], [4, 1]],
    }


def test_two_processes_equal_one(job: dict[str, Any], tmp_path: Path) -> None:
    torch.save(job, tmp_path / "job.pt")
    files = [tmp_path / f"{rank}.pt" for rank in range(2)]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "GLOO_SOCKET_IFNAME": "lo"}
    processes = [
        subprocess.Popen(
            [sys.executable, SCRIPT, str(rank), tmp_path / "rendezvous", tmp_path / "job.pt", file], env=environment
        )
        for rank, file in enumerate(files)
    ]
    try:
        assert [process.wait(timeout=120) for process in processes] == [0, 0]
    finally:
        for process in processes:
            process.kill()
    found = [torch.load(file, weights_only=False) for file in files]

    objective = build("ehealth", job["config"])
    objective.load_state_dict(job["state"])
    batch = objective.collate(job["rows"], seed=5, step=7)
    losses = objective(batch)
    losses["loss"].backward()
    for name, value in losses.items():
        mean = sum(f["losses"][name] for f in found) / 2
        assert mean == pytest.approx(value.item(), abs=1e-5, rel=1e-5), name
    for name, parameter in objective.named_parameters():
        scale = max(1.0, float(parameter.grad.abs().max()))
        for f in found:
            torch.testing.assert_close(
                f["gradients"][name], parameter.grad, rtol=1e-5, atol=1e-5 * scale, msg=lambda m, n=name: f"{n}: {m}"
            )
    sums = {name: float(value) for name, value in objective.eval().metrics(batch).items()}
    for f in found:
        assert f["sums"] == pytest.approx(sums, rel=1e-5)

    for rank, f in enumerate(found):
        assert f["gathered"][:, 0].tolist() == [0, 0, 1, 1, 1] and f["start"] == 2 * rank
        own_places = [[0.0, 1.0], [2.0, 3.0, 4.0]][rank]
        assert f["gathered_gradient"][:, 0].tolist() == [3 * place for place in own_places]  # both ranks' losses


def test_a_world_of_one_needs_no_process_group() -> None:
    rows = torch.randn(3, 2, requires_grad=True)
    gathered, start = gather_with_gradient(rows)
    assert world() == (0, 1) and gathered is rows and start == 0
    assert torch.equal(global_sum(rows), rows) and not global_sum(rows).requires_grad
