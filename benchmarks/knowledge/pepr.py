"""PEPR on CMeKG: time, memory, and agreement with the converged iteration; igraph and scipy in the same run.

    python benchmarks/knowledge/pepr.py [--grown 0] [--sample 1000] [--busy 200] [--timed 20] [--threads 1]
        [--peer PYTHON] [--output FILE.md]
    python benchmarks/knowledge/pepr.py --grown 1 --sweeps 3 [--output FILE.md]

--grown 1 uses a synthetic graph of SMedBERT's size, grown from CMeKG (benchmarks/knowledge/grown_graph.py); a number
between 0 and 1 uses one of a size in between. --sweeps measures only the cost: that many sweeps of the core's inverse
(kg/pepr/tiles.py), extrapolated to all, since each does the same work.

Ours ranks the neighbours of every entity (k = 10, α = 0.15). The reference is Eq. 1 of SMedBERT as printed, iterated
with scipy until no score changes by more than 1e-12. It is computed for a random sample of all entities, and for
another of entities with more than 10 neighbours, where there is a choice. A neighbour is right if its converged score
is at least the tenth best minus 1e-9.

igraph runs under the interpreter given by --peer, which must have it installed (`pip install igraph`); without it only
ours and scipy's power iteration are measured. Both are timed for some entities, one after the other, and extrapolated
to all. Seconds are CPU seconds of the whole process.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported

import numpy as np
import torch
from scipy import sparse

from benchmarks.knowledge.grown_graph import grown_graph, read_cmekg
from benchmarks.pages import cpu_name, publish, table
from kg.graph import KnowledgeGraph
from kg.pepr.core_inverse import inverse_entries
from kg.pepr.ranking import System, prepare, score_candidates, top
from kg.pepr.tiles import SIDE, SymmetricTiles

K, ALPHA = 10, 0.15
STEPS = 50
COLUMNS = 25
REFERENCES = 2


@dataclass(frozen=True)
class Ranked:
    """What ours found, a row for each neighbour, and what each step cost in CPU seconds."""

    entities: np.ndarray
    neighbours: np.ndarray
    scores: np.ndarray
    steps: list[tuple[str, float]]
    seconds: float
    """Of the clock, all steps."""

    @property
    def cpu_seconds(self) -> float:
        return sum(seconds for _, seconds in self.steps)


def ranked(graph: KnowledgeGraph) -> Ranked:
    """The steps of `rank_neighbours` for all entities, one by one."""
    started = time.perf_counter()
    times = [time.process_time()]
    system = prepare(graph, ALPHA)
    times.append(time.process_time())
    entries = [inverse_entries(system.core, block) for block in system.blocks]
    times.append(time.process_time())
    found = score_candidates(graph, system, entries, ALPHA)
    times.append(time.process_time())
    places, _, scores = top(found.offsets, found.scores, K)
    times.append(time.process_time())
    names = (f"eliminated to {_size(system)}", "dense inverse of the core", "undone, scores", "ranked")
    steps = list(zip(names, np.diff(times).tolist(), strict=True))
    seconds = time.perf_counter() - started
    return Ranked(found.owners[places], found.neighbours[places], scores, steps, seconds)


def iterated_core(graph: KnowledgeGraph, rows: int = 64) -> tuple[str, float]:
    """The core that a larger graph would be left with, and CPU seconds of its inverse by iteration, multiplied up from
    some rows."""
    system = prepare(graph, ALPHA, max_dense=0)
    started = time.process_time()
    inverse_entries(system.core, range(rows))
    return _size(system), (time.process_time() - started) * system.core.shape[0] / rows


def cost(graph: KnowledgeGraph, what: str, sweeps: int) -> list[str]:
    """Lines of a page: CPU seconds of elimination and of the core's inverse, multiplied up from some sweeps; memory."""
    before, times = _peak(), [time.process_time()]
    system = prepare(graph, ALPHA)
    times.append(time.process_time())
    tiles = SymmetricTiles(system.core)
    times.append(time.process_time())
    pivots = len(tiles)
    tiles.sweep(range(sweeps))
    times.append(time.process_time())
    held = _peak()
    del tiles
    stand_in = [np.full(system.core.nnz, 1e-3)]
    times.append(time.process_time())
    found = score_candidates(graph, system, stand_in, ALPHA)
    top(found.offsets, found.scores, K)
    times.append(time.process_time())
    eliminated, filled, swept, _, undone = np.diff(times).tolist()
    rows = [
        [f"eliminated to {_size(system)}", f"{eliminated:.0f}"],
        ["core laid out in tiles", f"{filled:.0f}"],
        [f"{sweeps} of {pivots} sweeps", f"{swept:.0f}"],
        ["all sweeps, multiplied up", f"{swept / sweeps * pivots:,.0f}"],
        ["undone, scores, ranked (of stand-ins for the core's inverse, which take as long)", f"{undone:.0f}"],
    ]
    return [
        f"{what}; α = {ALPHA}; tiles of {SIDE:,} rows; one thread; Python {platform.python_version()}, {cpu_name()}. "
        "Other work ran beside it on the machine, so that CPU seconds count, not the clock. Every sweep does the same "
        "work in the memory that the first one has.",
        "",
        f"Peak memory {held:.1f} GB to the end of the sweeps and {_peak():.1f} GB in all, of it {before:.1f} GB before "
        "(interpreter, package, graph).",
        "",
        *table(["step", "CPU s"], rows),
        "",
    ]


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def _size(system: System) -> str:
    return f"{system.core.shape[0]:,} entities, {system.core.nnz:,} entries"


