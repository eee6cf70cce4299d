"""Pre-training objectives, by name.

An objective is an `nn.Module` that trains, reports and costs: `Objective` lists its members. To add one, add a folder
here and a line to `_OBJECTIVES` (models/README.md walks through it).
"""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any, Protocol

from torch import Tensor
from transformers import PreTrainedConfig

from models.objectives.ehealth.config import EHealthConfig
from models.objectives.ehealth.objective import EHealth


class Objective(Protocol):
    """Members that the trainer and the export need from an objective."""

    def collate(self, rows: Any, *, seed: int, step: int, row_indices: Any = None) -> Any:
        """Return a batch of these rows, with `.to(device)`, `.pin_memory()`, `.tokens` and `.sequences`."""

    def survey(self, batches: Any) -> Sequence[Any]:
        """Return, for each of this rank's micro-batches of one global batch, what it must know about the others.

        `forward` and `metrics` take it as their second argument.
        """

    def step_figures(self, values: Mapping[str, float]) -> dict[str, float]:
        """Return `forward`'s values of the global batch, "loss" among them, as the curves show them."""

    def flops(self, batch: Any) -> float:
        """Return the floating-point operations of a training step on this batch."""

    flops_formula: str
    """The same in words, for logs and pages."""

    speed_only: frozenset[str]
    """Fields of its config that change speed and memory alone."""

    def row_bytes(self, precision: str) -> float:
        """Return the bytes of GPU memory of a training step for a row of the longest length
        (models/training/memory.py).
        """

    def workspace_bytes(self) -> float:
        """Return the bytes needed beside weights, optimiser and rows."""

    @property
    def longest_row(self) -> int:
        """Tokens of the longest row that the model reads."""

    def identity(self) -> dict[str, Any]:
        """Return plain values that decide the weights and losses; a checkpoint resumes only if they are equal."""

    def metrics(self, batch: Any, share: Any = None) -> dict[str, Tensor]:
        """Return sums and counts over a held-out batch; they add up over batches."""

    def rates(self, added: Mapping[str, float | Tensor]) -> dict[str, float]:
        """Return losses, accuracies and chance levels from added sums."""

    @property
    def held_out_figures(self) -> tuple[str, ...]:
        """Names of the figures in `rates`."""

    def encoder_state_dict(self) -> dict[str, Tensor]:
        """Return the encoder's weights under transformers' names."""

    def encoder_config(self) -> PreTrainedConfig:
        """Return the encoder's transformers config."""


_OBJECTIVES: dict[str, tuple[type[Any], type]] = {"ehealth": (EHealth, EHealthConfig)}


def flops_formula(name: str) -> str:
    """Return how the objective `name` counts the floating-point operations of a training step, in words."""
    objective: Any = _OBJECTIVES[name][0]
    return str(objective.flops_formula)


def speed_only(name: str) -> frozenset[str]:
    """Return the settings of objective `name` that change speed and memory alone; none if it is unknown.

    A run may resume with other values of these.
    """
    return _OBJECTIVES[name][0].speed_only if name in _OBJECTIVES else frozenset()


def build(name: str, config: Mapping[str, Any]) -> Any:
    """Return the objective `name` with fresh weights: an `nn.Module` that is an `Objective`.

    `config` maps field names of the objective's config class to values; the defaults are the paper's base size.
    `vocab_size` has no default. Raises ValueError for an unknown objective, an unknown or missing key (the message
    suggests similar ones) and impossible sizes.
    """
    check_keys(name, config)
    module, config_class = _OBJECTIVES[name]
    missing = [one.name for one in fields(config_class) if one.default is MISSING and one.name not in config]
    if missing:
        raise ValueError(f"objective {name!r} needs {', '.join(missing)}")
    return module(config_class(**config))


def config_keys(name: str) -> list[str]:
    """Return the keys of the config of the objective `name`. Raises ValueError for an unknown objective."""
    if name not in _OBJECTIVES:
        raise ValueError(f"unknown objective {name!r}; known: {', '.join(sorted(_OBJECTIVES))}")
    return [field.name for field in fields(_OBJECTIVES[name][1])]


def check_keys(name: str, config: Iterable[str]) -> None:
    """Raise ValueError for an unknown objective or a key that its config lacks; the message suggests similar ones."""
    known = config_keys(name)
    for key in config:
        if key not in known:
            near = difflib.get_close_matches(str(key), known) or sorted(known)
            raise ValueError(f"unknown key {key!r} for objective {name!r}; did you mean {', '.join(near)}?")
