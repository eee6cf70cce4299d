"""Recall on the open benchmark by characters, by meaning, and by both, for several encoders of names.

    python benchmarks/terms/normalisation_meaning.py --home HOME --encoder NAME=FOLDER … [--output FILE.md]

HOME is the store in which `python -m flows run normalise/open-benchmark` has finished: the queries, and the terms
without them, are read from there. Encoders are those of `normalise/encoder`, which leaves the queries out, or any
others. The weight of the fusion is the one of `WEIGHTS` with the best sum of recall at 1 and at 100 on dev, for each
encoder; test decides nothing.

`either` is the share of queries that one of the two searches, 100 candidates each, has found: more than any order of
100 candidates can give. `disjoint` are queries that share no character with any name of their codes.
"""

from __future__ import annotations

import argparse
import platform
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
import torch

from benchmarks.pages import cpu_name, publish, table
from infra.artifacts import Artifact, ArtifactStore
from tasks.normalise.benchmark import Mention
from tasks.normalise.benchmark_stages import JUDGED, queries_of
from tasks.normalise.meaning.encoder import NameEncoder
from tasks.normalise.normaliser import Retrieval
from tasks.normalise.terms.terminology import entries_of
from tasks.retrieve.candidates import Candidate, CandidateIndex, Entry
from tasks.retrieve.categories import with_categories
from tasks.retrieve.embedded import EmbeddedIndex
from tasks.retrieve.fields import comparable_forms
from tasks.retrieve.fusion import FusedIndex
from tasks.retrieve.vectors import VectorIndex

AT = (1, 5, 10, 50, 100)
WEIGHTS = (0.3, 0.5, 1.0, 2.0)

Found = Mapping[str, Sequence[Sequence[Candidate]]]
"""Candidates of the queries of each split."""


@dataclass
class Remembered:
    """An index that is asked the same again and again."""

    index: CandidateIndex
    known: dict[tuple[str, int], list[Candidate]] = field(default_factory=dict)

    def search(self, terms: Sequence[str], k: int) -> list[list[Candidate]]:
        """See `CandidateIndex.search`."""
        new = [term for term in dict.fromkeys(terms) if (term, k) not in self.known]
        self.known |= {(term, k): own for term, own in zip(new, self.index.search(new, k), strict=True)}
        return [self.known[term, k] for term in terms]


class Bench:
    """The queries of dev and test, and the list without them."""

    def __init__(self, home: Path, folder: Path) -> None:
        recall = ArtifactStore(home).latest("candidate_recall")
        if recall is None:
            raise SystemExit(f"{home} has no result of normalise/open-benchmark. Run it there first.")
        mentions, listed = (_input(home, recall, name) for name in ("mentions", "terminology"))
        self.entries = entries_of(listed)
        self.index = EmbeddedIndex.build(self.entries, folder)
        self.queries = {split: queries_of(mentions, split) for split in JUDGED}
        self.disjoint = {split: _disjoint(own, self.entries) for split, own in self.queries.items()}

    def found(self, index: CandidateIndex) -> Found:
        """Return the first 100 candidates of all queries."""
        retrieval = Retrieval(index, self.entries, k=max(AT))
        return {split: retrieval.candidates([one.text for one in own]) for split, own in self.queries.items()}

    def recall(self, found: Found, split: str, k: int, among: Sequence[bool] | None = None) -> float:
        """Return the share of queries with a right code among the first k candidates."""
        hits = [_hit(query, own, k) for query, own in zip(self.queries[split], found[split], strict=True)]
        return float(np.mean([hit for place, hit in enumerate(hits) if among is None or among[place]] or [0.0]))

    def row(self, name: str, found: Found, weight: str = "") -> list[str]:
        """Return a row of the page."""
        figures = [f"{self.recall(found, 'dev', k):.3f}" for k in (1, 100)]
        figures += [f"{self.recall(found, 'test', k):.3f}" for k in AT]
        disjoint = f"{self.recall(found, 'test', 100, self.disjoint['test']):.3f}"
        return [name, weight, *figures, disjoint]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--encoder", action="append", default=[], metavar="NAME=FOLDER")
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(given.home, Path(folder))
        characters = Remembered(with_categories(bench.index, bench.index))
        alone = bench.found(characters)
        rows, costs = [bench.row("characters only", alone)], []
        for name, place in (one.split("=", 1) for one in given.encoder):
            more, cost = _of_encoder(bench, characters, alone, name, place)
            rows += more
            costs.append(cost)
    head = ["found by", "weight", "dev @1", "dev @100", *(f"test @{k}" for k in AT), "disjoint @100"]
    numbers = ", ".join(
        f"{split} {len(own):,} ({sum(bench.disjoint[split])} disjoint)" for split, own in bench.queries.items()
    )
    page = [f"Queries: {numbers}; names: {bench.index.num_documents:,}.", "", *table(head, rows), ""]
    page += table(["encoder", "width", "parameters", "CPU seconds for all names", "ms per query"], costs)
    page += [
        "",
        f"{date.today()}, {cpu_name()}, one thread, Python {platform.python_version()}, torch {torch.__version__}.",
    ]
    publish(page, given.output)


