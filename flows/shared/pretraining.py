"""Pre-training of one or several models: raw text to examples, examples to an exported model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from flows.recipes.pretraining import Preset
from flows.shared.documents import TextInputs, collect_documents, cut_segments, last
from flows.shared.entities import entity_vocabulary, named_lists
from flows.shared.graphs import GraphSource, deciding_frequencies, fused
from flows.shared.knowledge import arrays_of, studied
from flows.shared.products import product_source, records
from flows.shared.vocabularies import adopt_vocabulary, build_vocabulary
from infra.artifacts import Artifact
from infra.errors import UserError
from models import objectives
from tasks.files.raw_input import RawInput
from tasks.finetune.inputs import ModelFolder
from tasks.knowledge.thesaurus import thesaurus
from tasks.pretrain.encode import encode
from tasks.pretrain.entity_examples import EntityExamplesParams, entity_examples
from tasks.pretrain.entity_surfaces import entity_surfaces
from tasks.pretrain.pairs import pairs
from tasks.pretrain.products import products
from tasks.runner import StageRunner, UnmadeError, warn

FOR_GPUS = "bf16"
"""Precision that the presets for GPUs set."""


@dataclass(frozen=True)
class TrainingData:
    """Examples that models are trained on, the vocabulary of their tokens, and what they were made from."""

    vocabulary: Artifact
    examples: Artifact
    segments: Artifact
    entities: Artifact | None = None
    """The entities that the examples mention, if any: the fused graph, or an entity vocabulary."""
    graph: Artifact | None = None
    """The fused graph, if there is one."""


@dataclass(frozen=True)
class TrainedModel:
    """A model: its last checkpoint with its curves, and the folder that transformers loads."""

    checkpoint: Artifact
    model: Artifact


MakeInput = Callable[[StageRunner, Preset, TrainingData], Artifact]


def make_knowledge(run: StageRunner, recipe: Preset, data: TrainingData) -> Artifact:
    """Study the graph that the examples mention, and return its arrays. Raises `UserError` if they mention none."""
    check_linked(recipe, data.entities is not None)
    assert data.graph is not None
    return arrays_of(run, data.graph, studied(run, recipe, data.graph, data.segments))


def sentence_pairs(run: StageRunner, recipe: Preset, data: TrainingData) -> Artifact:
    """Make pairs of neighbouring segments, with random second sentences where the objective learns to find them."""
    settings = objectives.check(recipe.objective, _model(recipe, data))
    fitting: dict[str, float] = {"max_length": min(recipe.pairs.max_length, settings.max_positions)}
    if not settings.random_pairs:
        fitting["random_share"] = 0.0
    return run(pairs, recipe.pairs.model_copy(update=fitting), examples=data.examples, vocabulary=data.vocabulary)


def encoded_products(run: StageRunner, recipe: Preset, data: TrainingData) -> Artifact:
    """Read the products that the recipe names, and encode them with the vocabulary of the text."""
    longest = objectives.check(recipe.objective, _model(recipe, data)).max_positions
    params = recipe.products.model_copy(update={"max_length": min(recipe.products.max_length, longest)})
    return run(products, params, records=records(run, recipe.product_records), vocabulary=data.vocabulary)


def make_entity_surfaces(run: StageRunner, recipe: Preset, data: TrainingData) -> Artifact:
    """Cut the entity vocabulary and its thesaurus into tokens. Raises `UserError` if there is no vocabulary."""
    check_linked(recipe, data.entities is not None)
    assert data.graph is not None
    assert data.entities is not None
    synonyms = run(thesaurus, recipe.thesaurus, kg_entities=data.graph)
    given = {"vocabulary": data.vocabulary, "entities": data.entities, "synonyms": synonyms}
    return run(entity_surfaces, recipe.entity_surfaces, **given)


def make_entity_examples(run: StageRunner, recipe: Preset, data: TrainingData) -> Artifact:
    """Make pairs of neighbouring segments that name their entities."""
    surfaces = make_entity_surfaces(run, recipe, data)
    pairs_of_text = sentence_pairs(run, recipe, data)
    return run(entity_examples, EntityExamplesParams(), pairs=pairs_of_text, entity_surfaces=surfaces)


DATA: Mapping[str, MakeInput] = {
    "entity_examples": make_entity_examples,
    "entity_surfaces": make_entity_surfaces,
    "knowledge": make_knowledge,
    "pairs": sentence_pairs,
    "products": encoded_products,
}
"""By the name of an input that an objective's settings ask for (`data` and `resources` of its config), the function
that makes it."""


def check_inputs(recipe: Preset, mentions: bool) -> None:
    """Check before any work is done that what the recipe's objective reads beside text can be made.

    Raises:
        UserError: it reads mentions or knowledge, and the text is to be linked to no graph; or products, and those that
            are named cannot be read.
    """
    check_linked(recipe, mentions)
    check_products(recipe)


def check_gpus(run: StageRunner, recipe: Preset) -> None:
    """Check before any work is done that the cluster which a preset for GPUs is submitted to has some.

    Raises:
        UserError: no node of the cluster has a GPU, and the preset does not say what to do then.
    """
    cluster = recipe.train.cluster
    if recipe.train.training.get("precision") != FOR_GPUS or cluster.gpu is False:
        return
    nodes = run.nodes()
    if nodes is None or any(node.get("GPU") for node in nodes):
        return
    cores = sum(node.get("CPU", 0) for node in nodes)
    found = f"The preset is for GPUs, and the cluster has none on its {len(nodes)} nodes with {cores:g} cores"
    if cluster.gpu:
        warn(f"{found}. Training waits {cluster.wait_minutes:g} minutes for a node with a GPU (cluster.wait_minutes).")
        return
    raise UserError(
        f"{found}. Add --param cluster.gpu=true if nodes with GPUs are started on demand, or cluster.gpu=false to "
        "train on CPUs; or take the preset's -tiny version."
    )


def warn_of_slow_bf16(run: StageRunner, recipe: Preset) -> None:
    """Warn if the recipe would train in bf16 on this machine's CPU, which has no instructions for it."""
    if recipe.train.training.get("precision") != FOR_GPUS or run.nodes() is not None:
        return
    import torch

    from models.training.meter import cpu_has_bf16

    on_cpu = recipe.train.cluster.gpu is False or not torch.cuda.is_available()
    if on_cpu and not cpu_has_bf16():
        warn(
            "training.precision is bf16, for which this machine's CPU has no instructions: training would take many "
            "times longer than in fp32. Add --param training.precision=fp32."
        )


