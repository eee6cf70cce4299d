"""One of two processes that share a step, started by test_distributed.py.

Arguments: rank, rendezvous file, input file, output file.
"""

import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from models.distributed import gather_with_gradient, global_sum
from models.objectives import build


def main(rank: int, rendezvous: str, given: str, found: str) -> None:
    """Train and evaluate on this rank's rows, and write losses, gradients, sums and the gathering's gradient."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    job = torch.load(given, weights_only=False)
    objective = build("ehealth", job["config"])
    objective.load_state_dict(job["state"])
    indices = job["shares"][rank]
    batch = objective.collate([job["rows"][i] for i in indices], seed=5, step=7, row_indices=indices)
    model = DistributedDataParallel(objective)  # must outlive the backward pass, which it averages
    losses = model(batch)
    losses["loss"].backward()
    out = {
        "losses": {name: value.item() for name, value in losses.items()},
        "gradients": {name: p.grad for name, p in objective.named_parameters()},
        "sums": {name: float(global_sum(v)) for name, v in objective.eval().metrics(batch).items()},
    }
    own = torch.full((rank + 2, 3), float(rank), requires_grad=True)
    gathered, start = gather_with_gradient(own)
    (gathered * torch.arange(5.0)[:, None] * (rank + 1)).sum().backward()
    out |= {"gathered": gathered.detach(), "start": start, "gathered_gradient": own.grad}
    torch.save(out, found)
    dist.barrier()
    dist.destroy_process_group()
    os._exit(0)  # gloo's threads may outlive the group and abort an orderly exit; the result is on the disk


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
