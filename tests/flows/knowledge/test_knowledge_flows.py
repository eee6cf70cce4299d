"""Flows over knowledge graphs: a fused graph, its vectors, and an entity vocabulary."""

from __future__ import annotations

import importlib.util
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import flows.shared.graphs
from flows.entities import entities
from flows.knowledge import knowledge
from flows.recipes.pretraining import load_preset
from flows.shared.documents import text_inputs
from flows.shared.graphs import requested_graphs
from flows.shared.pretraining import more_inputs, prepare
from flows.vocabulary import vocabulary
from infra.artifacts import Artifact, ArtifactStore
from infra.errors import UserError
from kg.fusion.fused_graph import entity_ids
from kg.sources import cmekg
from models import objectives
from models.knowledge import KnowledgeArrays
from tasks.knowledge.read import read_graph
from tasks.pretrain.linked import linked_entities
from tasks.runner import stage_runner
from tests.support.training.knowing import register

DISEASES = ["再生障碍性贫血", "新型冠状病毒肺炎", "糖尿病酮酸中毒", "急性阑尾炎", "慢性肾小球肾炎"]
SIGNS = ["面色苍白", "发热", "恶心", "腹痛", "水肿"]
DRUGS = ["环孢素", "阿比多尔", "胰岛素", "头孢曲松", "泼尼松"]

SMALL: dict[str, Any] = {
    "segment.min_tokens": 10,
    "phrases.engine": "embedded",
    "phrases.min_support": 3,
    "phrases.trees": 20,
    "embed.entity_dim": 8,
    "embed.relation_dim": 8,
    "embed.transe_epochs": 2,
    "embed.epochs": 2,
    "embed.held_out": 2,
    "vocabulary.size": 200,
    "vocabulary.min_frequency": 1,
}


