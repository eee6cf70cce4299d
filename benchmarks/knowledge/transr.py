"""TransR against PyKEEN: equality of scores and of a step, triples per second, and link prediction.

    python -m benchmarks.knowledge.transr --data TRIPLES.parquet --peer PYTHON --output PAGE
    python -m benchmarks.knowledge.transr --full-size --output PAGE

The second form measures one epoch each of our TransE and TransR on a synthetic graph of SMedBERT's size, grown from
CMeKG (benchmarks/knowledge/grown_graph.py).

`--data`: CMeKG's triples, columns head, relation, tail. `--peer`: an interpreter that has PyKEEN and our torch. Both
run one after the other in processes of their own, one thread each, on the same numbers, with equal settings: one
Bernoulli negative, Adagrad, margin 1, squared L2 distance, PyKEEN dense, ours row-sparse.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.pages import cpu_name, publish, table

BATCH = 4096
REPORTED = 3
"""Samples of which figures are reported; one more chooses the learning rates."""
PEER = r"""
import json, re, sys, time
import numpy as np, torch
from pykeen.evaluation import RankBasedEvaluator
from pykeen.losses import MarginRankingLoss
from pykeen.models import TransR
from pykeen.training import SLCWATrainingLoop
from pykeen.triples import CoreTriplesFactory

given = np.load(sys.argv[1])
job = json.loads(str(given["job"]))
torch.set_num_threads(job["threads"])

def factory(triples):
    return CoreTriplesFactory(torch.from_numpy(triples), job["entities"], job["relations"])

training = factory(given["training"])
model = TransR(
    triples_factory=training, embedding_dim=job["dim"], relation_dim=job["dim"], scoring_fct_norm=2,
    power_norm=True, loss=MarginRankingLoss(margin=1.0), random_seed=job["seed"],
)
tables = {
    "entities": model.entity_representations[0]._embeddings.weight,
    "relations": model.relation_representations[0]._embeddings.weight,
    "projections": model.relation_representations[1]._embeddings.weight,
}

def set_weights():
    for name, weight in tables.items():
        if name in given:
            weight.data.copy_(torch.from_numpy(given[name]).view(weight.shape))

set_weights()
optimizer = torch.optim.Adagrad(model.get_grad_params(), lr=job["learning_rate"])
found = {}
if job["kind"] == "step":
    found["scores"] = model.score_hrt(training.mapped_triples).detach().numpy()[:, 0]
    positive, negative = (model.score_hrt(torch.from_numpy(given[name])) for name in ("training", "negatives"))
    loss = model.loss(positive, negative)
    loss.backward()
    optimizer.step()
    model.post_parameter_update()
    found["loss"] = loss.item()
else:
    loop = SLCWATrainingLoop(
        model=model, triples_factory=training, optimizer=optimizer, negative_sampler="bernoulli",
        negative_sampler_kwargs=dict(num_negs_per_pos=1),
    )
    options = dict(batch_size=job["batch"], use_tqdm=False, use_tqdm_batch=False, drop_last=False)
    if job["kind"] == "speed":
        loop.train(factory(given["warm_up"]), num_epochs=1, **options)
        options["continue_training"] = True  # its epochs count from the first
        job["epochs"] += 1
    cpu, wall = time.process_time(), time.perf_counter()
    loop.train(training, num_epochs=job["epochs"], **options)
    found["cpu"], found["wall"] = time.process_time() - cpu, time.perf_counter() - wall
    if job["kind"] == "learn":
        results = RankBasedEvaluator(filtered=True).evaluate(
            model, torch.from_numpy(given["held_out"]), additional_filter_triples=[training.mapped_triples],
            batch_size=64, use_tqdm=False,
        )
        found["mrr"] = results.get_metric("both.realistic.inverse_harmonic_mean_rank")
if job["kind"] != "speed":
    found |= {name: weight.detach().numpy() for name, weight in tables.items()}
