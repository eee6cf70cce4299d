"""Speed of a run: tokens, sequences, arithmetic, waiting and memory, without evaluation and saving."""

from __future__ import annotations

import contextlib
import resource
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

PEAKS = {
    "H200": 989e12,
    "H100 PCIe": 756e12,
    "H100": 989e12,
    "A100": 312e12,
    "L40S": 362e12,
}
"""Dense bf16 FLOP/s with float32 sums according to the vendor's data sheets, for devices whose name contains the key;
the first matching key counts.
"""

MFU_FORMULA = "model FLOPs utilisation (MFU) = model FLOPs of a step / (seconds a step x workers x peak FLOP/s)"
"""Definition by Chowdhery et al., "PaLM", 2022, appendix B; each objective defines its model FLOPs."""

AddOverRanks = Callable[[Mapping[str, float]], dict[str, float]]


@dataclass
class _OwnSteps:
    """Steps of one task, with the seconds from the end of the step before each to its own end."""

    steps: int = 0
    tokens: int = 0
    seconds: float = 0.0


class Meter:
    """Figures over the steps since the last reading, for all workers together.

    With several `tasks` there are figures of each beside those of all steps.
    """

    def __init__(self, device: torch.device, precision: str, tasks: Sequence[str] = ()) -> None:
        self._device = device
        self._last = 0.0
        self._tasks = tuple(tasks) if len(tasks) > 1 else ()
        self._peak = peak_flops(device, precision)
        self._reset()

    def add(self, task: str, *, tokens: int, sequences: int, flops: float, waited_seconds: float) -> None:
        """Count a step of this worker, which lasted since the last one, and its task.

        Tokens and sequences count every view; `flops` are those that the objective needs, and `waited_seconds` is the
        time that the step waited for its batch.
        """
        self._steps += 1
        self._tokens += tokens
        self._sequences += sequences
        self._flops += flops
        self._waited += waited_seconds
        own = self._own.setdefault(task, _OwnSteps())
        own.steps += 1
        own.tokens += tokens
        own.seconds += self._lap()

    def read(self, add_over_ranks: AddOverRanks) -> dict[str, float]:
        """Return the figures since the last reading; every rank must call it.

        - tokens_per_second, sequences_per_second, step_seconds;
        - data_wait_share: share of the time that workers waited for batches. A step ends with a value read from the
          device, so while the worker waits, the device waits too;
        - model_flops_per_second;
        - mfu: model FLOPs utilisation, model_flops_per_second / (workers x peak of the device), on devices of `PEAKS`
          in bf16;
        - peak_memory_bytes of the first worker: the maximum that torch held on a GPU, the process's peak on a CPU;
        - step_seconds_<task> and tokens_per_second_<task>, of the tasks' own steps, where there are several tasks.
        """
        seconds = time.perf_counter() - self._started
        done = [task for task in self._tasks if task in self._own]
        sums = add_over_ranks(
            {
                "tokens": self._tokens,
                "sequences": self._sequences,
                "flops": self._flops,
                "waited": self._waited,
                "workers": 1.0,
                **{f"tokens_{task}": self._own[task].tokens for task in done},
            }
        )
        figures = {
            "tokens_per_second": sums["tokens"] / seconds,
            "sequences_per_second": sums["sequences"] / seconds,
            "step_seconds": seconds / max(1, self._steps),
            "data_wait_share": sums["waited"] / sums["workers"] / seconds,
            "model_flops_per_second": sums["flops"] / seconds,
            "peak_memory_bytes": peak_memory(self._device),
        }
        if self._peak is not None:
            figures["mfu"] = figures["model_flops_per_second"] / (sums["workers"] * self._peak)
        for task in done:
            own = self._own[task]
            figures[f"step_seconds_{task}"] = own.seconds / own.steps
            figures[f"tokens_per_second_{task}"] = sums[f"tokens_{task}"] / own.seconds
        self._reset()
        return figures

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Exclude the time spent in the block."""
        began = time.perf_counter()
        yield
        took = time.perf_counter() - began
        self._started += took
        self._last += took

    def _lap(self) -> float:
        """Return the seconds since the last call, or since the last reading."""
        now = time.perf_counter()
        seconds, self._last = now - self._last, now
        return seconds

    def _reset(self) -> None:
        self._steps, self._tokens, self._sequences = 0, 0, 0
        self._waited, self._flops = 0.0, 0.0
        self._own: dict[str, _OwnSteps] = {}
        self._started = time.perf_counter()
        self._last = self._started


def peak_flops(device: torch.device, precision: str) -> float | None:
    """Return the device's FLOP/s by its data sheet; None where that is unknown: other devices, float32."""
    if device.type != "cuda" or precision != "bf16":
        return None
    name = torch.cuda.get_device_name(device)
    return next((peak for key, peak in PEAKS.items() if key in name), None)


def cpu_has_bf16() -> bool:
    """Return whether this CPU multiplies matrices in bfloat16 fast, as those with AVX-512 do.

    Without it, on AVX2, a product of (2048, 256) and (256, 1024) was 58 times slower than in float32.
    """
    asked = getattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", None)  # not there if torch was built without oneDNN
    return asked is not None and bool(asked())


def peak_memory(device: torch.device) -> float:
    """Return the peak memory in bytes: of tensors on a GPU, of the whole process (resident size) on a CPU."""
    if device.type == "cuda":
        return float(torch.cuda.max_memory_allocated(device))
    unit = 1 if sys.platform == "darwin" else 1024  # getrusage: bytes there, KiB elsewhere
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)
