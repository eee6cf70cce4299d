"""Flow `vocabulary`: raw text to an in-domain WordPiece vocabulary (eHealth, section 4.1)."""

from __future__ import annotations

from typing import Any

from flows.corpus import adopt_vocabulary, check_inputs, check_vocabularies, collect_documents, last, warn_of_unused
from flows.graphs import Graphs, fused, read_request
from flows.recipe import Recipe, load_recipe
from infra.artifacts import Artifact
from tasks.files.raw_input import RawInput
from tasks.reports.vocabulary import report_vocabulary
from tasks.runner import StageRunner, flow, stage_runner
from tasks.vocabulary.stages import count_words
from tasks.vocabulary.stages import vocabulary as vocabulary_stage


@flow(name="vocabulary")
def vocabulary(
    corpus: str | list[str] | None = None,
    preset: str = "ehealth",
    benchmarks: str | None = None,
    compare: str | list[str] | None = None,
    dictionary: str | None = None,
    graphs: Graphs | None = None,
    entities: bool = False,
    overrides: dict[str, Any] | None = None,
) -> str:
    """Raw text to `vocab.txt` and `tokenizer.json`, and a page about how they cut the text.

    Args:
        corpus: files or folders of text; where there is none, as in corpus/refresh.
        preset: name of a shipped preset, or a path to a TOML file.
        benchmarks: dev and test sets of downstream tasks; what overlaps with them is cut out of the corpus.
        compare: `vocab.txt` files of other BERTs, or folders with such, to be shown beside the new one.
        dictionary: UTF-8 file with a term a line; the page tells how well the vocabulary covers its terms.
        graphs: knowledge graphs, as in knowledge/fuse.
        entities: the page tells how well the vocabulary covers the names of the fused graph.
        overrides: dotted preset keys to values.
    """
    recipe = load_recipe(preset, overrides)
    warn_of_unused(overrides)
    check_inputs(corpus, benchmarks, dictionary=dictionary)
    check_vocabularies(compare)
    requested = read_request(graphs) if entities else {}
    with stage_runner() as run:
        documents = last(collect_documents(run, recipe, corpus, benchmarks))
        built = build(run, recipe, documents)
        others = {} if compare is None else {"others": RawInput(compare)}
        terms = {} if dictionary is None else {"terms": RawInput(dictionary)}
        names = {"entities": fused(run, recipe, requested)} if requested else {}
        given = {"vocabulary": built, "documents": documents}
        run(report_vocabulary, recipe.report_vocabulary, **given, **others, **terms, **names)
    return str(built.path)


def build(run: StageRunner, recipe: Recipe, documents: Artifact, vocabulary_file: str | None = None) -> Artifact:
    """Count the words of a sample of documents and build the vocabulary from the counts, or take one that is there."""
    if vocabulary_file is not None:
        return adopt_vocabulary(run, recipe, vocabulary_file)
    words = run(count_words, recipe.count_words, documents=documents)
    return run(vocabulary_stage, recipe.vocabulary, words=words)
