"""Growth of time with a text of one family of strings repeated without end, for steps that read text.

    python benchmarks/text/linear_time.py --every 12 --output benchmarks/results/text/NAME.md

Each step reads a text of half the size and of the whole size. Seconds are those of the processor; of a family above
the bound, the least of up to six turns. Families are those of the tests; `--every 12` takes each twelfth
of those of de-identification. Quadratic work takes four times as long for twice the text.
"""

from __future__ import annotations

import argparse
import datetime
import platform
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.pages import cpu_name, publish, table
from tasks.clean import clean_text
from tasks.deidentify import deidentify
from tasks.deidentify.kinds import KINDS
from tasks.deidentify.plan import Plan
from tasks.files.html_text import page_text
from tasks.normalise.queries.rules import QueryRules
from tasks.normalise.reading import Reader
from tasks.segment import segment_words, split_document
from tests.support.text.hostile_families import OF_IDENTIFIERS, OF_TEXT, SHORT

BOUND = 2.6
"""Twice the text may take so many times as long."""
LEAST = 0.02
"""Seconds below which a ratio says nothing: a family whose whole text takes less is counted as linear."""
TURNS = 6
SLOW = 0.2
"""Share of the size that is given to the slowest step."""
DIAGNOSIS = 0.03
"""Share of the size that what reads diagnoses is given: they are short."""


@dataclass(frozen=True)
class Step:
    """A step, the families that it is given, and the share of the whole size."""

    name: str
    work: Callable[[str], object]
    families: Sequence[str]
    share: float = 1.0


@dataclass(frozen=True)
class Growth:
    """Seconds of a step for a family at half the size and at the whole, and the whole size in bytes."""

    family: str
    half: float
    whole: float
    size: int

    @property
    def ratio(self) -> float:
        """How many times as long twice the text takes."""
        return self.whole / self.half if self.whole > LEAST else 1.0

    @property
    def speed(self) -> float:
        """MB a CPU second."""
        return self.size / 1e6 / max(self.whole, 1e-6)


def main() -> None:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bytes", type=int, default=1_000_000, help="size of the whole text")
    parser.add_argument("--every", type=int, default=1, help="take each so-manieth family of de-identification")
    parser.add_argument("--steps", nargs="*", help="names of steps; all by default")
    parser.add_argument("--output", type=Path, help="write the page here too")
    options = parser.parse_args()
    rows, beyond = [], []
    for step in steps(options.every):
        if options.steps and step.name not in options.steps:
            continue
        grown = [growth(step, family, options.bytes) for family in step.families]
        steepest, slowest = max(grown, key=lambda one: one.ratio), min(grown, key=lambda one: one.speed)
        above = [one for one in grown if one.ratio > BOUND]
        beyond += [(step.name, one) for one in above]
        median = sorted(one.speed for one in grown)[len(grown) // 2]
        row = (
            step.name,
            f"{len(grown):,}",
            f"{int(options.bytes * step.share):,}",
            f"{median:.3g}",
            f"{slowest.speed:.3g} (`{slowest.family!r}`)",
            f"{steepest.ratio:.2f} (`{steepest.family!r}`)",
            str(len(above)),
        )
        rows.append(tuple(cell.replace("|", "\\|") for cell in row))
        print(*row, file=sys.stderr, flush=True)
    head = ("step", "families", "bytes", "median MB/s", "least MB/s", "largest ratio", f"above {BOUND}")
    publish(
        [
            "# Growth of time with hostile text",
            "",
            f"{datetime.date.today()}, Python {platform.python_version()}, {cpu_name()}, one process.",
            f"Twice the text, up to the size in bytes: linear work takes twice as long, quadratic four times. "
            f"What takes less than {LEAST * 1000:.0f} ms has no ratio.",
            "",
            *table(head, rows),
            "",
            *(f"- {name}: `{one.family!r}` {one.half:.2f} s, {one.whole:.2f} s" for name, one in beyond),
        ],
        options.output,
    )


def steps(every: int) -> list[Step]:
    """All that reads text."""
    rules, reader = QueryRules.read(), Reader(lambda texts: [False] * len(texts))
    plans = {
        "de-identification, rules alone": Plan(recogniser=False),
        "de-identification, rules of all types": Plan(frozenset(KINDS), recogniser=False),
        "de-identification with the recogniser": Plan(),
    }
    identifiers = (*OF_IDENTIFIERS[::every], *SHORT)
    return [
        *(Step(name, lambda text, plan=plan: deidentify(text, plan), identifiers) for name, plan in plans.items()),
        Step("cleaning", clean_text, OF_TEXT),
        Step("cutting into segments", lambda text: split_document(text, 128, 32), OF_TEXT, SLOW),
        Step("cutting into words", segment_words, OF_TEXT),
        Step("reading HTML", page_text, OF_TEXT),
        Step("queries of a diagnosis", lambda text: rules.ask([text]), SHORT, DIAGNOSIS),
        Step("statements of a diagnosis", lambda text: reader.read([text]), SHORT, DIAGNOSIS),
    ]


def growth(step: Step, family: str, size: int) -> Growth:
    """Measure a step on a family."""
    step.work("患者头痛。" * 50)  # loads what it needs
    of_family = max(len(family.encode("utf-8", "surrogatepass")), 1)
    whole = family * max(int(size * step.share) // of_family, 2)
    half = whole[: len(whole) // 2]
    least = {half: float("inf"), whole: float("inf")}
    for _ in range(TURNS):
        for text in (half, whole):
            begin = time.process_time()
            step.work(text)
            least[text] = min(least[text], time.process_time() - begin)
        if least[whole] < LEAST or least[whole] <= BOUND * least[half]:
            break
    return Growth(family, least[half], least[whole], len(whole.encode("utf-8", "surrogatepass")))


if __name__ == "__main__":
    main()
