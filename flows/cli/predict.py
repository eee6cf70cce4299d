"""The verb `predict`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.shared_options import Device, Knowledge


def predict(
    model: Annotated[Path, typer.Option(metavar="DIR", help="Model folder of a finetune run.")],
    input: Annotated[
        Path, typer.Option(metavar="FILE", help=".txt, .jsonl, .json, or a table: .csv, .tsv, .xlsx, .parquet.")
    ],
    task: Annotated[str | None, typer.Option(help="The task to check the model against (default: no check).")] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A table if it ends in .csv, .tsv or .xlsx, with the columns of the input first; .jsonl: JSON lines "
            "(default: NAME.predictions.jsonl beside the input).",
        ),
    ] = None,
    text_field: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Column of the text; given twice for two texts (default: the columns of the training file).",
        ),
    ] = None,
    knowledge: Knowledge = None,
    device: Device = None,
) -> None:
    """Apply a fine-tuned model to a file of texts.

    Every row of the file is answered, with the probability of each label where the task has labels. A row that cannot
    be answered, such as one without text, is kept, with the reason in `error`.
    """
    from tqdm import tqdm

    from tasks.finetune.predict import Predictor
    from tasks.finetune.prediction.file import check_target, predict_file

    target = output or input.with_name(f"{input.stem}.predictions.jsonl")
    check_target(target)
    predictor = Predictor(model, device, knowledge=knowledge)
    with tqdm(unit="row", disable=None) as bar:
        counts = predict_file(
            predictor, input, target, task, lambda done: bar.update(done - bar.n), tuple(text_field or ())
        )
    print(f"{target}: {counts['answered']:,} of {counts['rows']:,} rows answered, {counts['errors']:,} with an error")
    if counts["cut"]:
        tokens = predictor.shape.max_length
        print(f"{counts['cut']:,} texts are longer than {tokens:,} tokens, and their ends were not read.")
