"""Presets of models: one TOML file per recipe from raw text to an exported model."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from pydantic import Field

from flows.recipes.knowledge import KnowledgeRecipe
from flows.recipes.loading import PRESETS, Values, checked, preset_names, read_preset
from infra.errors import UserError
from models import objectives
from models.training.config import TrainingConfig
from tasks.pretrain.check import check_training
from tasks.pretrain.params import ExportParams, TrainParams
from tasks.training.cluster import Cluster


class Preset(KnowledgeRecipe):
    """Parameters of every stage from raw text to an exported model."""

    objective: str
    """What the model learns: a name of models/objectives."""
    model: dict[str, Any] = Field(default_factory=dict)
    """Sizes and settings of the objective."""
    training: dict[str, Any]
    """Steps, batches, learning rate, checkpoints."""
    cluster: Cluster = Field(default_factory=Cluster)
    export: ExportParams = Field(default_factory=ExportParams)

    @property
    def train(self) -> TrainParams:
        """Parameters of the training stage."""
        return TrainParams(objective=self.objective, model=self.model, training=self.training, cluster=self.cluster)


def load_preset(name: str, overrides: Mapping[str, Any] | None = None) -> Preset:
    """Read a preset, apply overrides and check everything, down to a model that can be built.

    Args:
        name: name of a shipped preset, or a path that ends in .toml.
        overrides: dotted keys to values, such as `{"training.steps": 100}`.

    Raises:
        UserError: there is no such preset, it describes no model, or it or the overrides have unknown keys or unusable
            values; the message names them.
    """
    values = read_preset(name, overrides)
    if "objective" not in values.nested:
        check_keys(values)  # `objectve` is a typing error, not a preset without a model
        raise UserError(
            f"{values.origin} describes no model: it has no objective. Presets with one: {', '.join(model_presets())}."
        )
    preset = checked(Preset, values, free=_free_keys(values))
    check_training(preset.train, preset.vocabulary.size)
    _check_rows(preset)
    return preset


def _check_rows(preset: Preset) -> None:
    """Check that the rows which the data stages make are rows that the objective can learn from.

    Raises:
        UserError: they may be longer than the model's positions, all pairs would have one answer, or the graph's arrays
            would lack what the objective reads of them.
    """
    settings = objectives.check(preset.objective, {**preset.model, "vocab_size": preset.vocabulary.size})
    if settings.reads_segments and preset.encode.max_length > settings.max_positions:
        raise UserError(
            f"encode.max_length is {preset.encode.max_length}, but model.max_positions is {settings.max_positions}. "
            f"Set encode.max_length to at most {settings.max_positions} and segment.max_tokens to 2 less, or raise "
            "model.max_positions."
        )
    if settings.random_pairs and not 0 < preset.pairs.random_share < 1:
        raise UserError(
            f"pairs.random_share is {preset.pairs.random_share:g}, so that all pairs have the same answer. Set it "
            "between 0 and 1 (0.5 in BERT), or model.pair_task to sop or none."
        )
    try:
        settings.check_knowledge(preset.neighbours.k, preset.embed.entity_dim)
    except ValueError as error:
        raise UserError(str(error)) from error


def model_presets() -> list[str]:
    """Return the names of the shipped presets that describe a model, sorted."""
    files = {name: PRESETS / f"{name}.toml" for name in preset_names()}
    return [name for name, path in files.items() if "objective" in tomllib.loads(path.read_text(encoding="utf-8"))]


def check_keys(values: Values) -> None:
    """Check a preset for a flow that trains no model: its steps and sizes need not go with each other.

    Raises:
        UserError: unknown keys, or values of the wrong type.
    """
    filled = replace(values, nested={"objective": "", "training": {}, **values.nested})
    checked(Preset, filled, free=_free_keys(values))


def _free_keys(values: Values) -> dict[str, list[str]]:
    """Return the keys of the sections that are plain dictionaries; those of `model` depend on the objective."""
    known = {"training": [field.name for field in fields(TrainingConfig)]}
    objective = values.nested.get("objective")
    if isinstance(objective, str):
        try:
            known["model"] = objectives.config_keys(objective)
        except ValueError as error:
            raise UserError(f"objective (from {values.origin_of('objective')}): {error}") from error
    return known
