"""Accuracy of cutting long entities on 200 labelled names, and names per CPU second on a real graph.

    python benchmarks/knowledge/entity_segmentation.py --data FOLDER
        [--store STORE] --output benchmarks/results/knowledge/NAME_DATE.md

FOLDER contains kg_cmekg/triples.parquet. STORE contains artifacts of entities/mine: AutoPhrase's phrases and its
segments of the corpus. Without it single characters are corrected by themselves alone, and cut points are not counted.

The labels (tests/support/graphs/entity_segmentation_labelled.tsv) were made by the author of the segmentation, before
any tool had cut the names. It was tuned on the even ones; the odd ones are held out. The peer is jieba, in the same
run. All methods get the same names; seconds are CPU seconds of the process, reading jieba's dictionary included.
"""

from __future__ import annotations

import argparse
import datetime
import platform
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import jieba
import polars as pl

from benchmarks.pages import cpu_name, publish, table
from infra.artifacts import Artifact, ArtifactStore
from kg.entities.cut_points import CutPoint, CutPoints, Place, count_cut_points, medicine_cut_points
from kg.entities.entity_segmentation import Segmentation, segment_entities
from tasks.entities.segments import primitive_segments
from tasks.phrases.segments import PhraseSegmentsParams
from tasks.phrases.stage import name_cutter
from tests.support.graphs.labelled_entities import accuracy, read_names

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
    parser.add_argument("--store", type=Path, help="artifacts of entities/mine")
    parser.add_argument("--output", type=Path, help="write the page here too")
    options = parser.parse_args()
    names = read_graph(options.data)
    mined = Mined() if options.store is None else read_mined(ArtifactStore(options.store), names)
    page = render(names, mined)
    if options.store is not None:
        page += render_cut_points(names, mined, ArtifactStore(options.store))
    publish(page, options.output)


@dataclass(frozen=True)
class Mined:
    """What AutoPhrase knows; nothing where it was not asked."""

    phrases: Mapping[str, float] = field(default_factory=dict)
    """Good phrases with their quality."""
    segments: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Each name as its segmentation model cuts it."""


def read_graph(folder: Path) -> list[str]:
    """The names of CMeKG with those that are labelled."""
    triples = pl.read_parquet(folder / "kg_cmekg" / "triples.parquet", columns=["head", "tail", "tail_type"])
    surfaces = {*triples["head"], *triples.filter(~pl.col("tail_type").is_in(NO_NAMES))["tail"], *GOLDEN}
    return sorted({name for name in surfaces if 0 < len(name) <= MAX_LENGTH} | {name.surface for name in read_names()})


def read_mined(store: ArtifactStore, names: Sequence[str]) -> Mined:
    """AutoPhrase's phrases, and its segments of the names."""
    phrases = latest(store, "phrases")
    good = phrases.scan().select("surface", "quality").filter(pl.col("quality") >= MIN_QUALITY).collect()
    cut = name_cutter(latest(store, "segment"), "words")
    with tempfile.TemporaryDirectory() as scratch:
        segments = primitive_segments(names, cut, phrases, PhraseSegmentsParams(), scratch)
    return Mined(dict(good.iter_rows()), segments)


def latest(store: ArtifactStore, stage: str) -> Artifact:
    """The youngest artifact of a stage."""
    found = store.latest(stage)
    if found is None:
        sys.exit(f"{store.root} holds no artifact of the stage {stage}: run entities/mine there first")
    return found


def ways(mined: Mined) -> dict[str, Callable[[Sequence[str]], Pieces]]:
    """The ways to cut names that are compared."""

    def ours(
        cut_points: bool = True,
        known: Mapping[str, float] = mined.phrases,
        share: float = 0.3,
        corrections: Pieces | None = None,
        hmm: bool = True,
    ) -> Callable[[Sequence[str]], Pieces]:
        chosen = CutPoints.of(medicine_cut_points()) if cut_points else CutPoints()
        return lambda names: pieces_of(segment_entities(names, chosen, known, share, corrections, hmm))

    def plain(hmm: bool) -> Callable[[Sequence[str]], Pieces]:
        def cut(names: Sequence[str]) -> Pieces:
            tokenizer = jieba.Tokenizer()
            return {name: tokenizer.lcut(name, HMM=hmm) for name in names}

        return cut

    found = {"jieba": plain(True), "jieba without its hidden Markov model": plain(False)}
    if mined.phrases:
        found["ours"] = ours()
        found["ours without jieba's model"] = ours(hmm=False)
        found["ours, corrected by AutoPhrase's segments"] = ours(corrections=mined.segments)
    return found | {
        "ours, no phrases": ours(known={}),
        "ours, no phrases, without jieba's model": ours(known={}, hmm=False),
        "ours, no phrases, no cut points": ours(cut_points=False, known={}),
        "ours, single characters never corrected": ours(known={}, share=1.0),
    }


