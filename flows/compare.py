"""Flow `compare`, deployment `papers`: the objectives of five papers on one encoder, text, budget and set of tasks."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from flows.recipes.comparing import PapersRecipe, load_papers
from flows.recipes.pretraining import Preset
from flows.shared.documents import TextInputs, text_inputs
from flows.shared.downstream import chosen_tasks, task_files
from flows.shared.finished import FinishedStages, NotFinishedError
from flows.shared.graphs import Graphs, GraphSource, requested_graphs
from flows.shared.pretraining import TrainedModel, TrainingData, check_inputs, more_inputs, prepare
from flows.shared.vocabularies import vocabulary_input
from infra.artifacts import Artifact
from infra.errors import UserError
from tasks.evaluate.papers.cells import TASKS, Cell, ordered_cells
from tasks.evaluate.papers.models import BY_NAME, FLOOR, MODELS, RANDOM, ComparedModel, needed
from tasks.files.raw_input import RawInput
from tasks.finetune.inputs import ModelFolder, TaskFiles
from tasks.runner import StageRunner, flow, info, stage_runner, warn

OWN = "tuning."
"""How the overrides that are the comparison's begin; all others are the presets'."""

SETTINGS = (PapersRecipe, Preset)
"""Models of the keys of `overrides`."""


@flow(name="compare")
def compare(
    data: str | None = None,
    corpus: str | list[str] | None = None,
    benchmarks: str | None = None,
    vocabulary_file: str | None = None,
    graphs: Graphs | None = None,
    seconds: float = 14_400.0,
    more_seconds: float = 3_600.0,
    flops: float | None = None,
    more_flops: float | None = None,
    rows: int | None = None,
    cores: int = 1,
    at_once: int = 1,
    models: list[str] | None = None,
    tasks: list[str] | None = None,
    sizes: list[int | None] | None = None,
    seeds: list[int] | None = None,
    hours: float | None = None,
    look: bool = False,
    overrides: dict[str, Any] | None = None,
) -> str:
    """Train the models of the papers, fine-tune each on every task, and tabulate it; the same command resumes it.

    Args:
        data: folder with the files of the tasks.
        corpus: files or folders of text; the default is that of corpus/refresh.
        benchmarks: dev and test texts of the tasks, which are cut out of the corpus; without them the models may have
            read what they are judged by.
        vocabulary_file: `vocab.txt` of all models, random weights among them; without one, it is built from the text.
        graphs: knowledge graphs, as in knowledge/fuse; by default CMeKG.
        seconds: CPU seconds of every model that starts from random weights.
        more_seconds: CPU seconds of every model that starts from one of these.
        flops: budget in model FLOPs in place of `seconds`, which holds on GPUs too; needs `more_flops`.
        more_flops: budget in model FLOPs in place of `more_seconds`.
        rows: rows of a step, each view counted, for every model; by default those of its preset.
        cores: threads of a training process.
        at_once: fine-tunings of a task that run at a time; those of a GPU share it.
        models: names of models, such as random, bert and ehealth; by default all of them.
        tasks: names of tasks, such as cmedqaner; by default all five.
        sizes: numbers of records of train, such as 300; null is all records. By default 100, 300, 1,000 and all.
        seeds: seeds of the draw of records, of their order and of the head; by default those of `tuning.seeds`.
        hours: begin no further work after so many hours; what is running is finished.
        look: do no work, and make the page of what was done before.
        overrides: `tuning.<key>` to values for fine-tuning; any other key is one of every model's preset.

    Returns:
        The folder of the page.
    """
    given = overrides or {}
    own = {key: value for key, value in given.items() if key.startswith(OWN)}
    own |= {} if seeds is None else {"tuning.seeds": seeds}
    budgets = {"seconds": seconds, "more_seconds": more_seconds, "flops": flops, "more_flops": more_flops}
    recipe = load_papers({**budgets, "rows": rows, "cores": cores, "at_once": at_once}, own)
    names = _checked_models(models)
    of_presets = {key: value for key, value in given.items() if key not in own}
    presets = {model.name: recipe.preset(model, of_presets) for model in needed(names)}
    cells = _cells(names, tasks, sizes, recipe)
    if data is None:
        raise UserError("No data was given. Give the folder with the files of the tasks, as in --param data=FOLDER.")
    files = {name: task_files(chosen_tasks([name]), data)[name] for name in dict.fromkeys(cell.task for cell in cells)}
    text = text_inputs(corpus, benchmarks)
    if benchmarks is None and corpus is not None:
        warn("No benchmarks were given: texts of dev and test that are in the corpus stay there.")
    vocabulary = vocabulary_input(vocabulary_file)
    linked = requested_graphs(graphs) if any(model.linked for model in needed(names)) else {}
    for model in needed(names):
        check_inputs(presets[model.name], model.linked)
    with stage_runner() as run:
        study = _Study(recipe, presets, text, vocabulary, linked, files)
        if not look:
            _work(study, run, cells, None if hours is None else time.monotonic() + 3600 * hours)
        page = _page(study, run, names, cells)
    print(page.read_file("table.md").decode())
    return str(page.path)


class _Study:
    """The stages of the comparison, run by a `StageRunner` or looked up by `FinishedStages`."""

    def __init__(
        self,
        recipe: PapersRecipe,
        presets: Mapping[str, Preset],
        text: TextInputs,
        vocabulary: RawInput | None,
        graphs: Mapping[str, GraphSource],
        files: Mapping[str, TaskFiles],
    ) -> None:
        self.recipe = recipe
        self._presets, self._text, self._vocabulary = presets, text, vocabulary
        self._graphs, self._files = graphs, files
        self._known: dict[tuple[StageRunner, str, float | None], TrainedModel] = {}

    def data(self, run: StageRunner, model: ComparedModel) -> TrainingData:
        """Return the examples of a model's preset. All models have one vocabulary."""
        graphs = self._graphs if model.linked else None
        return prepare(run, self._presets[model.name], self._text, self._vocabulary, graphs)

    def checkpoint(self, run: StageRunner, model: ComparedModel) -> tuple[Artifact, dict[str, Artifact]]:
        """Return a model's run, and what it was trained on; the model that it starts from is trained before."""
        from tasks.pretrain.train import train  # imports torch

        preset, data = self._presets[model.name], self.data(run, model)
        more = more_inputs(run, preset, data)
        given = {"examples": data.examples, "vocabulary": data.vocabulary, **more}
        start = {} if model.start is None else {"init": self.checkpoint(run, BY_NAME[model.start])[0]}
        return run(train, preset.train, **given, **start), given

    def trained(self, run: StageRunner, model: ComparedModel, milestone: float | None = None) -> TrainedModel:
        """Return a model with its folder, at its end or at a milestone."""
        from tasks.pretrain.export import export  # imports torch

        key = run, model.name, milestone
        if key not in self._known:  # every cell of a model asks for it
            checkpoint, given = self.checkpoint(run, model)
            named = {"name": f"yiwen-{model.name}-mini", "milestone": milestone}
            params = self._presets[model.name].export.model_copy(update=named)
            self._known[key] = TrainedModel(checkpoint, run(export, params, checkpoint=checkpoint, **given))
        return self._known[key]

    def cell(self, run: StageRunner, cell: Cell) -> Artifact:
        """Return the scores of a cell. The floor has FLOOR's architecture and vocabulary."""
        from tasks.evaluate.papers.cell import papers_cell  # imports torch

        model = BY_NAME[FLOOR if cell.model == RANDOM else cell.model]
        folder = ModelFolder(str(self.trained(run, model, cell.milestone).model.path))
        return run(papers_cell, self.recipe.finetuning(cell), model=folder, data=self._files[cell.task])


