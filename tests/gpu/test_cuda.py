"""Training on a CUDA device: the CPU's losses, exact resumption, and checkpoints that either can read.

Needs torch, numpy, pyarrow, pydantic and pytest, and is skipped where torch finds no GPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from models import objectives
from models.encoder.attention import attend
from models.encoder.layout import Layout
from models.training.checkpoint import load_state, save_state
from models.training.memory import usable_memory
from models.training.worker import Worker
from tests.support.training.drawn_dropout import drawn_and_plain
from tests.support.training.short_run import short_run
from tests.support.training.synthetic_examples import TINY_MODEL, VOCABULARY, synthetic_rows, training

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no GPU"),
]

GPU = Worker(device=torch.device("cuda", 0))
OBJECTIVES = ("bert", "electra", "ehealth")
LENGTHS = [3, 3, 40, 1, 17, 128]
SIZES = {**TINY_MODEL, "hidden_size": 96, "vocab_size": VOCABULARY}
"""Heads of 32 channels, the generators' too: the GPU's attention wants a multiple of 8."""


@pytest.fixture
def deterministic(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def build(name: str, **options: Any) -> Any:
    torch.manual_seed(0)
    no_dropout = {"hidden_dropout": 0.0, "attention_dropout": 0.0}
    return objectives.build(name, {**SIZES, **no_dropout, **options})


def run(name: str, settings: dict[str, Any], **arguments: Any) -> tuple[Any, dict[int, Any], dict[int, dict]]:
    objective = build(name)
    states, losses = short_run(objective, synthetic_rows(0, 120), synthetic_rows(1, 20), settings, **arguments)
    return objective, states, losses


def formula(qkv: Tensor) -> Tensor:
    """softmax(q k^T / sqrt(C)) v of each sequence and head on its own, in float64 on the CPU."""
    outputs = []
    for one in qkv.double().cpu().split(LENGTHS):
        q, k, v = one.transpose(0, 2).unbind(1)
        weights = torch.softmax(q @ k.transpose(1, 2) / q.shape[-1] ** 0.5, -1)
        outputs.append((weights @ v).transpose(0, 1).flatten(1))
    return torch.cat(outputs)


@pytest.mark.parametrize(("dtype", "error"), [(torch.float32, 1e-4), (torch.bfloat16, 1e-2)])
def test_attention_and_its_gradient_are_the_formulas(dtype: torch.dtype, error: float) -> None:
    torch.manual_seed(1)
    own = torch.randn(sum(LENGTHS), 3, 2, 16, device="cuda", dtype=dtype, requires_grad=True)
    plain = own.detach().double().cpu().requires_grad_()
    weights = torch.randn(sum(LENGTHS), 32, dtype=torch.float64)
    layout = Layout.from_lengths(LENGTHS).to(own.device)
    found, expected = attend(own, layout, 0.0, None), formula(plain)
    (found.double().cpu() * weights).sum().backward()
    (expected * weights).sum().backward()
    assert own.grad is not None and plain.grad is not None
    for left, right in ((found, expected), (own.grad, plain.grad)):
        assert (left.double().cpu() - right).norm() < error * right.norm()


def test_dropout_of_attention_keeps_the_mean() -> None:
    torch.manual_seed(2)
    qkv = torch.randn(sum(LENGTHS), 3, 2, 16, device="cuda")
    layout = Layout.from_lengths(LENGTHS).to(qkv.device)
    draws = torch.stack([attend(qkv, layout, 0.3, None) for _ in range(400)])
    whole = attend(qkv, layout, 0.0, None)
    assert not torch.equal(draws[0], draws[1])
    assert (draws.mean(0) - whole).norm() < 0.1 * whole.norm()


def test_gradient_belongs_to_the_dropout_that_was_drawn() -> None:
    found, expected = drawn_and_plain(lambda qkv, layout, rate: attend(qkv, layout, rate, None), LENGTHS, "cuda")
    for left, right in zip(found, expected, strict=True):
        assert (left - right).norm() < 1e-3 * right.norm()


@pytest.mark.parametrize("name", OBJECTIVES)
def test_losses_are_the_cpus(name: str) -> None:
    settings = training(steps=6)
    on_cpu, on_gpu = run(name, settings)[2], run(name, settings, worker=GPU)[2]
    # The generator's samples are drawn on the device, so that only its own loss is the same draw for draw.
    assert on_gpu[1]["mlm"] == pytest.approx(on_cpu[1]["mlm"], rel=1e-4)
    assert on_gpu[6] == pytest.approx(on_cpu[6], rel=5e-2)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_bf16_learns_what_fp32_learns(name: str) -> None:
    settings = training(steps=30)
    losses = {
        precision: run(name, {**settings, "precision": precision}, worker=GPU)[2] for precision in ("fp32", "bf16")
    }
    main = next(iter(losses["fp32"][30]))
    last = {precision: sum(found[step][main] for step in range(21, 31)) / 10 for precision, found in losses.items()}
    assert last["fp32"] < 0.9 * losses["fp32"][1][main]
    assert last["bf16"] == pytest.approx(last["fp32"], rel=0.05)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_resumed_run_ends_with_the_same_bits(name: str, deterministic: None) -> None:
    settings = training(steps=8, checkpoint_every=4)
    whole, states, _ = run(name, settings, worker=GPU)
    again, ends, _ = run(name, settings, worker=GPU, state=states[4])
    assert sorted(ends) == [8]
    for key, value in whole.state_dict().items():
        assert torch.equal(value, again.state_dict()[key]), key


def test_cpu_goes_on_from_a_gpus_checkpoint(tmp_path: Any) -> None:
    settings = training(steps=6, checkpoint_every=3)
    _, states, losses = run("ehealth", settings, worker=GPU)
    save_state(states[3], tmp_path)
    _, _, resumed = run("ehealth", settings, state=load_state(tmp_path))
    assert min(resumed) == 4 and resumed[4]["mlm"] == pytest.approx(losses[4]["mlm"], rel=1e-3)


def test_budget_of_arithmetic_ends_at_the_cpus_step() -> None:
    settings = training(steps=1_000_000, warmup_steps=2, flops=1.5e9, evaluate_every=10_000)
    ends = [max(run("bert", settings, **where)[1]) for where in ({}, {"worker": GPU})]
    assert ends[0] == ends[1] > 3


def test_memory_that_may_be_used_is_that_of_the_device() -> None:
    usable = usable_memory(GPU.device)
    assert usable is not None and 0.0 < usable <= torch.cuda.get_device_properties(0).total_memory