found["memory"] = 1024 * int(re.search(r"VmHWM:\s*(\d+)", open("/proc/self/status").read())[1])
np.savez(sys.argv[2], **found)
"""


def run_ours(given: dict[str, Any]) -> dict[str, Any]:
    """As `PEER`, with ours."""
    import torch

    from kg.embedding.batches import TrainingBatch, TrainingBatches
    from kg.embedding.loss import MarginLoss
    from kg.embedding.negatives import BernoulliNegatives
    from kg.embedding.optimiser import RowAdagrad
    from kg.embedding.split import SplitGraph
    from kg.embedding.training import EmbeddingConfig, train_embedding
    from kg.transe import TransE
    from kg.transr import TransR

    job = given["job"]
    torch.set_num_threads(1)
    sizes = job["entities"], job["relations"]
    kind = {"TransE": TransE, "TransR": partial(TransR, relation_dim=job["dim"])}[job.get("model", "TransR")]
    model = kind(*sizes, job["dim"], seed=job["seed"])
    model.load_state_dict(
        {name: torch.from_numpy(given.get(name, w.numpy())) for name, w in model.state_dict().items()}
    )
    training = triples_of(given["training"])
    optimiser = RowAdagrad(model, model.limits, job["learning_rate"])
    found: dict[str, Any] = {}
    if job["kind"] == "step":
        found["scores"] = -(model.distance(training.heads, training.relations, training.tails).detach().numpy() ** 2)
        negatives = given["negatives"]
        of_head = negatives[:, :1] != given["training"][:, :1]
        batch = TrainingBatch(training, np.where(of_head, negatives[:, :1], negatives[:, 2:]), of_head)
        loss, gradients = model.gradients(batch, MarginLoss(), scale=1 / len(batch))
        optimiser.step(gradients)
        found["loss"] = loss.item()
    elif job["kind"] == "speed":
        sampler = BernoulliNegatives(training.heads, training.relations, training.tails, *sizes)
        batches = TrainingBatches(training, sampler, batch_size=job["batch"], negatives=1, seed=job["seed"])
        for step in range(batches.steps_per_epoch):
            if step == 2:
                cpu, wall = time.process_time(), time.perf_counter()
            batch = batches.at(step)
            optimiser.step(model.gradients(batch, MarginLoss(), scale=1 / len(batch))[1])
        found["triples"] = len(training) - 2 * job["batch"]
        found["cpu"], found["wall"] = time.process_time() - cpu, time.perf_counter() - wall
    else:
        graph = SplitGraph(training, triples_of(given["held_out"]), *sizes)
        settings = {"batch_size": job["batch"], "learning_rate": job["learning_rate"], "patience": 0}
        cpu, wall = time.process_time(), time.perf_counter()
        if job["transe_epochs"]:
            first = TransE(*sizes, job["dim"], seed=job["seed"])
            train_embedding(first, graph, _training_only(EmbeddingConfig, settings, job["transe_epochs"]))
            model = TransR.from_transe(first, job["dim"])
        epochs = job["epochs"] - job["transe_epochs"]
        found["mrr"] = train_embedding(model, graph, _training_only(EmbeddingConfig, settings, epochs))["mrr"]
        found["cpu"], found["wall"] = time.process_time() - cpu, time.perf_counter() - wall
    if job["kind"] != "speed":
        found |= {name: weight.numpy() for name, weight in model.state_dict().items()}
    # Not getrusage, which in a child process also tells what its parent held.
    found["memory"] = 1024 * int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
    return found


def _training_only(config: Any, settings: dict[str, Any], epochs: int) -> Any:
    """Judged once, at the end: the last weights, not the best."""
    return config(epochs=epochs, evaluate_every=epochs, **settings)


def triples_of(rows: np.ndarray) -> Any:
    """Rows of (head, relation, tail) as our triples."""
    from kg.embedding.batches import Triples

    return Triples.of(*rows.T)


def do(command: list[str], arrays: dict[str, np.ndarray], **job: Any) -> dict[str, Any]:
    """Run one job in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder, "given.npz"), Path(folder, "found.npz")
        np.savez(given, job=json.dumps(job), **arrays)
        subprocess.run([*command, str(given), str(found)], check=True)
        with np.load(found) as results:
            done = {name: results[name] if results[name].ndim else results[name].item() for name in results}
    print(command[0], job, {name: value for name, value in done.items() if np.ndim(value) == 0}, file=sys.stderr)
    return done


def numbered(path: Path) -> np.ndarray:
    """int64 (T, 3): CMeKG's triples as numbers."""
    import polars as pl

    frame = pl.read_parquet(path, columns=["head", "relation", "tail"]).unique().sort("head", "relation", "tail")
    heads, relations, tails = (frame[name].to_numpy().astype(str) for name in frame.columns)
    _, ends = np.unique(np.concatenate([heads, tails]), return_inverse=True)
    kinds = np.unique(relations, return_inverse=True)[1]
    return np.stack([ends[: len(heads)], kinds, ends[len(heads) :]], 1)


