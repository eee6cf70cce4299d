"""Flow `normalise`: a term list to an index of candidates, and with labelled diagnoses to a normaliser."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from flows.corpus import check_inputs, collect_documents, last
from flows.graphs import Graphs, fused, read_request
from flows.recipe import load_recipe
from infra.errors import UserError
from kg.sources import icd10
from tasks.downstream.catalogue import task
from tasks.files.raw_input import RawInput
from tasks.finetune.inputs import ModelFolder, TaskFiles
from tasks.normalise.index import CandidateIndexParams, candidate_index
from tasks.normalise.params import TASK, NormaliserParams
from tasks.normalise.publish import ALIAS, publish_terms
from tasks.normalise.query_settings import query_tables, read_rules
from tasks.normalise.terminology import TerminologyParams, terminology
from tasks.normalise.text_synonyms import TextSynonymsParams, text_synonyms
from tasks.normalise.train import normaliser
from tasks.reports.normaliser import ReportNormaliserParams, report_normaliser
from tasks.retrieve.server_index import check_name
from tasks.runner import flow, stage_runner


class Recipe(BaseModel):
    """The parameters of every stage; `overrides` are its dotted keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    terminology: TerminologyParams = Field(default_factory=TerminologyParams)
    index: CandidateIndexParams = Field(default_factory=CandidateIndexParams)
    normaliser: NormaliserParams = Field(default_factory=NormaliserParams)


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
    alias: str = ALIAS,
    overrides: dict[str, Any] | None = None,
) -> str:
    """Index a term list and, to rank, train on labelled diagnoses; every stage that was done before is reused.

    Where `ELASTICSEARCH_URL` names a server, the list is put there too, as `<alias>-<content>` behind the alias.

    Args:
        rank: train a normaliser, by the grid and seeds of the paper (`normaliser.quick`: one setting, one seed);
            without, the flow ends with the index.
        terms: the list, CSV, TSV or XLSX with a column of codes and one of names; without, ICD-10 in Chinese, which
            infra/fetch_icd10.sh brings.
        data: folder with the files of CHIP-CDN; labels of train and dev that the list lacks are added to it.
        model: folder of the encoder in Hugging Face's layout.
        graphs: knowledge graphs, as in knowledge/fuse.
        synonyms: a code is also found by the names that the fused graph gives it.
        text: files or folders of text; where it says that something has another name (X又称Y), a code that is known by
            one is found by the other too.
        abbreviations: CSV with the columns short, expansion and place in place of
            tasks/normalise/tables/diagnosis_abbreviations.csv.
        typos: CSV with the columns wrong and right in place of tasks/normalise/tables/diagnosis_typos.csv.
        alias: what the list goes by on the server; lists of several purposes want several.
        overrides: dotted keys to values, such as `{"normaliser.epochs": 8, "index.queries.split": false}`.

    Returns:
        The folder that `python -m flows normalise --model` takes.
    """
    check_name(alias)
    recipe = _recipe(terms, overrides)
    given = {"list": RawInput(terms or icd10.locate())}
    given["list"].places()
    check_inputs(text)
    tables = query_tables(recipe.index.queries, {"abbreviations": abbreviations, "typos": typos})
    read_rules(recipe.index.queries, tables)
    files, encoder = _training_inputs(rank, data, model)
    if files is not None:
        given["labels"] = RawInput([str(files.files[split]) for split in ("train", "dev") if split in files.files])
    requested = read_request(graphs) if synonyms else {}
    preset = load_recipe("ehealth")
    with stage_runner() as run:
        named = {"graph": fused(run, preset, requested)} if requested else {}
        if text is not None:
            documents = last(collect_documents(run, preset, text))
            named["synonyms"] = run(text_synonyms, TextSynonymsParams(), documents=documents)
        listed = run(terminology, recipe.terminology, **given, **named)
        index = run(candidate_index, recipe.index, terminology=listed, **tables)
        publish_terms(listed, index, alias)
        if files is None or encoder is None:
            return str(index.path)
        trained = run(normaliser, _ranked(recipe, alias), model=encoder, data=files, terminology=listed, index=index)
        run(report_normaliser, ReportNormaliserParams(), run=trained)
    return str(trained.path)


def _training_inputs(rank: bool, data: str | None, model: str | None) -> tuple[TaskFiles | None, ModelFolder | None]:
    """What a ranker is trained from, checked before any work is done."""
    if rank and model is None:
        raise UserError("No encoder was given. Give its folder, as in --param model=FOLDER.")
    if rank and data is None:
        raise UserError("No data was given. Give the folder with the files of CHIP-CDN, as in --param data=FOLDER.")
    files = TaskFiles(task(TASK), data) if data is not None else None
    return (files, ModelFolder(model)) if rank and model is not None else (None, None)


def _ranked(recipe: Recipe, alias: str) -> NormaliserParams:
    """Parameters of the normaliser, with the alias only where it is used: no other one depends on it."""
    own = recipe.normaliser
    return own.model_copy(update={"alias": alias}) if own.engine == "elasticsearch" else own


def _recipe(terms: str | None, overrides: dict[str, Any] | None) -> Recipe:
    values: dict[str, Any] = {} if terms is None else {"terminology": {"format": "list"}}
    for key, value in (overrides or {}).items():
        *sections, name = key.split(".")
        held = values
        for section in sections:
            held = held.setdefault(section, {})
        held[name] = value
    try:
        return Recipe.model_validate(values)
    except ValidationError as error:
        problem = error.errors()[0]
        key = ".".join(map(str, problem["loc"]))
        if problem["type"] != "extra_forbidden":
            raise UserError(f"{key}: {problem['msg']} (given: {problem['input']!r})") from error
        known = list(_keys(Recipe))
        close = difflib.get_close_matches(key, known, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}"
        raise UserError(f"unknown key {key!r}; {hint}") from error


def _keys(model: type[BaseModel]) -> Iterator[str]:
    """The dotted keys of a model."""
    for name, field in model.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from (f"{name}.{key}" for key in _keys(inner))
        else:
            yield name
