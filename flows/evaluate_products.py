"""Flow `evaluate`, deployment products: what a model knows of products whose titles it was not trained on."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from flows.recipes.evaluating import ProductEvaluation, load_product_evaluation
from flows.recipes.finetuning import FinetuneRecipe, load_finetuning
from flows.shared.downstream import chosen_tasks, task_files
from flows.shared.products import product_source, records
from infra.artifacts import Artifact
from infra.errors import UserError
from tasks.evaluate.products.query_title import OTHER, query_title
from tasks.evaluate.trained import Trained, trained
from tasks.finetune.inputs import ModelFolder
from tasks.runner import StageRunner, flow, stage_runner, warn

RELEVANCE = ["qtrel-easy", "qtrel-hard"]


ProductTable = Annotated[dict[str, Any], Field(examples=[{"source": "drugs.parquet", "columns": ["drug", "", ""]}])]
"""Where a table of products is, and how it is read: parameters of the stage `product_records`."""

SETTINGS = (ProductEvaluation, FinetuneRecipe)
"""Models of the keys of `overrides`."""


@flow(name="evaluate")
def evaluate(
    model: str | None = None,
    other: ProductTable | None = None,
    relevance: bool = False,
    overrides: dict[str, Any] | None = None,
) -> str:
    """Rank the values of held-out titles, and judge which titles answer a query.

    Args:
        model: folder that a pretrain flow printed, or that of any encoder which this project exported.
        other: a second table of products, all of whose titles are asked about: `source` and further parameters of
            `product_records`, such as `{"source": "drugs.parquet", "columns": ["drug", "", ""], "attribute_columns":
            {"indications": "适应症"}}`.
        relevance: also fine-tune the model on query-title relevance made from the products' indications.
        overrides: `rank_values.<key>`, `query_title.<key>` and `finetune.<key>` to values; `product_records.<key>` for
            a model that was trained on no products.

    Returns:
        The folder of the report on the values of held-out titles.
    """
    tuning = {key: value for key, value in (overrides or {}).items() if key.startswith("finetune.")}
    recipe = load_product_evaluation(other, {k: v for k, v in (overrides or {}).items() if k not in tuning})
    if model is None:
        raise UserError("No model was given. Give the folder that a pretrain flow printed, as in --param model=FOLDER.")
    judged = trained(model)
    if judged.records is not None and any(key.startswith("product_records.") for key in overrides or {}):
        warn("product_records.* is ignored: the products are those that the model was trained on.")
    for params in (recipe.other, None if judged.records else recipe.product_records):
        if params is not None:
            product_source(params)
    # Torch is imported here, so that mistakes are explained without it.
    from tasks.evaluate.products.rank_values import rank_values

    with stage_runner() as run:
        own = judged.records or records(run, recipe.product_records)
        ranked = run(rank_values, recipe.rank_values, records=own, **judged.inputs)
        second = None if recipe.other is None else records(run, recipe.other)
        if second is not None:
            whole = recipe.rank_values.model_copy(update={"titles": "all"})
            print(run(rank_values, whole, records=second, trained_on=own, **judged.inputs).path)
        if relevance:
            made = run(query_title, recipe.query_title, records=own, **({} if second is None else {"test": second}))
            _relevance(run, judged, model, made, tuning)
    return str(ranked.path)


def _relevance(run: StageRunner, judged: Trained, model: str, made: Artifact, tuning: dict[str, Any]) -> None:
    """Fine-tune on both tasks, and on the hard one with the second table's pairs as its test set."""
    from tasks.finetune.stage import finetune
    from tasks.reports.finetune import ReportFinetuneParams, report_finetune

    asked = {str(made.path): RELEVANCE}
    if "test" in made.manifest.inputs:
        asked[f"{made.path}/{OTHER}"] = RELEVANCE[1:]
    for folder, names in asked.items():
        for name, files in task_files(chosen_tasks(names), folder).items():
            params = load_finetuning(name, True, None, tuning)
            tuned = run(finetune, params, model=ModelFolder(model), data=files)
            print(run(report_finetune, ReportFinetuneParams(), run=tuned).path)
