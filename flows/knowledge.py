"""Flow `knowledge`: knowledge graphs to one, linked to the corpus, with its best neighbours and vectors (SMedBERT)."""

from __future__ import annotations

from typing import Any

from flows.corpus import check_inputs, collect_documents, cut_segments, last
from flows.graphs import Graphs, check_tables, deciding_frequencies, fused, read_request
from flows.preset import load_preset
from tasks.knowledge.embed import embed_graph
from tasks.knowledge.link import EntityFrequenciesParams, entity_frequencies, link
from tasks.knowledge.neighbours import neighbours
from tasks.reports.graph import report_graph
from tasks.runner import flow, stage_runner


@flow(name="knowledge")
def knowledge(
    graphs: Graphs | None = None,
    corpus: str | list[str] | None = None,
    preset: str = "ehealth",
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
            `{"dxy": {"path": "dxy.tsv", "format": "triples"}}`; without, CMeKG and, where installed, ICD-10.
        corpus: files or folders of text; where there is none, as in corpus/refresh.
        preset: name of a shipped preset, or a path to a TOML file.
        types: CSV that maps the sources' types to those of the fused graph; kg/types.csv by default.
        relations: the same for relations; kg/relations.csv by default.
        benchmarks: dev and test sets of downstream tasks; what overlaps with them is cut out of the corpus.
        dictionary: UTF-8 file with a term a line, or in the form of jieba; its terms are words.
        vectors: train TransR, which takes longest.
        overrides: dotted preset keys to values.

    Returns:
        The folder of the fused graph.
    """
    recipe = load_preset(preset, overrides)
    check_inputs(corpus, benchmarks, types, relations, dictionary=dictionary)
    requested = read_request(graphs)
    check_tables(types, relations)
    with stage_runner() as run:
        graph = fused(run, recipe, requested, types, relations)
        found = {"graph": graph, "neighbours": run(neighbours, recipe.neighbours, graph=graph)}
        documents = last(collect_documents(run, recipe, corpus, benchmarks))
        found["segments"] = cut_segments(run, recipe, documents, dictionary)
        deciding = deciding_frequencies(run, found["segments"], graph)
        found["mentions"] = run(link, recipe.link, segments=found["segments"], entities=graph, **deciding)
        frequencies = EntityFrequenciesParams()
        found["entity_frequencies"] = run(entity_frequencies, frequencies, links=found["mentions"])
        if vectors:
            found["embeddings"] = run(embed_graph, recipe.embed, graph=graph)
        run(report_graph, recipe.report_graph, **found)
    return str(graph.path)
