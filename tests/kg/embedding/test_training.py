"""Training: it learns, it stops, and resumed or shared runs equal an uninterrupted one."""

from __future__ import annotations

import copy
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import torch
from torch import Tensor

from infra.errors import DamagedArtifactError
from kg.embedding.batches import Triples
from kg.embedding.checkpoint import load_state, save_state
from kg.embedding.known import KnownTriples
from kg.embedding.link_prediction import filtered_ranks, rank_figures
from kg.embedding.split import SplitGraph, hold_out
from kg.embedding.training import EmbeddingConfig, train_embedding
from kg.embedding.workers import Workers
from kg.transe import TransE
from kg.transr import TransR
from tests.support.graphs.embedding_graphs import grouped_graph

GRAPH = grouped_graph()


def config(**changes: Any) -> EmbeddingConfig:
    settings = {"epochs": 6, "batch_size": 32, "learning_rate": 0.1, "evaluate_every": 2, "checkpoint_every": 2}
    return EmbeddingConfig(**{**settings, **changes})


def weights(model: torch.nn.Module) -> dict[str, Tensor]:
    return {name: table.detach().clone() for name, table in model.named_parameters()}


def equal(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_rule_is_learned() -> None:
    """Held-out facts follow from the others and rank far above chance (an MRR of 0.1 over 40 entities)."""
    losses: list[float] = []
    transe = TransE(40, 3, 16)
    settings = config(epochs=40, negatives=4, filtered_negatives=True, patience=0, evaluate_every=20)

    def report(epoch: int, split: str, figures: Mapping[str, float]) -> None:
        if split == "train":
            losses.append(figures["loss"])

    first = train_embedding(transe, GRAPH, settings, report=report)
    assert losses[-1] < losses[0] / 3
    assert first["mrr"] > 0.4
    model = TransR.from_transe(transe, 16)
    second = train_embedding(model, GRAPH, settings)
    assert second["mrr"] > 0.4
    assert second["epoch"] in (20, 40)
    assert model.entities.norm(dim=1).max() <= 1 + 1e-6
    assert model.relations.norm(dim=1).max() <= 1 + 1e-6


def test_transr_starts_with_everything_transe_has_learned() -> None:
    """At a learning rate at which unconstrained relations would become longer than 1."""
    transe = TransE(40, 3, 16)
    train_embedding(transe, GRAPH, config(epochs=40, learning_rate=0.3, patience=0))
    assert transe.relations.norm(dim=1).max().item() == pytest.approx(1)
    model = TransR.from_transe(transe, 20)
    h, r, t = (torch.from_numpy(column) for column in vars(GRAPH.held_out).values())
    torch.testing.assert_close(model.distance(h, r, t), transe.distance(h, r, t))


def test_real_triples_are_learned(shared_data: Path) -> None:
    """CMeKG among its 300 most frequent entities: held-out facts rank far higher than with random vectors."""
    table = pyarrow.parquet.read_table(shared_data / "kg_cmekg" / "triples.parquet")
    ends = pa.chunked_array([*table["head"].chunks, *table["tail"].chunks]).combine_chunks().dictionary_encode().indices
    relations = table["relation"].combine_chunks().dictionary_encode().indices.to_numpy()
    pairs = ends.to_numpy().reshape(2, -1)
    often = np.argsort(-np.bincount(pairs.ravel()), kind="stable")[:300]
    kept = np.isin(pairs, often).all(0)
    heads, tails = np.unique(pairs[:, kept], return_inverse=True)[1].reshape(2, -1)
    triples = Triples.of(heads, np.unique(relations[kept], return_inverse=True)[1], tails)
    held = hold_out(triples, 200, seed=0)
    sizes = 300, int(triples.relations.max()) + 1
    graph = SplitGraph(triples.take(~held), triples.take(held), *sizes)
    known = KnownTriples(triples.heads, triples.relations, triples.tails, *sizes)
    model = TransR(*sizes, 24, 24)
    before = rank_figures(filtered_ranks(model, graph.held_out, known))["mrr"]
    after = train_embedding(model, graph, config(epochs=10, batch_size=256, patience=0))["mrr"]
    assert after > 4 * before


def test_same_seed_gives_the_same_run_on_any_number_of_threads() -> None:
    runs = []
    for threads in (1, 2):
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            model = TransR(40, 3, 8, 6)
            train_embedding(model, GRAPH, config())
            assert torch.get_num_threads() == threads
        finally:
            torch.set_num_threads(before)
        runs.append(weights(model))
    assert equal(*runs)
    other = TransR(40, 3, 8, 6)
    train_embedding(other, GRAPH, config(seed=1))
    assert not equal(runs[0], weights(other))


@pytest.mark.parametrize("kept", [0, 1])
def test_resumed_run_equals_the_uninterrupted_one(kept: int, tmp_path: Path) -> None:
    states: list[dict[str, Any]] = []
    reported: list[tuple[int, str, float]] = []

    def report(epoch: int, split: str, figures: Mapping[str, float]) -> None:
        reported.append((epoch, split, figures["loss" if split == "train" else "mrr"]))

    whole = TransR(40, 3, 8, 6)
    best = train_embedding(
        whole, GRAPH, config(), report=report, save=lambda state: states.append(copy.deepcopy(dict(state)))
    )
    assert [state["progress"]["epoch"] for state in states] == [2, 4, 6]
    save_state(states[kept], str(tmp_path / "state.pt"))
    first = reported.copy()
    reported.clear()
    resumed = TransR(40, 3, 8, 6, seed=99)
    found = train_embedding(resumed, GRAPH, config(), state=load_state(str(tmp_path / "state.pt")), report=report)
    assert found == best
    assert equal(weights(resumed), weights(whole))
    assert reported == [entry for entry in first if entry[0] > states[kept]["progress"]["epoch"]]


def test_finished_run_is_not_trained_again() -> None:
    states: list[Mapping[str, Any]] = []
    model = TransR(40, 3, 8, 6)
    best = train_embedding(model, GRAPH, config(), save=lambda state: states.append(copy.deepcopy(dict(state))))
    again = TransR(40, 3, 8, 6, seed=5)

    def never(epoch: int, split: str, figures: Mapping[str, float]) -> None:
        raise AssertionError("it trained")

    assert train_embedding(again, GRAPH, config(), state=states[-1], report=never) == best
    assert equal(weights(again), weights(model))


def test_training_stops_without_improvement_and_keeps_the_best() -> None:
    """A huge learning rate ruins the embedding after the first evaluation."""
    reported: list[tuple[int, float]] = []
    looks: list[dict[str, Tensor]] = []
    states: list[Mapping[str, Any]] = []
    model = TransE(40, 3, 8)

    def report(epoch: int, split: str, figures: Mapping[str, float]) -> None:
        if split == "held_out":
            reported.append((epoch, figures["mrr"]))
            looks.append(weights(model))

    settings = config(epochs=400, evaluate_every=1, patience=2, checkpoint_every=1000)
    best = train_embedding(model, GRAPH, settings, report=report, save=states.append)
    figures = [mrr for _, mrr in reported]
    place = int(np.argmax(figures))
    assert len(reported) < 400
    assert place == len(reported) - 3
    assert (best["epoch"], best["mrr"]) == reported[place]
    assert equal(weights(model), looks[place])
    assert len(states) == 1  # a run that stops saves its state


def test_training_without_held_out_triples_runs_to_the_end() -> None:
    empty = GRAPH.held_out.take(slice(0, 0))
    model, last = TransE(40, 3, 8), []
    best = train_embedding(
        model,
        SplitGraph(GRAPH.training, empty, 40, 3),
        config(patience=1),
        report=lambda epoch, split, figures: last.append((epoch, split)),
    )
    assert best == {}
    assert last == [(epoch, "train") for epoch in range(1, 7)]


class Together:
    """Workers as threads of this process."""

    def __init__(self, size: int) -> None:
        self._barrier = threading.Barrier(size)
        self._shares: list[Tensor | None] = [None] * size

    def add(self, rank: int, values: Tensor) -> None:
        self._shares[rank] = values.clone()
        self._barrier.wait()
        total = torch.zeros_like(values)
        for share in self._shares:
            assert share is not None
            assert share.shape == values.shape
            total += share
        values.copy_(total)
        self._barrier.wait()


@pytest.mark.parametrize("kind", ["TransE", "TransR"])
def test_several_workers_equal_one(kind: str) -> None:
    def fresh() -> Any:
        return TransE(40, 3, 8) if kind == "TransE" else TransR(40, 3, 8, 6)

    alone = fresh()
    best = train_embedding(alone, GRAPH, config(epochs=2))
    together, models = Together(3), [fresh() for _ in range(3)]
    reported: list[list[dict[str, float]]] = [[], [], []]
    found: list[dict[str, float]] = [{}, {}, {}]

    def work(rank: int) -> None:
        found[rank] = train_embedding(
            models[rank],
            GRAPH,
            config(epochs=2),
            workers=Workers(rank, 3, lambda values: together.add(rank, values)),
            report=lambda epoch, split, figures: reported[rank].append(dict(figures)),
        )

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0] == found[1] == found[2] == pytest.approx(best)
    assert [len(figures) for figures in reported] == [3, 0, 0]
    for name, table in weights(alone).items():
        torch.testing.assert_close(weights(models[0])[name], table, rtol=1e-4, atol=1e-5)
        assert torch.equal(models[0].get_parameter(name), models[2].get_parameter(name))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epochs": 0}, "epochs is 0"),
        ({"negatives": 0}, "negatives is 0"),
        ({"patience": -1}, "patience is -1"),
        ({"margin": 0.0}, "margin is 0"),
        ({"learning_rate": float("nan")}, "learning_rate is nan"),
    ],
)
def test_impossible_settings_are_rejected(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        config(**changes)


def test_missing_triples_and_infinite_loss_are_reported() -> None:
    none = Triples.of(*np.empty((3, 0)))
    with pytest.raises(ValueError, match="no triples"):
        train_embedding(TransE(4, 1, 3), SplitGraph(none, none, 4, 1), config())
    model = TransE(40, 3, 8)
    with torch.no_grad():
        model.entities[0] = torch.nan
    with pytest.raises(FloatingPointError, match=r"epoch 1: the loss became nan.*learning rate"):
        train_embedding(model, GRAPH, config())


def test_checkpoints_are_written_atomically(tmp_path: Path) -> None:
    path = str(tmp_path / "deep" / "state.pt")
    assert load_state(path) is None
    save_state({"a": torch.ones(2)}, path)
    save_state({"a": torch.zeros(2)}, path)
    found = load_state(path)
    assert found is not None
    assert found["a"].tolist() == [0, 0]
    assert [file.name for file in (tmp_path / "deep").iterdir()] == ["state.pt"]
    (tmp_path / "deep" / "state.pt").write_bytes(b"no checkpoint")
    with pytest.raises(DamagedArtifactError, match=r"state\.pt is not a readable checkpoint.*Delete it"):
        load_state(path)
