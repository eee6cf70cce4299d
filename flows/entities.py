"""Flow `entities`: raw text and knowledge graphs to an entity vocabulary with its inner structure (EMBERT)."""

from __future__ import annotations

from typing import Any

from flows.corpus import check_inputs, collect_documents, cut_segments, last, warn_of_unused
from flows.graphs import Graphs, fused, read_request
from flows.recipe import load_recipe
from tasks.entities.stage import entities as entities_stage
from tasks.files.raw_input import RawInput
from tasks.knowledge.thesaurus import thesaurus
from tasks.phrases.autophrase import wiki_lists
from tasks.phrases.segments import phrase_segments
from tasks.phrases.stage import phrases
from tasks.reports.entities import report_entities
from tasks.runner import flow, stage_runner


@flow(name="entities")
def entities(
    corpus: str | list[str] | None = None,
    graphs: Graphs | None = None,
    preset: str = "ehealth",
    labels: str | list[str] | None = None,
    cut_points: str | None = None,
    held_out: str | None = None,
    benchmarks: str | None = None,
    dictionary: str | None = None,
    overrides: dict[str, Any] | None = None,
) -> str:
    """Mine phrases, join them with the names of the graph, and cut long entities into their parts.

    Args:
        corpus: files or folders of text; where there is none, as in corpus/refresh.
        graphs: as in knowledge/fuse; `{}` for none: then names from Wikipedia alone tell what a phrase is.
        preset: name of a shipped preset, or a path to a TOML file.
        labels: files with a name a line, which are good phrases too.
        cut_points: the review file `cut_points.csv` of an earlier run, with your answers.
        held_out: UTF-8 file with names that are in none of the graphs; the page tells how many were found.
        benchmarks: dev and test sets of downstream tasks; what overlaps with them is cut out of the corpus.
        dictionary: UTF-8 file with a term a line, or in the form of jieba; its terms are words.
        overrides: dotted preset keys to values.

    Returns:
        The folder of the vocabulary, with `dictionary.txt` and `cut_points.csv` beside the table.
    """
    recipe = load_recipe(preset, overrides)
    warn_of_unused(overrides)
    check_inputs(corpus, labels, cut_points, held_out, benchmarks, dictionary=dictionary)
    requested = read_request(graphs)
    with stage_runner() as run:
        documents = last(collect_documents(run, recipe, corpus, benchmarks))
        segments = cut_segments(run, recipe, documents, dictionary)
        known = {"kg_entities": fused(run, recipe, requested)} if requested else {}
        given = {"labels": labels, "wiki": wiki_lists()}
        lists = {name: RawInput(each) if isinstance(each, str | list) else each for name, each in given.items() if each}
        mined = run(phrases, recipe.phrases, segments=segments, **known, **lists)
        run(phrase_segments, recipe.phrase_segments, segments=segments, phrases=mined)
        answers = {} if cut_points is None else {"cut_points": RawInput(cut_points)}
        found = run(entities_stage, recipe.entities, phrases=mined, segments=segments, **known, **answers)
        synonyms = {"synonyms": run(thesaurus, recipe.thesaurus, **known)} if known else {}
        held = {} if held_out is None else {"held_out": RawInput(held_out)}
        run(report_entities, recipe.report_entities, entities=found, phrases=mined, **synonyms, **held)
    return str(found.path)
