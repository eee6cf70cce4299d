"""Flow `sweep`: one preset with several values of a setting: SMedBERT's hit ratio (Figure 3) or K (Figure 4)."""

from __future__ import annotations

from typing import Any

from flows.recipes.choices import PresetName
from flows.recipes.pretraining import Preset, load_preset
from flows.shared.documents import text_inputs
from flows.shared.graphs import Graphs, GraphSource, equal_names, graphs_to_link, sources
from flows.shared.pretraining import TrainedModel, check_inputs, prepare, train_model
from flows.shared.scoring import downstream_tasks, score
from flows.shared.vocabularies import vocabulary_input
from infra.artifacts import Artifact
from infra.errors import UserError
from tasks.evaluate.similarity.params import SimilarityScoresParams, SimilaritySetsParams
from tasks.finetune.inputs import ModelFolder
from tasks.knowledge.fuse import fuse_graphs
from tasks.runner import StageRunner, flow, info, stage_runner

SETTINGS = (Preset,)
"""Models of the keys of `overrides`."""


@flow(name="sweep")
def sweep(
    key: str,
    values: list[int | float],
    title: str = "",
    preset: PresetName = "smedbert-tiny",
    corpus: str | list[str] | None = None,
    benchmarks: str | None = None,
    dictionary: str | None = None,
    vocabulary_file: str | None = None,
    graphs: Graphs | None = None,
    mentions: bool = True,
    similarity: bool = True,
    tasks: str | list[str] | None = None,
    data: str | None = None,
    quick: bool = True,
    overrides: dict[str, Any] | None = None,
) -> str:
    """Train one preset with several values of a setting, and compare the models in a table and a picture.

    Args:
        key: dotted key of the preset, such as model.hit_ratio or model.neighbours (K; neighbours.k ranks as many).
        values: its values, one model each.
        title: name of the setting in the picture; by default the key.
        preset: name of a shipped preset, or a path to a TOML file.
        corpus: files or folders of text; the default is that of corpus/refresh.
        benchmarks: dev and test sets of downstream tasks; text that overlaps with them is cut out of the corpus.
        dictionary: UTF-8 file with one term per line, or in jieba's format; its terms are words.
        vocabulary_file: `vocab.txt` to train with; without one, a vocabulary is built from the text.
        graphs: knowledge graphs, as in knowledge/fuse; by default CMeKG.
        mentions: record in the examples which entities of the fused graph they mention, and where.
        similarity: also score the models on the sets of equal names, as evaluate/intrinsic does; needs mentions.
        tasks: tasks of finetune/… on which every model is fine-tuned, and scored on dev; by default none.
        data: folder with the official files of these tasks.
        quick: one setting and one seed for each of them, in place of the paper's grid.
        overrides: dotted preset keys to values; they hold for all models.

    Returns:
        The folder of the picture and the table.
    """
    if not values or len(set(values)) < len(values):
        raise UserError(f"values={values}: give one or more different values of {key}, as in --param values=[5,10].")
    recipes = [load_preset(preset, {**(overrides or {}), key: value}) for value in values]
    for one in recipes:
        check_inputs(one, mentions)
    text = text_inputs(corpus, benchmarks, dictionary)
    vocabulary = vocabulary_input(vocabulary_file)
    requested = graphs_to_link(graphs, mentions)
    downstream = downstream_tasks(tasks, data, quick)
    # Torch is imported here, so that mistakes are explained without it.
    from tasks.evaluate.settings.sweep import RUN, SIMILARITY, SettingSweepParams, setting_sweep

    inputs: dict[str, Artifact] = {}
    scores: list[dict[str, float]] = []
    with stage_runner() as run:
        for place, one in enumerate(recipes):
            run.effect(info, f"Setting {place + 1} of {len(recipes)}: {key} = {values[place]}")
            made = prepare(run, one, text, vocabulary, requested)
            trained = train_model(run, one, made)
            inputs[f"{RUN}{place}"] = trained.checkpoint
            if similarity and requested:
                inputs[f"{SIMILARITY}{place}"] = _similarity(run, one, requested, made.segments, trained)
            scores.append(score(run, trained, downstream))
        params = SettingSweepParams(
            key=key, title=title, values=tuple(values), scores=tuple(scores) if downstream else ()
        )
        table = run(setting_sweep, params, **inputs)
    print(table.read_file("table.md").decode())
    return str(table.path)


def _similarity(
    run: StageRunner, recipe: Preset, graphs: dict[str, GraphSource], segments: Artifact, trained: TrainedModel
) -> Artifact:
    """Score a model on the sets of equal names of the whole graph."""
    from tasks.evaluate.similarity.scores import similarity_scores
    from tasks.evaluate.similarity.sets import similarity_sets

    read = sources(run, graphs)
    graph = run(fuse_graphs, recipe.fuse, **read)
    asked = {"pairs": equal_names(run, recipe, graph, read), "kg_entities": graph, "segments": segments}
    sets = run(similarity_sets, SimilaritySetsParams(), **asked)
    model = ModelFolder(str(trained.model.path))
    return run(similarity_scores, SimilarityScoresParams(), sets=sets, model=model, checkpoint=trained.checkpoint)
