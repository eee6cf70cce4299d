"""The verb `lineage`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.show import Which

if TYPE_CHECKING:
    from flows.cli.stored.ancestry import Ancestor


def lineage(
    artifact: Which,
    svg: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the tree into this file, too.", show_default=False)
    ] = None,
) -> None:
    """Show what a model comes from, as a tree down to raw files.

    Every artifact has the rows of its tables and its size. One that was needed twice has its own inputs once. The
    encoder that a task model was fine-tuned from is followed, if the store exported it.

    Examples:
      python -m flows lineage export
      python -m flows lineage finetune --svg lineage.svg
    """
    from flows.cli.stored.ancestry import Lineage
    from flows.cli.stored.find import find_artifact
    from flows.cli.stored.picture import picture
    from infra.artifacts import ArtifactStore
    from infra.builds import explained
    from infra.console.printable import printable
    from infra.errors import UserError

    found = find_artifact(artifact)
    tree = Lineage(ArtifactStore(found.store_root)).tree(found)
    print(printable("\n".join(_lines(tree, "", ""))))
    raw = [one for one in tree.walk() if one.manifest is None]
    made = sum(one.manifest is not None for one in tree.walk())
    print(f"\n{made:,} artifact{'s' * (made != 1)}, from {len(raw):,} input{'s' * (len(raw) != 1)} from outside")
    if svg is not None:
        if not svg.absolute().parent.is_dir():
            raise UserError(f"There is no folder {svg.absolute().parent}. Make it, or give another file for --svg.")
        with explained(str(svg)):
            svg.write_text(picture(tree), encoding="utf-8")
        print(f"Picture: {svg}")


def _lines(node: Ancestor, before: str, below: str) -> list[str]:
    from flows.cli.stored.summary import described

    name = f"{node.name}: " if node.name else ""
    lines = [f"{before}{name}{node.title if node.seen_before else described(node)}"]
    if node.seen_before:
        lines[0] += "  (as above)" if node.manifest is not None else ""
        return lines
    for number, one in enumerate(node.parents, start=1):
        is_last = number == len(node.parents)
        branch, continued = ("└─ ", "   ") if is_last else ("├─ ", "│  ")
        lines += _lines(one, below + branch, below + continued)
    return lines
