"""How well and how fast long entities are cut: accuracy on 200 labelled names, names per CPU second on a real graph.

    python benchmarks/entity_segmentation.py --data FOLDER [--phrases FILE] --output benchmarks/results/NAME_DATE.md

FOLDER holds kg_cmekg/triples.parquet. FILE is Parquet with the columns surface and quality: AutoPhrase's phrases, such
as the table of the stage `phrases`; without it single characters are corrected by themselves alone.

The labels (tests/kg/entity_segmentation_labelled.tsv) were made before anything had cut the names, by who wrote the
segmentation. The even ones tuned it; the odd ones are held out. The peer is jieba, in the same run; every way is given
the same names and its seconds are CPU seconds of the process, reading jieba's dictionary included.
"""

from __future__ import annotations

import argparse
import datetime
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import jieba
import polars as pl

from benchmarks.pages import cpu_name, publish, table
from kg.cut_points import CutPoints, medicine_cut_points
from kg.entity_segmentation import segment_entities
from tests.kg.labelled_entities import accuracy, read_names

ROUNDS = 3
MIN_QUALITY = 0.5
MAX_LENGTH = 32
NO_NAMES = ["Literal", "Category", "Department", "ICDCode", "AliasEN"]
"""Types of values that are no names."""

GOLDEN = ("再生障碍性贫血", "新型冠状病毒肺炎", "糖尿病酮酸中毒")
"""The cases of EMBERT."""

Pieces = Mapping[str, Sequence[str]]


def main() -> None:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the real data")
    parser.add_argument("--phrases", type=Path, help="Parquet with surface and quality")
    parser.add_argument("--output", type=Path, help="write the page here too")
    options = parser.parse_args()
    phrases = read_phrases(options.phrases)
    publish(render(read_graph(options.data), phrases), options.output)


def read_graph(folder: Path) -> list[str]:
    """The names of CMeKG with those that are labelled."""
    triples = pl.read_parquet(folder / "kg_cmekg" / "triples.parquet", columns=["head", "tail", "tail_type"])
    surfaces = {*triples["head"], *triples.filter(~pl.col("tail_type").is_in(NO_NAMES))["tail"], *GOLDEN}
    return sorted({name for name in surfaces if 0 < len(name) <= MAX_LENGTH} | {name.surface for name in read_names()})


def read_phrases(file: Path | None) -> dict[str, float]:
    """Good phrases with their quality."""
    if file is None:
        return {}
    good = pl.read_parquet(file, columns=["surface", "quality"]).filter(pl.col("quality") >= MIN_QUALITY)
    return dict(good.iter_rows())


def ways(phrases: Mapping[str, float]) -> dict[str, Callable[[Sequence[str]], Pieces]]:
    """The ways to cut names that are compared."""

    def ours(
        cut_points: bool = True, known: Mapping[str, float] = phrases, share: float = 0.3
    ) -> Callable[[Sequence[str]], Pieces]:
        chosen = CutPoints.of(medicine_cut_points()) if cut_points else CutPoints()
        return lambda names: {s: cut.pieces for s, cut in segment_entities(names, chosen, known, share).items()}

    def plain(hmm: bool) -> Callable[[Sequence[str]], Pieces]:
        def cut(names: Sequence[str]) -> Pieces:
            tokenizer = jieba.Tokenizer()
            return {name: tokenizer.lcut(name, HMM=hmm) for name in names}

        return cut

    found = {"jieba": plain(True), "jieba without its hidden Markov model": plain(False)}
    if phrases:
        found["ours"] = ours()
    return found | {
        "ours, no phrases": ours(known={}),
        "ours, no phrases, no cut points": ours(cut_points=False, known={}),
        "ours, single characters never corrected": ours(known={}, share=1.0),
    }


def render(names: Sequence[str], phrases: Mapping[str, float]) -> list[str]:
    """The report in Markdown."""
    jieba.setLogLevel("WARNING")
    rows, golden, jiebas = [], [], 0.0
    for way, cut in ways(phrases).items():
        timed = []
        for _ in range(ROUNDS):
            started = time.process_time()
            found = cut(names)
            timed.append(time.process_time() - started)
        seconds = min(timed)
        jiebas = jiebas or seconds
        speed = [f"{len(names) / seconds:,.0f}", f"{jiebas / seconds:.2f}"]
        rows.append([way, *_accuracy("held_out", found), *_accuracy("tuning", found), *speed])
        golden.append([way, *("\\|".join(found[name]) for name in GOLDEN)])
    head = ["way", *(f"{figure}, {split}" for split in ("held out", "tuning") for figure in FIGURES)]
    head += ["names per CPU s", "to jieba"]
    given = f"{len(phrases):,} phrases of quality {MIN_QUALITY} and more" if phrases else "no phrases"
    return [
        "# Segmentation of long entities",
        "",
        f"{datetime.date.today()}, Python {platform.python_version()}, {cpu_name()}.",
        "",
        f"{len(names):,} names of CMeKG of at most {MAX_LENGTH} characters, {given}. Exact: names cut exactly as",
        "labelled; precision, recall and F1 of the borders. 100 names each; labelled by who wrote the segmentation,",
        "before anything had cut them. Labels were not changed afterwards. The machine was shared: CPU seconds, the",
        f"best of {ROUNDS} rounds.",
        "",
        *table(head, rows),
        "",
        "## The cases of the paper",
        "",
        *table(["way", *GOLDEN], golden),
        "",
    ]


FIGURES = ("exact", "precision", "recall", "F1")


def _accuracy(split: str, found: Pieces) -> list[str]:
    return [f"{figure:.3f}" for figure in accuracy(read_names(split), found)]


if __name__ == "__main__":
    main()
