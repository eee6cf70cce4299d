"""The page about a knowledge graph: figures compared with plain counts, missing parts named, and safe text."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from infra.artifacts import Artifact, ArtifactStore
from infra.errors import UserError
from infra.stage import Output, StageParams, run, stage
from tasks.files.raw_input import RawInput
from tasks.knowledge.fuse import FuseGraphsParams, fuse_graphs
from tasks.knowledge.link import EntityFrequenciesParams, LinkParams, entity_frequencies, link
from tasks.knowledge.neighbours import NeighbourParams, neighbours
from tasks.knowledge.read import ReadGraphParams, read_graph
from tasks.reports.graph import ReportGraphParams, report_graph
from tasks.reports.graph_figures import draw
from tests.support.html_tags import Tags
from tests.support.text.stages import do
from tests.support.text.tables import documents_artifact

HOSTILE = "<script>alert('病')</script>"
ENTITIES = (
    ("d1", "糖尿病", ("消渴病",), "disease"),
    ("d2", "高血压", (), "disease"),
    ("s1", "多饮", (), "symptom"),
    ("s2", "头痛", (), "symptom"),
    ("s3", HOSTILE, ("<b>粗</b>",), "<i>"),
    ("x1", "孤立的名称" * 20, (), ""),
)
TRIPLES = (
    ("d1", "症状", "s1"),
    ("d1", "症状", "s2"),
    ("d1", "症状", "s3"),
    ("d2", "症状", "s2"),
    ("d2", "并发症", "d1"),
    ("d2", "<u>关系</u>", "s3"),
    ("d1", "并发症", "d1"),
)
ALIGNMENTS = (
    ("d1", "糖尿病", "糖尿病", "name", "糖尿病", 1.0),
    ("d1", "糖尿病", "消渴病", "alias", "消渴病", 1.0),
    ("s3", HOSTILE, "<b>粗</b>", "similarity", "", 0.875),
)
CONFLICTS = (
    ("d1", "type", "", "disease", ["甲", "乙"]),
    ("d1", "type", "", "<i>", ["丙"]),
    ("d2", "value", "传染性", "有", ["甲"]),
    ("d2", "value", "传染性", "无", ["乙"]),
    ("s3", "value", "传染性", "有", ["甲"]),
    ("s3", "value", "传染性", "无", ["乙"]),
)
COLUMNS = {
    "kg_entities": ("entity_id", "name", "aliases", "type"),
    "kg_triples": ("head", "relation", "tail"),
    "kg_alignments": ("entity_id", "name", "other_name", "evidence", "value", "score"),
    "kg_conflicts": ("entity_id", "kind", "relation", "value", "sources"),
    "metrics": ("step", "split", "name", "value"),
    "kg_entity_vectors": ("entity_id", "vector"),
    "kg_relation_vectors": ("relation", "vector", "projection"),
}
METRICS = (
    (2, "train", "transe_loss", 0.5),
    (2, "held_out", "transe_mrr", 0.9),
    (4, "held_out", "transr_mrr", 0.25),
    (4, "held_out", "transr_hits_at_10", 0.5),
    (4, "held_out", "transr_hits_at_1", 0.125),
    (6, "held_out", "transr_mrr", 0.125),
)
TEXTS = (
    "患者有糖尿病，又称消渴病，多饮。",
    "今天天气好。",
    "电话13812345678，头痛三天，高血压，头痛加重，消渴病史。",
    f"网页上的{HOSTILE}也是名称。",
)


class RowsParams(StageParams):
    tables: dict[str, list[dict[str, Any]]]
    parts: int


@stage(name="given", version=1, params=RowsParams, tables=tuple(COLUMNS))
def given(inputs: Mapping[str, Any], params: RowsParams, out: Output) -> None:
    for number in range(params.parts):
        with out.part() as part:
            for table, rows in params.tables.items():
                part.write(table, _consecutive(rows, number, params.parts))


def _consecutive(rows: list[dict[str, Any]], number: int, parts: int) -> list[dict[str, Any]]:
    """Consecutive rows: the whole has the same order whatever the parts."""
    size = -(-len(rows) // parts)
    return rows[number * size : (number + 1) * size]


def tables_of(store: ArtifactStore, parts: int = 1, **tables: Sequence[tuple[Any, ...]]) -> Artifact:
    named = {table: [dict(zip(COLUMNS[table], row, strict=True)) for row in rows] for table, rows in tables.items()}
    for row in [*named.get("kg_entities", ()), *named.get("kg_triples", ())]:
        row["sources"] = ["甲", "乙"] if row.get("relation") == "症状" else ["甲"]
    return run(given, store, RowsParams(tables=named, parts=parts), {}).artifact


def graph_of(store: ArtifactStore, parts: int = 1) -> Artifact:
    tables = {"kg_entities": ENTITIES, "kg_triples": TRIPLES, "kg_alignments": ALIGNMENTS, "kg_conflicts": CONFLICTS}
    return tables_of(store, parts, **tables)


def linked(store: ArtifactStore, graph: Artifact) -> dict[str, Artifact]:
    texts = documents_artifact(store, TEXTS[:2], TEXTS[2:])
    return {"mentions": do(store, link, LinkParams(), documents=texts, entities=graph), "segments": texts}


def everything(store: ArtifactStore, parts: int = 1) -> dict[str, Artifact]:
    graph = graph_of(store, parts)
    return {
        "graph": graph,
        **linked(store, graph),
        "neighbours": do(store, neighbours, NeighbourParams(k=3), graph=graph),
        "embeddings": tables_of(
            store,
            metrics=METRICS,
            kg_entity_vectors=[(row[0], [0.5, 1.0]) for row in ENTITIES],
            kg_relation_vectors=[("症状", [1.0], [1.0, 0.0])],
        ),
    }


def report(store: ArtifactStore, inputs: Mapping[str, Any], **params: Any) -> Artifact:
    return do(store, report_graph, ReportGraphParams(title="图 & <b>", **params), **inputs)


def summary_of(artifact: Artifact) -> dict[str, Any]:
    return json.loads(artifact.read_file("summary.json"))


def page_of(artifact: Artifact) -> str:
    return artifact.read_file("report.html").decode()


def test_the_figures_of_the_graph_equal_counts_by_hand(store: ArtifactStore) -> None:
    artifact = report(store, {"graph": graph_of(store)})
    summary = summary_of(artifact)
    assert summary["graph"] == {
        "entities": 6,
        "names": 8,
        "types": 3,
        "triples": 7,
        "without_triples": 1,
        "sources": [{"source": "乙", "triples": 4}, {"source": "甲", "triples": 7}],
    }
    # The self-loop of d1 counts twice.
    assert [(row["type"], row["entities"], row["names"], row["mean_degree"]) for row in summary["types"]] == [
        ("disease", 2, 3, 4.5),
        ("symptom", 2, 2, 1.5),
        ("", 1, 1, 0.0),
        ("<i>", 1, 2, 2.0),
    ]
    relations = {row["relation"]: row for row in summary["relations"]}
    assert [(name, row["triples"]) for name, row in relations.items()] == [
        ("症状", 4),
        ("并发症", 2),
        ("<u>关系</u>", 1),
    ]
    assert [relations["症状"][key] for key in ("head_type", "tail_type", "share")] == ["disease", "symptom", 0.75]
    names = {row[0]: row[1] for row in ENTITIES}
    assert {(row["head"], name, row["tail"]) for name, row in relations.items()} <= {
        (names[head], relation, names[tail]) for head, relation, tail in TRIPLES
    }
    assert summary["degrees"]["bins"] == [0, 1, 2, 4]
    assert summary["degrees"]["degree"] == [1, 1, 3, 1]
    assert summary["degrees"]["head_of"] == [4, 0, 1, 1]
    assert summary["degrees"]["quantiles"] == {"50%": 2, "90%": 3, "99%": 3}
    assert (summary["degrees"]["mean"], summary["degrees"]["most"]) == (2.333, 6)
    assert summary["hubs"][0] == {
        "name": "糖尿病",
        "type": "disease",
        "degree": 6,
        "head_of": 4,
        "tail_of": 2,
        "relation": "症状",
        "direction": 1,
        "triples": 3,
    }
    headache = next(row for row in summary["hubs"] if row["name"] == "头痛")
    assert (headache["head_of"], headache["tail_of"], headache["relation"], headache["direction"]) == (0, 2, "症状", -1)
    assert json.loads(artifact.read_file("table.json"))[0] == {
        "type": "disease",
        "entities": 2,
        "names": 3,
        "without triples": 0,
        "mean degree": 4.5,
        "in the corpus": None,
        "mentions": None,
    }


def test_alignments_and_conflicts_are_counted_and_shown(store: ArtifactStore) -> None:
    summary = summary_of(report(store, {"graph": graph_of(store)}))
    found = {row["evidence"]: (row["links"], row["entities"], row["renamed"]) for row in summary["alignments"]}
    assert found == {"alias": (1, 1, 1), "name": (1, 1, 0), "similarity": (1, 1, 1)}
    assert summary["alignments"][2]["samples"] == [
        {"entity": HOSTILE, "name": HOSTILE, "other_name": "<b>粗</b>", "value": "", "score": 0.875}
    ]
    assert [(row["kind"], row["relation"], row["conflicts"]) for row in summary["conflicts"]] == [
        ("type", "", 1),
        ("value", "传染性", 2),
    ]
    assert summary["conflicts"][0]["samples"] == [
        {
            "entity": "糖尿病",
            "claims": [{"value": "<i>", "sources": ["丙"]}, {"value": "disease", "sources": ["甲", "乙"]}],
            "more": 0,
        }
    ]
    assert {sample["entity"] for sample in summary["conflicts"][1]["samples"]} == {"高血压", HOSTILE}


def test_only_the_first_of_many_values_are_shown(store: ArtifactStore) -> None:
    claims = [("d1", "value", "传染性", f"值{number:02}", ["甲"]) for number in range(20)]
    graph = tables_of(store, kg_entities=ENTITIES, kg_triples=TRIPLES, kg_conflicts=claims)
    artifact = report(store, {"graph": graph})
    (sample,) = summary_of(artifact)["conflicts"][0]["samples"]
    assert [claim["value"] for claim in sample["claims"]] == [f"值{number:02}" for number in range(8)]
    assert sample["more"] == 12 and "and 12 more" in page_of(artifact)


def test_a_mention_inside_an_identifier_is_not_shown(store: ArtifactStore) -> None:
    graph = tables_of(store, kg_entities=[("m", "zhangsan", (), ""), ("s", "头痛", (), "")], kg_triples=[])
    texts = documents_artifact(store, ["联系zhangsan@example.com，头痛。"])
    mentions = do(store, link, LinkParams(), documents=texts, entities=graph)
    assert mentions.rows("mentions") == 2
    artifact = report(store, {"graph": graph, "mentions": mentions, "segments": texts})
    samples = summary_of(artifact)["linking"]["corpus"]["samples"]
    assert [row["surface"] for row in samples] == ["头痛"]
    assert "zhangsan@" not in page_of(artifact)


@pytest.mark.parametrize("given_frequencies", [False, True])
def test_the_linking_rate_equals_plain_counts(store: ArtifactStore, given_frequencies: bool) -> None:
    graph = graph_of(store)
    inputs = {"graph": graph, **linked(store, graph)}
    if given_frequencies:
        inputs["entity_frequencies"] = do(
            store, entity_frequencies, EntityFrequenciesParams(), links=inputs["mentions"]
        )
    summary = summary_of(report(store, inputs))
    names = {name: row[0] for row in ENTITIES for name in (row[1], *row[2])}
    counts = Counter({entity: 0 for entity in names.values()})
    for name, entity in names.items():
        counts[entity] += sum(text.count(name) for text in TEXTS)
    found = summary["linking"]
    assert (found["entities"], found["occurring"], found["not_in_graph"]) == (6, sum(map(bool, counts.values())), 0)
    by_name = {row[1]: counts[row[0]] for row in ENTITIES if counts[row[0]]}
    assert {row["name"]: row["count"] for row in found["frequent"]} == by_name
    assert [row["count"] for row in found["frequent"]] == sorted(by_name.values(), reverse=True)
    corpus = found["corpus"]
    characters = sum(map(len, TEXTS))
    assert (corpus["unit"], corpus["texts"], corpus["texts_with_mention"]) == ("documents", 4, 3)
    assert corpus["characters"] == characters and corpus["mentions"] == sum(counts.values())
    assert corpus["per_1000_characters"] == round(1000 * sum(counts.values()) / characters, 2)
    types = {row["type"]: (row["in_corpus"], row["mentions"]) for row in summary["types"]}
    assert types["disease"] == (2, counts["d1"] + counts["d2"]) and types[""] == (0, 0)


def test_mentions_are_shown_in_their_context_without_identifiers(store: ArtifactStore) -> None:
    graph = graph_of(store)
    artifact = report(store, {"graph": graph, **linked(store, graph)}, samples=100)
    samples = summary_of(artifact)["linking"]["corpus"]["samples"]
    assert len(samples) == 8
    assert "13812345678" not in page_of(artifact) and "手机号" in page_of(artifact)
    headaches = [row for row in samples if row["name"] == "头痛"]
    assert sorted(row["after"] for row in headaches) == ["三天，高血压，头痛加重，消渴病史。", "加重，消渴病史。"]
    assert {(row["surface"], row["name"]) for row in samples if row["surface"] != row["name"]} == {("消渴病", "糖尿病")}


def test_texts_that_were_not_linked_are_an_error(store: ArtifactStore) -> None:
    graph = graph_of(store)
    inputs = {"graph": graph, **linked(store, graph), "segments": documents_artifact(store, ["别的文字。"])}
    with pytest.raises(UserError, match="Give the linked texts"):
        report(store, inputs)
    with pytest.raises(UserError, match="has no table 'kg_entities'"):
        report(store, {"graph": inputs["segments"]})


def test_neighbours_are_shown_with_their_triples(store: ArtifactStore) -> None:
    inputs = everything(store)
    found = summary_of(report(store, inputs, samples=100))["neighbours"]
    rows = inputs["neighbours"].to_table("neighbours").to_pylist()
    sizes = Counter(row["entity_id"] for row in rows)
    names = {row[0]: row[1] for row in ENTITIES}
    full = {entity for entity, size in sizes.items() if size == max(sizes.values())}
    occurring = {entity for entity in full if entity != "x1"}
    assert (found["entities"], found["most"], found["with_most"]) == (len(sizes), max(sizes.values()), len(full))
    assert {row["name"] for row in found["samples"]} == {names[entity] for entity in occurring}
    triples = {(names[head], relation, names[tail]) for head, relation, tail in TRIPLES}
    for sample in found["samples"]:
        assert [one["rank"] for one in sample["neighbours"]] == list(range(1, found["most"] + 1))
        for one in sample["neighbours"]:
            ends = (sample["name"], one["neighbour"])
            head, tail = ends if one["direction"] == 1 else ends[::-1]
            assert (head, one["relation"], tail) in triples


def test_neighbours_are_shown_of_entities_that_occur_if_there_are_any(store: ArtifactStore) -> None:
    graph = graph_of(store)
    inputs = {"graph": graph, "neighbours": do(store, neighbours, NeighbourParams(k=3), graph=graph)}
    shown = summary_of(report(store, inputs))["neighbours"]
    assert (shown["in_corpus"], {row["name"] for row in shown["samples"]}) == (False, {"糖尿病", "高血压"})
    texts = documents_artifact(store, ["高血压，头痛。"])
    inputs["mentions"] = do(store, link, LinkParams(), documents=texts, entities=graph)
    shown = summary_of(report(store, inputs))["neighbours"]
    assert (shown["in_corpus"], {row["name"] for row in shown["samples"]}) == (True, {"高血压"})


def test_the_vectors_are_those_of_the_best_evaluation(store: ArtifactStore) -> None:
    found = summary_of(report(store, everything(store)))["embeddings"]
    assert (found["entities"], found["relations"]) == (6, 1)
    assert found["figures"] == ["mrr", "hits_at_1", "hits_at_10"]
    assert [(row["model"], row["step"], row["kept"]) for row in found["looks"]] == [
        ("transe", 2, False),
        ("transr", 4, True),
        ("transr", 6, False),
    ]
    assert found["looks"][1]["figures"] == {"mrr": 0.25, "hits_at_10": 0.5, "hits_at_1": 0.125}


def test_missing_inputs_are_left_out_and_named(store: ArtifactStore) -> None:
    graph = tables_of(store, kg_entities=ENTITIES, kg_triples=TRIPLES)
    assert {table.rows for name, table in graph.manifest.tables.items() if name.startswith("kg_a")} == {0}
    plain = unfused(store)
    artifact = report(store, {"graph": plain})
    summary = summary_of(artifact)
    parts = ("alignments", "conflicts", "linking", "neighbours", "embeddings")
    assert [summary[part] for part in parts] == [None] * len(parts)
    page = page_of(artifact)
    assert page.count("the graph was not fused") == 2 and page.count("They were not given.") == 2
    assert "No corpus was linked." in page and "mentions</th>" not in page
    links = linked(store, graph)
    without_texts = page_of(report(store, {"graph": graph, "mentions": links["mentions"]}))
    assert "Not shown: the texts were not given." in without_texts
    assert "No two names were merged into one entity." in without_texts and "do not contradict" in without_texts
    counts = do(store, entity_frequencies, EntityFrequenciesParams(), links=links["mentions"])
    assert "the mentions were not given" in page_of(report(store, {"graph": graph, "entity_frequencies": counts}))


def unfused(store: ArtifactStore) -> Artifact:
    """Return a graph of the stage `read_graph`, which is not fused."""
    file = Path(store.root, "given.csv")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("head,relation,tail\n糖尿病,症状,多饮\n糖尿病,别称,消渴病\n", encoding="utf-8")
    return do(store, read_graph, ReadGraphParams(source="甲"), graph=RawInput(file))


def test_a_fused_graph_gives_a_page(store: ArtifactStore) -> None:
    fused = do(store, fuse_graphs, FuseGraphsParams(), a=unfused(store))
    summary = summary_of(report(store, {"graph": fused}))
    assert summary["graph"]["entities"] == fused.rows("kg_entities")
    assert sum(row["links"] for row in summary["alignments"]) == fused.rows("kg_alignments")
    empty = tables_of(store, kg_entities=[], kg_triples=[])
    page = page_of(report(store, {"graph": empty, **linked(store, graph_of(store))}))
    assert "The graph has no triples." in page and "5 other linked entities are not in this graph" in page


def test_no_text_breaks_the_page(store: ArtifactStore) -> None:
    page = page_of(report(store, everything(store), samples=100))
    tags = Tags()
    tags.feed(page)
    assert tags.open == []
    assert not {"script", "u"} & tags.seen
    assert "&lt;script&gt;" in page and "&lt;u&gt;关系" in page and "<title>图 &amp; &lt;b&gt;</title>" in page
    assert "孤立的名称" * 13 not in page


def test_the_page_does_not_depend_on_the_parts(store: ArtifactStore, tmp_path: Path) -> None:
    first = report(store, everything(store), samples=1)
    again = report(ArtifactStore(tmp_path / "again"), everything(ArtifactStore(tmp_path / "again"), parts=3), samples=1)
    assert again.read_file("report.html") == first.read_file("report.html")
    pages = {page_of(report(store, everything(store), samples=1, seed=seed)) for seed in range(4)}
    assert len(pages) > 1


@pytest.mark.parametrize("count", [0, 1, 3, 1000])
def test_a_draw_has_rows_of_every_group_whatever_the_frames(count: int) -> None:
    numbers = random.Random(count)
    rows = pl.DataFrame({"group": [numbers.choice("aab") for _ in range(200)], "row": range(200)})
    whole = draw([rows], ["group"], count, seed=1)
    assert draw(rows.iter_slices(7), ["group"], count, seed=1).equals(whole)
    assert whole.join(rows, on=["group", "row"], how="semi").equals(whole) and whole["row"].is_unique().all()
    for name, own in rows.group_by("group"):
        assert whole.filter(pl.col("group") == name[0]).height == min(count, own.height)


def test_a_draw_is_uniform() -> None:
    rows = pl.DataFrame({"group": ["a"] * 10, "row": range(10)})
    seen = Counter(row for seed in range(1000) for row in draw([rows], ["group"], 3, seed)["row"])
    assert set(seen) == set(range(10)) and all(abs(count - 300) < 75 for count in seen.values())
