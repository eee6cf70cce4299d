"""Flow `finetune`, deployment `cmedlms`: CMedLMs' networks over its embeddings, on its tasks or stand-ins for them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from flows.recipes.networks import NetworkRecipe, load_networks
from flows.shared.downstream import TaskName, task_files
from infra.artifacts import Artifact
from infra.errors import UserError
from kg.sources import cmekg
from tasks.downstream.catalogue import task
from tasks.evaluate.cmedlms.graph_texts import section_texts, symptom_departments
from tasks.evaluate.cmedlms.masked_diagnoses import masked_diagnoses
from tasks.evaluate.cmedlms.tables import BY_WORD, EMBEDDINGS, ENCODERS, TABLES
from tasks.files.raw_input import RawInput
from tasks.finetune.inputs import ModelFolder, TaskFiles
from tasks.finetune.sources.params import BareParams, StatesParams, VectorTableParams
from tasks.finetune.sources.vector_file import VectorFile
from tasks.runner import StageRunner, flow, stage_runner, warn

MADE = {
    "cmed-classification": "Biomedical-Text-Classification is a stand-in: the facts are CMeKG's, the texts templated.",
    "symptom-department": "Symptom-Department is a stand-in: the symptoms of CMeKG's diseases, listed.",
    "disease-diagnosis": "Disease-Diagnosis-Prediction is a stand-in: cEHRNER's records with their diagnoses masked, "
    "and the ICD-10 chapters of these as labels.",
}
"""Tasks that are made from open data where their files are not given, and how; the last one needs those of cEHRNER."""
DEFAULT_TASKS = ("cehrner", "cmedtc", "cmed-classification", "disease-diagnosis", "symptom-department")
"""Of those of one table, the first is of real text."""
RECORDS = "cehrner"
"""Task whose records disease-diagnosis is made from."""


Embeddings = Annotated[Mapping[str, str], Field(examples=[{"word2vec-char": "vectors.txt", "bert": "encoder/"}])]
"""Vectors or encoders by the names of the paper's tables."""

SETTINGS = (NetworkRecipe,)
"""Models of the keys of `overrides`."""


@flow(name="finetune")
def finetune(
    tasks: list[TaskName] | None = None,
    data: str | None = None,
    embeddings: Embeddings | None = None,
    networks: list[str] | None = None,
    quick: bool = False,
    seeds: list[int] | None = None,
    overrides: dict[str, Any] | None = None,
) -> str:
    """Train every network over every embedding on every task; cells that were done before are reused.

    Args:
        tasks: of cehrner, ccks2019-ner, sahsu-ner, cmed-classification, cmedtc, disease-diagnosis and
            symptom-department; by default those whose files are in `data`, and those that are made without them. The
            quick form takes one for each of the paper's tables.
        data: folder with the files of the tasks. Without files, cmed-classification and symptom-department are made
            from CMeKG, and disease-diagnosis from CMeKG and the records of cehrner.
        embeddings: by name, of glove-general, word2vec-general, glove-char, glove-word, word2vec-char and
            word2vec-word: a file of vectors or the folder that embed/… printed; of bert and cmed-bert: the folder of an
            encoder. Bare embeddings are always compared.
        networks: some of the networks; by default those of the paper's table for each task.
        quick: few records and epochs and one seed, for a laptop; the page states the limits.
        seeds: seeds of each cell; 1, 2 and 3 by default.
        overrides: `networks.<key>` to values, for the fields of `tasks.finetune.params.TuningParams`; also
            `graph_texts.<key>` and `masked_diagnoses.<key>`.

    Returns:
        The folder of the page.
    """
    recipe = load_networks(quick, seeds, overrides)
    given = _checked_embeddings(embeddings or {})
    _check_networks(networks)
    wanted = _with_networks(_wanted(tasks, data, quick), networks)
    graph = {"kg": RawInput([cmekg.locate()])} if set(wanted) & set(MADE) else {}
    # Torch is imported here, so that mistakes are explained without it.
    from tasks.evaluate.cmedlms.matrix import Cell, NetworkMatrixParams, network_matrix
    from tasks.finetune.networks import networks as networks_stage

    with stage_runner() as run:
        # What the networks read comes first, for all cells: a file of vectors that cannot be read, or an encoder that
        # cannot be frozen, must not be found out after hours of training.
        asked = []
        for name, own in wanted.items():
            files = _files(run, recipe, name, data, graph)
            for embedding in ("bare", *(one for one in EMBEDDINGS if one in given)):
                source = _source(run, recipe, name, files, embedding, given)
                asked.append((Cell(task=name, embedding=embedding), own, {"data": files, **source}))
        cells: dict[str, Cell] = {}
        found: dict[str, Artifact] = {}
        for number, (cell, own, inputs) in enumerate(asked, start=1):
            print(f"cell {number} of {len(asked)}: {cell.task}, {EMBEDDINGS[cell.embedding]}", flush=True)
            key = f"{cell.task}_{cell.embedding}".replace("-", "_")
            found[key] = run(networks_stage, recipe.networks.for_task(cell.task, own), **inputs)
            cells[key] = cell
        notes = (recipe.limits(), *(MADE[name] for name in wanted if name in MADE and _given(name, data) is None))
        page = run(network_matrix, NetworkMatrixParams(cells=cells, notes=notes), **found)
    return str(page.path)