def walk(graph: KnowledgeGraph) -> sparse.csr_array:
    """A: column-normalised, both directions, a triple a count."""
    size, others = graph.num_entities, graph.heads != graph.tails
    rows = np.concatenate([graph.heads, graph.tails[others]])
    columns = np.concatenate([graph.tails, graph.heads[others]])
    weights = sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=(size, size))
    sums = np.asarray(weights.sum(axis=0)).ravel()
    return sparse.csr_array(weights @ sparse.diags_array(1 / np.maximum(sums, 1)))


def iterated(matrix: sparse.csr_array, mentions: Sequence[int], steps: int | None = None) -> np.ndarray:
    """Eq. 1 for several mentions, a column each: so many steps, or until no score changes by more than 1e-12."""
    size = matrix.shape[0]
    jump = np.full((size, len(mentions)), 1 / size)
    jump[list(mentions), np.arange(len(mentions))] = 1
    scores, change, step = jump, 1.0, 0
    while step != steps and change > 1e-12:
        following = (1 - ALPHA) * (matrix @ scores) + ALPHA * jump
        change = np.abs(following - scores).max()
        scores, step = following, step + 1
    return scores


def agreement(graph: KnowledgeGraph, found: Ranked, matrix: sparse.csr_array, sample: Sequence[int]) -> list[str]:
    """Neighbours judged, the share of right ones, of entities in right order, and the largest difference of a score."""
    batches = [sample[first : first + COLUMNS] for first in range(0, len(sample), COLUMNS)]
    # Forked workers share what lies here; the reference takes far longer than what it judges.
    with multiprocessing.get_context("fork").Pool(REFERENCES, _share, (graph, found, matrix)) as pool:
        judged, right, ordered, differences = zip(*pool.imap_unordered(judge, batches), strict=True)
    return [
        f"{len(sample):,}",
        f"{sum(judged):,}",
        f"{sum(right) / sum(judged):.4%}",
        f"{sum(ordered) / len(sample):.2%}",
        f"{max(differences):.0e}",
    ]


def judge(mentions: Sequence[int]) -> tuple[int, int, int, float]:
    """Neighbours judged, right ones, entities in order, and the largest difference, of one batch."""
    graph, found, matrix = _shared
    judged = right = ordered = 0
    difference = 0.0
    for mention, scores in zip(mentions, iterated(matrix, mentions).T, strict=True):
        neighbours = np.setdiff1d(graph.neighbours(mention)[0], [mention])
        best = np.sort(scores[neighbours])[::-1][:K]
        rows = slice(*np.searchsorted(found.entities, [mention, mention + 1]))
        reached = scores[found.neighbours[rows]]
        assert len(reached) == len(best) and np.isin(found.neighbours[rows], neighbours).all()
        right += int((reached >= best[-1] - 1e-9).sum())
        judged += len(best)
        ordered += bool(np.allclose(reached, best, rtol=0, atol=1e-10))
        difference = max(difference, float(np.abs(found.scores[rows] - reached).max()))
    return judged, right, ordered, difference


_shared: tuple[KnowledgeGraph, Ranked, sparse.csr_array]


def _share(*shared: Any) -> None:
    global _shared
    _shared = shared  # type: ignore[assignment]


PEER = """
import json, sys, time
import numpy, igraph
data = json.load(open(sys.argv[1])); size = data["entities"]
graph = igraph.Graph(n=size, edges=numpy.load(data["edges"]).tolist(), directed=False)
started, scores = time.process_time(), []
for mention in data["mentions"]:
    jump = [1 / size] * size
    jump[mention] = 1.0
    scores.append(graph.personalized_pagerank(damping=0.85, reset=jump))
seconds = time.process_time() - started
numpy.save(data["scores"], numpy.array(scores))
print(json.dumps({"seconds": seconds, "version": igraph.__version__}))
"""


