"""The embedding stage: ids kept, resumable to the same bits, the same with two workers, bad graphs rejected."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from pydantic import ValidationError

from infra.artifacts import Artifact, ArtifactStore
from infra.errors import UserError
from infra.stage import run
from kg.graph import KnowledgeGraph
from tasks.files.raw_input import RawInput
from tasks.knowledge import embed_worker
from tasks.knowledge.embed import EmbedParams, embed_graph
from tasks.knowledge.fuse import FuseGraphsParams, fuse_graphs
from tasks.knowledge.read import ReadGraphParams, read_graph
from tasks.training.cluster import Cluster


@dataclass(frozen=True)
class GivenGraph:
    """Stand-in for the artifact of a graph that our stages would not write: rows in disorder, repeated or wrong."""

    entities: tuple[str, ...]
    triples: tuple[tuple[str, str, str], ...]
    stage: str = "kg"
    fingerprint: str = field(default="given")

    def to_table(self, name: str) -> pa.Table:
        if name == "kg_entities":
            return pa.table({"entity_id": list(self.entities)})
        columns = zip(*self.triples, strict=True) if self.triples else ([], [], [])
        return pa.table(dict(zip(("head", "relation", "tail"), map(list, columns), strict=True)))


@pytest.fixture(scope="module")
def drugs(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """30 drugs of 3 classes, read and fused by the real stages. Each class has its own indication, side effect and
    route. One entity has only an alias.
    """
    folder = tmp_path_factory.mktemp("drugs")
    relations = ("适应症", "不良反应", "给药途径")
    triples = [f"药{n:02},{relation},{relation}{n % 3}" for n in range(30) for relation in relations]
    (folder / "drugs.csv").write_text("\n".join(["head,relation,tail", *triples, "孤,别称,独"]), encoding="utf-8")
    store = ArtifactStore(folder / "store")
    given = {"graph": RawInput(folder / "drugs.csv")}
    read = run(read_graph, store, ReadGraphParams(source="drugs"), given).artifact
    return run(fuse_graphs, store, FuseGraphsParams(), {"drugs": read}).artifact


def params(workers: int = 1, **changes: Any) -> EmbedParams:
    settings = {
        "entity_dim": 8,
        "relation_dim": 6,
        "transe_epochs": 4,
        "epochs": 6,
        "batch_size": 16,
        "learning_rate": 0.1,
        "held_out": 8,
        "evaluate_every": 2,
        "checkpoint_every": 1,
        "cluster": Cluster(workers=workers, gpu=False, max_failures=0),
    }
    return EmbedParams(**{**settings, **changes})


def embedded(store: ArtifactStore, given: Any, **changes: Any) -> Artifact:
    return run(embed_graph, store, params(**changes), {"graph": given}).artifact


def vectors(artifact: Artifact) -> dict[str, np.ndarray]:
    """Return every vector and every projection by its id."""
    found = {row["entity_id"]: row["vector"] for row in artifact.to_table("kg_entity_vectors").to_pylist()}
    for row in artifact.to_table("kg_relation_vectors").to_pylist():
        found |= {f"r:{row['relation']}": row["vector"], f"M:{row['relation']}": row["projection"]}
    return {name: np.array(values, np.float32) for name, values in found.items()}


def figures(artifact: Artifact, name: str) -> dict[int, float]:
    rows = artifact.to_table("metrics").to_pylist()
    return {row["step"]: row["value"] for row in rows if row["name"] == name}


def same(one: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray]) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


def test_every_id_has_its_vector(store: ArtifactStore, drugs: Artifact) -> None:
    artifact = embedded(store, drugs)
    graph = KnowledgeGraph.from_tables(drugs.to_table("kg_entities"), drugs.to_table("kg_triples"))
    ids = artifact.to_table("kg_entity_vectors")["entity_id"].to_pylist()
    assert ids == graph.entity_ids
    relations = artifact.to_table("kg_relation_vectors")["relation"].to_pylist()
    assert relations == graph.relation_names
    found = vectors(artifact)
    assert found[graph.entity_ids[graph.names.index("药07")]].shape == (8,)
    assert found["r:适应症"].shape == (6,)
    assert found["M:适应症"].shape == (48,)
    assert max(np.linalg.norm(found[entity]) for entity in ids) <= 1 + 1e-6
    counters = artifact.manifest.counters
    assert counters == {"triples": 82, "held_out": 8, "entities_without_triples": 1}
    steps = 6  # ⌈82 / 16⌉
    assert list(figures(artifact, "transe_loss")) == [steps * epoch for epoch in range(1, 5)]
    assert list(figures(artifact, "transr_loss")) == [steps * epoch for epoch in range(5, 11)]
    assert list(figures(artifact, "transr_mrr")) == [36, 48, 60]


def test_exported_vectors_are_the_best_ones(store: ArtifactStore, drugs: Artifact) -> None:
    """Ranking the held-out triples by the exported vectors gives the best MRR of the curve."""
    from kg.embedding.known import KnownTriples
    from kg.embedding.link_prediction import filtered_ranks, rank_figures
    from kg.embedding.numbering import number_graph
    from kg.embedding.split import hold_out
    from kg.transr import TransR

    artifact = embedded(store, drugs, epochs=12, learning_rate=0.3)
    tables = (drugs.to_table(name) for name in ("kg_entities", "kg_triples"))
    entity_ids, relations, triples = number_graph(*tables)
    held = triples.take(hold_out(triples, 8, seed=42))
    found = vectors(artifact)
    model = TransR(len(entity_ids), len(relations), 8, 6)
    stacks = {
        "entities": [found[entity] for entity in entity_ids],
        "relations": [found[f"r:{relation}"] for relation in relations],
        "projections": [found[f"M:{relation}"].reshape(8, 6) for relation in relations],
    }
    model.load_state_dict({name: torch.tensor(np.stack(values)) for name, values in stacks.items()})
    known = KnownTriples(triples.heads, triples.relations, triples.tails, len(entity_ids), len(relations))
    mrr = rank_figures(filtered_ranks(model, held, known))["mrr"]
    assert mrr == pytest.approx(max(figures(artifact, "transr_mrr").values()))


@pytest.mark.parametrize("saves", [2, 7])
def test_a_killed_stage_resumes_to_the_same_bits(
    store: ArtifactStore, drugs: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, saves: int
) -> None:
    """Killed in TransE, and in TransR."""
    whole = embedded(store, drugs)
    other = ArtifactStore(tmp_path / "other")
    real, done = embed_worker.save_state, []

    def save_and_die(state: Mapping[str, Any], path: str) -> None:
        real(state, path)
        done.append(path)
        if len(done) == saves:
            raise KeyboardInterrupt

    monkeypatch.setattr(embed_worker, "save_state", save_and_die)
    with pytest.raises(KeyboardInterrupt):
        embedded(other, drugs)
    monkeypatch.setattr(embed_worker, "save_state", real)
    resumed = embedded(other, drugs)
    assert same(vectors(whole), vectors(resumed))
    for name in ("transe_loss", "transr_loss", "transr_mrr"):
        assert figures(whole, name) == figures(resumed, name)


def test_progress_shows_epochs_and_figures(store: ArtifactStore, drugs: Artifact) -> None:
    reported: list[tuple[str, int, int, str]] = []

    def listen(name: str, done: int, total: int, note: str = "") -> None:
        reported.append((name, done, total, note))

    run(embed_graph, store, params(), {"graph": drugs}, on_progress=listen)
    assert reported[-1][:3] == ("kg_embeddings", 10, 10)
    assert re.search(r"transr_mrr 0\.\d+", reported[-1][3])


@pytest.mark.ray
def test_two_workers_give_the_vectors_of_one(store: ArtifactStore, drugs: Artifact, tmp_path: Path) -> None:
    one = embedded(store, drugs)
    two = embedded(ArtifactStore(tmp_path / "other"), drugs, workers=2)
    assert one.fingerprint == two.fingerprint
    left, right = vectors(one), vectors(two)
    assert left.keys() == right.keys()
    for name in left:
        assert left[name] == pytest.approx(right[name], abs=1e-4), name
    assert figures(one, "transr_loss") == pytest.approx(figures(two, "transr_loss"), abs=1e-5)


def test_the_order_and_repeats_of_rows_do_not_matter(store: ArtifactStore, drugs: Artifact, tmp_path: Path) -> None:
    entities = tuple(drugs.to_table("kg_entities")["entity_id"].to_pylist())
    rows = drugs.to_table("kg_triples").select(["head", "relation", "tail"]).to_pylist()
    triples = tuple(tuple(row.values()) for row in rows)
    shuffled = GivenGraph(entities[::-1], triples[::-1] + triples[:5])
    assert same(vectors(embedded(store, drugs)), vectors(embedded(ArtifactStore(tmp_path / "other"), shuffled)))


def test_triples_that_are_not_learned_from_are_listed(store: ArtifactStore, drugs: Artifact) -> None:
    from kg.embedding.numbering import number_graph
    from kg.embedding.split import hold_out

    entity_ids, relations, triples = number_graph(*(drugs.to_table(name) for name in ("kg_entities", "kg_triples")))
    held_out = triples.take(hold_out(triples, 8, 42))
    names = [entity_ids, relations, entity_ids]
    columns = (held_out.heads, held_out.relations, held_out.tails)
    expected = [[name[number] for number in some] for name, some in zip(names, columns, strict=True)]
    listed = embedded(store, drugs).to_table("kg_held_out_triples")
    assert [column.to_pylist() for column in listed.columns] == expected and len(expected[0]) == 8


def test_without_transe_and_held_out_triples(store: ArtifactStore, drugs: Artifact) -> None:
    artifact = embedded(store, drugs, transe_epochs=0, held_out=0)
    assert list(figures(artifact, "transr_loss")) == [6 * epoch for epoch in range(1, 7)]
    assert not figures(artifact, "transr_mrr")
    assert artifact.manifest.counters["held_out"] == 0 == artifact.to_table("kg_held_out_triples").num_rows


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (GivenGraph(("甲", "乙", "甲"), (("甲", "是", "乙"),)), "lists the entity '甲' more than once"),
        (GivenGraph(("甲", "乙"), ()), "kg_triples has no rows"),
        (
            GivenGraph(("甲", "乙"), (("甲", "是", "乙"), ("甲", "是", "丙"))),
            r"row 1: the tail '丙' is not an entity_id",
        ),
        (GivenGraph(("甲", "乙"), (("丁", "是", "乙"),)), r"row 0: the head '丁'"),
    ],
)
def test_bad_graphs_are_rejected(store: ArtifactStore, given: GivenGraph, message: str) -> None:
    with pytest.raises(UserError, match=message):
        embedded(store, given)


def test_impossible_settings_are_rejected() -> None:
    with pytest.raises(ValidationError, match="entity_dim"):
        params(entity_dim=0)
    with pytest.raises(ValidationError, match="entity_dimm"):
        params(entity_dimm=5)


def test_speed_settings_do_not_change_the_fingerprint(drugs: Artifact) -> None:
    given = {"graph": drugs}
    one = embed_graph.fingerprint(params(), given)
    assert one == embed_graph.fingerprint(params(workers=2, checkpoint_every=7), given)
    assert one != embed_graph.fingerprint(params(margin=2.0), given)
