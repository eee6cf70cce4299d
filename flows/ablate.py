"""Flow `ablate`: the same model with and without some of its pre-training tasks, as in eHealth's Table 6."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from flows.recipes.choices import PresetName
from flows.recipes.pretraining import Preset, load_preset
from flows.shared.documents import text_inputs
from flows.shared.graphs import Graphs, graphs_to_link
from flows.shared.pretraining import TrainedModel, check_inputs, prepare, train_model
from flows.shared.scoring import downstream_tasks, score
from flows.shared.vocabularies import vocabulary_input
from infra.artifacts import Artifact
from models import objectives
from tasks.pretrain.check import check_scores
from tasks.runner import StageRunner, flow, info, stage_runner

Scores = Annotated[dict[str, dict[str, float]], Field(examples=[{"full": {"cmeee": 61.2}}])]
"""Scores by setting (such as full and without_csp) and task, in percent."""

SETTINGS = (Preset,)
"""Models of the keys of `overrides`."""


@flow(name="ablate")
def ablate(
    preset: PresetName = "ehealth-tiny",
    corpus: str | list[str] | None = None,
    benchmarks: str | None = None,
    dictionary: str | None = None,
    vocabulary_file: str | None = None,
    graphs: Graphs | None = None,
    mentions: bool = False,
    tasks: str | list[str] | None = None,
    data: str | None = None,
    quick: bool = True,
    scores: Scores | None = None,
    overrides: dict[str, Any] | None = None,
) -> str:
    """Train one preset in the settings that its paper compares, the full one first, and print the table.

    Args:
        preset: name of a shipped preset, or a path to a TOML file.
        corpus: files or folders of text; the default is that of corpus/refresh.
        benchmarks: dev and test sets of downstream tasks; text that overlaps with them is cut out of the corpus.
        dictionary: UTF-8 file with one term per line, or in jieba's format; its terms are words.
        vocabulary_file: `vocab.txt` to train with; without one, a vocabulary is built from the text.
        graphs: knowledge graphs, as in knowledge/fuse; by default CMeKG.
        mentions: record in the examples which entities of the fused graph they mention, and where.
        tasks: tasks of finetune/… on which every model is fine-tuned, and scored on dev; by default none.
        data: folder with the official files of these tasks.
        quick: one setting and one seed for each of them, in place of the paper's grid.
        scores: further scores for the table, from fine-tuning elsewhere, by setting and task.
        overrides: dotted preset keys to values; they hold for all settings.

    Returns:
        The folder of the table.
    """
    recipe = load_preset(preset, overrides)
    variants = objectives.ablations(recipe.train.objective)
    recipes = {one.name: load_preset(preset, {**(overrides or {}), **one.overrides}) for one in variants}
    text = text_inputs(corpus, benchmarks, dictionary)
    vocabulary = vocabulary_input(vocabulary_file)
    for one in recipes.values():
        check_inputs(one, mentions)
    requested = graphs_to_link(graphs, mentions)
    check_scores(recipe.train.objective, scores or {})
    downstream = downstream_tasks(tasks, data, quick)
    with stage_runner() as run:
        examples = prepare(run, recipe, text, vocabulary, requested)
        models = {}
        for number, (name, one) in enumerate(recipes.items(), 1):
            run.effect(info, f"Setting {number} of {len(recipes)}: {name}")
            models[name] = train_model(run, one, examples)
        found = {name: score(run, one, downstream) | (scores or {}).get(name, {}) for name, one in models.items()}
        table = compare(run, models, {name: own for name, own in found.items() if own})
    print(table.read_file("table.md").decode())
    return str(table.path)


def compare(run: StageRunner, models: dict[str, TrainedModel], scores: Scores) -> Artifact:
    """Make the table of models by setting; `scores[setting][task]` are those of fine-tuning `models[setting].model`."""
    from tasks.pretrain.ablation import AblationParams, ablation  # imports torch

    checkpoints = {name: one.checkpoint for name, one in models.items()}
    return run(ablation, AblationParams(scores=scores), **checkpoints)
