"""Flow `normalise`, deployment open-benchmark: how well an index of a term list finds the diseases of CMeKG."""

from __future__ import annotations

from flows.recipes.partial import load_recipe
from flows.shared.documents import text_inputs
from flows.shared.graphs import requested_graphs
from flows.shared.terms import further_names, term_list
from infra.artifacts import Artifact
from kg.sources import cmekg
from tasks.files.raw_input import RawInput
from tasks.finetune.inputs import ModelFolder
from tasks.normalise.meaning.params import NameVectorsParams
from tasks.normalise.terms.terminology import TerminologyParams, terminology
from tasks.retrieve.fusion import WEIGHT
from tasks.runner import flow, stage_runner


@flow(name="normalise")
def normalise(
    terms: str | None = None,
    graph: str | None = None,
    text: str | list[str] | None = None,
    encoder: str | None = None,
    weight: float = WEIGHT,
) -> str:
    """Make the open benchmark, index the list with the names of the graph that lacks its queries, and measure recall.

    Args:
        terms: the list, CSV, TSV or XLSX with a column of codes and one of names; ICD-10 in Chinese by default.
        graph: the pickle of CMeKG; that of the installed package by default.
        text: files or folders of text whose definitions (X又称Y) give further names. CMeKG, or text made from it,
            would give the queries away.
        encoder: folder of an encoder of names, to measure what is found by meaning and by both. It must not have
            learnt the queries: normalise/encoder leaves them out.
        weight: weight of ranks by meaning beside those by characters.

    Returns:
        The folder of the artifact whose table is split, found_by, queries, k and recall.
    """
    recipe = load_recipe("default")
    params = TerminologyParams(format="icd10" if terms is None else "list")
    given, whole = term_list(terms, params), RawInput(graph or cmekg.locate())
    whole.places()
    defining = None if text is None else text_inputs(text)
    source = None if encoder is None else ModelFolder(encoder, "encoder")
    # Torch is imported here, so that mistakes are explained without it.
    from tasks.normalise.benchmark_stages import (
        GRAPH,
        BenchmarkParams,
        RecallParams,
        benchmark_mentions,
        candidate_recall,
    )

    with stage_runner() as run:
        unnamed = run(terminology, params, list=given)
        mentions = run(benchmark_mentions, BenchmarkParams(), cmekg=whole, terminology=unnamed)
        graphs = {"cmekg": {"path": f"{mentions.path}/{GRAPH}"}}  # CMeKG without the names that are queries
        if terms is None:
            graphs["icd10"] = {"format": "icd10"}  # its own names, beside those of CMeKG
        names = further_names(run, recipe, requested_graphs(graphs), defining)
        listed = run(terminology, params, list=given, **names)
        found: dict[str, Artifact] = {"mentions": mentions, "terminology": listed}
        if source is not None:
            from tasks.normalise.meaning.vectors import name_vectors

            vectors = NameVectorsParams().of(source.path)
            found["vectors"] = run(name_vectors, vectors, terminology=listed, encoder=source)
        recall = run(candidate_recall, RecallParams(meaning_weight=weight), **found)
    return str(recall.path)
