"""Parameters of the stages `normaliser` and `term_mapping`, apart from them, as they need torch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from infra.stage import StageParams
from tasks.finetune.params import TuningParams
from tasks.normalise.publish import ALIAS
from tasks.retrieve.candidates import MOST_CANDIDATES

TASK = "chip-cdn"
"""Name of the downstream task that a normaliser is trained on."""


class NormaliserParams(TuningParams):
    """Number of candidates, and training of their ranker."""

    k: int = Field(default=100, ge=1, le=MOST_CANDIDATES, description="candidates ranked per diagnosis (eHealth: 100)")
    hard_negatives: int = Field(default=12, ge=0, description="wrong pairs per diagnosis from its candidates")
    random_negatives: int = Field(default=4, ge=0, description="wrong pairs per diagnosis from the whole list")
    engine: Literal["embedded", "elasticsearch"] = Field(
        default="embedded", description="search engine; elasticsearch: the server of ELASTICSEARCH_URL"
    )
    alias: str = Field(default=ALIAS, description="alias of the list on the server; the flow sets its own")


class TermMappingParams(StageParams):
    """How sure the mapping of a term must be."""

    threshold: float = Field(default=0.5, ge=0, le=1, description="confidence that a mapping needs")