def check_products(recipe: Preset) -> None:
    """Raise `UserError` if the recipe's objective reads products, and those that are named cannot be read."""
    if "products" in _settings(recipe).data():
        product_source(recipe.product_records)


def check_linked(recipe: Preset, linked: bool) -> None:
    """Raise `UserError` if the recipe's objective reads mentions or knowledge, and text is not linked to a graph."""
    needs_knowledge = not {"knowledge", "entity_surfaces"}.isdisjoint(_resources(recipe))
    if not linked and (needs_knowledge or _settings(recipe).reads_mentions):
        what = "knowledge of the entities that the text mentions" if needs_knowledge else "which entities are mentioned"
        raise UserError(
            f"Objective {recipe.objective} reads {what}. Give --param mentions=true, and your own graphs with --param "
            "graphs=…; by default it is CMeKG."
        )


def _resources(recipe: Preset) -> tuple[str, ...]:
    """Names of what the recipe's objective reads beside its rows."""
    return tuple(_settings(recipe).resources())


def _settings(recipe: Preset) -> Any:
    """Settings of the recipe's objective, before its vocabulary is known."""
    return objectives.check(recipe.objective, {**recipe.model, "vocab_size": recipe.vocabulary.size})


def prepare(
    run: StageRunner,
    recipe: Preset,
    text: TextInputs,
    vocabulary_file: RawInput | None = None,
    graphs: Mapping[str, GraphSource] | None = None,
) -> TrainingData:
    """Turn raw text into encoded examples.

    Args:
        vocabulary_file: `vocab.txt` to encode with; None to build a vocabulary from the text.
        graphs: graphs to fuse; the examples then name the entities that they mention. These are the graph's or, if
            the objective reads `entity_surfaces`, those of the vocabulary that it and the text's phrases make.
    """
    check_gpus(run, recipe)
    warn_of_slow_bf16(run, recipe)
    documents = last(collect_documents(run, recipe, text))
    if vocabulary_file is None:
        vocabulary = build_vocabulary(run, recipe, documents)
    else:
        vocabulary = adopt_vocabulary(run, recipe, vocabulary_file)
    segments = cut_segments(run, recipe, documents, text, vocabulary)
    linked: dict[str, Artifact] = {}
    graph = fused(run, recipe, graphs) if graphs else None
    if graph is not None and "entity_surfaces" in _resources(recipe):
        _, linked["entities"] = entity_vocabulary(run, recipe, segments, {"kg_entities": graph, **named_lists()})
    elif graph is not None:
        linked = {"entities": graph, **deciding_frequencies(run, segments, graph)}
    examples = run(encode, recipe.encode, segments=segments, vocabulary=vocabulary, **linked)
    return TrainingData(vocabulary, examples, segments, linked.get("entities"), graph)


def more_inputs(run: StageRunner, recipe: Preset, data: TrainingData) -> dict[str, Artifact]:
    """Make what the recipe's objective needs beside the examples, by the names of the inputs of `train`."""
    model = _model(recipe, data)
    names = (*objectives.data(recipe.objective, model), *objectives.resources(recipe.objective, model))
    return {name: DATA[name](run, recipe, data) for name in dict.fromkeys(names)}


def _model(recipe: Preset, data: TrainingData) -> dict[str, Any]:
    """Settings of the recipe's objective, with the size of the vocabulary."""
    try:
        size = data.vocabulary.rows()
    except UnmadeError:  # a plan has no vocabulary yet; which inputs there are does not depend on its size
        size = recipe.vocabulary.size
    return {**recipe.train.model, "vocab_size": size}


def train_model(run: StageRunner, recipe: Preset, data: TrainingData, init: ModelFolder | None = None) -> TrainedModel:
    """Train and export a model, starting from the weights of `init` or, for None, from random ones."""
    # Torch is imported here, so that mistakes are explained without it.
    from tasks.pretrain.export import export
    from tasks.pretrain.train import train

    given = {"examples": data.examples, "vocabulary": data.vocabulary, **more_inputs(run, recipe, data)}
    checkpoint = run(train, recipe.train, **given, **({} if init is None else {"init": init}))
    return TrainedModel(checkpoint, run(export, recipe.export, checkpoint=checkpoint, **given))
