"""Models that are compared: objectives of five papers on one encoder, and what each starts from.

Stage 1 trains from random weights, stage 2 from the last checkpoint of a model of stage 1. All have the same encoder,
vocabulary and text, and models of a stage the same budget. Nothing here imports torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

RANDOM = "random"
"""The floor: the same encoder with fresh weights, fine-tuned alike."""
FLOOR = "bert"
"""Model whose architecture and vocabulary, which are those of all, the floor takes."""


@dataclass(frozen=True, kw_only=True)
class ComparedModel:
    """A pre-trained model of the comparison."""

    name: str
    title: str
    preset: str
    overrides: Mapping[str, Any] = field(default_factory=dict)
    """Dotted preset keys to values."""
    start: str | None = None
    """Model whose last checkpoint it starts from; None: random weights."""
    against: tuple[str, ...] = (RANDOM,)
    """Models that it is compared with by paired tests: the floor, and what its paper claims to be better than."""
    views: int = 1
    """Views that a step makes of each row."""
    linked: bool = False
    """True if its text is linked to the knowledge graph."""


MODELS: tuple[ComparedModel, ...] = (
    ComparedModel(name="bert", title="BERT", preset="bert-mini"),
    ComparedModel(name="electra", title="ELECTRA", preset="electra-mini", against=(RANDOM, "bert")),
    ComparedModel(name="ehealth", title="eHealth", preset="ehealth-mini", views=2, against=(RANDOM, "electra")),
    ComparedModel(
        name="ehealth-without-csp",
        title="eHealth w/o CSP",
        preset="ehealth-mini",
        overrides={"model.csp_weight": 0.0},
        views=2,
        against=(RANDOM, "ehealth"),
    ),
    ComparedModel(
        name="ehealth-without-mts",
        title="eHealth w/o MTS",
        preset="ehealth-mini",
        overrides={"model.mts_weight": 0.0},
        views=2,
        against=(RANDOM, "ehealth"),
    ),
    ComparedModel(
        name="bert-continued", title="BERT continued", preset="bert-mini", start="bert", against=(RANDOM, "bert")
    ),
    ComparedModel(
        name="electra-continued",
        title="ELECTRA continued",
        preset="electra-mini",
        start="electra",
        against=(RANDOM, "electra"),
    ),
    ComparedModel(
        name="cmed-bert",
        title="CMed-BERT",
        preset="cmed-bert-mini",
        start="bert",
        against=(RANDOM, "bert-continued"),
    ),
    ComparedModel(
        name="embert",
        title="EMBERT",
        preset="embert-mini",
        start="bert",
        against=(RANDOM, "bert-continued"),
        linked=True,
    ),
    ComparedModel(
        name="smedbert",
        title="SMedBERT",
        preset="smedbert-mini",
        start="bert",
        against=(RANDOM, "bert-continued"),
        linked=True,
    ),
    ComparedModel(
        name="em-pap",
        title="ELECTRA+EM+PAP",
        preset="electra-em-pap-mini",
        start="electra",
        against=(RANDOM, "electra-continued"),
        linked=True,
    ),
)
"""In the order of the page."""

BY_NAME: Mapping[str, ComparedModel] = {model.name: model for model in MODELS}
MILESTONES = (0.125, 0.25, 0.5)
"""Shares of the budget after which a checkpoint is kept, and scored for the picture of scores over time."""
FOLLOWED = ("bert", "ehealth")
"""Models that are scored at each milestone."""


def needed(names: tuple[str, ...]) -> list[ComparedModel]:
    """Return the models of these names, those that they start from, and the floor's, in the order of the page."""
    wanted = {FLOOR if name == RANDOM else name for name in names}
    wanted |= {BY_NAME[name].start or name for name in wanted}
    return [model for model in MODELS if model.name in wanted]
