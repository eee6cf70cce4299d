"""Flow `normalise`, deployment map: the terms of one list to those of another."""

from __future__ import annotations

from typing import Any

from flows.recipes.normalising import MappingRecipe, load_mapping
from flows.recipes.partial import load_recipe
from flows.shared.graphs import Graphs, requested_graphs
from flows.shared.terms import further_names, term_list
from tasks.files.raw_input import RawInput
from tasks.normalise.answers import read_own_names
from tasks.normalise.index import candidate_index
from tasks.normalise.queries.settings import local_table, query_tables
from tasks.normalise.terms.everyday_names import NAMES
from tasks.normalise.terms.terminology import terminology
from tasks.runner import flow, stage_runner

SETTINGS = (MappingRecipe,)
"""Models of the keys of `overrides`."""


@flow(name="normalise")
def normalise(
    source: str | None = None,
    target: str | None = None,
    graphs: Graphs | None = None,
    synonyms: bool = True,
    names: str | None = None,
    threshold: float = 0.5,
    overrides: dict[str, Any] | None = None,
) -> str:
    """Map every term of a list to a term of another, with a confidence; what is not sure goes to a review file.

    Args:
        source: the list whose terms are mapped, CSV, TSV or XLSX with a column of codes and one of names; by default
            ICD-10 in Chinese.
        target: the list that they are mapped to, likewise.
        graphs: knowledge graphs, as in knowledge/fuse.
        synonyms: find a code of the target also by the names that the fused graph gives it.
        names: your own names of the target's codes, a table with the columns text and choice, such as the review file
            of an earlier run that you filled in.
        threshold: confidence from 0 to 1 that a mapping needs.
        overrides: dotted keys to values, such as `{"source.name_column": "手术名称", "index.fields.category": 0}`.

    Returns:
        The folder with mapping.xlsx, review.xlsx and the same as CSV.
    """
    recipe = load_mapping({"mapping.threshold": threshold, **(overrides or {})}, source=source, target=target)
    given = {"source": term_list(source, recipe.source), "target": term_list(target, recipe.target)}
    tables = query_tables(recipe.index.queries, {})
    if names is not None:
        tables["names"] = RawInput(names)
        read_own_names(local_table(tables["names"]))  # a fault is found before any work
    requested = requested_graphs(graphs) if synonyms else {}
    # Torch is imported here, so that mistakes are explained without it.
    from tasks.normalise.files.mapping import term_mapping

    with stage_runner() as run:
        mapped = run(terminology, recipe.source, list=given["source"])
        named = further_names(run, load_recipe("default"), requested, None)
        listed = run(terminology, recipe.target, list=given["target"], everyday=RawInput(NAMES), **named)
        index = run(candidate_index, recipe.index, terminology=listed, **tables)
        mapping = run(term_mapping, recipe.mapping, terminology=mapped, index=index)
    return str(mapping.path)
