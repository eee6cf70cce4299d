"""The verb `export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def export(
    run: Annotated[str, typer.Option(metavar="FOLDER", help="Folder or URI that holds run.json.")],
    output: Annotated[Path, typer.Option(metavar="FOLDER", help="A new folder.")],
    step: Annotated[
        int | None, typer.Option(help="A step whose checkpoint was kept (default: the newest).", show_default=False)
    ] = None,
) -> None:
    """Export a checkpoint of a pre-training run.

    It is a kept one of an unfinished run, or the best one of a finished run, and becomes a folder that transformers
    loads. Unfinished runs are stored in
    YIWEN_HOME/train/.<fingerprint>.partial/scratch, finished ones in YIWEN_HOME/train/<fingerprint>.
    """
    from tasks.pretrain.export import export_checkpoint

    exported = export_checkpoint(run, output, step)
    print(f"Exported step {exported:,} to {output}")
