"""Speed of cleaning: megabytes of UTF-8 per CPU second, rules and filters, by profile and kind of text.

    python benchmarks/text/clean.py --data FOLDER [--output FILE.md]

FOLDER contains the project's real text: abstracts (five joined into one article), old books and answers of doctors. One
core is used.
"""

from __future__ import annotations

import argparse
import sys
import time
from datetime import date
from pathlib import Path

import polars as pl

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY))

from benchmarks.pages import cpu_name, publish, table  # noqa: E402
from tasks.clean.filters import problems_of  # noqa: E402
from tasks.clean.profile import CleanProfile, adapted  # noqa: E402
from tasks.clean.rules import clean_all  # noqa: E402
from tasks.clean.stage import ROWS_AT_ONCE  # noqa: E402

REPEATS = 3


def main() -> None:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with the real text")
    parser.add_argument("--output", type=Path, help="write the page here too")
    options = parser.parse_args()
    if not options.data.is_dir():
        parser.error(f"there is no folder {options.data}")
    head = ["text", "MB", "bytes a document", *_PROFILES]
    rows = []
    for name, documents in _texts(options.data).items():
        size = sum(len(text.encode()) for text in documents)
        speeds = [f"{size / 1e6 / _seconds(documents, rules):.0f}" for rules in _PROFILES.values()]
        rows.append([name, f"{size / 1e6:.1f}", str(size // len(documents)), *speeds])
    title = f"# Cleaning, MB per CPU second by profile, {date.today()}"
    publish([title, "", f"{cpu_name()}, one core.", "", *table(head, rows), ""], options.output)


_PROFILES = {
    "ehealth": adapted("ehealth", "article"),
    "ehealth, textbook": adapted("ehealth", "textbook"),
    "ehealth, emr": adapted("ehealth", "emr"),
    "smedbert": adapted("smedbert", "article"),
    "ehealth, simplify": CleanProfile(simplify=True),
}


def _texts(folder: Path) -> dict[str, list[str]]:
    abstracts = pl.read_parquet(folder / "csl_scientific" / "kg.parquet")["text"].to_list()
    return {
        "abstracts": abstracts,
        "articles": ["\n".join(abstracts[i : i + 5]) for i in range(0, len(abstracts), 5)],
        "books": pl.read_parquet(folder / "tcm_ancient_books" / "sections.parquet")["text"].to_list(),
        "answers": pl.read_parquet(folder / "toyhom_dialogue" / "im_sample.parquet")["answer"].to_list(),
    }


def _seconds(documents: list[str], rules: CleanProfile) -> float:
    """CPU seconds of cleaning and judging all documents: the least of a few runs."""
    best = float("inf")
    for _ in range(REPEATS):
        started = time.process_time()
        for first in range(0, len(documents), ROWS_AT_ONCE):
            raws = documents[first : first + ROWS_AT_ONCE]
            each = [rules] * len(raws)
            texts = [text for text, _ in clean_all(raws, each)]
            problems_of(texts, raws, each)
        best = min(best, time.process_time() - started)
    return best


if __name__ == "__main__":
    main()
