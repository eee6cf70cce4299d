"""Flow `sweep`: ELECTRA+EM+PAP with several shares of PAP steps, as in the paper's Figure 2; 0 is without PAP."""

from __future__ import annotations

from typing import Any

from flows.recipes.choices import PresetName
from flows.recipes.evaluating import ProductEvaluation, load_product_evaluation
from flows.recipes.finetuning import FinetuneRecipe, load_finetuning
from flows.recipes.pretraining import Preset, load_preset
from flows.shared.documents import text_inputs
from flows.shared.downstream import chosen_tasks, task_files
from flows.shared.graphs import Graphs, requested_graphs
from flows.shared.pretraining import TrainedModel, check_products, prepare, train_model
from flows.shared.products import records
from flows.shared.vocabularies import vocabulary_input
from infra.artifacts import Artifact
from infra.errors import UserError
from tasks.evaluate.products.query_title import query_title
from tasks.evaluate.products.sweep_steps import RANKS, RUN, rtd_steps, share_name, steps_for
from tasks.finetune.inputs import ModelFolder
from tasks.runner import StageRunner, flow, info, stage_runner

SECTIONS = ("rank_values.", "query_title.", "finetune.")
"""Beginnings of the overrides that are not the preset's."""

SETTINGS = (Preset, ProductEvaluation, FinetuneRecipe)
"""Models of the keys of `overrides`."""


@flow(name="sweep")
def sweep(
    preset: PresetName = "electra-em-pap-tiny",
    shares: list[float] | None = None,
    corpus: str | list[str] | None = None,
    dictionary: str | None = None,
    vocabulary_file: str | None = None,
    graphs: Graphs | None = None,
    relevance: bool = False,
    overrides: dict[str, Any] | None = None,
) -> str:
    """Train one preset with several shares of PAP steps and equally many RTD steps, and compare them in a picture.

    Args:
        preset: name of a preset whose objective is electra_em_pap, or a path to a TOML file.
        shares: values of ρ (model.pap_share); by default 0, 0.01, 0.05, 0.1 and 0.15.
        corpus: files or folders of text; the default is that of corpus/refresh.
        dictionary: UTF-8 file with one term per line, or in jieba's format; its terms are words.
        vocabulary_file: `vocab.txt` to train with; without one, a vocabulary is built from the text.
        graphs: knowledge graphs whose names are masked, as in knowledge/fuse; by default CMeKG.
        relevance: also fine-tune each model on query-title relevance made from the products' indications.
        overrides: dotted preset keys to values; they hold for all models. Also `rank_values.<key>`,
            `query_title.<key>` and `finetune.<key>`.

    Returns:
        The folder of the picture and the table.
    """
    shares = [0.0, 0.01, 0.05, 0.1, 0.15] if shares is None else shares
    own = {key: value for key, value in (overrides or {}).items() if key.startswith(SECTIONS)}
    of_preset = {key: value for key, value in (overrides or {}).items() if key not in own}
    evaluation = load_product_evaluation(
        overrides={key: value for key, value in own.items() if not key.startswith("finetune.")}
    )
    tuning = {key: value for key, value in own.items() if key.startswith("finetune.")}
    recipe = load_preset(preset, of_preset)
    if recipe.objective != "electra_em_pap":
        raise UserError(f"{preset} is of the objective {recipe.objective}. Give a preset of electra_em_pap.")
    check_products(recipe)
    text = text_inputs(corpus, None, dictionary)
    vocabulary = vocabulary_input(vocabulary_file)
    recipes = {share: _recipe(preset, of_preset, recipe, share) for share in shares}
    requested = requested_graphs(graphs)
    # Torch is imported here, so that mistakes are explained without it.
    from tasks.evaluate.products.pap_sweep import PapSweepParams, pap_sweep
    from tasks.evaluate.products.rank_values import rank_values

    with stage_runner() as run:
        data = prepare(run, recipe, text, vocabulary, requested)
        read = records(run, recipe.product_records)
        made = run(query_title, evaluation.query_title, records=read) if relevance else None
        inputs: dict[str, Artifact] = {}
        scores: dict[str, dict[str, float]] = {}
        for number, (share, one) in enumerate(recipes.items(), 1):
            run.effect(info, f"Setting {number} of {len(recipes)}: PAP in {share:.0%} of the steps")
            trained = train_model(run, one, data)
            inputs[RUN + share_name(share)] = trained.checkpoint
            inputs[RANKS + share_name(share)] = run(
                rank_values,
                evaluation.rank_values,
                checkpoint=trained.checkpoint,
                vocabulary=data.vocabulary,
                records=read,
            )
            if made is not None:
                scores[share_name(share)] = _relevance(run, trained, made, tuning)
        table = run(pap_sweep, PapSweepParams(shares=tuple(shares), scores=scores), **inputs)
    print(table.read_file("table.md").decode())
    return str(table.path)


def _recipe(preset: str, overrides: dict[str, Any], base: Preset, share: float) -> Preset:
    """Return the preset with another share, and as many steps as give the RTD steps of `base`."""
    changed = load_preset(preset, {**overrides, "model.pap_share": share})
    seed = base.train.training.get("seed", 42)
    size = base.vocabulary.size
    wanted = rtd_steps(base.objective, {**base.model, "vocab_size": size}, base.train.training["steps"], seed)
    steps = steps_for(base.objective, {**changed.model, "vocab_size": size}, wanted, seed)
    return load_preset(preset, {**overrides, "model.pap_share": share, "training.steps": steps})


def _relevance(run: StageRunner, trained: TrainedModel, made: Artifact, tuning: dict[str, Any]) -> dict[str, float]:
    """Fine-tune a model on both tasks of relevance; return the test scores of the best runs, in percent."""
    from tasks.finetune.stage import finetune
    from tasks.reports.finetune import best_scores

    found = {}
    for name, files in task_files(chosen_tasks(["qtrel-easy", "qtrel-hard"]), str(made.path)).items():
        params = load_finetuning(name, True, None, tuning)
        tuned = run(finetune, params, model=ModelFolder(str(trained.model.path)), data=files)
        main = next(row for row in best_scores(tuned) if row["split"] == "test" and row["main"])
        found[name] = round(100 * main["value"], 2)
    return found
