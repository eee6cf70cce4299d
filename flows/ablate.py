"""Flow `ablate`: the same model with and without some of its pre-training tasks, as in eHealth's Table 6."""

from __future__ import annotations

from typing import Any

from prefect import flow

from flows.corpus import check_inputs
from flows.preset import load_preset
from flows.pretrain import TrainedModel, prepare, train_model
from flows.vocabulary import check_vocabularies
from infra.artifacts import Artifact
from tasks.ablation import SETTINGS, AblationParams, ablation, check_scores
from tasks.runner import StageRunner, stage_runner

Scores = dict[str, dict[str, float]]
"""Scores by setting (full, without_csp, without_mts, without_csp_mts) and task, in percent."""


@flow(name="ablate")
def ablate(
    preset: str = "ehealth-tiny",
    corpus: str | list[str] | None = None,
    benchmarks: str | None = None,
    dictionary: str | None = None,
    vocabulary_file: str | None = None,
    scores: Scores | None = None,
    overrides: dict[str, Any] | None = None,
) -> str:
    """One preset in the paper's four settings (full, w/o CSP, w/o MTS, w/o both), all else shared; prints the table.

    Args:
        preset: name of a shipped preset, or a path to a TOML file.
        corpus, benchmarks, dictionary, vocabulary_file: as in pretrain/ehealth.
        scores: what fine-tuning found, by setting and task, to stand in the table too; trains nothing again.
        overrides: dotted preset keys to values; they hold for all four.

    Returns:
        The folder of the table.
    """
    recipe = load_preset(preset, overrides)
    recipes = {one.name: load_preset(preset, {**(overrides or {}), **one.overrides}) for one in SETTINGS}
    check_inputs(corpus, benchmarks, dictionary)
    check_vocabularies(vocabulary_file)
    check_scores(scores or {})
    with stage_runner() as run:
        data = prepare(run, recipe, corpus, benchmarks, dictionary, vocabulary_file)
        models = {name: train_model(run, one, data) for name, one in recipes.items()}
        table = compare(run, models, scores or {})
    print(table.read_file("table.md").decode())
    return str(table.path)


def compare(run: StageRunner, models: dict[str, TrainedModel], scores: Scores) -> Artifact:
    """The table of models by setting; `scores[setting][task]` are those of fine-tuning `models[setting].model`."""
    checkpoints = {name: one.checkpoint for name, one in models.items()}
    return run(ablation, AblationParams(scores=scores), **checkpoints)
