"""Flow `knowledge`: knowledge graphs to one, linked to the corpus, with its best neighbours and vectors (SMedBERT)."""

from __future__ import annotations

from typing import Any

from flows.recipes.choices import PresetName
from flows.recipes.knowledge import KnowledgeRecipe
from flows.recipes.partial import load_sections
from flows.shared.documents import collect_documents, cut_segments, last, text_inputs
from flows.shared.graphs import Graphs, fused, fusion_tables, requested_graphs
from flows.shared.knowledge import arrays_of, studied
from tasks.reports.graph import report_graph
from tasks.runner import flow, stage_runner

SETTINGS = (KnowledgeRecipe,)
"""Models of the keys of `overrides`."""


@flow(name="knowledge")
def knowledge(
    graphs: Graphs | None = None,
    corpus: str | list[str] | None = None,
    preset: PresetName = "default",
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
        vectors: train TransR, which takes longest, and write all that models read of the graph as arrays.
        overrides: dotted preset keys to values, such as `{"embed.epochs": 100}`.

    Returns:
        The folder of the fused graph.
    """
    recipe = load_sections(KnowledgeRecipe, preset, overrides)
    text = text_inputs(corpus, benchmarks, dictionary)
    requested, tables = requested_graphs(graphs), fusion_tables(types, relations)
    with stage_runner() as run:
        graph = fused(run, recipe, requested, tables)
        documents = last(collect_documents(run, recipe, text))
        segments = cut_segments(run, recipe, documents, text)
        found = studied(run, recipe, graph, segments, vectors)
        if vectors:
            arrays_of(run, graph, found)
        run(report_graph, recipe.report_graph, graph=graph, segments=segments, **found)
    return str(graph.path)
