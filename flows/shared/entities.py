"""Entity vocabularies of texts: phrases mined from them, joined with the names of a graph."""

from __future__ import annotations

from collections.abc import Mapping

from flows.recipes.data import Recipe
from infra.artifacts import Artifact
from tasks.entities.stage import entities
from tasks.files.raw_input import RawInput
from tasks.phrases.autophrase import wiki_lists
from tasks.phrases.stage import phrases
from tasks.runner import StageRunner


def named_lists() -> dict[str, RawInput]:
    """Return the lists of names from Wikipedia as the input `wiki` of `phrases`; nothing if they are not installed."""
    lists = wiki_lists()
    return {} if lists is None else {"wiki": lists}


def entity_vocabulary(
    run: StageRunner, recipe: Recipe, segments: Artifact, given: Mapping[str, Artifact | RawInput]
) -> tuple[Artifact, Artifact]:
    """Return the phrases of some segments, and the entity vocabulary.

    Args:
        given: further inputs of both stages, as far as they are there: `kg_entities`, a fused graph; `labels` and
            `wiki` of `phrases`; `cut_points` of `entities`.
    """
    of_phrases = {name: given[name] for name in ("kg_entities", "labels", "wiki") if name in given}
    of_entities = {name: given[name] for name in ("kg_entities", "cut_points") if name in given}
    mined = run(phrases, recipe.phrases, segments=segments, **of_phrases)
    return mined, run(entities, recipe.entities, phrases=mined, segments=segments, **of_entities)
