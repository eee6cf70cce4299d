"""Flow `knowledge`: knowledge graphs to one, linked to the corpus, with its best neighbours and vectors (SMedBERT)."""

from __future__ import annotations

from typing import Any

from flows.recipes.knowledge import KnowledgeRecipe
from flows.recipes.partial import load_sections
from flows.shared.documents import collect_documents, cut_segments, last, text_inputs
from flows.shared.graphs import Graphs, deciding_frequencies, fused, fusion_tables, requested_graphs
from tasks.knowledge.link import EntityFrequenciesParams, entity_frequencies, link
from tasks.reports.graph import report_graph
from tasks.runner import flow, stage_runner


@flow(name="knowledge")
def knowledge(
    graphs: Graphs | None = None,
    corpus: str | list[str] | None = None,
    preset: str = "default",
    types: str | None = None,
    relations: str | None = None,
    benchmarks: str | None = None,
    dictionary: str | None = None,
    vectors: bool = True,
    overrides: dict[str, Any] | None = None,
) -> str:
    """Fuse knowledge graphs, rank the neighbours of every entity, embed the graph and link it to the corpus.

    Args:
        graphs: by the name of the source, `path` and how it is read, such as
            `{"dxy": {"path": "dxy.tsv", "format": "triples"}}`; by default CMeKG and, if installed, ICD-10.
        corpus: files or folders of text; the default is that of corpus/refresh.
        preset: name of a shipped preset, or a path to a TOML file.
        types: CSV that maps the sources' types to those of the fused graph; kg/fusion/types.csv by default.
        relations: the same for relations; kg/fusion/relations.csv by default.
        benchmarks: dev and test sets of downstream tasks; text that overlaps with them is cut out of the corpus.
        dictionary: UTF-8 file with one term per line, or in jieba's format; its terms are words.
        vectors: train TransR, which takes longest.
        overrides: dotted preset keys to values, such as `{"embed.epochs": 100}`.

    Returns:
        The folder of the fused graph.
    """
    recipe = load_sections(KnowledgeRecipe, preset, overrides)
    text = text_inputs(corpus, benchmarks, dictionary)
    requested, tables = requested_graphs(graphs), fusion_tables(types, relations)
    # Torch is imported here, so that mistakes are explained without it.
    from tasks.knowledge.embed import embed_graph
    from tasks.knowledge.neighbours import neighbours

    with stage_runner() as run:
        graph = fused(run, recipe, requested, tables)
        found = {"graph": graph, "neighbours": run(neighbours, recipe.neighbours, graph=graph)}
        documents = last(collect_documents(run, recipe, text))
        segments = found["segments"] = cut_segments(run, recipe, documents, text)
        deciding = deciding_frequencies(run, segments, graph)
        mentions = found["mentions"] = run(link, recipe.link, segments=segments, entities=graph, **deciding)
        found["entity_frequencies"] = run(entity_frequencies, EntityFrequenciesParams(), links=mentions)
        if vectors:
            found["embeddings"] = run(embed_graph, recipe.embed, graph=graph)
        run(report_graph, recipe.report_graph, **found)
    return str(graph.path)