@pytest.fixture
def graphs(tmp_path: Path) -> dict[str, dict[str, Any]]:
    """Two small graphs with different facts about the same diseases."""
    signs = [f"{disease}\t临床表现\t{sign}" for disease, sign in zip(DISEASES, SIGNS, strict=True)]
    drugs = [f"{disease}\t药物治疗\t{drug}" for disease, drug in zip(DISEASES, DRUGS, strict=True)]
    (tmp_path / "signs.tsv").write_text("\n".join(["head\trelation\ttail", *signs]), encoding="utf-8")
    (tmp_path / "drugs.tsv").write_text("\n".join(drugs), encoding="utf-8")
    return {
        "signs": {"path": str(tmp_path / "signs.tsv")},
        "drugs": {"path": str(tmp_path / "drugs.tsv"), "header": False, "columns": ["1", "2", "3"]},
    }


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Synthetic articles about the diseases, with an empty store."""
    monkeypatch.setenv("YIWEN_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("YIWEN_WORKERS", "1")
    drawn = random.Random(3)
    words = ["患者", "出现", "之后", "应当", "及时", "使用", "并且", "复查", "血常规", "，", "。"]
    lines = []
    for number in range(120):
        disease = DISEASES[number % 5]
        said = [disease, SIGNS[drawn.randrange(5)], DRUGS[drawn.randrange(5)], *drawn.choices(words, k=25)]
        drawn.shuffle(said)
        lines.append("".join(said) + f"第{number}例。")
    path = tmp_path / "articles.jsonl"
    path.write_text("\n".join(json.dumps({"text": line}, ensure_ascii=False) for line in lines), encoding="utf-8")
    return str(path)


def latest(tmp_path: Path, stage: str) -> Artifact:
    artifact = ArtifactStore(tmp_path / "home").latest(stage)
    assert artifact is not None, stage
    return artifact


def test_graphs_are_fused_ranked_embedded_and_linked(
    graphs: dict[str, dict[str, Any]], text: str, tmp_path: Path
) -> None:
    path = knowledge.fn(graphs=graphs, corpus=text, overrides=SMALL)
    fused = latest(tmp_path, "fuse_graphs")
    assert path == str(fused.path)
    found = {row["name"]: row for row in fused.to_table("kg_entities").to_pylist()}
    assert {*DISEASES, *SIGNS, *DRUGS} == found.keys()
    assert found["急性阑尾炎"]["sources"] == ["drugs", "signs"]
    ids = {row["entity_id"]: name for name, row in found.items()}
    best: dict[str, set[str]] = {}
    for row in latest(tmp_path, "neighbours").to_table().to_pylist():
        best.setdefault(ids[row["entity_id"]], set()).add(ids[row["neighbour_id"]])
    assert best["急性阑尾炎"] == {"腹痛", "头孢曲松"}
    assert latest(tmp_path, "kg_embeddings").rows("kg_entity_vectors") == 15
    known = KnowledgeArrays.open(latest(tmp_path, "knowledge_arrays").path)
    assert {ids[known.entity_id(row)] for row in range(known.num_entities)} == {*DISEASES, *SIGNS, *DRUGS}
    assert "急性阑尾炎" in latest(tmp_path, "report_graph").read_file("report.html").decode()
    counts = {ids[row["entity_id"]]: row for row in latest(tmp_path, "entity_frequencies").to_table().to_pylist()}
    assert all(counts[disease]["documents"] == 24 for disease in DISEASES)
    assert "entity_frequencies" not in latest(tmp_path, "link").manifest.inputs, "no name is shared"


@pytest.fixture
def shared_name(graphs: dict[str, dict[str, Any]], text: str) -> dict[str, str]:
    """A name that two drugs share in graphs and text; the drug with the larger id is the frequent one."""
    ids = dict(zip(DRUGS, entity_ids(DRUGS), strict=True))
    rare, frequent = sorted(DRUGS[:2], key=ids.__getitem__)
    with Path(graphs["drugs"]["path"]).open("a", encoding="utf-8") as file:
        file.writelines(f"\n{name}\t别称\t免疫一号" for name in (rare, frequent))
    articles = Path(text).read_text(encoding="utf-8").replace(rare, frequent).replace("血常规", "免疫一号")
    Path(text).write_text(articles, encoding="utf-8")
    return {"frequent": ids[frequent], "rare": ids[rare]}


def test_a_shared_name_goes_to_the_frequent_entity(
    shared_name: dict[str, str], graphs: dict[str, dict[str, Any]], text: str, tmp_path: Path
) -> None:
    knowledge.fn(graphs=graphs, corpus=text, vectors=False, overrides=SMALL)
    segments = {row["segment_id"]: row["text"] for row in latest(tmp_path, "segment").to_table().to_pylist()}
    links = latest(tmp_path, "link").to_table("mentions").to_pylist()
    shared = [row for row in links if segments[row["segment_id"]][row["start"] : row["end"]] == "免疫一号"]
    assert len(shared) > 100
    assert {row["entity_id"] for row in shared} == {shared_name["frequent"]}


def test_mentions_of_examples_go_to_the_frequent_entity(
    shared_name: dict[str, str], graphs: dict[str, dict[str, Any]], text: str, tmp_path: Path
) -> None:
    recipe = load_preset("ehealth-tiny", SMALL)
    with stage_runner() as run:
        examples = prepare(run, recipe, text_inputs(text), graphs=requested_graphs(graphs)).examples
    ids = latest(tmp_path, "fuse_graphs").to_table("kg_entities")["entity_id"].to_pylist()
    mentioned = {ids[mention["entity"]] for row in examples.to_table().to_pylist() for mention in row["mentions"]}
    assert shared_name["frequent"] in mentioned and shared_name["rare"] not in mentioned


def test_objective_that_reads_knowledge_gets_that_of_its_mentions(
    graphs: dict[str, dict[str, Any]], text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objectives, "_OBJECTIVES", dict(objectives._OBJECTIVES))
    register()
    recipe = load_preset("ehealth-tiny", SMALL).model_copy(update={"objective": "knowing", "model": {}})
    with stage_runner() as run:
        data = prepare(run, recipe, text_inputs(text), graphs=requested_graphs(graphs))
        made = more_inputs(run, recipe, data)
    known = KnowledgeArrays.open(made["knowledge"].path)
    linked = linked_entities(data.examples)
    assert linked is not None and known.graph == (linked.stage, linked.fingerprint)
    mentioned = {mention["entity"] for row in data.examples.to_table().to_pylist() for mention in row["mentions"]}
    assert mentioned and all(known.frequencies[row] > 0 for row in mentioned)
    with pytest.raises(UserError, match="--param mentions=true"), stage_runner() as run:
        more_inputs(run, recipe, replace(data, entities=None))


def test_rows_that_give_no_triple_are_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("YIWEN_HOME", str(tmp_path / "home"))
    (tmp_path / "ours.csv").write_text("from,link,to\n胰岛素,适应症,糖尿病\n,并发症,水肿\n", encoding="utf-8")
    given = {"ours": {"path": str(tmp_path / "ours.csv"), "format": "triples", "columns": ["from", "link", "to"]}}
    with stage_runner() as run:
        read = flows.shared.graphs.sources(run, requested_graphs(given))
    said = [record.message for record in caplog.records if "gave no triple" in record.message]
    assert said == [
        f"ours: 1 rows gave no triple (missing_end 1). The table rejects in {read['graph_ours'].path} has each with "
        "its place and reason."
    ]


def test_vectors_are_optional(graphs: dict[str, dict[str, Any]], text: str, tmp_path: Path) -> None:
    knowledge.fn(graphs=graphs, corpus=text, vectors=False, overrides=SMALL)
    assert ArtifactStore(tmp_path / "home").latest("kg_embeddings") is None


def test_phrases_and_names_make_the_entity_vocabulary(
    graphs: dict[str, dict[str, Any]], text: str, tmp_path: Path
) -> None:
    path = Path(entities.fn(corpus=text, graphs=graphs, overrides=SMALL))
    rows = {row["surface"]: row for row in latest(tmp_path, "entities").to_table().to_pylist()}
    assert rows["再生障碍性贫血"]["atomic"] == "贫血"
    assert all(rows[disease]["frequency"] == 24 for disease in DISEASES)
    assert "发热" in (path / "dictionary.txt").read_text(encoding="utf-8").splitlines()
    assert latest(tmp_path, "phrase_segments").rows("phrase_segments")
    assert {file.path for file in latest(tmp_path, "report_entities").manifest.files} >= {"report.html", "table.json"}
    again = entities.fn(corpus=text, graphs=graphs, cut_points=str(path / "cut_points.csv"), overrides=SMALL)
    assert latest(tmp_path, "entities").to_table().num_rows == len(rows)
    assert Path(again) != path  # another review file is another input, even with equal answers


def test_the_page_shows_how_the_vocabulary_covers_names_of_the_graph(
    graphs: dict[str, dict[str, Any]], text: str, tmp_path: Path
) -> None:
    vocabulary.fn(corpus=text, graphs=graphs, entities=True, overrides=SMALL)
    assert "15 names and terms" in latest(tmp_path, "report_vocabulary").read_file("report.html").decode()


@pytest.mark.parametrize(
    ("graphs", "said"),
    [
        ({"a": {}}, r"graphs\.a has no path"),
        (
            {"a": {"path": "x.tsv", "colums": ["1", "2", "3"]}},
            r"^unknown key 'graphs\.a\.colums' .* 'graphs\.a\.columns'",
        ),
        (
            {"a": {"path": "x.tsv", "format": "xml"}},
            r"graphs\.a\.format is 'xml' \(from the parameter graphs\): ",
        ),
        ({"a": {"path": "nowhere.tsv"}}, "nowhere.tsv does not exist"),
    ],
)
def test_faulty_requests_are_reported_before_any_work(graphs: dict[str, dict[str, Any]], said: str) -> None:
    for flow in (knowledge, entities):
        with pytest.raises(UserError, match=said):
            flow.fn(graphs=graphs)


def test_a_faulty_table_is_reported_before_any_work(graphs: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    table = tmp_path / "types.csv"
    table.write_text("source,type,name\n,disease,Disease\n,disease,Illness\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"types\.csv, row 3: disease of source '' occurs twice"):
        knowledge.fn(graphs=graphs, types=str(table))
    table.write_text("a\n1,2,3\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"types\.csv cannot be read as CSV"):
        knowledge.fn(graphs=graphs, types=str(table))


def test_installed_graphs_are_the_default() -> None:
    if importlib.util.find_spec(cmekg.PACKAGE) is None:
        pytest.skip("PyCMeKG is not installed")
    requested = requested_graphs(None)
    params, inputs = requested["cmekg"]
    assert (params.format, sorted(inputs)) == ("cmekg", ["graph", "types"])
    assert requested_graphs({}) == {}


def test_an_edited_table_of_icd10_gives_another_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "zh_CN.po").write_text("", encoding="utf-8")
    chapters = tmp_path / "chapters.csv"
    monkeypatch.setitem(flows.shared.graphs._TYPES, "icd10", chapters)

    def fingerprint(table: str) -> str:
        chapters.write_text(table, encoding="utf-8")
        params, inputs = requested_graphs({"icd": {"format": "icd10", "path": str(tmp_path / "zh_CN.po")}})["icd"]
        return read_graph.fingerprint(params, inputs)

    first, other, again = (fingerprint(f"letter,type\nD,{kind}\n") for kind in ("Disease", "Blood", "Disease"))
    assert first == again != other
