"""Flow `finetune` on a user's own file: a table with columns of any name to a model, its scores and its page."""

from __future__ import annotations

import logging
from typing import Any

from flows.recipes.own_task import load_own_finetuning, load_own_task
from infra.errors import UserError
from tasks.downstream.catalogue import task
from tasks.downstream.own import read_own_task
from tasks.finetune.inputs import ModelFolder, TaskFiles
from tasks.own.files import OwnFiles
from tasks.own.params import Form, Markup
from tasks.own.stage import own_task
from tasks.runner import flow, stage_runner, warn

logger = logging.getLogger("flows")

SIZES = (100, 300, 1_000)
"""Sizes of a learning curve, besides all."""


@flow(name="finetune")
def finetune(
    form: Form,
    data: str | None = None,
    model: str | None = None,
    dev: str | None = None,
    test: str | None = None,
    text_field: str = "text",
    second_text_field: str = "text2",
    label_field: str = "label",
    label_separator: str | None = None,
    markup: Markup = "offsets",
    query_field: str = "query",
    candidate_field: str = "candidate",
    relevance_field: str = "relevance",
    group_field: str | None = None,
    split_field: str | None = None,
    dev_share: float = 0.1,
    test_share: float = 0.1,
    split_seed: int = 0,
    metric: str | None = None,
    strict: bool = True,
    class_weights: bool = False,
    learning_curve: bool | list[int] = False,
    quick: bool = False,
    seeds: list[int] | None = None,
    knowledge: str | None = None,
    overrides: dict[str, Any] | None = None,
) -> str:
    """Fine-tune an encoder on a CSV, TSV, JSON lines, Parquet or XLSX file; what was done before is reused.

    Args:
        form: what is learnt: `classify` (a label or several of a text), `pairs` (a label of two texts), `tag` (entities
            in a text) or `rank` (candidates of a query). Each is a deployment of its own with the parameters it needs.
        data: file of all rows or of train; or a folder with train.csv, dev.csv and test.csv.
        model: folder of the encoder in Hugging Face's layout, ours or another's.
        dev: file by which the best run is chosen; by default drawn from `data`.
        test: file that is only scored; by default drawn from `data` too, unless `dev` is given.
        text_field: column of the text.
        second_text_field: pairs: column of the second text.
        label_field: column of the label; for tag that of entities or tags.
        label_separator: what stands between several labels of a row, such as `;`.
        markup: tag: how entities are written: `offsets`, `bio` or `brackets` (docs/own_task.md).
        query_field: rank: column of the query.
        candidate_field: rank: column of the candidate.
        relevance_field: rank: column with 1 or 0, yes or no, or whole grades.
        group_field: column whose equal values stay in one split, such as the patient.
        split_field: column with train, dev or test for each row.
        dev_share: share of the rows that is drawn for dev.
        test_share: share of the rows that is drawn for test; 0 for none.
        split_seed: another seed draws other splits.
        metric: score that chooses the best run; by default macro_f1, multi_label_f1, entity_f1, mrr or pair_score.
        strict: false takes labels that occur once, or that train lacks, with a warning.
        class_weights: let rare labels count as much as frequent ones in training.
        learning_curve: true, or sizes such as [100, 300]: also train on parts of train, to see what more rows are
            worth.
        quick: one setting and one seed instead of the grid.
        seeds: seeds of the runs that a setting is judged by; 1, 2 and 3 by default.
        knowledge: folder of the knowledge of a model that reads some, if it does not find it itself.
        overrides: `finetune.<key>` to values, for any field of `tasks.finetune.params.FinetuneParams`.

    Returns:
        The folder of the best model.
    """
    texts = {"pairs": (text_field, second_text_field), "rank": (query_field, candidate_field)}.get(form, (text_field,))
    given: dict[str, Any] = {
        "form": form,
        "text_fields": texts,
        "label_field": relevance_field if form == "rank" else label_field,
        "label_separator": label_separator,
        "markup": markup,
        "group_field": group_field,
        "split_field": split_field,
        "dev_share": dev_share,
        "test_share": test_share,
        "split_seed": split_seed,
        "metric": metric,
        "strict": strict,
    }
    params = load_own_task(given, overrides)
    load_own_finetuning(form, quick, seeds, class_weights, overrides)  # a mistake is explained before any work
    if data is None:
        raise UserError("No data was given. Give a file with a row for each record, as in --param data=FILE.csv.")
    if model is None:
        raise UserError("No encoder was given. Give its folder, as in --param model=FOLDER.")
    encoder, files = ModelFolder(model, knowledge=knowledge), OwnFiles(data, dev, test)
    # Torch is imported here, so that mistakes are explained without it.
    from tasks.finetune.learning_curve import LearningCurveParams
    from tasks.finetune.learning_curve import learning_curve as curve_stage
    from tasks.finetune.stage import finetune as finetune_stage
    from tasks.reports.finetune import ReportFinetuneParams, report_finetune

    with stage_runner() as run:
        records = run(own_task, params, files=files)
        own = read_own_task(records.path)
        assert own is not None, "the stage writes it"
        for split, origin in own.origins.items():
            logger.info("%s: %s", split, origin)
        for note in own.notes:
            logger.info("%s", note)
        for warning in own.warnings:
            warn(warning)
        tuning = load_own_finetuning(own.task, quick, seeds, class_weights, overrides)
        inputs = {"model": encoder, "data": TaskFiles(task(own.task), records.path)}
        tuned = run(finetune_stage, tuning, **inputs)
        _warn_of_cuts(tuned.manifest.counters)
        pages = {"run": tuned}
        if learning_curve:
            sizes = SIZES if learning_curve is True else tuple(learning_curve)
            own_sizes = LearningCurveParams(**{**dict(tuning), "sizes": sizes})
            pages["curve"] = run(curve_stage, own_sizes, **inputs, run=tuned)
        run(report_finetune, ReportFinetuneParams(), **pages)
        return f"{tuned.path}/model"


def _warn_of_cuts(counters: dict[str, int]) -> None:
    """Warn of texts whose ends no model reads."""
    cut = counters.get("truncated", 0)
    if cut:
        warn(
            f"{cut:,} texts are longer than a sequence, and their ends are not read. finetune.max_length sets the tokens "
            "of a sequence, up to the positions of the encoder."
        )
