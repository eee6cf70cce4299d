"""Everyday diagnoses of tests/support/terms: first answers by chapter, and refusals, with the shipped rules.

    python -m benchmarks.terms.everyday_diagnoses FOLDER

FOLDER is what normalise/index printed. Of the halves that are held out, only totals are shown, those of chapters too;
nothing may be chosen by them. The tables of the checkout are used, whatever the index was built with.
"""

from __future__ import annotations

import argparse
import csv
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from tasks.normalise.normaliser import Normaliser
from tasks.normalise.queries.rules import QueryRules
from tasks.normalise.terms.everyday_names import read_everyday_names

LABELLED = Path(__file__).parents[2] / "tests" / "support" / "terms"
HALVES = ("tuning", "held_out", "fields_tuning", "fields_more_tuning", "fields_new_tuning", "fields_new_held_out")
"""The first two are single names of diseases, mostly; `fields` are what diagnosis fields hold, by three other authors.
`fields_more_tuning` was held out until its totals had been published three times."""
HELD_OUT = "held_out"
"""Ends the name of a half of which only totals are shown."""
_SEVERAL = re.compile("[、；;,，+]|\\d[.．]\\D| ")
"""Matches 肺炎、肾炎, 1.肺炎 2.肾炎 and 肺炎 肾炎."""


def main() -> None:
    """Print the figures of all halves, with every answer and by default."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder", type=Path, help="folder of an index")
    parser.add_argument("--half", choices=HALVES, nargs="+", default=HALVES, help="some halves only")
    parser.add_argument("--threshold", type=float, help="confidence that a code needs (default: the index's)")
    parser.add_argument("--every-text", action="store_true", help="without reading, as before")
    options = parser.parse_args()
    normaliser = Normaliser(options.folder, reads=not options.every_text, threshold=options.threshold)
    normaliser.retrieval.rules = QueryRules.read()
    threshold, normaliser.threshold = normaliser.threshold, 0.0
    for half in options.half:
        _diagnoses(normaliser, half, threshold)
        _refusals(normaliser, half, threshold)


def _diagnoses(normaliser: Normaliser, half: str, threshold: float) -> None:
    rows = _rows(f"diagnoses_{half}.csv")
    started = time.process_time()
    found = normaliser.normalise([row["query"] for row in rows])
    seconds = time.process_time() - started
    tallies = {name: Counter[str]() for name in ("diagnoses", "all", "default", "five")}
    refused = 0
    right: list[bool] = []
    for row, one in zip(rows, found, strict=True):
        gold = set(row["codes"].replace("+", "/").split("/"))
        chapter = row["codes"][0]
        tallies["diagnoses"][chapter] += 1
        for name, least in (("all", 0.0), ("default", threshold)):
            sure = [each for each in one.terms if each.score >= least]
            # Of several diagnoses the label is the first one's, and answers are in the order of their scores.
            given = {each.code[:3] for each in (sure if _SEVERAL.search(row["query"]) else sure[:1])}
            is_right = bool(given & gold)
            tallies[name][chapter] += is_right
        right.append(is_right)
        tallies["five"][chapter] += bool({each.code[:3] for each in one.considered[:5]} & gold)
        refused += bool(one.refused)
    count = len(rows)
    everything, default, five = (tallies[name].total() / count for name in ("all", "default", "five"))
    print(f"{half}: {count}, all coded {everything:.3f}, by default ({threshold:g}) {default:.3f}, top-5 {five:.3f}")
    print(f"   refused {refused}, {count / seconds:.0f} a CPU s")
    if half.endswith(HELD_OUT):
        _unseen(rows, right)
    for chapter in sorted(tallies["diagnoses"]):
        print("  ", chapter, *(tallies[name][chapter] for name in tallies))


def _unseen(rows: Sequence[Mapping[str, str]], right: Sequence[bool]) -> None:
    """Print the figure of the lines that neither the tuning half nor the table of everyday names has."""
    for seen, known in (
        (
            "tuning line",
            {row["query"] for name in HALVES if not name.endswith(HELD_OUT) for row in _rows(f"diagnoses_{name}.csv")},
        ),
        ("everyday name", set(read_everyday_names())),
    ):
        others = [each for row, each in zip(rows, right, strict=True) if row["query"] not in known]
        print(f"   {len(others)} of them are no {seen}: top-1 {sum(others) / max(1, len(others)):.3f}")


def _refusals(normaliser: Normaliser, half: str, threshold: float) -> None:
    rows = _rows(f"no_codes_{half}.csv")
    found = normaliser.normalise([row["query"] for row in rows])
    right = sum(
        {str(part.status) for part in one.refused} == {row["status"]} for row, one in zip(rows, found, strict=True)
    )
    print(f"   {len(rows)} texts without a code, {right} with the status of their label")
    for name, least in (("all coded", 0.0), (f"by default ({threshold:g})", threshold)):
        coded = Counter(
            row["status"]
            for row, one in zip(rows, found, strict=True)
            if any(each.score >= least for each in one.terms)
        )
        print(f"   {name}: {len(rows) - coded.total()} get none; coded all the same:", dict(sorted(coded.items())))


def _rows(name: str) -> list[dict[str, str]]:
    with (LABELLED / name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


if __name__ == "__main__":
    main()
