"""The stages that read and fuse knowledge graphs: from files to tables, with counters and rejects."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.artifacts import ArtifactStore
from infra.errors import UserError
from infra.stage import run
from kg.graph import KnowledgeGraph
from tasks.files.raw_input import RawInput
from tasks.knowledge.fuse import FuseGraphsParams, fuse_graphs
from tasks.knowledge.read import Format, ReadGraphParams, read_graph


def put(path: Path, text: str) -> RawInput:
    path.write_text(text, encoding="utf-8")
    return RawInput(path)


def test_files_become_one_graph_whatever_their_order(store: ArtifactStore, tmp_path: Path) -> None:
    one = put(
        tmp_path / "one.csv", "head,relation,tail\n糖尿病,别称,消渴\n糖尿病,症状,多饮\n糖尿病,症状,\n。,症状,多饮\n"
    )
    two = put(tmp_path / "two.tsv", "消渴\t症状\t多尿\n糖 尿病\t传染性\t无\n")
    read_one = run(read_graph, store, ReadGraphParams(source="one"), {"graph": one}).artifact
    params = ReadGraphParams(source="two", columns=("1", "2", "3"), header=False)
    read_two = run(read_graph, store, params, {"graph": two}).artifact
    assert read_one.to_table("rejects").select(["doc_id", "source", "reason"]).to_pylist() == [
        {"doc_id": "one.csv#3", "source": "one", "reason": "missing_end"}
    ]
    fused = [
        run(fuse_graphs, store, FuseGraphsParams(), inputs).artifact
        for inputs in ({"a": read_one, "b": read_two}, {"a": read_two, "b": read_one})
    ]
    assert fused[0].to_table("kg_entities").equals(fused[1].to_table("kg_entities"))
    assert fused[0].to_table("kg_triples").equals(fused[1].to_table("kg_triples"))
    graph = KnowledgeGraph.from_tables(fused[0].to_table("kg_entities"), fused[0].to_table("kg_triples"))
    diabetes = graph.names.index("糖尿病")
    assert graph.aliases[diabetes] == ["消渴", "糖 尿病"]
    assert len(graph.neighbours(diabetes)[0]) == 3
    counters = fused[0].manifest.counters
    assert (counters["graphs_in"], counters["triples"], counters["aligned_by_alias"]) == (2, 4, 1)
    alignments = fused[0].to_table("kg_alignments").to_pylist()
    assert {row["evidence"] for row in alignments} == {"name", "alias"}


def test_tables_given_by_the_user_replace_the_default(store: ArtifactStore, tmp_path: Path) -> None:
    given = put(tmp_path / "kg.csv", "head,relation,tail\n甲,又叫,乙\n甲,r,丙\n")
    relations = put(tmp_path / "relations.csv", "source,relation,name,role,functional,inverse\n,又叫,SameAs,alias,,\n")
    artifact = run(read_graph, store, ReadGraphParams(source="kg"), {"graph": given}).artifact
    fused = run(fuse_graphs, store, FuseGraphsParams(), {"kg": artifact, "relations": relations}).artifact
    assert sorted(map(len, fused.to_table("kg_entities")["aliases"].to_pylist())) == [0, 1]


@pytest.mark.parametrize(
    ("form", "files"),
    [
        ("triples", {"kg.csv": "head,relation,tail\n血压计,测量,血压\n"}),
        ("products", {"kg.csv": "title,attribute,value\n血压计,测量,血压\n"}),
        ("ntriples", {"kg.nt": "<x:/血压计> <x:/测量> <x:/血压> .\n"}),
        ("neo4j", {"n.csv": ":ID,name,:LABEL\n1,血压计,物\n2,血压,\n", "r.csv": ":START_ID,:END_ID,:TYPE\n1,2,测量\n"}),
    ],
)
def test_every_format_takes_a_table_of_types(
    store: ArtifactStore, tmp_path: Path, form: Format, files: dict[str, str]
) -> None:
    given = RawInput([put(tmp_path / name, text).path for name, text in files.items()])
    table = put(tmp_path / "types.csv", "relation,head_type,tail_type\n测量,Device,Sign\n")
    params = ReadGraphParams(source="kg", format=form)
    artifact = run(read_graph, store, params, {"graph": given, "types": table}).artifact
    rows = artifact.to_table("kg_entities").to_pylist()
    assert {row["name"]: row["type"] for row in rows} == {"血压计": "Device", "血压": "Sign"}


def test_nothing_to_read_or_fuse_is_an_error(store: ArtifactStore, tmp_path: Path) -> None:
    empty = put(tmp_path / "kg.csv", "head,relation,tail\n,r,丙\n")
    with pytest.raises(UserError, match=r"no complete triple \(rejected rows: 1\)"):
        run(read_graph, store, ReadGraphParams(source="kg"), {"graph": empty})
    with pytest.raises(UserError, match="No knowledge graph"):
        run(fuse_graphs, store, FuseGraphsParams(), {})
