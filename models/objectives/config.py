"""The part that the settings of all objectives share: what is known of an objective without its network.

Presets are checked with it, so nothing here or in an objective's `config.py` imports torch.
"""

from __future__ import annotations

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


class ObjectiveConfig:
    """Base of the settings of an objective, which are the fields of a dataclass."""

    speed_only: ClassVar[frozenset[str]] = frozenset({"checkpoint_activations", "compile_layers"})
    """Settings that change speed and memory alone: a run may resume with other values."""
    ablations: ClassVar[tuple[Ablation, ...]] = (Ablation("full", "The full setting"),)
    """Variants that the paper compares, the full one first."""
    tabulated: ClassVar[Mapping[str, str]] = {}
    """Titles of the held-out figures that a table of variants shows, in its order. A term that is off has none."""

    @classmethod
    def cut_dependence(cls, settings: Mapping[str, Any]) -> str | None:
        """Return the setting, as a user gives it, that makes the loss depend on how a batch is cut into micro-batches.

        None: the losses of micro-batches add up to that of the uncut batch.
        """
        return None