def pieces_of(cut: Mapping[str, Segmentation]) -> Pieces:
    """The pieces of each name."""
    return {name: segmentation.pieces for name, segmentation in cut.items()}


def render(names: Sequence[str], mined: Mined) -> list[str]:
    """The report in Markdown."""
    jieba.setLogLevel("WARNING")
    rows, golden, jiebas = [], [], 0.0
    for way, cut in ways(mined).items():
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
    given = f"{len(mined.phrases):,} phrases of quality {MIN_QUALITY} and more" if mined.phrases else "no phrases"
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


TOP = 100
"""Characters that a person is shown."""

RULE = 0.8
"""A rule in the place of a person: keep what stands at its side at so many of its occurrences."""


def corpus_cut_points(store: ArtifactStore) -> list[CutPoint]:
    """The characters at which AutoPhrase's segments of two words and more begin and end in the corpus."""
    counts: Counter[Place] = Counter()
    occurrences: Counter[str] = Counter()
    parts = zip(latest(store, "segment").parts(), latest(store, "phrase_segments").parts(), strict=True)
    for part, marked in parts:
        rows = part.read(columns=["text", "words"]).to_pylist()
        for row, phrases in zip(rows, marked.read()["phrases"].to_pylist(), strict=True):
            text, borders = row["text"], set(accumulate(row["words"]))
            occurrences.update(text)
            for phrase in phrases:
                start, end = phrase["start"], phrase["end"]
                if not borders.isdisjoint(range(start + 1, end)):
                    counts.update([(text[start], "start"), (text[end - 1], "end")])
    frequent = sorted((place for place in counts if place[0].isalpha()), key=lambda place: (-counts[place], place))
    kept = {(row.character, row.side) for row in medicine_cut_points() if row.keep}
    return [CutPoint(*place, counts[place], occurrences[place[0]], (), place in kept) for place in frequent[:TOP]]


def render_cut_points(names: Sequence[str], mined: Mined, store: ArtifactStore) -> list[str]:
    """What is found in the hundred most frequent characters, by where they are counted."""
    shipped = medicine_cut_points()
    words = pieces_of(segment_entities(names, CutPoints(), mined.phrases))
    counted = {
        "names, AutoPhrase's segments (default)": count_cut_points(mined.segments.values(), shipped, TOP)[:TOP],
        "names, jieba's words and phrases": count_cut_points(words.values(), shipped, TOP)[:TOP],
        "corpus, AutoPhrase's segments of several words": corpus_cut_points(store),
    }
    known = {(row.character, row.side) for row in shipped}
    rows = []
    for way, found in counted.items():
        kept = [row for row in found if row.keep]
        ruled = [replace(row, keep=row.count >= RULE * row.occurrences) for row in found]
        here = sum((row.character, row.side) in known for row in found)
        cells = [way, f"{here}", f"{len(kept)}", f"{sum(row.keep for row in ruled)}"]
        for chosen in (kept, ruled):
            cut = pieces_of(segment_entities(names, CutPoints.of(chosen), mined.phrases))
            cells += [f"{accuracy(read_names(split), cut)[at]:.3f}" for split in SPLITS for at in (0, 3)]
        rows.append(cells)
    head = ["counted in", f"of the shipped table's {len(known)}", f"of its {sum(row.keep for row in shipped)} kept"]
    head += [f"at its side {RULE:.0%} of the time"]
    head += [f"{figure}, {split}, {who}" for who in ("kept", "rule") for split in SPLITS for figure in ("exact", "F1")]
    return [
        "## Where cut points are counted",
        "",
        f"The {TOP} most frequent characters at starts and ends of segments, by what is cut; accuracy with those of",
        "them that the shipped table keeps, and with those that a rule in the place of a person keeps. EMBERT cuts the",
        "entities with AutoPhrase's segmentation model. A hundredth of `exact` is one name.",
        "",
        *table(head, rows),
        "",
    ]


SPLITS = ("held_out", "tuning")

FIGURES = ("exact", "precision", "recall", "F1")


def _accuracy(split: str, found: Pieces) -> list[str]:
    return [f"{figure:.3f}" for figure in accuracy(read_names(split), found)]


if __name__ == "__main__":
    main()
