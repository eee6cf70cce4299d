"""Flow `normalise`: a term list to an index of candidates, and with labelled diagnoses to a normaliser."""

from __future__ import annotations

from typing import Any

from flows.recipes.normalising import NormaliseRecipe, load_normalising
from flows.recipes.partial import load_recipe
from flows.shared.documents import text_inputs
from flows.shared.graphs import Graphs, requested_graphs
from flows.shared.terms import further_names, term_list
from infra.errors import UserError
from tasks.downstream.catalogue import task
from tasks.files.raw_input import RawInput
from tasks.finetune.inputs import ModelFolder, TaskFiles
from tasks.normalise.answers import read_own_names
from tasks.normalise.index import candidate_index
from tasks.normalise.params import TASK
from tasks.normalise.publish import ALIAS, publish_terms
from tasks.normalise.queries.settings import local_table, query_tables, read_rules
from tasks.normalise.terms.everyday_names import NAMES
from tasks.normalise.terms.terminology import terminology
from tasks.retrieve.server_index import check_name
from tasks.runner import flow, stage_runner

SETTINGS = (NormaliseRecipe,)
"""Models of the keys of `overrides`."""


@flow(name="normalise")
def normalise(
    rank: bool,
    terms: str | None = None,
    data: str | None = None,
    model: str | None = None,
    graphs: Graphs | None = None,
    synonyms: bool = True,
    text: str | list[str] | None = None,
    abbreviations: str | None = None,
    typos: str | None = None,
    names: str | None = None,
    threshold: float | None = None,
    alias: str = ALIAS,
    knowledge: str | None = None,
    encoder: str | None = None,
    overrides: dict[str, Any] | None = None,
) -> str:
    """Index a term list and, to rank, train on labelled diagnoses; every stage that was done before is reused.

    If `ELASTICSEARCH_URL` names a server, the list is put there too, as `<alias>-<content>` behind the alias.

    Args:
        rank: train a normaliser, by the grid and seeds of the paper (`normaliser.quick`: one setting, one seed);
            otherwise the flow ends with the index.
        terms: the list, CSV, TSV or XLSX with a column of codes and one of names; by default ICD-10 in Chinese, which
            infra/fetch_icd10.sh installs.
        data: folder with the files of CHIP-CDN; labels of train and dev that the list lacks are added to it.
        model: folder of the encoder in Hugging Face's layout, or the id of a model in the local hub cache.
        graphs: knowledge graphs, as in knowledge/fuse.
        synonyms: find a code also by the names that the fused graph gives it.
        text: files or folders of text; a code that is known by one name is also found by the others that the text
            gives it (X又称Y).
        abbreviations: CSV with the columns short, expansion and place, instead of
            tasks/normalise/tables/diagnosis_abbreviations.csv.
        typos: CSV with the columns wrong and right, instead of tasks/normalise/tables/diagnosis_typos.csv.
        names: your own names of codes, a table with the columns text and choice, such as a review file of `python -m
            flows normalise` that you filled in.
        threshold: confidence from 0 to 1 that a code needs; less goes to a review file. By default 0.5, and 0 with a
            ranker.
        alias: name of the list on the server; lists for several purposes need several.
        knowledge: folder of the knowledge of a model that reads some; needed only if the model is not in the artifact
            store of its knowledge.
        encoder: folder of an encoder of names that normalise/encoder printed, to find candidates by meaning too; the
            index keeps a copy of it.
        overrides: dotted keys to values, such as `{"normaliser.epochs": 8, "index.queries.split": false}`.

    Returns:
        The folder that `python -m flows normalise --model` takes.
    """
    check_name(alias)
    sure = {} if threshold is None else {"index.threshold": threshold}
    recipe = load_normalising({**sure, **(overrides or {})}, own_list=terms is not None)
    preset = load_recipe("default")
    tables = _tables(recipe, abbreviations=abbreviations, typos=typos)
    if names is not None:
        tables["names"] = RawInput(names)
        read_own_names(local_table(tables["names"]))  # a fault is found before any work
    files = None if data is None else TaskFiles(task(TASK), data)
    training = _training_inputs(files, model, knowledge) if rank else {}
    given = {"list": term_list(terms, recipe.terminology), "everyday": RawInput(NAMES), **_labels(files)}
    requested = requested_graphs(graphs) if synonyms else {}
    defining = None if text is None else text_inputs(text)
    meaning = None if encoder is None else ModelFolder(encoder, "encoder")
    vectors = recipe.vectors.of(None if meaning is None else meaning.path)
    with stage_runner() as run:
        listed = run(terminology, recipe.terminology, **given, **further_names(run, preset, requested, defining))
        found: dict[str, Any] = {"terminology": listed, **tables}
        if meaning is not None:
            from tasks.normalise.meaning.vectors import name_vectors  # which needs torch

            found["vectors"] = run(name_vectors, vectors, terminology=listed, encoder=meaning)
        index = run(candidate_index, recipe.index, **found)
        run.effect(publish_terms, listed, index, alias)
        if not rank:
            return str(index.path)
        from tasks.normalise.train import normaliser  # an index alone needs no torch
        from tasks.reports.normaliser import ReportNormaliserParams, report_normaliser

        trained = run(normaliser, recipe.ranking(alias), terminology=listed, index=index, **training)
        run(report_normaliser, ReportNormaliserParams(), run=trained)
    return str(trained.path)


def _tables(recipe: NormaliseRecipe, **given: str | None) -> dict[str, RawInput]:
    """Return the tables of abbreviations and typos. Raises `UserError` if one is absent or has a fault."""
    tables = query_tables(recipe.index.queries, given)
    read_rules(recipe.index.queries, tables)
    return tables


def _training_inputs(
    files: TaskFiles | None, model: str | None, knowledge: str | None
) -> dict[str, ModelFolder | TaskFiles]:
    """Return what a ranker is trained from. Raises `UserError` if it was not given."""
    if model is None:
        raise UserError("No encoder was given. Give its folder, as in --param model=FOLDER.")
    if files is None:
        raise UserError("No data was given. Give the folder with the files of CHIP-CDN, as in --param data=FOLDER.")
    return {"model": ModelFolder(model, knowledge=knowledge), "data": files}


def _labels(files: TaskFiles | None) -> dict[str, RawInput]:
    """Return the labelled files, whose terms are added to the list."""
    if files is None:
        return {}
    return {"labels": RawInput([str(files.files[split]) for split in ("train", "dev") if split in files.files])}