def sub_graph(triples: np.ndarray, entities: int, count: int, seed: int, place: int = 0) -> np.ndarray:
    """At most `count` of the triples among the entities that are named most often, numbered anew.

    Those of another `place` are others.
    """
    degrees = np.bincount(triples[:, [0, 2]].ravel())
    kept = np.isin(triples[:, [0, 2]], np.argsort(-degrees, kind="stable")[:entities]).all(1)
    drawn = np.random.default_rng(seed).permutation(triples[kept])[place * count : (place + 1) * count]
    ends = np.unique(drawn[:, [0, 2]], return_inverse=True)[1].reshape(-1, 2)
    return np.stack([ends[:, 0], np.unique(drawn[:, 1], return_inverse=True)[1], ends[:, 1]], 1)


def sizes_of(triples: np.ndarray) -> dict[str, int]:
    """Entities and relations of a graph."""
    return {"entities": int(triples[:, [0, 2]].max()) + 1, "relations": int(triples[:, 1].max()) + 1}


def weights(sizes: dict[str, int], dim: int, seed: int) -> dict[str, np.ndarray]:
    """Random weights, some projections longer than 1 and some shorter."""
    drawn = np.random.default_rng(seed)
    entities, relations = (drawn.standard_normal((sizes[name], dim)) for name in ("entities", "relations"))
    entities /= np.linalg.norm(entities, axis=1, keepdims=True)
    relations /= np.linalg.norm(relations, axis=1, keepdims=True)
    projections = drawn.standard_normal((sizes["relations"], dim, dim)) / np.sqrt(dim)
    found = {"entities": entities, "relations": relations, "projections": projections}
    return {name: array.astype(np.float32) for name, array in found.items()}


def same_step(triples: np.ndarray, ours: list[str], peer: list[str]) -> list[str]:
    """The greatest differences after one step from the same weights, on the same batch."""
    graph = sub_graph(triples, 3_000, 4_096, seed=1)
    sizes = sizes_of(graph)
    drawn = np.random.default_rng(2)
    negatives = graph.copy()
    side = np.where(drawn.random(len(graph)) < 0.5, 0, 2)
    rows = np.arange(len(graph))
    negatives[rows, side] = (graph[rows, side] + drawn.integers(1, sizes["entities"], len(graph))) % sizes["entities"]
    arrays = {"training": graph, "negatives": negatives, **weights(sizes, 100, seed=3)}
    job = {"kind": "step", "dim": 100, "learning_rate": 0.05, "seed": 0, "threads": 1, **sizes}
    one, other = (do(command, arrays, **job) for command in (ours, peer))
    cells = [f"{np.abs(one['scores'] - other['scores']).max():.1e}", f"{abs(one['loss'] - other['loss']):.1e}"]
    for name in ("entities", "relations", "projections"):
        apart = np.abs(one[name] - other[name].reshape(one[name].shape))
        cells.append(f"{apart.max():.1e} ({(apart > 1e-5).mean():.1e})")
    return cells


def speeds(triples: np.ndarray, ours: list[str], peer: list[str], steps: int) -> list[list[str]]:
    """Positive triples a second on the whole graph."""
    shuffled = np.random.default_rng(0).permutation(triples)
    job = {"kind": "speed", "dim": 200, "learning_rate": 0.05, "seed": 0, "batch": BATCH, "epochs": 1}
    job |= sizes_of(triples)
    few = {"training": shuffled[: steps * BATCH], "warm_up": shuffled[-2 * BATCH :]}
    found = {}
    for name, command, arrays in (("PyKEEN", peer, few), ("ours", ours, {"training": shuffled})):
        result = do(command, arrays, threads=1, **job)
        count = result.get("triples", steps * BATCH)
        found[name] = (count, count / result["cpu"], count / result["wall"], result["memory"])
    mine = found["ours"]
    return [
        [
            name,
            f"{n:,}",
            f"{cpu:,.0f}",
            f"{mine[1] / cpu:.1f}",
            f"{wall:,.0f}",
            f"{mine[2] / wall:.1f}",
            f"{m / 1e9:.1f}",
        ]
        for name, (n, cpu, wall, m) in found.items()
    ]


