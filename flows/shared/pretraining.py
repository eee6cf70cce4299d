"""Pre-training of one or several models: raw text to examples, examples to an exported model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from flows.recipes.pretraining import Preset
from flows.shared.documents import TextInputs, collect_documents, cut_segments, last
from flows.shared.graphs import GraphSource, deciding_frequencies, fused
from flows.shared.vocabularies import adopt_vocabulary, build_vocabulary
from infra.artifacts import Artifact
from tasks.files.raw_input import RawInput
from tasks.finetune.inputs import ModelFolder
from tasks.pretrain.encode import encode
from tasks.runner import StageRunner


@dataclass(frozen=True)
class TrainingData:
    """Examples that models are trained on, and the vocabulary of their tokens."""

    vocabulary: Artifact
    examples: Artifact


@dataclass(frozen=True)
class TrainedModel:
    """A model: its last checkpoint with its curves, and the folder that transformers loads."""

    checkpoint: Artifact
    model: Artifact


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
        graphs: graphs to fuse; the examples then name the entities that they mention.
    """
    documents = last(collect_documents(run, recipe, text))
    if vocabulary_file is None:
        vocabulary = build_vocabulary(run, recipe, documents)
    else:
        vocabulary = adopt_vocabulary(run, recipe, vocabulary_file)
    segments = cut_segments(run, recipe, documents, text, vocabulary)
    linked = {}
    if graphs:
        entities = fused(run, recipe, graphs)
        linked = {"entities": entities, **deciding_frequencies(run, segments, entities)}
    return TrainingData(vocabulary, run(encode, recipe.encode, segments=segments, vocabulary=vocabulary, **linked))


def train_model(run: StageRunner, recipe: Preset, data: TrainingData, init: ModelFolder | None = None) -> TrainedModel:
    """Train and export a model, starting from the weights of `init` or, for None, from random ones."""
    # Torch is imported here, so that mistakes are explained without it.
    from tasks.pretrain.export import export
    from tasks.pretrain.train import train

    given = {"examples": data.examples, "vocabulary": data.vocabulary}
    checkpoint = run(train, recipe.train, **given, **({} if init is None else {"init": init}))
    return TrainedModel(checkpoint, run(export, recipe.export, checkpoint=checkpoint, **given))
