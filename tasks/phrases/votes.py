"""Stage `phrase_votes`: votes of trees on the candidates for phrases, counted by groups of trees.

Runs inside the stage `phrases`, for the embedded engine. Every tree has its own seed and votes are whole numbers, so
neither groups nor workers change the result.

Time grows with trees times candidates, memory with the candidates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from pydantic import Field

from infra import schemas
from infra.artifacts import Artifact
from infra.builds import PartWriter
from infra.stage import Output, StageParams, stage
from tasks.phrases.arrays import SharedArray
from tasks.phrases.classifier import Votes, votes_of

VOTES_AT_ONCE = 1 << 22
"""Trees times candidates per unit: about a second of work."""


class VoteParams(StageParams):
    """Parameters of the trees."""

    trees: int = Field(default=1000, ge=1, description="number of trees that vote")
    positives: int = Field(default=100, ge=1, description="maximum positives per tree")
    negatives: int = Field(default=1, ge=1, description="negatives per positive in a tree")
    seed: int = Field(default=42, description="seed of all draws")


@stage(name="phrase_votes", version=1, params=VoteParams, tables=("phrase_votes",), heavy=True)
def phrase_votes(inputs: Mapping[str, Any], params: VoteParams, out: Output) -> None:
    """Let trees judge `inputs["features"]` by `inputs["roles"]`, both a `SharedArray` (see `votes_of`)."""
    features: SharedArray = inputs["features"]
    size = max(1, VOTES_AT_ONCE // features.shape[0])
    groups = [(first, min(first + size, params.trees)) for first in range(0, params.trees, size)]
    out.map(vote, groups, features, inputs["roles"], params)


def vote(
    writer: PartWriter, trees: tuple[int, int], features: SharedArray, roles: SharedArray, params: VoteParams
) -> None:
    """Grow one group of trees and count its votes."""
    counted = votes_of(features.load(), roles.load(), range(*trees), params.positives, params.negatives, params.seed)
    candidates = np.arange(features.shape[0], dtype=np.int64)
    writer.write("phrase_votes", pa.table([candidates, *counted], schema=schemas.PHRASE_VOTES))


def read_votes(votes: Artifact) -> Votes:
    """Return the votes of all trees."""
    table = votes.scan("phrase_votes").group_by("candidate").agg(pl.all().sum()).sort("candidate").collect()
    return Votes(*(table[name].to_numpy() for name in Votes._fields))
