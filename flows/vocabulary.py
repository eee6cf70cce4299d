"""Flow `vocabulary`: raw text to an in-domain WordPiece vocabulary (eHealth, section 4.1)."""

from __future__ import annotations

from typing import Any

from prefect import flow

from flows.corpus import collect_documents
from flows.preset import Preset, load_preset
from infra.artifacts import Artifact
from tasks.runner import StageRunner, stage_runner
from tasks.vocabulary import count_words
from tasks.vocabulary import vocabulary as vocabulary_stage


@flow(name="vocabulary")
def vocabulary(corpus: str | None = None, preset: str = "ehealth", overrides: dict[str, Any] | None = None) -> str:
    """Raw text to `vocab.txt` and `tokenizer.json`.

    Args:
        corpus: file or folder of text; without one, articles templated from the facts of CMeKG.
        preset: name of a shipped preset, or a path to a TOML file.
        overrides: dotted preset keys to values.
    """
    recipe = load_preset(preset, overrides)
    with stage_runner() as run:
        built = build(run, recipe, collect_documents(run, recipe, corpus))
    return str(built.path)


def build(run: StageRunner, recipe: Preset, documents: Artifact) -> Artifact:
    """Count the words of a sample of documents, then build the vocabulary from the counts."""
    words = run(count_words, recipe.count_words, documents=documents)
    return run(vocabulary_stage, recipe.vocabulary, words=words)
