"""Training away from the CPU: every tensor is on the device of the model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from kg.embedding.checkpoint import load_state, save_state
from kg.embedding.gradients import RowGradient, add_over_workers
from kg.embedding.training import EmbeddingConfig, train_embedding
from kg.embedding.workers import Workers
from kg.transe import TransE
from kg.transr import TransR
from tests.support.graphs.embedding_graphs import grouped_graph
from tests.support.training.other_device import DEVICE, ElsewhereTensor, OtherDevice

# torch knows the stand-in's name as that of a device without numbers.
pytestmark = pytest.mark.filterwarnings("ignore:.*copying from a non-meta parameter:UserWarning")

GRAPH = grouped_graph()
MODELS: dict[str, Callable[[], torch.nn.Module]] = {
    "TransE": lambda: TransE(40, 3, 8),
    "TransR": lambda: TransR(40, 3, 8, 6),
}


def config(**changes: Any) -> EmbeddingConfig:
    settings = {"epochs": 4, "batch_size": 32, "evaluate_every": 2, "checkpoint_every": 2, "filtered_negatives": True}
    return EmbeddingConfig(**{**settings, **changes})


def weights(model: torch.nn.Module) -> dict[str, Tensor]:
    return {name: table.detach().cpu() for name, table in model.named_parameters()}


def equal(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_stand_in_device_rejects_what_a_gpu_rejects() -> None:
    with OtherDevice():
        there = torch.ones(3, device=DEVICE)
        with pytest.raises(RuntimeError, match="two devices"):
            there + torch.ones(3)
        with pytest.raises(TypeError, match="bring it to the CPU"):
            there.numpy()
        assert isinstance(there + 1, ElsewhereTensor)
        assert (there.cpu() + torch.ones(3)).tolist() == [2, 2, 2]


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("squared", [True, False])
def test_training_on_another_device_equals_training_on_the_cpu(kind: str, squared: bool) -> None:
    here, there = MODELS[kind](), MODELS[kind]()
    wanted = train_embedding(here, GRAPH, config(squared=squared))
    with OtherDevice() as device:
        found = train_embedding(there, GRAPH, config(squared=squared), workers=Workers(device=DEVICE))
        assert all(isinstance(table.data, ElsewhereTensor) for table in there.parameters())
        assert device.operations > 500
        assert found == wanted
        assert equal(weights(there), weights(here))


def test_transr_starts_on_the_device_of_its_transe() -> None:
    with OtherDevice():
        transe = TransE(40, 3, 8).to(DEVICE)
        model = TransR.from_transe(transe, 8)
        triple = np.array([1]), np.array([2]), np.array([3])
        assert isinstance(model.score(*triple), ElsewhereTensor)
        assert model.score(*triple).tolist() == pytest.approx(
            [-float((transe.entities[1] + transe.relations[2] - transe.entities[3]).norm().detach())], abs=1e-6
        )


def test_checkpoint_resumes_on_another_device(tmp_path: Path) -> None:
    """Written on the CPU, as `load_state` gives it; the optimiser's squares and the best weights follow the model."""
    path = str(tmp_path / "state.pt")
    whole, first, rest = (MODELS["TransR"]() for _ in range(3))
    train_embedding(whole, GRAPH, config())
    train_embedding(first, GRAPH, config(epochs=2), save=lambda state: save_state(state, path))
    with OtherDevice():
        train_embedding(rest, GRAPH, config(), workers=Workers(device=DEVICE), state=load_state(path))
        assert equal(weights(rest), weights(whole))


def test_workers_add_up_on_the_device_of_their_tensors() -> None:
    with OtherDevice():
        workers = Workers(size=2, add=lambda values: values.mul_(2), device=DEVICE)
        rows, values = torch.tensor([1, 4]).to(DEVICE), torch.ones(2, 3, device=DEVICE)
        summed = add_over_workers(RowGradient(rows, values), torch.tensor([0, 1, 4]).to(DEVICE), workers)
        assert summed.values.tolist() == [[0] * 3, [2] * 3, [2] * 3]
        assert workers.add_figures({"mrr": 0.5}) == {"mrr": 1.0}