def _work(study: _Study, run: StageRunner, cells: list[Cell], until: float | None) -> None:
    """Run all cells in order, until a time of the monotonic clock."""
    for number, cell in enumerate(cells):
        if until is not None and time.monotonic() > until:
            warn(f"The time is over: {number} of {len(cells)} cells are done. The same command resumes.")
            return
        run.effect(info, f"Cell {number + 1} of {len(cells)}: {cell.name}")
        study.cell(run, cell)


def _page(study: _Study, run: StageRunner, names: tuple[str, ...], cells: list[Cell]) -> Artifact:
    """Make the page of what is finished."""
    from tasks.evaluate.papers.page import CELL, RUN, PapersPageParams, papers_page  # imports torch

    finished = FinishedStages(run.store)
    inputs: dict[str, Artifact] = {}
    for model in needed(names):
        with suppress(NotFinishedError):
            inputs[RUN + model.name] = study.checkpoint(finished, model)[0]
    for cell in cells:
        with suppress(NotFinishedError):
            inputs[CELL + cell.name] = study.cell(finished, cell)
    params = PapersPageParams(
        models=(RANDOM, *(model.name for model in needed(names))),
        tasks=tuple(dict.fromkeys(cell.task for cell in cells)),
        sizes=tuple(dict.fromkeys(cell.records for cell in cells)),
        cells=tuple(cells),
        notes=_notes(study.recipe),
    )
    return run(papers_page, params, **inputs)


