"""Flow `pretrain`: raw text to an exported, pre-trained model."""

from __future__ import annotations

from typing import Any

from prefect import flow

from flows.corpus import collect_documents
from flows.preset import load_preset
from flows.vocabulary import build as build_vocabulary
from tasks.encode import encode
from tasks.export import export
from tasks.runner import stage_runner
from tasks.segment import segment
from tasks.train import train


@flow(name="pretrain")
def pretrain(preset: str = "ehealth-tiny", corpus: str | None = None, overrides: dict[str, Any] | None = None) -> str:
    """Raw text in, a pre-trained model out; every stage that was done before is reused.

    Args:
        preset: name of a shipped preset, or a path to a TOML file.
        corpus: file or folder of text; without one, articles templated from the facts of CMeKG.
        overrides: dotted preset keys to values, such as `{"training.steps": 100}`.

    Returns:
        The folder of the model, for `AutoModel.from_pretrained` and `AutoTokenizer.from_pretrained`.
    """
    recipe = load_preset(preset, overrides)
    with stage_runner() as run:
        documents = collect_documents(run, recipe, corpus)
        vocabulary = build_vocabulary(run, recipe, documents)
        segments = run(segment, recipe.segment, documents=documents, vocabulary=vocabulary)
        examples = run(encode, recipe.encode, segments=segments, vocabulary=vocabulary)
        checkpoint = run(train, recipe.train, examples=examples, vocabulary=vocabulary)
        model = run(export, recipe.export, checkpoint=checkpoint, vocabulary=vocabulary, examples=examples)
    return str(model.path)