def _of_encoder(
    bench: Bench, characters: Remembered, alone: Found, name: str, place: str
) -> tuple[list[list[str]], list[str]]:
    encoder = NameEncoder.of_folder(place)
    names, _ = bench.index.names()
    began = time.process_time()
    vectors = encoder.vectors(names)
    for_all = time.process_time() - began
    own = bench.index
    meaning = Remembered(
        VectorIndex(own.codes, own.terms, own.first_names, vectors.astype(np.float16), encoder.vectors)
    )
    texts = [query.text for query in bench.queries["dev"]]
    began = time.process_time()
    meaning.search(texts, 100)
    for_one = (time.process_time() - began) / len(texts)
    by_meaning = bench.found(meaning)
    tried = {weight: bench.found(FusedIndex(characters, meaning, weight)) for weight in WEIGHTS}
    best = max(WEIGHTS, key=lambda weight: sum(bench.recall(tried[weight], "dev", k) for k in (1, 100)))
    either = {
        split: [[*one, *other] for one, other in zip(alone[split], by_meaning[split], strict=True)] for split in JUDGED
    }
    rows = [bench.row(f"{name}: meaning only", by_meaning), bench.row(f"{name}: both", tried[best], f"{best:g}")]
    limit = [f"{bench.recall(either, split, 200):.3f}" for split in ("dev", "test")]
    disjoint = f"{bench.recall(either, 'test', 200, bench.disjoint['test']):.3f}"
    rows.append([f"{name}: either", "", "", limit[0], *[""] * (len(AT) - 1), limit[1], disjoint])
    return rows, [name, str(encoder.width), f"{encoder.parameters:,}", f"{for_all:.1f}", f"{1000 * for_one:.2f}"]


def _hit(query: Mention, found: Sequence[Candidate], k: int) -> bool:
    return any(one.code in query.codes for one in found[:k])


def _disjoint(queries: Sequence[Mention], entries: Sequence[Entry]) -> list[bool]:
    """Return which queries share no character with any name of their codes."""
    characters: dict[str, set[str]] = {}
    for entry in entries:
        forms = comparable_forms([entry.term, *entry.aliases])
        characters.setdefault(entry.code, set()).update(token for form in forms for token in form)
    asked = comparable_forms([query.text for query in queries])
    return [
        not any(set(form) & characters[code] for code in query.codes)
        for query, form in zip(queries, asked, strict=True)
    ]


def _input(home: Path, artifact: Artifact, name: str) -> Artifact:
    record = artifact.manifest.inputs[name]
    found = ArtifactStore(home).get(record.stage, record.fingerprint)
    assert found is not None
    return found


if __name__ == "__main__":
    main()
