"""Settings of fine-tuning: one section, `finetune`, with the fields of `FinetuneParams`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from flows.recipes.loading import OVERRIDES, checked, overlaid
from infra.errors import UserError
from tasks.finetune.params import FinetuneParams


class FinetuneRecipe(BaseModel):
    """Parameters of the fine-tuning stage for one task."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    finetune: FinetuneParams


def load_finetuning(
    task: str, quick: bool = False, seeds: Sequence[int] | None = None, overrides: Mapping[str, Any] | None = None
) -> FinetuneParams:
    """Return the parameters of one task.

    Args:
        task: name of the task.
        quick: one setting and one seed instead of the task's grid.
        seeds: seeds of every setting; None for the default ones.
        overrides: dotted keys to values, such as `{"finetune.epochs": [8]}`; they win over `quick` and `seeds`.

    Raises:
        UserError: unknown keys or unusable values.
    """
    if "finetune.task" in (overrides or {}):
        raise UserError(f"finetune.task (from {OVERRIDES}) follows from the parameter tasks. Leave it out.")
    given = {"task": task, "quick": quick, **({} if seeds is None else {"seeds": tuple(seeds)})}
    return checked(FinetuneRecipe, overlaid({"finetune": given}, "the flow's parameters", overrides)).finetune
