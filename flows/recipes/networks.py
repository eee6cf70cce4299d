"""Settings of the comparison of networks: sections `networks`, `graph_texts` and `masked_diagnoses`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from flows.recipes.loading import checked, overlaid
from tasks.downstream.catalogue import task
from tasks.downstream.records import Kind
from tasks.evaluate.cmedlms.params import GraphTextsParams, MaskedDiagnosesParams
from tasks.finetune.params import NetworksParams, TuningParams

QUICK: Mapping[str, Any] = {
    "limit": 64,
    "tagging_limit": 6,
    "max_length": 48,
    "epochs": (4,),
    "seeds": (1,),
    "batch_sizes": (4,),
    "learning_rates": (5e-3,),
}
"""Limits of the quick form: some hundred steps per cell. Batches are smaller than the paper's and the rate higher, for
so few steps to learn something."""


class NetworkSettings(TuningParams):
    """Fields of `NetworksParams` that are the same for all tasks."""

    tagging_limit: int | None = Field(default=None, ge=1)
    """As `limit`, for tasks of kind tagging, whose records are long and cut into windows; None: `limit`."""

    def limit_of(self, name: str) -> int | None:
        """Return the records per split of a task at most."""
        is_tagging = task(name).kind is Kind.TAGGING
        return self.tagging_limit if is_tagging and self.tagging_limit is not None else self.limit

    def for_task(self, name: str, networks: Sequence[str]) -> NetworksParams:
        """Return the parameters of one task."""
        values = {field: getattr(self, field) for field in TuningParams.model_fields}
        return NetworksParams(task=name, networks=tuple(networks), **values | {"limit": self.limit_of(name)})


class NetworkRecipe(BaseModel):
    """Parameters of every stage of the comparison."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    networks: NetworkSettings = Field(default_factory=NetworkSettings)
    graph_texts: GraphTextsParams = Field(default_factory=GraphTextsParams)
    masked_diagnoses: MaskedDiagnosesParams = Field(default_factory=MaskedDiagnosesParams)

    def limits(self) -> str:
        """Return a sentence about the limits of this run, for its page."""
        own = self.networks
        said = [f"seeds {', '.join(map(str, own.seeds))}"]
        said += [f"at most {own.limit:,} records per split"] if own.limit is not None else []
        said += [f"{own.tagging_limit:,} in tagging"] if own.tagging_limit is not None else []
        said += [f"{own.max_length} tokens per sequence"] if own.max_length is not None else []
        said += [f"{', '.join(map(str, own.epochs))} epochs"] if own.epochs is not None else []
        said += [f"batches of {', '.join(map(str, own.batch_sizes))}"] if own.batch_sizes is not None else []
        said += [f"learning rates {', '.join(map(str, own.learning_rates))}"] if own.learning_rates is not None else []
        return f"This run: {'; '.join(said)}. The paper: batches of 64, at most 100 epochs, patience 10."


def load_networks(
    quick: bool = False, seeds: Sequence[int] | None = None, overrides: Mapping[str, Any] | None = None
) -> NetworkRecipe:
    """Return the parameters.

    Args:
        quick: the limits of `QUICK`.
        seeds: seeds of every cell; None for the default ones.
        overrides: dotted keys to values, such as `{"networks.epochs": [8]}`; they win over `quick` and `seeds`.

    Raises:
        UserError: unknown keys or unusable values.
    """
    given = {**(QUICK if quick else {}), **({} if seeds is None else {"seeds": tuple(seeds)})}
    return checked(NetworkRecipe, overlaid({"networks": given}, "the flow's parameters", overrides))
