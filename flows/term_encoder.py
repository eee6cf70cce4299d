"""Flow `normalise`, deployment encoder: an encoder that knows which names of diseases mean the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flows.recipes.normalising import TermEncoderRecipe, load_term_encoder
from flows.recipes.partial import load_recipe
from flows.shared.documents import text_inputs
from flows.shared.graphs import Graphs, requested_graphs
from flows.shared.terms import further_names, term_list
from infra.artifacts import Artifact
from infra.errors import UserError
from kg.sources import cmekg
from tasks.files.raw_input import RawInput
from tasks.finetune.inputs import ModelFolder
from tasks.normalise.terms.everyday_names import NAMES
from tasks.normalise.terms.terminology import terminology
from tasks.runner import StageRunner, flow, stage_runner

SETTINGS = (TermEncoderRecipe,)
"""Models of the keys of `overrides`."""


@flow(name="normalise")
def normalise(
    model: str | None = None,
    terms: str | None = None,
    graphs: Graphs | None = None,
    text: str | list[str] | None = None,
    hold_out: bool = True,
    knowledge: str | None = None,
    overrides: dict[str, Any] | None = None,
) -> str:
    """Train an encoder on names of one meaning, and hand it to normalise/index as its parameter encoder.

    If it is interrupted, the same command resumes after the last whole epoch.

    Args:
        model: folder of the encoder to begin with, in Hugging Face's layout: one that a pretrain flow printed, or the
            id of a model in the local hub cache.
        terms: the list, CSV, TSV or XLSX with a column of codes and one of names; by default ICD-10 in Chinese, whose
            English names are learnt too.
        graphs: knowledge graphs whose names and aliases are learnt, as in knowledge/fuse.
        text: files or folders of text whose definitions (X又称Y) are learnt.
        hold_out: learn no name that is a query of the open benchmark, so that normalise/open-benchmark measures what
            the encoder has not seen. Set it to false for an encoder that is only used.
        knowledge: folder of the knowledge of a model that reads some; needed only if the model is not in the artifact
            store of its knowledge.
        overrides: dotted keys to values, such as `{"encoder.epochs": 2, "encoder.pooling": "cls"}`.

    Returns:
        The folder of the encoder, for `encoder` of normalise/index and for transformers.
    """
    if model is None:
        raise UserError("No encoder was given. Give the folder of one to begin with, as in --param model=FOLDER.")
    recipe = load_term_encoder(overrides, own_list=terms is not None)
    source, given = ModelFolder(model, knowledge=knowledge), term_list(terms, recipe.terminology)
    requested_graphs(graphs)  # a fault is found before any work
    whole = _cmekg(graphs) if hold_out else None
    defining = None if text is None else text_inputs(text)
    # Torch is imported here, so that mistakes are explained without it.
    from tasks.normalise.meaning.synonyms import synonym_pairs
    from tasks.normalise.meaning.train import name_encoder

    with stage_runner() as run:
        held_out = {} if whole is None else {"held_out": _mentions(run, recipe, given, whole)}
        wanted = _without_queries(graphs, **held_out)
        named = further_names(run, load_recipe("default"), requested_graphs(wanted), defining)
        listed = run(terminology, recipe.terminology, list=given, everyday=RawInput(NAMES), **named)
        pairs = run(synonym_pairs, recipe.pairs, terminology=listed, **named, **held_out)
        encoder = run(name_encoder, recipe.encoder, model=source, pairs=pairs)
    return str(encoder.path)


def _cmekg(graphs: Graphs | None) -> RawInput | None:
    """Return the file of CMeKG, if it is among the graphs; the benchmark is made of it."""
    found = [one for one in _wanted(graphs).values() if one.get("format") == "cmekg"]
    if not found:
        return None
    whole = RawInput(found[0].get("path") or cmekg.locate())
    whole.places()
    return whole


def _mentions(run: StageRunner, recipe: TermEncoderRecipe, given: RawInput, whole: RawInput) -> Artifact:
    from tasks.normalise.benchmark_stages import BenchmarkParams, benchmark_mentions

    unnamed = run(terminology, recipe.terminology, list=given)
    return run(benchmark_mentions, BenchmarkParams(), cmekg=whole, terminology=unnamed)


def _without_queries(graphs: Graphs | None, held_out: Artifact | None = None) -> Graphs | None:
    """Return the graphs with what the benchmark left of CMeKG in its place."""
    if held_out is None:
        return graphs
    from tasks.normalise.benchmark_stages import GRAPH

    left = {"path": f"{held_out.path}/{GRAPH}"}
    return {name: left if one.get("format") == "cmekg" else one for name, one in _wanted(graphs).items()}


def _wanted(graphs: Graphs | None) -> Mapping[str, Mapping[str, Any]]:
    return {"cmekg": {"format": "cmekg"}, "icd10": {"format": "icd10"}} if graphs is None else graphs
