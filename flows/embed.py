"""Flow `embed`: raw text to static word vectors, with a page about them (CMedLMs)."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, Literal

from flows.recipes.choices import PresetName
from flows.recipes.embedding import EmbeddingRecipe
from flows.recipes.partial import load_sections
from flows.shared.documents import TextInputs, collect_documents, cut_segments, last, text_inputs
from flows.shared.graphs import Graphs, fused, requested_graphs
from infra.artifacts import Artifact
from infra.program import program
from tasks.embed.adopt import AdoptVectorsParams, VectorsFile, adopt_vectors
from tasks.embed.cooccurrences import cooccurrences
from tasks.embed.dictionary import DICTIONARY, name_dictionary
from tasks.embed.glove import glove
from tasks.embed.report import report_vectors
from tasks.embed.word2vec import word2vec
from tasks.embed.words import embedding_counts, embedding_words, word_sequences
from tasks.files.raw_input import RawInput
from tasks.knowledge.thesaurus import thesaurus
from tasks.runner import StageRunner, flow, stage_runner

MOST_SHOWN = 5
"""Words whose neighbours are printed at the end of a run; the page has more."""

SETTINGS = (EmbeddingRecipe,)
"""Models of the keys of `overrides`."""


@flow(name="embed")
def embed(
    method: Literal["word2vec", "glove"] = "word2vec",
    level: Literal["word", "character"] = "word",
    corpus: str | list[str] | None = None,
    graphs: Graphs | None = None,
    preset: PresetName = "default",
    benchmarks: str | None = None,
    dictionary: str | None = None,
    vectors: str | None = None,
    compare: str | list[str] | None = None,
    overrides: dict[str, Any] | None = None,
) -> str:
    """Train a vector for each word or character of the text, and describe the vectors by a knowledge graph.

    Args:
        method: word2vec or glove.
        level: word or character.
        corpus: files or folders of text; the default is that of corpus/refresh.
        graphs: as in knowledge/fuse; their names are words, unless there is a dictionary, and scores and picture are
            about them.
        preset: name of a shipped preset, or a path to a TOML file.
        benchmarks: dev and test sets of downstream tasks; text that overlaps with them is cut out of the corpus.
        dictionary: UTF-8 file with one term per line, such as the dictionary.txt of entities/mine; its terms are words.
        vectors: file of finished vectors, such as those of a general corpus, to adopt in place of training: in the text
            or binary (*.bin) format of word2vec, or GloVe's text.
        compare: other vectors to score on the same pairs: such files, or folders that this flow printed.
        overrides: dotted keys to values, such as `{"word2vec.epochs": 10}` or `{"embedding_words.min_count": 2}`.

    Returns:
        The folder of the vectors: words.txt and vectors.npy for `WordVectors.open`, vectors.kv for gensim's
        `KeyedVectors.load`, vectors.txt and vectors.bin for everything else.
    """
    recipe = load_sections(EmbeddingRecipe, preset, {"embedding_counts.level": level, **(overrides or {})})
    others = [VectorsFile(one, "compare") for one in ([compare] if isinstance(compare, str) else compare or [])]
    finished = None if vectors is None else VectorsFile(vectors)
    requested = requested_graphs(graphs)
    text = text_inputs(corpus, benchmarks, dictionary) if finished is None else None
    with stage_runner() as run:
        compared = {
            f"other_{number}": run(adopt_vectors, AdoptVectorsParams(), file=one) for number, one in enumerate(others)
        }
        graph = fused(run, recipe, requested)
        if text is not None:
            made = _trained(run, recipe, method, text, graph)
        else:
            assert finished is not None, "without text there are vectors"
            made = run(adopt_vectors, AdoptVectorsParams(), file=finished)
        synonyms = run(thesaurus, recipe.thesaurus, kg_entities=graph)
        asked = {"vectors": made, "kg_entities": graph, "synonyms": synonyms}
        page = run(report_vectors, recipe.report_vectors, **asked, **compared)
    print(ending(json.loads(page.read_file("summary.json")), str(page.path)))
    if text is not None:
        print(
            f"Next: compare another method on the same pairs: {program()} run embed/{_other(method, level)} "
            f"--param compare={made.path}"
        )
    return str(made.path)


def _trained(run: StageRunner, recipe: EmbeddingRecipe, method: str, text: TextInputs, graph: Artifact) -> Artifact:
    """Cut the text into words or characters, and train their vectors."""
    level = recipe.embedding_counts
    documents = last(collect_documents(run, recipe, text))
    if level.level == "word" and text.dictionary is None:
        known = run(name_dictionary, recipe.name_dictionary, kg_entities=graph)
        text = dataclasses.replace(text, dictionary=RawInput(f"{known.path}/{DICTIONARY}"))
    segments = cut_segments(run, recipe, documents, text)
    counts = run(embedding_counts, level, segments=segments)
    words = run(embedding_words, recipe.embedding_words, counts=counts)
    sequences = run(word_sequences, level, segments=segments, words=words)
    if method == "word2vec":
        return run(word2vec, recipe.word2vec, words=words, sequences=sequences)
    pairs = run(cooccurrences, recipe.cooccurrences, sequences=sequences)
    return run(glove, recipe.glove, words=words, cooccurrences=pairs)


def ending(summary: Mapping[str, Any], folder: str) -> str:
    """Return what a person wants to know at the end of a run: neighbours, scores, and where page and picture are."""
    lines = [
        f"{row['word']}: " + ", ".join(f"{one['word']} {one['cosine']:.2f}" for one in row["nearest"])
        for row in summary["neighbours"][:MOST_SHOWN]
    ]
    lines += [
        f"{row['measure']}: {row['score']:.1%} of {row['pairs']:,} pairs nearer than by chance ({row['vectors']})"
        for row in summary["scores"]
    ]
    lines.append(f"Page: {folder}/report.html")
    if summary["picture"]:
        lines.append(f"Picture: {folder}/{summary['picture']}")
    return "\n".join(lines)


def _other(method: str, level: str) -> str:
    """Return the deployment of the other method at the same level."""
    return f"{'glove' if method == 'word2vec' else 'word2vec'}-{'char' if level == 'character' else 'word'}"