def _checked_embeddings(embeddings: Mapping[str, str]) -> dict[str, Any]:
    """Return the inputs of the embeddings. Raises `UserError` for an unknown name or a missing file."""
    unknown = sorted(set(embeddings) - set(EMBEDDINGS) | ({"bare"} & set(embeddings)))
    if unknown:
        names = ", ".join(name for name in EMBEDDINGS if name != "bare")
        raise UserError(f"embeddings.{unknown[0]} is not an embedding that can be given. There are {names}.")
    return {
        name: ModelFolder(path, f"embeddings.{name}") if name in ENCODERS else VectorFile(path)
        for name, path in embeddings.items()
    }


def _wanted(tasks: list[str] | None, data: str | None, quick: bool) -> list[str]:
    """Return the tasks to run; by default all that have files or are made, in the quick form the first of each table.

    Raises:
        UserError: there is no folder `data`; a task is unknown, or lacks files and cannot be made.
    """
    if data is not None and not Path(data).expanduser().is_dir():
        raise UserError(f"There is no folder {data}. Give the one with the tasks' files, as in --param data=FOLDER.")
    names = list(DEFAULT_TASKS) if tasks is None else tasks
    for name in names:
        if name not in TABLES:
            raise UserError(f"{task(name).name} is not a task of this comparison. There are {', '.join(TABLES)}.")
    found: list[str] = []
    for name in names:
        fault = _lacking(name, data)
        if fault and tasks is not None:
            raise UserError(fault)
        if fault:
            warn(f"{name} is skipped: {fault}")
        elif tasks is not None or not quick or TABLES[name].published not in {TABLES[one].published for one in found}:
            found.append(name)
    if not found:
        raise UserError("No task was given. `python -m flows list` shows them, as finetune/<task>.")
    return found


def _check_networks(networks: Sequence[str] | None) -> None:
    """Raise `UserError` if no network is asked for, or an unknown one."""
    known = dict.fromkeys(one for table in TABLES.values() for one in table.networks)
    if networks is not None and not networks:
        raise UserError("networks=[] asks for no network. Leave networks out to compare all of them.")
    for one in networks or ():
        if one not in known:
            near = difflib.get_close_matches(one, known, n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise UserError(f"networks: There is no network {one!r}.{hint} There are {', '.join(known)}.")


def _with_networks(names: Sequence[str], networks: Sequence[str] | None) -> dict[str, tuple[str, ...]]:
    """Return the networks of each task, without tasks that have none of those asked for.

    Raises:
        UserError: no task has one of them.
    """
    found = {name: tuple(one for one in TABLES[name].networks if networks is None or one in networks) for name in names}
    for name in [name for name, own in found.items() if not own]:
        warn(f"{name} has none of the networks {', '.join(networks or ())} and is skipped")
    if not any(found.values()):
        raise UserError(f"None of the tasks {', '.join(names)} has one of these networks. Leave networks out.")
    return {name: own for name, own in found.items() if own}


def _lacking(name: str, data: str | None) -> str:
    """Return why a task cannot run; empty if it can."""
    if _given(name, data) is not None or (name in MADE and name != "disease-diagnosis"):
        return ""
    if name == "disease-diagnosis" and _given(RECORDS, data) is not None:
        return ""
    needed = RECORDS if name == "disease-diagnosis" else name
    return f"It needs the files of {task(needed).title}. Give their folder, as in --param data=FOLDER."


def _given(name: str, data: str | None) -> TaskFiles | None:
    """Return the files of a task in the folder of all, or None if they are not there."""
    if data is None:
        return None
    try:
        return task_files([task(name)], data)[name]
    except UserError:
        return None


def _files(
    run: StageRunner, recipe: NetworkRecipe, name: str, data: str | None, graph: Mapping[str, RawInput]
) -> TaskFiles:
    """Return the files of a task, made if they are not given."""
    files = _given(name, data)
    if files is not None:
        return files
    if name == "disease-diagnosis":
        records = _given(RECORDS, data)
        assert records is not None, "checked before anything ran"
        return TaskFiles(task(name), run(masked_diagnoses, recipe.masked_diagnoses, data=records, **graph).path)
    made = {"cmed-classification": section_texts, "symptom-department": symptom_departments}[name]
    return TaskFiles(task(name), run(made, recipe.graph_texts, **graph).path)


def _source(
    run: StageRunner,
    recipe: NetworkRecipe,
    name: str,
    files: TaskFiles,
    embedding: str,
    given: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the inputs `model` and, for an encoder, `states` of the stage `networks`."""
    from tasks.finetune.sources.states import encoder_states
    from tasks.finetune.sources.tables import SOURCE, bare_embeddings, vector_table

    limit = recipe.networks.limit_of(name)
    if embedding in ENCODERS:
        states = StatesParams(task=name, limit=limit, max_length=recipe.networks.max_length)
        return {"model": given[embedding], "states": run(encoder_states, states, model=given[embedding], data=files)}
    if embedding == "bare":
        made = run(bare_embeddings, BareParams(task=name, limit=limit), data=files)
    else:
        made = run(vector_table, VectorTableParams(by_word=embedding in BY_WORD), vectors=given[embedding])
    return {"model": ModelFolder(f"{made.path}/{SOURCE}", f"embeddings.{embedding}")}
