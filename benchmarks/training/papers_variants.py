"""One start under several texts or vocabularies: the same cells of several runs of `compare/papers`, with paired tests.

    python benchmarks/training/papers_variants.py raw=PAGE deidentified=PAGE general=PAGE [--output FILE.md]

PAGE is the folder that a run prints, a `papers_page` in its store. Cells of one name are compared with those of the
first page, which were fine-tuned with the same seeds, so with the same records; cells that a page lacks are left out.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.pages import publish, table
from infra.artifacts import ArtifactStore
from infra.errors import UserError
from tasks.evaluate.papers.cell import CellScores, read_cell
from tasks.evaluate.papers.page import CELL
from tasks.evaluate.papers.paired import paired

HEAD = ("cell", "variant", "test", "by seed", "difference", "95 %", "p (records)", "p (seeds)", "clear")


def main() -> None:
    """Compare and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="+", metavar="NAME=PAGE", help="the first is what the others are compared with")
    parser.add_argument("--output", type=Path, help="write the table here too")
    options = parser.parse_args()
    named = [one.partition("=") for one in options.pages]
    try:
        pages = {name: cells_of(Path(folder)) for name, _, folder in named}
    except UserError as error:
        parser.error(str(error))
    publish(table(HEAD, rows_of(pages)), options.output)


def cells_of(page: Path) -> dict[str, CellScores]:
    """Return the cells of a page by name.

    Raises:
        UserError: there is no page in that folder.
    """
    store = ArtifactStore(page.parent.parent)
    artifact = store.get(page.parent.name, page.name)
    if artifact is None:
        raise UserError(f"{page}: there is no page. Give the folder that `run compare/papers` prints.")
    given = {name: store.get(one.stage, one.fingerprint) for name, one in artifact.manifest.inputs.items()}
    return {name[len(CELL) :]: read_cell(one) for name, one in given.items() if one and name.startswith(CELL)}


def rows_of(pages: Mapping[str, Mapping[str, CellScores]]) -> Sequence[Sequence[str]]:
    """Return a row per cell and variant, for cells that the first page and another have."""
    first, *others = pages
    rows = []
    for cell, reference in pages[first].items():
        held = [name for name in others if cell in pages[name]]
        if held:
            rows.append([cell, first, *_scores(reference), "", "", "", "", ""])
        for name in held:
            rows.append([cell, name, *_scores(pages[name][cell]), *_tests(pages[name][cell], reference)])
    return rows


def _scores(cell: CellScores) -> tuple[str, str]:
    values = [100 * cell.test[seed] for seed in sorted(cell.test)]
    spread = f" ± {stdev(values):.1f}" if len(values) > 1 else ""
    return f"{mean(values):.1f}{spread}", " ".join(f"{value:.1f}" for value in values)


def _tests(cell: CellScores, reference: CellScores) -> tuple[str, ...]:
    found = paired(cell, reference)
    if found is None:
        return "–", "–", "–", "–", "–"
    return (
        f"{100 * found.difference:+.1f}",
        f"{100 * found.low:+.1f} to {100 * found.high:+.1f}",
        f"{found.p_records:.4f}",
        f"{found.p_seeds:.3f}",
        "yes" if found.is_clear else "no",
    )


if __name__ == "__main__":
    main()