def _notes(recipe: PapersRecipe) -> tuple[str, ...]:
    """Return how the models were treated, for the page."""
    tuning = recipe.tuning
    budgets = f"{recipe.seconds:,g} CPU seconds", f"{recipe.more_seconds:,g}"
    if recipe.flops is not None:
        budgets = f"{recipe.flops:.3g} model FLOPs", f"{recipe.more_flops:.3g}"
    epochs = ", ".join(f"{count} with {size}" for size, count in tuning.epochs.items())
    return (
        f"Every model of stage 1 had {budgets[0]}, every model of stage 2 {budgets[1]} more, evaluation apart.",
        f"Fine-tuning: {tuning.batch_size} rows, rates {', '.join(f'{rate:g}' for rate in tuning.learning_rates)} "
        f"(the better mean on dev), epochs by records: {epochs}; seeds {', '.join(map(str, tuning.seeds))}, which also "
        "draw the records"
        + (
            ". Answers about texts and pairs are read from the mean of the tokens." if tuning.pooling == "mean" else "."
        ),
        "Scores in percent by each task's metric on its whole test file: mean ± standard deviation over seeds.",
        "A difference is clear if both tests reject chance at 5 %: over records and over seeds. Tests are many, and "
        "not corrected for that.",
    )


def _checked_models(models: list[str] | None) -> tuple[str, ...]:
    known = (RANDOM, *(model.name for model in MODELS))
    for name in models or ():
        if name not in known:
            raise UserError(f"There is no model {name!r} in the comparison. There are {', '.join(known)}.")
    if models is not None and not set(models) - {RANDOM}:
        raise UserError("models names no pre-trained model. Give some beside random, or leave models out.")
    return known if models is None else tuple(name for name in known if name in models)


def _cells(
    names: tuple[str, ...], tasks: list[str] | None, sizes: list[int | None] | None, recipe: PapersRecipe
) -> list[Cell]:
    for name in tasks or ():
        if name not in TASKS:
            raise UserError(f"{name!r} is not a task of the comparison. There are {', '.join(TASKS)}.")
    cells = ordered_cells(names, tasks or TASKS, *([] if sizes is None else [sizes]))
    for size in dict.fromkeys("all" if cell.records is None else str(cell.records) for cell in cells):
        if size not in recipe.tuning.epochs:
            raise UserError(f"tuning.epochs has no number for {size} records. Give one, as in tuning.epochs.{size}=20.")
    return cells
