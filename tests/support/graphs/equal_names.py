"""A small graph whose diseases have equal names, alike and unlike others; as stages read and fuse it."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

from infra.artifacts import Artifact, ArtifactStore
from tasks.evaluate.similarity.pairs import similarity_pairs
from tasks.evaluate.similarity.params import SimilarityPairsParams
from tasks.files.raw_input import RawInput
from tasks.knowledge.fuse import FuseGraphsParams, fuse_graphs
from tasks.knowledge.read import ReadGraphParams, read_graph
from tests.support.text.stages import do

ALIKE = [f"慢性{one}{other}炎" for one, other in product("胃肠肝肾肺", "甲乙丙丁戊")]
TRIPLES = [
    *((name, "症状", "发热") for name in ALIKE),
    # Both are entities with the same four neighbours but one: Jaccard 3/4.
    ("慢性胃病", "别称", "慢性胃炎"),
    *(("慢性胃病", "症状", sign) for sign in ("胃痛", "腹胀", "反酸")),
    *(("慢性胃炎", "症状", sign) for sign in ("胃痛", "腹胀", "反酸", "嗳气")),
    ("慢性肝病", "别称", "慢性肝炎"),
    ("慢性肝病", "英文名", "Liver disease"),
    ("慢性肝病", "别称", "慢性 肝病"),
    ("罕见病", "别称", "少见病"),
]
PAIRS = {("慢性胃病", "慢性胃炎"), ("慢性肝病", "慢性肝炎"), ("罕见病", "少见病")}
"""The pairs in Chinese; an entity's name is the one with more triples, then the shorter, so either may be the alias."""
TYPES = "relation,head_type,tail_type\n症状,Disease,Symptom\n别称,Disease,Disease\n英文名,Disease,Disease\n"
TEXT = ["患者有慢性肝炎病史，复查慢性肝炎。", "患者有慢性肝炎，用药治疗。"]


def write_graph(folder: Path, types: str = TYPES, more: list[tuple[str, str, str]] | None = None) -> dict[str, str]:
    """Write the graph's files; return their paths as the flow parameter `graphs` has them."""
    lines = ["head\trelation\ttail", *("\t".join(triple) for triple in [*TRIPLES, *(more or [])])]
    (folder / "graph.tsv").write_text("\n".join(lines), encoding="utf-8")
    (folder / "types.csv").write_text(types, encoding="utf-8")
    return {"path": str(folder / "graph.tsv"), "types": str(folder / "types.csv")}


def graphs_of(store: ArtifactStore, folder: Path, **changed: Any) -> dict[str, Artifact]:
    """Read and fuse the graph: `graph_own` and `fused`."""
    files = write_graph(folder, **changed)
    given = {"graph": RawInput(files["path"]), "types": RawInput(files["types"])}
    read = do(store, read_graph, ReadGraphParams(source="own"), **given)
    return {"graph_own": read, "fused": do(store, fuse_graphs, FuseGraphsParams(), graph_own=read)}


def held_out_of(store: ArtifactStore, graphs: dict[str, Artifact], share: float = 1.0) -> Artifact:
    """Fuse the graph again without the pairs."""
    pairs = do(store, similarity_pairs, SimilarityPairsParams(share=share), **graphs)
    return do(store, fuse_graphs, FuseGraphsParams(), graph_own=graphs["graph_own"], held_out_pairs=pairs)
