"""The verb `export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from infra.errors import UserError


def export(
    output: Annotated[Path, typer.Option(metavar="FOLDER", help="A new folder.")],
    run: Annotated[str | None, typer.Option(metavar="FOLDER", help="Folder or URI that holds run.json.")] = None,
    model: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="In place of a run: an encoder or a fine-tuned model.")
    ] = None,
    step: Annotated[
        int | None, typer.Option(help="A step whose checkpoint was kept (default: the newest).", show_default=False)
    ] = None,
    form: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="pre_training or generator: with heads (default: the encoder alone)."),
    ] = None,
    onnx: Annotated[bool, typer.Option("--onnx", help="Write model.onnx too; needs the extra onnx.")] = False,
) -> None:
    """Export a checkpoint of a pre-training run, or a model as ONNX.

    It is a kept one of an unfinished run, or the best one of a finished run, and becomes a folder that transformers
    loads. Unfinished runs are stored in
    YIWEN_HOME/train/.<fingerprint>.partial/scratch, finished ones in YIWEN_HOME/train/<fingerprint>.
    """
    from tasks.pretrain.export import export_checkpoint, export_onnx

    if (run is None) is (model is None):
        raise UserError("Give either --run FOLDER, a pre-training run, or --model FOLDER with --onnx.")
    if model is not None:
        if not onnx or step is not None or form is not None:
            raise UserError(
                "A model is a folder already: --model goes with --onnx, and with neither --step nor --form."
            )
        print(f"Exported {export_onnx(model, output)}")
        return
    assert run is not None, "one of them is given"
    exported = export_checkpoint(run, output, step, form, onnx)
    print(f"Exported step {exported:,} to {output}")
