"""Presets: one TOML file a recipe, read into a checked model; unknown keys are errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from flows.recipe import Recipe, checked, preset_names, read_values
from tasks.knowledge.embed import EmbedParams
from tasks.knowledge.neighbours import NeighbourParams
from tasks.pretrain.export import ExportParams
from tasks.pretrain.train import TrainParams, check_training, check_training_names
from tasks.training.cluster import Cluster

__all__ = ["Preset", "load_preset", "preset_names"]


class Preset(Recipe):
    """A recipe from raw text to model: the parameters of every stage."""

    neighbours: NeighbourParams = Field(default_factory=NeighbourParams)
    embed: EmbedParams = Field(default_factory=EmbedParams)
    objective: str
    model: dict[str, Any] = Field(default_factory=dict)
    training: dict[str, Any]
    cluster: Cluster = Field(default_factory=Cluster)
    export: ExportParams = Field(default_factory=ExportParams)

    @property
    def train(self) -> TrainParams:
        """Parameters of the training stage."""
        return TrainParams(objective=self.objective, model=self.model, training=self.training, cluster=self.cluster)


def load_preset(name: str, overrides: Mapping[str, Any] | None = None) -> Preset:
    """Read `flows/presets/<name>.toml` (or a path to a TOML file), apply overrides and check everything.

    Args:
        name: name of a shipped preset, or a path that ends in .toml.
        overrides: dotted keys to values, such as `{"training.steps": 100}`.

    Raises:
        UserError: no such preset, unknown keys, or values that cannot work; the message names the key.
    """
    preset = checked(Preset, name, read_values(name, overrides))
    check_training(preset.train, preset.vocabulary.size)
    return preset


def check_names(name: str, overrides: Mapping[str, Any] | None = None) -> None:
    """Check the keys alone, for who trains nothing: its steps and sizes need not go with what was overridden.

    Raises:
        UserError: an unknown key; the message names it.
    """
    check_training_names(checked(Preset, name, read_values(name, overrides)).train)
