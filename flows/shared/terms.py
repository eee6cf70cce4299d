"""Term lists of a run: the list itself, and the further names that graphs and text give its codes."""

from __future__ import annotations

from collections.abc import Mapping

from flows.recipes.data import Recipe
from flows.shared.documents import TextInputs, collect_documents, last
from flows.shared.graphs import GraphSource, fused
from infra.artifacts import Artifact
from kg.sources import icd10
from tasks.files.raw_input import RawInput
from tasks.normalise.terms.term_list import check_term_list
from tasks.normalise.terms.terminology import TerminologyParams
from tasks.normalise.terms.text_synonyms import TextSynonymsParams, text_synonyms
from tasks.runner import StageRunner


def term_list(terms: str | None, params: TerminologyParams) -> RawInput:
    """Return the user's list, or the installed ICD-10 for None.

    Raises:
        UserError: it is not there, or has no terms in columns that can be recognised. So a mistake in it is found
            before minutes of other work.
    """
    raw = RawInput(terms or icd10.locate())
    raw.places()
    if params.format == "list":
        for file in raw.files:
            check_term_list(file.read(), file.name, params.code_column, params.name_column)
    return raw


def further_names(
    run: StageRunner, recipe: Recipe, graphs: Mapping[str, GraphSource], text: TextInputs | None
) -> dict[str, Artifact]:
    """Return inputs of the stage `terminology` with further names of codes.

    Args:
        graphs: graphs to fuse, whose aliases are names (input `graph`); without any, there is no such input.
        text: text whose definitions (X又称Y) are names (input `synonyms`); None for no such input.
    """
    named = {"graph": fused(run, recipe, graphs)} if graphs else {}
    if text is not None:
        documents = last(collect_documents(run, recipe, text))
        named["synonyms"] = run(text_synonyms, TextSynonymsParams(), documents=documents)
    return named
