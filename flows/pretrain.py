"""Flow `pretrain`: raw text to an exported, pre-trained model."""

from __future__ import annotations

from typing import Any

from prefect import flow

from flows.corpus import check_inputs, collect_documents, cut_segments, last
from flows.graphs import Graphs, fused, read_request
from flows.preset import load_preset
from flows.vocabulary import build as build_vocabulary
from flows.vocabulary import check_vocabularies
from tasks.encode import encode
from tasks.export import export
from tasks.runner import stage_runner
from tasks.train import train


@flow(name="pretrain")
def pretrain(
    preset: str = "ehealth-tiny",
    corpus: str | list[str] | None = None,
    benchmarks: str | None = None,
    dictionary: str | None = None,
    vocabulary_file: str | None = None,
    graphs: Graphs | None = None,
    mentions: bool = False,
    overrides: dict[str, Any] | None = None,
) -> str:
    """Raw text in, a pre-trained model out; every stage that was done before is reused.

    Args:
        preset: name of a shipped preset, or a path to a TOML file.
        corpus: files or folders of text; without one, articles templated from the facts of CMeKG.
        benchmarks: dev and test sets of downstream tasks; what overlaps with them is cut out of the corpus.
        dictionary: UTF-8 file with a term a line; its terms are words.
        vocabulary_file: a `vocab.txt` to train with; without one, a vocabulary is built from the text.
        graphs: knowledge graphs, as in knowledge/fuse.
        mentions: the examples tell which entities of the fused graph they mention, and where.
        overrides: dotted preset keys to values, such as `{"training.steps": 100}`.

    Returns:
        The folder of the model, for `AutoModel.from_pretrained` and `AutoTokenizer.from_pretrained`.
    """
    recipe = load_preset(preset, overrides)
    check_inputs(corpus, benchmarks, dictionary)
    check_vocabularies(vocabulary_file)
    requested = read_request(graphs) if mentions else {}
    with stage_runner() as run:
        documents = last(collect_documents(run, recipe, corpus, benchmarks))
        vocabulary = build_vocabulary(run, recipe, documents, vocabulary_file)
        segments = cut_segments(run, recipe, documents, dictionary, vocabulary=vocabulary)
        linked = {"entities": fused(run, recipe, requested)} if requested else {}
        examples = run(encode, recipe.encode, segments=segments, vocabulary=vocabulary, **linked)
        checkpoint = run(train, recipe.train, examples=examples, vocabulary=vocabulary)
        model = run(export, recipe.export, checkpoint=checkpoint, vocabulary=vocabulary, examples=examples)
    return str(model.path)
