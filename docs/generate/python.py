"""Pages of the Python API: names that are imported from outside, grouped by subject, for mkdocstrings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Page(NamedTuple):
    """One page of the API."""

    title: str
    introduction: str
    names: tuple[str, ...]
    """Full names: functions and classes, by the module that users import them from."""


PAGES: Mapping[str, Page] = {
    "text": Page(
        "Python: text",
        "Cleaning, de-identification, duplicates, words and vocabularies, one function each, without a flow.",
        (
            "tasks.clean.clean_text",
            "tasks.deidentify.deidentify",
            "tasks.deduplicate.near_duplicates",
            "tasks.segment.split_document",
            "tasks.segment.segment_words",
            "tasks.vocabulary.build_vocabulary",
        ),
    ),
    "knowledge": Page(
        "Python: knowledge",
        "Graphs, their fusion, links to text, neighbours and vectors. Pure functions over tables and arrays.",
        (
            "kg.graph.KnowledgeGraph",
            "kg.fusion.fuse",
            "kg.linking.EntityLinker",
            "kg.pepr.rank_neighbours",
            "kg.transr.TransR",
        ),
    ),
    "tasks": Page(
        "Python: tasks and terms",
        "Prediction with fine-tuned models, normalisation of diagnoses, candidates and metrics.",
        (
            "tasks.finetune.predict.Predictor",
            "tasks.normalise.normaliser.Normaliser",
            "tasks.normalise.answers.Normalised",
            "tasks.normalise.answers.Answer",
            "tasks.retrieve.CandidateIndex",
            "tasks.retrieve.EmbeddedIndex",
            "tasks.retrieve.ElasticsearchIndex",
            "tasks.metrics.accuracy",
            "tasks.metrics.entity_f1",
            "tasks.metrics.macro_f1",
            "tasks.metrics.micro_f1",
            "tasks.metrics.mrr",
            "tasks.metrics.multi_label_f1",
            "tasks.metrics.normalisation_f1",
            "tasks.metrics.pair_score",
            "tasks.metrics.positive_f1",
            "tasks.metrics.precision_at_1",
            "tasks.metrics.recall_at_k",
            "tasks.metrics.triple_f1",
        ),
    ),
    "models": Page(
        "Python: models",
        "Networks, objectives and heads. They need torch and transformers alone.",
        (
            "models.encoder.Encoder",
            "models.encoder.EncoderConfig",
            "models.objectives.build",
            "models.objectives.base.Objective",
            "models.objectives.config.ObjectiveConfig",
            "models.heads.build",
            "models.networks.build",
            "models.masking.mask_words",
            "models.ema.ExponentialMovingAverage",
            "models.word_vectors.WordVectors",
        ),
    ),
    "artifacts": Page(
        "Python: artifacts and stages",
        "The store of artifacts, and what a stage is made of.",
        (
            "infra.artifacts.ArtifactStore",
            "infra.artifacts.Artifact",
            "infra.artifacts.Part",
            "infra.artifacts.Manifest",
            "infra.stage.stage",
            "infra.stage.run",
            "infra.stage.StageParams",
            "infra.stage.Output",
            "infra.builds.PartWriter",
            "infra.errors.UserError",
        ),
    ),
}


def text_of(page: Page) -> str:
    """Return a page that mkdocstrings fills in."""
    return "\n\n".join([f"# {page.title}", page.introduction, *(f"::: {name}" for name in page.names)]) + "\n"
