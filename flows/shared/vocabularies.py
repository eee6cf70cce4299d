"""Vocabularies of a run: built from its text, or brought by the user."""

from __future__ import annotations

from flows.recipes.data import Recipe
from infra.artifacts import Artifact
from tasks.files.raw_input import RawInput
from tasks.runner import StageRunner
from tasks.vocabulary.files import read_vocabularies
from tasks.vocabulary.stages import AdoptParams, adopt, count_words, vocabulary


def vocabulary_input(given: str | list[str] | None) -> RawInput | None:
    """Return vocabularies that the user named as raw input, None for none.

    Raises:
        UserError: a file is absent or is not a vocabulary.
    """
    if given is None:
        return None
    raw = RawInput(given)
    read_vocabularies(raw)
    return raw


def adopt_vocabulary(run: StageRunner, recipe: Recipe, file: RawInput) -> Artifact:
    """Make an artifact, with its tokeniser, of a `vocab.txt` that the user brought."""
    return run(adopt, AdoptParams(max_length=recipe.vocabulary.max_length), file=file)


def build_vocabulary(run: StageRunner, recipe: Recipe, documents: Artifact) -> Artifact:
    """Count the words of a sample of the documents and build a vocabulary from the counts."""
    words = run(count_words, recipe.count_words, documents=documents)
    return run(vocabulary, recipe.vocabulary, words=words)
