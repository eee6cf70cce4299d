"""Flow `finetune` on a user's own pairs of texts: a table to a classifier of pairs, its scores and its page."""

from __future__ import annotations

from typing import Any

from flows.recipes.finetuning import FinetuneRecipe
from flows.recipes.own_task import OwnTaskRecipe
from flows.shared.own_task import OwnRun, train_on_own_file
from tasks.runner import flow

SETTINGS = (FinetuneRecipe, OwnTaskRecipe)
"""Models of the keys of `overrides`."""


@flow(name="finetune")
def finetune(
    data: str | None = None,
    model: str | None = None,
    text_field: str = "text",
    second_text_field: str = "text2",
    label_field: str = "label",
    group_field: str | None = None,
    split_field: str | None = None,
    dev: str | None = None,
    test: str | None = None,
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
    """Fine-tune an encoder to label the pairs of texts of a table.

    What was done before is reused. docs/own_task.md has examples.

    Args:
        data: file of all rows or of train: .csv, .tsv, .jsonl, .json, .parquet or .xlsx; or a folder with train.csv,
            dev.csv and test.csv.
        model: folder of the encoder in Hugging Face's layout, ours or another's; or the id of a model in the local
            cache of the Hugging Face hub.
        text_field: column of the first text.
        second_text_field: column of the second text.
        label_field: column of the label.
        group_field: column whose equal values stay in one split, such as the patient.
        split_field: column with train, dev or test for each row.
        dev: file by which the best run is chosen; by default drawn from `data`, stratified by label.
        test: file that is only scored; by default drawn from `data` too, unless `dev` is given.
        dev_share: share of the rows that is drawn for dev.
        test_share: share of the rows that is drawn for test; 0 for none.
        split_seed: another seed draws other splits.
        metric: score that chooses the best run: macro_f1 (by default; each label counts alike) or micro_f1 (each row
            does).
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
    columns = {"form": "pairs", "text_fields": (text_field, second_text_field), "label_field": label_field}
    return train_on_own_file(
        OwnRun(
            columns=columns,
            data=data,
            model=model,
            group_field=group_field,
            split_field=split_field,
            dev=dev,
            test=test,
            dev_share=dev_share,
            test_share=test_share,
            split_seed=split_seed,
            metric=metric,
            strict=strict,
            class_weights=class_weights,
            learning_curve=learning_curve,
            quick=quick,
            seeds=seeds,
            knowledge=knowledge,
            overrides=overrides,
        )
    )
