"""Flow `pretrain`: raw text to an exported, pre-trained model."""

from __future__ import annotations

from typing import Any

from flows.recipes.choices import PresetName
from flows.recipes.pretraining import Preset, load_preset
from flows.shared.documents import text_inputs
from flows.shared.graphs import Graphs, graphs_to_link
from flows.shared.pretraining import check_inputs, prepare, train_model
from flows.shared.vocabularies import vocabulary_input
from infra.errors import UserError
from tasks.files.raw_input import RawInput
from tasks.finetune.inputs import ModelFolder
from tasks.pretrain.check import check_training
from tasks.runner import flow, stage_runner
from tasks.vocabulary.files import read_vocabularies

SETTINGS = (Preset,)
"""Models of the keys of `overrides`."""


@flow(name="pretrain")
def pretrain(
    preset: PresetName = "ehealth-tiny",
    corpus: str | list[str] | None = None,
    benchmarks: str | None = None,
    dictionary: str | None = None,
    vocabulary_file: str | None = None,
    graphs: Graphs | None = None,
    mentions: bool = False,
    init_from: str | None = None,
    overrides: dict[str, Any] | None = None,
) -> str:
    """Turn raw text into a pre-trained model; every stage that was done before is reused.

    Args:
        preset: name of a shipped preset, or a path to a TOML file.
        corpus: files or folders of text; the default is that of corpus/refresh.
        benchmarks: dev and test sets of downstream tasks; text that overlaps with them is cut out of the corpus.
        dictionary: UTF-8 file with one term per line, or in jieba's format; its terms are words.
        vocabulary_file: `vocab.txt` to train with; without one, a vocabulary is built from the text.
        graphs: knowledge graphs, as in knowledge/fuse; by default CMeKG.
        mentions: record in the examples which entities of the fused graph they mention, and where.
        init_from: folder of a BERT or ELECTRA of the preset's sizes to start from, with its own vocab.txt, or the id of
            one in the local cache of the Hugging Face hub (docs/hugging_face.md). Every node that trains must see
            it under this path.
        overrides: dotted preset keys to values, such as `{"training.steps": 100}`.

    Returns:
        The folder of the model, for `AutoModel.from_pretrained` and `AutoTokenizer.from_pretrained`.
    """
    recipe = load_preset(preset, overrides)
    text = text_inputs(corpus, benchmarks, dictionary)
    init = None if init_from is None else ModelFolder(init_from, "init_from")
    vocabulary = vocabulary_input(_vocabulary_of(init) if init and vocabulary_file is None else vocabulary_file)
    if init is not None and vocabulary is not None:
        _check_start(recipe, init, vocabulary)
    check_inputs(recipe, mentions)
    requested = graphs_to_link(graphs, mentions)
    with stage_runner() as run:
        data = prepare(run, recipe, text, vocabulary, requested)
        return str(train_model(run, recipe, data, init).model.path)


def _vocabulary_of(init: ModelFolder) -> str:
    """Return the vocabulary that a model was trained with. Raises `UserError` if its folder has none."""
    file = init.path / "vocab.txt"
    if not file.is_file():
        raise UserError(
            f"init_from: {init.path} has no vocab.txt, and the tokens of its weights are known by it alone. Put the "
            "model's own vocab.txt there, or give it with --param vocabulary_file=FILE."
        )
    return str(file)


def _check_start(recipe: Preset, init: ModelFolder, vocabulary: RawInput) -> None:
    """Compare the sizes and the vocabulary of the weights to start from with those of the model to train."""
    tokens = list(read_vocabularies(vocabulary).values())
    check_training(recipe.train, recipe.vocabulary.size, init.path, tokens[0] if len(tokens) == 1 else None)
