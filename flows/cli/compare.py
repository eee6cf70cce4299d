"""The verb `compare`."""

from __future__ import annotations

from typing import Annotated, Literal

import typer


def compare(
    first: Annotated[
        str, typer.Argument(metavar="RUN_A", help="Folder of a finetune or normaliser artifact, or of its model.")
    ],
    second: Annotated[str, typer.Argument(metavar="RUN_B", help="The folder of the other.")],
    split: Annotated[Literal["dev", "test"], typer.Option(help="The split to compare on.")] = "dev",
) -> None:
    """Test whether two fine-tuned models or normalisers differ.

    Two runs of a finetune flow, or two of normalise/chip-cdn, are compared on the records that both answered:
    difference, interval and p-value of a paired test.
    """
    from tasks.downstream.evaluation import score_text
    from tasks.finetune.compare import compare_runs, open_run

    found = compare_runs(open_run(first), open_run(second), split)
    one, other, low, high = (score_text(found["metric"], found[name]) for name in ("first", "second", "low", "high"))
    print(f"{found['task']}, {found['metric']} on {found['records']:,} records of {found['split']}")
    print(f"  first   {one}\n  second  {other}")
    difference = score_text(found["metric"], found["difference"])
    print(f"  difference {difference}, 95 % interval {low} to {high}, p = {found['p_value']:.4f}")