def full_size() -> list[str]:
    """Lines of the page: an epoch of each model on the grown graph."""
    from benchmarks.knowledge.grown_graph import grown_graph, read_cmekg

    graph = grown_graph(read_cmekg())
    triples = np.random.default_rng(0).permutation(np.stack([graph.heads, graph.relations, graph.tails], 1))
    job = {"kind": "speed", "dim": 200, "learning_rate": 0.05, "seed": 0, "batch": BATCH} | sizes_of(triples)
    rows = []
    for model in ("TransE", "TransR"):
        done = do(
            [sys.executable, "-m", "benchmarks.knowledge.transr", "--job"], {"training": triples}, model=model, **job
        )
        pace, wall = (done["triples"] / done[clock] for clock in ("cpu", "wall"))
        rows.append(
            [model, f"{pace:,.0f}", f"{wall:,.0f}", f"{len(triples) / pace:.0f}", f"{done['memory'] / 1e9:.1f}"]
        )
    return [
        "## An epoch at full size",
        "",
        f"Synthetic, grown from CMeKG to SMedBERT's size (benchmarks/knowledge/grown_graph.py): {graph.num_entities:,} "
        f"entities, {graph.num_relations} relations, {graph.num_triples:,} triples; widths 200/200, batch {BATCH:,}, "
        "all of the first epoch but two steps.",
        "",
        *table(["model", "triples / CPU s", "triples / s", "CPU s an epoch", "peak memory, GB"], rows),
        "",
    ]


def learned(
    triples: np.ndarray, ours: list[str], peer: list[str], count: int, epochs: int, rates: list[float]
) -> tuple[str, list[list[str]], list[list[str]]]:
    """MRR after equal epochs: by rate on one sub-graph, then on others at the rate that was best there for each."""
    tools = (
        ("PyKEEN", peer, 0),
        ("ours, TransR alone", ours, 0),
        ("ours, half of the epochs TransE", ours, epochs // 2),
    )
    graphs = [sub_graph(triples, 2_000, count, seed=4, place=place) for place in range(1 + REPORTED)]
    job = {"kind": "learn", "dim": 100, "batch": 512, "epochs": epochs, "threads": 1}
    choice, report = [], []
    for name, command, transe_epochs in tools:
        tried = [
            learned_once(command, graphs[0], 0, job | {"learning_rate": rate, "transe_epochs": transe_epochs})
            for rate in rates
        ]
        best = rates[int(np.argmax([one["mrr"] for one in tried]))]
        choice.append([name, *(f"{one['mrr']:.4f}" for one in tried)])
        chosen = job | {"learning_rate": best, "transe_epochs": transe_epochs}
        found = [learned_once(command, graphs[place], place, chosen) for place in range(1, 1 + REPORTED)]
        means = {key: np.mean([one[key] for one in found]) for key in found[0]}
        report.append(
            [
                name,
                f"{best}",
                *(f"{one['mrr']:.4f}" for one in found),
                f"{means['mrr']:.4f}",
                f"{means['own']:.4f}",
                *(f"{means[f'hits_at_{k}']:.3f}" for k in (1, 3, 10)),
                f"{means['cpu']:.1f}",
            ]
        )
    told = (
        f"{1 + REPORTED} disjoint samples of {count:,} triples among the 2,000 entities that CMeKG names most, of each "
        f"at most 1,000 held out; {epochs} epochs in all, widths 100/100, batch 512"
    )
    return told, choice, report


def learned_once(command: list[str], graph: np.ndarray, seed: int, job: dict[str, Any]) -> dict[str, float]:
    """Figures by our ranking of the last weights, beside the MRR that the tool reports (`own`) and CPU seconds."""
    from kg.embedding.known import KnownTriples
    from kg.embedding.link_prediction import filtered_ranks, rank_figures
    from kg.embedding.split import hold_out

    held = hold_out(triples_of(graph), 1_000, seed)
    sizes = sizes_of(graph)
    found = do(command, {"training": graph[~held], "held_out": graph[held]}, seed=seed, **job, **sizes)
    known = KnownTriples(*graph.T, *sizes.values())
    figures = rank_figures(filtered_ranks(_model(found), triples_of(graph[held]), known))
    return figures | {"own": found["mrr"], "cpu": found["cpu"]}


def _model(found: dict[str, Any]) -> Any:
    import torch

    from kg.transr import TransR

    projections = found["projections"].reshape(len(found["relations"]), found["entities"].shape[1], -1)
    model = TransR(len(found["entities"]), *projections.shape)
    arrays = {"entities": found["entities"], "relations": found["relations"], "projections": projections}
    model.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})
    return model


