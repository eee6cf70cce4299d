"""Flow `normalise`, deployment open-benchmark: how well an index of a term list finds the diseases of CMeKG."""

from __future__ import annotations

from flows.corpus import check_inputs, collect_documents, last
from flows.graphs import fused, read_request
from flows.recipe import load_recipe
from kg.sources import cmekg, icd10
from tasks.files.raw_input import RawInput
from tasks.normalise.benchmark_stages import GRAPH, BenchmarkParams, RecallParams, benchmark_mentions, candidate_recall
from tasks.normalise.terminology import TerminologyParams, terminology
from tasks.normalise.text_synonyms import TextSynonymsParams, text_synonyms
from tasks.runner import flow, stage_runner


@flow(name="normalise")
def normalise(terms: str | None = None, graph: str | None = None, text: str | list[str] | None = None) -> str:
    """Make the open benchmark, index the list with the names of the graph that lacks its queries, and tell the recall.

    Args:
        terms: the list, CSV, TSV or XLSX with a column of codes and one of names; without, ICD-10 in Chinese.
        graph: the pickle of CMeKG; without, that of the installed package.
        text: files or folders of text whose definitions (X又称Y) give further names. CMeKG, or text made from it,
            would give the queries away.

    Returns:
        The folder of the artifact whose table is split, queries, k and recall.
    """
    params = TerminologyParams(format="icd10" if terms is None else "list")
    given = RawInput(terms or icd10.locate())
    whole = RawInput(graph or cmekg.locate())
    for raw in (given, whole):
        raw.places()
    check_inputs(text)
    preset = load_recipe("ehealth")
    with stage_runner() as run:
        mentions = run(
            benchmark_mentions, BenchmarkParams(), cmekg=whole, terminology=run(terminology, params, list=given)
        )
        graphs = {"cmekg": {"path": f"{mentions.path}/{GRAPH}"}}
        if terms is None:
            graphs["icd10"] = {"format": "icd10"}
        named = {"graph": fused(run, preset, read_request(graphs))}
        if text is not None:
            documents = last(collect_documents(run, preset, text))
            named["synonyms"] = run(text_synonyms, TextSynonymsParams(), documents=documents)
        listed = run(terminology, params, list=given, **named)
        recall = run(candidate_recall, RecallParams(), mentions=mentions, terminology=listed)
    return str(recall.path)
