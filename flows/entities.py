"""Flow `entities`: raw text and knowledge graphs to an entity vocabulary with its inner structure (EMBERT)."""

from __future__ import annotations

from typing import Any

from flows.recipes.choices import PresetName
from flows.recipes.data import Recipe
from flows.recipes.partial import load_recipe
from flows.shared.documents import collect_documents, cut_segments, found, last, text_inputs
from flows.shared.entities import entity_vocabulary, named_lists
from flows.shared.graphs import Graphs, fused, requested_graphs
from tasks.knowledge.thesaurus import thesaurus
from tasks.phrases.segments import phrase_segments
from tasks.reports.entities import report_entities
from tasks.runner import flow, stage_runner

SETTINGS = (Recipe,)
"""Models of the keys of `overrides`."""


@flow(name="entities")
def entities(
    corpus: str | list[str] | None = None,
    graphs: Graphs | None = None,
    preset: PresetName = "default",
    labels: str | list[str] | None = None,
    cut_points: str | None = None,
    held_out: str | None = None,
    benchmarks: str | None = None,
    dictionary: str | None = None,
    overrides: dict[str, Any] | None = None,
) -> str:
    """Mine phrases, join them with the names of the graph, and cut long entities into their parts.

    Args:
        corpus: files or folders of text; the default is that of corpus/refresh.
        graphs: as in knowledge/fuse; `{}` for none: then names from Wikipedia alone decide what a phrase is.
        preset: name of a shipped preset, or a path to a TOML file.
        labels: files with one name per line, which are good phrases too.
        cut_points: the review file `cut_points.csv` of an earlier run, with your answers.
        held_out: UTF-8 file with names that are in none of the graphs; the page shows how many were found.
        benchmarks: dev and test sets of downstream tasks; text that overlaps with them is cut out of the corpus.
        dictionary: UTF-8 file with one term per line, or in jieba's format; its terms are words.
        overrides: dotted preset keys to values, such as `{"phrases.min_support": 10}`.

    Returns:
        The folder of the vocabulary, with `dictionary.txt` and `cut_points.csv` beside the table.
    """
    recipe = load_recipe(preset, overrides)
    text = text_inputs(corpus, benchmarks, dictionary)
    lists = _given(labels=found(labels), cut_points=found(cut_points)) | named_lists()
    held = _given(held_out=found(held_out))
    requested = requested_graphs(graphs)
    with stage_runner() as run:
        segments = cut_segments(run, recipe, last(collect_documents(run, recipe, text)), text)
        known = {"kg_entities": fused(run, recipe, requested)} if requested else {}
        mined, made = entity_vocabulary(run, recipe, segments, {**known, **lists})
        run(phrase_segments, recipe.phrase_segments, segments=segments, phrases=mined)
        synonyms = {"synonyms": run(thesaurus, recipe.thesaurus, **known)} if known else {}
        run(report_entities, recipe.report_entities, entities=made, phrases=mined, **synonyms, **held)
    return str(made.path)


def _given(**inputs: Any) -> dict[str, Any]:
    """Return the inputs that are there."""
    return {name: one for name, one in inputs.items() if one}
