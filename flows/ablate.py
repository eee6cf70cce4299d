"""Flow `ablate`: the same model with and without some of its pre-training tasks, as in eHealth's Table 6."""

from __future__ import annotations

from typing import Any

from flows.recipes.finetuning import load_finetuning
from flows.recipes.pretraining import load_preset
from flows.shared.documents import text_inputs
from flows.shared.downstream import chosen_tasks, task_files
from flows.shared.graphs import Graphs, graphs_to_link
from flows.shared.pretraining import TrainedModel, check_inputs, prepare, train_model
from flows.shared.vocabularies import vocabulary_input
from infra.artifacts import Artifact
from infra.errors import UserError
from models import objectives
from tasks.downstream.spec import TaskSpec
from tasks.finetune.inputs import ModelFolder, TaskFiles
from tasks.finetune.params import FinetuneParams
from tasks.pretrain.check import check_scores
from tasks.runner import StageRunner, flow, stage_runner

Scores = dict[str, dict[str, float]]
"""Scores by setting (such as full and without_csp) and task, in percent."""

Downstream = list[tuple[TaskSpec, FinetuneParams, TaskFiles]]
"""Tasks that models are scored by."""


@flow(name="ablate")
def ablate(
    preset: str = "ehealth-tiny",
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
        corpus, benchmarks, dictionary, vocabulary_file, graphs, mentions: as in the flow pretrain.
        tasks, data, quick: every model is fine-tuned on these tasks, as in finetune/<task>, and scored on dev.
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
    downstream = _downstream(tasks, data, quick)
    with stage_runner() as run:
        examples = prepare(run, recipe, text, vocabulary, requested)
        models = {name: train_model(run, one, examples) for name, one in recipes.items()}
        found = {name: score(run, one, downstream) | (scores or {}).get(name, {}) for name, one in models.items()}
        table = compare(run, models, {name: own for name, own in found.items() if own})
    print(table.read_file("table.md").decode())
    return str(table.path)


def _downstream(tasks: str | list[str] | None, data: str | None, quick: bool) -> Downstream:
    if tasks is None:
        return []
    if data is None:
        raise UserError("No data was given for the tasks. Give the folder with the official files as data.")
    specs = chosen_tasks(tasks)
    files = task_files(specs, data)
    return [(spec, load_finetuning(spec.name, quick), files[spec.name]) for spec in specs if spec.name in files]


def score(run: StageRunner, trained: TrainedModel, downstream: Downstream) -> dict[str, float]:
    """Fine-tune a model on each task; return the dev scores of the best runs by task, in percent."""
    # Torch is imported here, so that mistakes are explained without it.
    from tasks.finetune.stage import finetune as finetune_stage
    from tasks.reports.finetune import best_scores

    found = {}
    for spec, params, files in downstream:
        tuned = run(finetune_stage, params, model=ModelFolder(str(trained.model.path)), data=files)
        main = next(row for row in best_scores(tuned) if row["split"] == "dev" and row["main"])
        found[spec.title] = round(100 * main["value"], 2)
    return found


def compare(run: StageRunner, models: dict[str, TrainedModel], scores: Scores) -> Artifact:
    """Make the table of models by setting; `scores[setting][task]` are those of fine-tuning `models[setting].model`."""
    from tasks.pretrain.ablation import AblationParams, ablation  # imports torch

    checkpoints = {name: one.checkpoint for name, one in models.items()}
    return run(ablation, AblationParams(scores=scores), **checkpoints)