def igraph_scores(python: str, graph: KnowledgeGraph, mentions: Sequence[int]) -> tuple[float, str, np.ndarray]:
    """CPU seconds, version, and a row of scores for each mention."""
    with tempfile.TemporaryDirectory() as folder:
        edges, scores, request = (Path(folder, name) for name in ("edges.npy", "scores.npy", "request.json"))
        np.save(edges, np.stack([graph.heads, graph.tails], axis=1))
        told = {"entities": graph.num_entities, "mentions": list(mentions), "edges": str(edges), "scores": str(scores)}
        request.write_text(json.dumps(told), encoding="utf-8")
        done = subprocess.run([python, "-c", PEER, str(request)], stdout=subprocess.PIPE, text=True, check=True)
        answer = json.loads(done.stdout)
        return answer["seconds"], answer["version"], np.load(scores)


def main() -> None:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=1000, help="entities that are compared with the iteration")
    parser.add_argument("--busy", type=int, default=200, help="the same, among those with more than 10 neighbours")
    parser.add_argument("--timed", type=int, default=20, help="entities for which scipy and igraph are timed")
    parser.add_argument("--grown", type=float, default=0, help="share of the way from CMeKG to SMedBERT's size")
    parser.add_argument("--sweeps", type=int, help="measure the cost alone, of so many sweeps")
    parser.add_argument("--threads", type=int, default=1, help="threads of ours")
    parser.add_argument("--peer", help="interpreter that has igraph")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    graph = read_cmekg()
    what = f"CMeKG: {graph.num_entities:,} entities, {graph.num_triples:,} triples (distinct ones with a tail)"
    if options.grown:
        graph = grown_graph(graph, options.grown)
        what = (
            f"Synthetic, grown from CMeKG (benchmarks/knowledge/grown_graph.py): {graph.num_entities:,} entities, "
            f"{graph.num_relations} relations, {graph.num_triples:,} triples"
        )
    if options.sweeps:
        publish([f"# PEPR's cost at full size, {date.today()}", "", *cost(graph, what, options.sweeps)], options.output)
        return
    before = _peak()
    found = ranked(graph)
    print(found.steps, file=sys.stderr)
    cpu = found.cpu_seconds
    peak = _peak()
    size = graph.num_entities

    drawn = random.Random(6)
    matrix = walk(graph)
    degrees = np.diff(matrix.indptr)
    chosen = drawn.sample(range(size), options.sample)
    busy = drawn.sample(np.flatnonzero(degrees > K).tolist(), options.busy)
    timed = chosen[: options.timed]
    rows = [["ours, every entity", f"{cpu:.0f}", f"{cpu / size:.5f}", f"{cpu:.0f}", "1"]]
    started = time.process_time()
    for mention in timed:
        iterated(matrix, [mention], STEPS)
    peers = {f"scipy, power iteration, {STEPS} steps": time.process_time() - started}
    exact = ""
    if options.peer:
        seconds, version, scores = igraph_scores(options.peer, graph, timed)
        peers[f"igraph {version}, PRPACK"] = seconds
        reference = iterated(matrix, timed).T
        gap = np.abs(scores - reference / reference.sum(axis=1, keepdims=True)).max()
        exact = f" igraph's scores are those of the reference, divided by their sum, to {gap:.0e}."
    for name, seconds in peers.items():
        each = seconds / len(timed)
        rows.append([name, f"{seconds:.1f}", f"{each:.3f}", f"{each * size:,.0f}", f"{each * size / cpu:,.0f}"])
    core, by_iteration = iterated_core(graph)
    page = [
        f"# PEPR{' on a grown graph' if options.grown else ''}, {date.today()}",
        "",
        f"{what}, {int((degrees > K).sum()):,} entities with more than {K} neighbours; k = {K}, α = {ALPHA}; "
        f"Python {platform.python_version()}, {cpu_name()}. Other work ran beside it on the machine, so that CPU "
        "seconds count, not the clock.",
        "",
        f"Ours: {cpu:.0f} CPU s, {found.seconds:.0f} s with {options.threads} threads, peak memory {peak:.1f} GB, of "
        f"it {before:.1f} GB before (interpreter, package, graph); {len(found.entities):,} rows.",
        "",
        *table(["tool", "CPU s measured", "CPU s an entity", "CPU s for all", "to ours"], rows),
        "",
        f"scipy and igraph: {len(timed)} random entities, multiplied up.{exact}",
        "",
        "## Agreement with the converged iteration",
        "",
        "Iterated until no score changes by more than 1e-12. In order: the converged scores of what ours lists are, "
        "one by one, the best ten, to 1e-10.",
        "",
        *table(
            ["sample", "entities", "neighbours", "right", "entities in order", "largest difference of a score"],
            [
                ["all entities", *agreement(graph, found, matrix, chosen)],
                [f"more than {K} neighbours", *agreement(graph, found, matrix, busy)],
            ],
        ),
        "",
        "## Where the time goes",
        "",
        *table(
            ["step", "CPU s"],
            [
                *([name, f"{seconds:.1f}"] for name, seconds in found.steps),
                [f"instead of dense: iterated on {core}, 64 rows multiplied up", f"{by_iteration:,.0f}"],
            ],
        ),
        "",
    ]
    publish(page, options.output)


if __name__ == "__main__":
    main()