def page_of_step(differences: list[str]) -> list[str]:
    """Lines of the page."""
    return [
        "## The same step",
        "",
        "Greatest absolute differences between ours and PyKEEN, from the same weights, on the same batch of 4,096 "
        "positives and negatives, float32: scores, loss, and the weights after one step of Adagrad and the "
        "normalisation; in brackets the share of weights more than 1e-5 apart. (Adagrad's first step moves every "
        "weight by the learning rate, however small its gradient: where that is little more than rounding, the steps "
        "differ.)",
        "",
        *table(["scores", "loss", "entities", "relations", "projections"], [differences]),
        "",
    ]


def page_of_speed(triples: np.ndarray, rows: list[list[str]], steps: int) -> list[str]:
    """Lines of the page."""
    sizes = sizes_of(triples)
    return [
        "## Speed",
        "",
        f"CMeKG: {sizes['entities']:,} entities, {sizes['relations']} relations, {len(triples):,} triples; widths "
        f"200/200, batch {BATCH:,}. Ours: its first epoch but two steps; PyKEEN: {steps} steps after two.",
        "",
        *table(
            ["tool", "triples", "triples / CPU s", "ours to it", "triples / s", "ours to it", "peak memory, GB"], rows
        ),
        "",
    ]


def page_of_learning(told: str, rates: list[float], choice: list[list[str]], report: list[list[str]]) -> list[str]:
    """Lines of the page."""
    samples = [f"MRR, {place}" for place in range(1, 1 + REPORTED)]
    return [
        "## What is learned",
        "",
        f"{told}. Filtered MRR and Hits by our ranking of each tool's last weights, and the MRR that the tool itself "
        "reports. PyKEEN begins with its own first weights (Xavier) and ours with ours (kg/embedding/start.py and the "
        "identity); our matrices take a tenth of the learning rate, our default. The first sample chooses each tool's "
        "learning rate:",
        "",
        *table(["tool", *(f"MRR at {rate}" for rate in rates)], choice),
        "",
        "The others, each with a seed of its own, are reported; from the mean on, means of them:",
        "",
        *table(["tool", "rate", *samples, "mean", "its own", "Hits@1", "@3", "@10", "CPU s"], report),
        "",
    ]


def main() -> None:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="Parquet file of triples: head, relation, tail")
    parser.add_argument("--peer", help="interpreter that has PyKEEN")
    parser.add_argument("--steps", type=int, default=4, help="steps of PyKEEN that are timed")
    parser.add_argument("--triples", type=int, default=12_000, help="triples of each sub-graph that is learned")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--rates", type=float, nargs="+", default=[0.01, 0.02, 0.05], help="learning rates")
    parser.add_argument("--full-size", action="store_true", help="an epoch of ours on a graph of SMedBERT's size")
    parser.add_argument("--only-learn", action="store_true", help="leave out the step and the speed")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--job", nargs=2, type=Path, metavar=("GIVEN", "FOUND"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        with np.load(options.job[0]) as arrays:
            given = {name: json.loads(str(arrays[name])) if name == "job" else arrays[name] for name in arrays}
        np.savez(options.job[1], **run_ours(given))
        return
    began = os.getloadavg()[0]
    page = [
        f"# TransR{' at full size' if options.full_size else ''}, {date.today()}",
        "",
        f"Python {platform.python_version()}, {cpu_name()}, one thread each. The machine's two cores are shared with "
        "other work: CPU seconds say more than wall time, and threads that wait for each other would spin. Equal "
        "settings: one Bernoulli negative a triple, Adagrad, margin 1, squared L2 distance.",
        "",
    ]
    if options.full_size:
        publish([*page, *full_size()], options.output)
        return
    if not options.data or not options.peer:
        parser.error("--data and --peer are needed")
    ours, peer = [sys.executable, "-m", "benchmarks.knowledge.transr", "--job"], [options.peer, "-c", PEER]
    triples = numbered(options.data)
    if not options.only_learn:
        page += page_of_step(same_step(triples, ours, peer))
        page += page_of_speed(triples, speeds(triples, ours, peer, options.steps), options.steps)
    told, choice, report = learned(triples, ours, peer, options.triples, options.epochs, options.rates)
    page += page_of_learning(told, options.rates, choice, report)
    ended = os.getloadavg()[0]
    page.append(f"Load of the machine (mean of a minute): {began:.1f} at the start, {ended:.1f} at the end.")
    publish(page, options.output)


if __name__ == "__main__":
    main()
