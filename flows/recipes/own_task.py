"""Settings of a task on a user's own file: the sections `own_task`, `finetune` and `learning_curve`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from flows.recipes.finetuning import load_finetuning
from flows.recipes.loading import checked, overlaid
from tasks.downstream.catalogue.grids import own_rates
from tasks.finetune.params import FinetuneParams
from tasks.own.params import OwnTaskParams


class OwnTaskRecipe(BaseModel):
    """Parameters of the stage that reads a user's file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    own_task: OwnTaskParams


def load_own_task(given: Mapping[str, Any], overrides: Mapping[str, Any] | None) -> OwnTaskParams:
    """Return what the columns mean; `overrides` of the section `own_task` win over `given`.

    Raises:
        UserError: unknown keys or unusable values.
    """
    own = {key: value for key, value in (overrides or {}).items() if key.startswith("own_task.")}
    return checked(OwnTaskRecipe, overlaid({"own_task": dict(given)}, "the flow's parameters", own)).own_task


def load_own_finetuning(
    task: str,
    quick: bool,
    seeds: Sequence[int] | None,
    class_weights: bool,
    overrides: Mapping[str, Any] | None,
    hidden_size: int | None = None,
) -> FinetuneParams:
    """Return the parameters of training an encoder of a hidden size; see `load_finetuning`."""
    rest = {key: value for key, value in (overrides or {}).items() if not key.startswith("own_task.")}
    own: dict[str, Any] = {"finetune.learning_rates": list(own_rates(hidden_size))}
    if class_weights:
        own["finetune.class_weights"] = "balanced"
    return load_finetuning(task, quick, seeds, own | rest)
