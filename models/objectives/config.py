"""The part that the settings of all objectives share: what is known of an objective without its network.

Presets are checked with it, so nothing here or in an objective's `config.py` imports torch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar


@dataclass(frozen=True)
class Ablation:
    """A variant of an objective that a paper compares with the full one: a row of its table."""

    name: str
    title: str
    overrides: Mapping[str, Any] = field(default_factory=dict)
    """Dotted preset keys to values."""


def check_shares(shares: Mapping[str, float]) -> None:
    """Check the shares of the steps that tasks have.

    Raises:
        ValueError: a share is not over 0, or they do not add up to 1; the message names them.
    """
    shown = " + ".join(f"{name} {share:g}" for name, share in shares.items())
    for name, share in shares.items():
        if not share > 0.0:
            raise ValueError(f"the share of task {name} in the steps is {share:g}; it must be over 0")
    total = math.fsum(shares.values())
    if not math.isclose(total, 1.0, abs_tol=1e-9):
        raise ValueError(f"the shares of the tasks in the steps must add up to 1, but {shown} is {total:g}")


class ObjectiveConfig:
    """Base of the settings of an objective, which are the fields of a dataclass."""

    speed_only: ClassVar[frozenset[str]] = frozenset({"checkpoint_activations", "compile_layers"})
    """Settings that change speed and memory alone: a run may resume with other values."""
    ablations: ClassVar[tuple[Ablation, ...]] = (Ablation("full", "The full setting"),)
    """Variants that the paper compares, the full one first."""
    tabulated: ClassVar[Mapping[str, str]] = {}
    """Titles of the held-out figures that a table of variants shows, in its order. A term that is off has none."""

    def data(self) -> tuple[str, ...]:
        """Return the names of the inputs that these settings need beside examples of text.

        A table in flows/shared/pretraining.py makes each; `train` takes it under this name.
        """
        return ()

    def shares(self) -> Mapping[str, float]:
        """Return the share of the steps of each task, by name; empty for an objective with one task.

        They add up to 1 (`check_shares`). A task that these settings switch off is left out.
        """
        return {}

    @classmethod
    def cut_dependence(cls, settings: Mapping[str, Any]) -> str | None:
        """Return the setting, as a user gives it, that makes the loss depend on how a batch is cut into micro-batches.

        None: the losses of micro-batches add up to that of the uncut batch.
        """
        return None

    def resources(self) -> tuple[str, ...]:
        """Return the names of the artifacts that the objective reads beside its rows, such as `("knowledge",)`.

        A run has an input of each name, and gives it to the objective with `attach`.
        """
        return ()
