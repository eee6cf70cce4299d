"""Decisions and log of a training process: micro-batches, determinism, and a GPU that is too small."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from infra.artifacts import ArtifactStore
from infra.errors import UserError
from models.training.loop import TrainingConfig, Worker
from models.training.tasks import Task
from tasks.training import driver
from tasks.training import process as training_process
from tasks.training.notes import opening_notes, out_of_memory
from tasks.training.process import resolve_micro_batch, train_process
from tasks.training.run_spec import RunResult, RunSpec
from tasks.training.sources import recorded
from tests.support.training.synthetic_examples import TINY_MODEL, VOCABULARY, make_inputs, training

CUDA = Worker(device=torch.device("cuda"))


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = torch.are_deterministic_algorithms_enabled()
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    yield
    os.environ.pop("CUBLAS_WORKSPACE_CONFIG", None)
    torch.use_deterministic_algorithms(before)


@pytest.fixture
def spec(store: ArtifactStore, tmp_path: Path) -> RunSpec:
    storage = tmp_path / "run"
    storage.mkdir()
    return RunSpec(
        name="run",
        store=store.root,
        sources=recorded({"examples": make_inputs(store)["examples"]}),
        storage=str(storage),
        objective="ehealth",
        model={**TINY_MODEL, "vocab_size": VOCABULARY},
        training=training(steps=3),
        workers=0,
        cpus_per_worker=1,
        gpu=False,
    )


class Objective:
    """Weights of 1,000 bytes with their optimiser, and rows of 100."""

    longest_row = 10
    tasks = (Task("example", ()),)

    def parameters(self) -> list[torch.Tensor]:
        return [torch.zeros(50)]

    def workspace_bytes(self) -> float:
        return 200.0

    def row_bytes(self, precision: str) -> float:
        return 100.0

    def row_bytes_of(self, task: str, precision: str) -> float:
        return self.row_bytes(precision)


def test_the_micro_batch_follows_from_the_smallest_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_process, "usable_memory", lambda device: 5_000.0)
    monkeypatch.setattr(training_process, "least_over_ranks", lambda memory, device: memory - 3_500.0)
    config = TrainingConfig(**training())
    assert resolve_micro_batch(Objective(), config, CUDA).micro_batch_size == 5
    given = TrainingConfig(**training(micro_batch_size=7))
    assert resolve_micro_batch(Objective(), given, CUDA) == given
    monkeypatch.setattr(training_process, "least_over_ranks", lambda memory, device: memory)
    assert resolve_micro_batch(Objective(), config, CUDA) == config  # all eight rows fit


def test_cpu_keeps_the_batch_whole_and_logs_it(spec: RunSpec, capsys: pytest.CaptureFixture[str]) -> None:
    train_process(spec, Worker())
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "training on 1 x cpu in fp32, each worker's share of the batch at once"
    assert "(MFU) = model FLOPs of a step / (seconds a step x workers x peak FLOP/s); not recorded" in lines[1]
    assert lines[2].startswith("model FLOPs of a step = 6 x ")
    assert _but_cost(spec) == RunResult(workers=1, cpus_per_worker=1, gpu=False)


def test_result_has_the_cpu_seconds_of_the_training(spec: RunSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_process, "global_sum", lambda own: 3 * own)  # of three equal processes
    before = time.process_time()
    train_process(spec, Worker())
    spent = time.process_time() - before
    result = spec.result()
    assert result is not None and result.cpu_seconds is not None
    assert 1.5 * spent < result.cpu_seconds <= 3 * spent


def _but_cost(spec: RunSpec) -> RunResult:
    result = spec.result()
    assert result is not None
    return result.model_copy(update={"cpu_seconds": None})


def test_without_ray_the_first_gpu_trains(spec: RunSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    """`torch.cuda.set_device`, which the loop's background thread calls, needs a device with a number."""
    seen: list[Worker] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(training_process, "train_process", lambda given, worker: seen.append(worker))
    for gpu in (None, True, False):
        driver.run(spec.model_copy(update={"gpu": gpu, "storage": _with_result(spec)}))
    assert [worker.device for worker in seen] == [torch.device("cuda", 0)] * 2 + [torch.device("cpu")]


def _with_result(spec: RunSpec) -> str:
    Path(spec.result_path).write_text(RunResult(workers=1, cpus_per_worker=1, gpu=False).model_dump_json())
    return spec.storage


def test_log_and_record_name_micro_batch_and_peak(spec: RunSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("models.training.meter.torch.cuda.get_device_name", lambda device: "NVIDIA H200")
    config = TrainingConfig(**training(precision="bf16", micro_batch_size=48))
    lines = opening_notes("ehealth", config, CUDA)
    assert "micro-batches of at most 48 rows" in lines[0] and "peak 9.89e+14 FLOP/s" in lines[1]
    ran = RunResult(workers=2, cpus_per_worker=1, gpu=True, micro_batch_size=48).applied_to(spec)
    assert ran.config.micro_batch_size == 48 and ran.workers == 2 and ran.gpu
    assert ran.config.steps == spec.config.steps


def test_budget_that_ends_within_the_warm_up_leaves_a_run_that_can_be_read(spec: RunSpec) -> None:
    given = spec.model_copy(update={"training": training(steps=1_000, warmup_steps=100, flops=1.0)})
    short = RunResult(workers=1, cpus_per_worker=1, gpu=False, steps=2).applied_to(given).config
    assert (short.steps, short.warmup_steps) == (2, 1)
    long = RunResult(workers=1, cpus_per_worker=1, gpu=False, steps=300).applied_to(given).config
    assert (long.steps, long.warmup_steps) == (300, 100)


def test_out_of_memory_error_says_what_to_set(spec: RunSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: Any, **named: Any) -> None:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has")

    monkeypatch.setattr(training_process, "train", full)
    with pytest.raises(
        UserError, match=r"with 8 rows .*training\.micro_batch_size to fewer rows, such as 4\..*CUDA out"
    ):
        train_process(spec, Worker())
    small = spec.model_copy(update={"training": training(steps=3, micro_batch_size=1)})
    with pytest.raises(
        UserError, match=r"with 1 rows? .*training\.micro_batch_size, as set.*checkpoint_activations.* the run resumes"
    ):
        train_process(small, Worker())
    tokens = TrainingConfig(**training(batch_size=None, batch_tokens=100))
    assert "worker's share" in out_of_memory(tokens, tokens, CUDA, torch.cuda.OutOfMemoryError("full"))


@pytest.mark.parametrize(
    ("asked", "device", "expected"),
    [(None, "cpu", True), (None, "cuda", False), (True, "cuda", True), (False, "cpu", False)],
)
def test_determinism_follows_the_setting(asked: bool | None, device: str, expected: bool, spec: RunSpec) -> None:
    given = spec.model_copy(update={"training": training(deterministic=asked)})
    training_process._make_deterministic(given, Worker(device=torch.device(device)))
    assert torch.are_deterministic_algorithms_enabled() == expected
    assert os.environ.get("CUBLAS_WORKSPACE_CONFIG") == (":4096:8" if expected and device == "cuda" else None)


def test_workspace_set_by_the_user_is_kept(spec: RunSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")
    given = spec.model_copy(update={"training": training(deterministic=True)})
    training_process._make_deterministic(given, CUDA)
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":16:8"
