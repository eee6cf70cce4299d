"""Flow `pretrain`: raw text to an exported, pre-trained model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flows.corpus import check_inputs, check_vocabularies, collect_documents, cut_segments, last
from flows.graphs import Graphs, deciding_frequencies, fused, read_request
from flows.preset import Preset, load_preset
from flows.vocabulary import build as build_vocabulary
from infra.artifacts import Artifact
from infra.errors import UserError
from tasks.files.raw_input import RawInput
from tasks.finetune.inputs import ModelFolder
from tasks.pretrain.encode import encode
from tasks.pretrain.export import export
from tasks.pretrain.train import check_training, train
from tasks.runner import StageRunner, flow, stage_runner
from tasks.vocabulary.files import read_vocabularies


@flow(name="pretrain")
def pretrain(
    preset: str = "ehealth-tiny",
    corpus: str | list[str] | None = None,
    benchmarks: str | None = None,
    dictionary: str | None = None,
    vocabulary_file: str | None = None,
    graphs: Graphs | None = None,
    mentions: bool = False,
    init_from: str | None = None,
    overrides: dict[str, Any] | None = None,
) -> str:
    """Raw text in, a pre-trained model out; every stage that was done before is reused.

    Args:
        preset: name of a shipped preset, or a path to a TOML file.
        corpus: files or folders of text; where there is none, as in corpus/refresh.
        benchmarks: dev and test sets of downstream tasks; what overlaps with them is cut out of the corpus.
        dictionary: UTF-8 file with a term a line, or in the form of jieba; its terms are words.
        vocabulary_file: a `vocab.txt` to train with; without one, a vocabulary is built from the text.
        graphs: knowledge graphs, as in knowledge/fuse.
        mentions: the examples tell which entities of the fused graph they mention, and where.
        init_from: folder of a BERT or ELECTRA of the preset's sizes to go on from, with its own vocab.txt. Every node
            that trains must see it under this path.
        overrides: dotted preset keys to values, such as `{"training.steps": 100}`.

    Returns:
        The folder of the model, for `AutoModel.from_pretrained` and `AutoTokenizer.from_pretrained`.
    """
    recipe = load_preset(preset, overrides)
    check_inputs(corpus, benchmarks, dictionary=dictionary)
    init = None if init_from is None else ModelFolder(init_from, "init_from")
    if init is not None and vocabulary_file is None:
        vocabulary_file = _vocabulary_of(init)
    check_vocabularies(vocabulary_file)
    if init is not None:
        _check_start(recipe, init, str(vocabulary_file))
    requested = read_request(graphs) if mentions else {}
    with stage_runner() as run:
        data = prepare(run, recipe, corpus, benchmarks, dictionary, vocabulary_file, requested)
        return str(train_model(run, recipe, data, init).model.path)


def _vocabulary_of(init: ModelFolder) -> str:
    """The vocabulary that a model was trained with. Raises `UserError` where its folder holds none."""
    file = init.path / "vocab.txt"
    if not file.is_file():
        raise UserError(
            f"init_from: {init.path} holds no vocab.txt, and the tokens of its weights are known by it alone. Put the "
            "model's own vocab.txt there, or give it with --param vocabulary_file=FILE."
        )
    return str(file)


def _check_start(recipe: Preset, init: ModelFolder, vocabulary_file: str) -> None:
    """Compare the weights to begin with, and their vocabulary, with what is to be trained, before any work is done."""
    tokens = list(read_vocabularies(RawInput(vocabulary_file)).values())
    check_training(recipe.train, recipe.vocabulary.size, init.path, tokens[0] if len(tokens) == 1 else None)


@dataclass(frozen=True)
class TrainingData:
    """What models of one kind are trained on."""

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
    corpus: str | list[str] | None,
    benchmarks: str | None = None,
    dictionary: str | None = None,
    vocabulary_file: str | None = None,
    requested: dict[str, Any] | None = None,
) -> TrainingData:
    """Raw text to encoded examples; `requested` are the graphs whose entities they mention."""
    documents = last(collect_documents(run, recipe, corpus, benchmarks))
    vocabulary = build_vocabulary(run, recipe, documents, vocabulary_file)
    segments = cut_segments(run, recipe, documents, dictionary, vocabulary=vocabulary)
    linked = {}
    if requested:
        entities = fused(run, recipe, requested)
        linked = {"entities": entities, **deciding_frequencies(run, segments, entities)}
    return TrainingData(vocabulary, run(encode, recipe.encode, segments=segments, vocabulary=vocabulary, **linked))


def train_model(run: StageRunner, recipe: Preset, data: TrainingData, init: ModelFolder | None = None) -> TrainedModel:
    """Train and export a model, from the weights of `init` where there is one."""
    given = {"examples": data.examples, "vocabulary": data.vocabulary}
    checkpoint = run(train, recipe.train, **given, **({} if init is None else {"init": init}))
    return TrainedModel(checkpoint, run(export, recipe.export, checkpoint=checkpoint, **given))
