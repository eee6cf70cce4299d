"""Flow `vocabulary`: raw text to an in-domain WordPiece vocabulary (eHealth, section 4.1)."""

from __future__ import annotations

from typing import Any

from flows.recipes.choices import PresetName
from flows.recipes.data import Recipe
from flows.recipes.partial import load_recipe
from flows.shared.documents import collect_documents, last, text_inputs
from flows.shared.graphs import Graphs, fused, requested_graphs
from flows.shared.vocabularies import build_vocabulary, vocabulary_input
from tasks.reports.vocabulary import report_vocabulary
from tasks.runner import flow, stage_runner

SETTINGS = (Recipe,)
"""Models of the keys of `overrides`."""


@flow(name="vocabulary")
def vocabulary(
    corpus: str | list[str] | None = None,
    preset: PresetName = "default",
    benchmarks: str | None = None,
    compare: str | list[str] | None = None,
    dictionary: str | None = None,
    graphs: Graphs | None = None,
    entities: bool = False,
    overrides: dict[str, Any] | None = None,
) -> str:
    """Turn raw text into `vocab.txt` and `tokenizer.json`, with a page about how they cut the text.

    Args:
        corpus: files or folders of text; the default is that of corpus/refresh.
        preset: name of a shipped preset, or a path to a TOML file.
        benchmarks: dev and test sets of downstream tasks; text that overlaps with them is cut out of the corpus.
        compare: `vocab.txt` files of other BERTs, or folders of them, to compare with on the page.
        dictionary: UTF-8 file with one term per line; the page shows how well the vocabulary covers its terms.
        graphs: knowledge graphs, as in knowledge/fuse.
        entities: show on the page how well the vocabulary covers the names of the fused graph.
        overrides: dotted preset keys to values, such as `{"vocabulary.size": 30000}`.

    Returns:
        The folder of the vocabulary.
    """
    recipe = load_recipe(preset, overrides)
    text = text_inputs(corpus, benchmarks, dictionary)
    shown = {"others": vocabulary_input(compare), "terms": text.dictionary}
    requested = requested_graphs(graphs) if entities else {}
    with stage_runner() as run:
        documents = last(collect_documents(run, recipe, text))
        built = build_vocabulary(run, recipe, documents)
        given = {name: each for name, each in shown.items() if each is not None}
        names = {"entities": fused(run, recipe, requested)} if requested else {}
        run(report_vocabulary, recipe.report_vocabulary, vocabulary=built, documents=documents, **given, **names)
    return str(built.path)
