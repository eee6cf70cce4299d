"""Candidates from a real server: builds, searches, rebuilds and kills; and servers that cannot be used."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import psutil
import pytest
from elasticsearch import Elasticsearch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flows.normalise import normalise
from infra.errors import UserError
from infra.settings import ElasticsearchSettings
from tasks.normalise.files import open_normaliser
from tasks.normalise.publish import open_server_index
from tasks.normalise.reading import SenseIndex
from tasks.retrieve import server_build as building
from tasks.retrieve.candidates import Candidate, CandidateIndex, Entry
from tasks.retrieve.embedded import EmbeddedIndex
from tasks.retrieve.fields import SearchFields
from tasks.retrieve.server import Patience
from tasks.retrieve.server_index import ElasticsearchIndex
from tasks.retrieve.server_search import IndexSearcher
from tasks.retrieve.vectors import VectorIndex
from tests.support.processes.live_elasticsearch import SCRIPTS, UNAVAILABLE, LiveServer

pytestmark = pytest.mark.slow

ENTRIES = [
    Entry("E11", "2型糖尿病", ("非胰岛素依赖型糖尿病", "成人型糖尿病")),
    Entry("E10", "1型糖尿病"),
    Entry("E11.5", "2型糖尿病足"),
    Entry("I10", "特发性(原发性)高血压", ("高血压病",)),
    Entry("I11", "高血压性心脏病"),
    Entry("K29.7", "胃炎"),
    Entry("K29.5", "慢性胃炎"),
]
LARGE = [Entry(f"X{place:04}", f"{place}号{chr(0x4E00 + place)}{chr(0x5E00 + place)}病") for place in range(2500)]
IMPATIENT = Patience(seconds=1.0, request_seconds=10.0)
ACCESS = ElasticsearchSettings()
FIELDS = SearchFields()


@pytest.fixture
def client(elasticsearch: LiveServer) -> Iterator[Elasticsearch]:
    """A separate client; all indices are deleted afterwards."""
    client = Elasticsearch(elasticsearch.url)
    yield client
    client.indices.delete(index=",".join(client.indices.get(index="*")) or "none", ignore_unavailable=True)
    client.close()


@pytest.fixture
def index(elasticsearch: LiveServer, client: Elasticsearch) -> Iterator[ElasticsearchIndex]:
    index = ElasticsearchIndex(elasticsearch.url, "icd10", access=ACCESS)
    yield index
    index.close()


def pairs(candidates: list[Candidate]) -> list[tuple[str, str]]:
    return [(candidate.code, candidate.term) for candidate in candidates]


def assert_alike(found: list[list[Candidate]], expected: list[list[Candidate]]) -> None:
    """Assert the same candidates in the same order; scores may differ by a rounding of float32."""
    assert [pairs(own) for own in found] == [pairs(own) for own in expected]
    for own, other in zip(found, expected, strict=True):
        assert [one.score for one in own] == pytest.approx([one.score for one in other], rel=1e-5)


# Searching


def test_candidates_equal_those_of_the_embedded_engine(index: ElasticsearchIndex, tmp_path: Path) -> None:
    engine: CandidateIndex = index
    index.build(ENTRIES, "one")
    embedded = EmbeddedIndex.build(ENTRIES, tmp_path)
    terms = ["Ⅱ型糖尿病", "糖尿病", "高血压", "慢性胃炎急性发作", "成人型糖尿病", "２型糖尿病足（双侧）", "骨折"]
    for k in (1, 3, 100):
        assert_alike(engine.search(terms, k), embedded.search(terms, k))
    assert pairs(engine.search(["Ⅱ型糖尿病"], 1)[0]) == [("E11", "2型糖尿病")]


def test_senses_reorder_candidates_of_both_engines_alike(index: ElasticsearchIndex, tmp_path: Path) -> None:
    index.build(ENTRIES, "senses")
    embedded = EmbeddedIndex.build(ENTRIES, tmp_path)
    terms = ["急性胃炎", "1型糖尿病", "2型糖尿病足", "继发性高血压"]
    assert_alike(SenseIndex(index).search(terms, 5), SenseIndex(embedded).search(terms, 5))
    assert pairs(SenseIndex(index).search(["急性胃炎"], 2)[0]) == [("K29.7", "胃炎"), ("K29.5", "慢性胃炎")]


def test_both_engines_find_the_same_hundred_candidates_of_real_terms(
    index: ElasticsearchIndex, tmp_path: Path, shared_data: Path
) -> None:
    import polars as pl

    listed = pl.read_parquet(shared_data / "icd10_zh" / "who_icd10_zh_en.parquet", columns=["code", "name_zh"])
    entries = [Entry(code, name) for code, name in listed.head(4000).iter_rows()]
    named = pl.read_parquet(shared_data / "icd10_zh" / "cmekg_icd_alignment.parquet")["cmekg_name"].head(120).to_list()
    index.build(entries, "real")
    assert_alike(index.search(named, 100), EmbeddedIndex.build(entries, tmp_path).search(named, 100))


def test_nearest_names_equal_those_of_the_exact_search_here(
    index: ElasticsearchIndex, elasticsearch: LiveServer, tmp_path: Path
) -> None:
    draw = np.random.default_rng(1)
    embedded = EmbeddedIndex.build(LARGE[:300] + ENTRIES, tmp_path)
    names, _ = embedded.names()
    matrix = draw.normal(size=(len(names), 16)).astype(np.float16)
    matrix[3] = matrix[8]  # a tie
    matrix[5] = 0  # a name without a vector
    matrix = (matrix / np.maximum(np.linalg.norm(matrix, axis=1, keepdims=True), 1e-6)).astype(np.float16)
    queries = np.vstack([draw.normal(size=(20, 16)), matrix[3:6]]).astype(np.float32)
    here = VectorIndex(embedded.codes, embedded.terms, embedded.first_names, matrix, lambda texts: queries)
    index.build(LARGE[:300] + ENTRIES, "vectors", matrix.astype(np.float32))
    for k in (1, 10):
        found, expected = index.nearest(queries, k), here.search([""] * len(queries), k)
        assert found[-1] == []
        for own, other in zip(found, expected, strict=True):
            assert [one.score for one in own] == pytest.approx([one.score for one in other], abs=2e-5)
            # Names whose cosines differ by less than float32 tells may change places.
            assert len({*pairs(own)} ^ {*pairs(other)}) <= 2
    with pytest.raises(UserError, match="has vectors of 16 values, not of 8"):
        ElasticsearchIndex(elasticsearch.url, "icd10", access=ACCESS).nearest(queries[:, :8], 3)


def test_an_index_without_vectors_is_named(index: ElasticsearchIndex) -> None:
    index.build(ENTRIES, "plain")
    with pytest.raises(UserError, match="has no vectors, not of 4"):
        index.nearest(np.ones((1, 4), np.float32), 3)


def test_every_alias_finds_its_entry_once(index: ElasticsearchIndex) -> None:
    index.build(ENTRIES, "one")
    for entry in ENTRIES:
        for name in (entry.term, *entry.aliases):
            found = pairs(index.search([name], 100)[0])
            assert found[0] == (entry.code, entry.term)
            assert len(found) == len(set(found))


def test_equal_scores_are_ordered_by_term_and_code(index: ElasticsearchIndex) -> None:
    twice = [Entry("B2", "病毒性肝炎"), Entry("B1", "病毒性肝炎"), Entry("A9", "病毒性胃炎"), Entry("A8", "病毒性肠炎")]
    index.build([*twice, *twice], "twice")
    assert pairs(index.search(["病毒性肝炎"], 2)[0]) == [("B1", "病毒性肝炎"), ("B2", "病毒性肝炎")]
    assert pairs(index.search(["病毒"], 10)[0]) == sorted([(e.code, e.term) for e in twice], key=lambda p: (p[1], p[0]))


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=30) | st.text('"*?~^:+-=&|!(){}[]<>/\\ 糖尿病OR AND NOT高血压\n\x00\ud800_*:*', max_size=30))
def test_all_characters_of_a_term_are_literal(index: ElasticsearchIndex, tmp_path: Path, term: str) -> None:
    if not (tmp_path / "fields.json").exists():
        index.build(ENTRIES, "one")
        EmbeddedIndex.build(ENTRIES, tmp_path)
    assert_alike(index.search([term], 100), EmbeddedIndex(tmp_path).search([term], 100))


def test_empty_and_very_long_terms(index: ElasticsearchIndex) -> None:
    index.build(ENTRIES, "one")
    assert index.search([], 5) == []
    endless = "糖尿病" + "".join(chr(0x4E00 + place) for place in range(10_000))
    found = index.search(["", " 　\t", "，。*?", endless, "胃炎"], 5)
    assert found[:3] == [[], [], []]
    assert {candidate.code for candidate in found[3]} >= {"E10", "E11"}
    assert pairs(found[4])[0] == ("K29.7", "胃炎")


def test_names_of_any_length_and_script_are_indexed(index: ElasticsearchIndex, tmp_path: Path) -> None:
    entries = [
        Entry("1", "长" * 40_000),
        Entry("2", "a" * 40_000),
        Entry("3", "𠀀𠀁病"),
        Entry("", "——"),
        Entry("4", "x\ty z"),
    ]
    index.build(entries, "odd")
    embedded = EmbeddedIndex.build(entries, tmp_path)
    terms = ["长长", "a" * 300, "𠀀𠀁", "——", "XYZ", "x y z"]
    assert_alike(index.search(terms, 10), embedded.search(terms, 10))


def test_boosts_can_change_without_a_new_build(
    index: ElasticsearchIndex, elasticsearch: LiveServer, tmp_path: Path
) -> None:
    index.build(ENTRIES, "one")
    fields = SearchFields(exact=0, characters=0.5, bigrams=3)
    reweighted = ElasticsearchIndex(elasticsearch.url, "icd10", fields=fields, access=ACCESS)
    embedded = EmbeddedIndex.build(ENTRIES, tmp_path, fields)
    assert_alike(reweighted.search(["糖尿病足", "胃炎"], 10), embedded.search(["糖尿病足", "胃炎"], 10))
    other = ElasticsearchIndex(elasticsearch.url, "icd10", fields=SearchFields(b=0.875), access=ACCESS)
    with pytest.raises(UserError, match=rf"b {FIELDS.b:g}, which differ from those requested. Build it again"):
        other.search(["胃炎"], 1)


def test_pinyin_finds_mistyped_characters(elasticsearch: LiveServer, client: Elasticsearch) -> None:
    pytest.importorskip("pypinyin")
    index = ElasticsearchIndex(elasticsearch.url, "icd10", fields=SearchFields(pinyin=1), access=ACCESS)
    index.build(ENTRIES, "sounds")
    assert pairs(index.search(["胃岩"], 1)[0]) == [("K29.7", "胃炎")]


@pytest.mark.parametrize("k", [0, -1, 10_001])
def test_invalid_number_of_candidates_is_an_error(index: ElasticsearchIndex, k: int) -> None:
    with pytest.raises(ValueError, match="k must be from 1 to 10000"):
        index.search(["胃炎"], k)


def test_failed_term_is_named(
    index: ElasticsearchIndex, client: Elasticsearch, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.build(ENTRIES, "one")
    plain = IndexSearcher._query

    def broken(self: IndexSearcher, tokens: dict[str, tuple[str, ...]], k: int) -> dict[str, object]:
        query = plain(self, tokens, k)
        return {**query, "sort": ["nothing"]} if "足" in tokens["characters"] else query

    monkeypatch.setattr(IndexSearcher, "_query", broken)
    with pytest.raises(UserError, match=r"the term '糖尿病足': No mapping found for \[nothing\]"):
        index.search(["胃炎", "糖尿病足", "高血压"], 5)


# Building


def test_build_is_published_in_one_step_and_its_predecessor_is_kept(
    index: ElasticsearchIndex, client: Elasticsearch
) -> None:
    with pytest.raises(UserError, match=r"has no terminology icd10\. Build it first"):
        index.search(["胃炎"], 1)
    for fingerprint in ("one", "two", "three"):
        assert index.build([*ENTRIES, Entry("N", f"新病{fingerprint}")], fingerprint) == f"icd10-{fingerprint}"
        assert list(client.indices.get_alias(name="icd10")) == [f"icd10-{fingerprint}"]
        assert index.search([f"新病{fingerprint}"], 1)[0][0].term == f"新病{fingerprint}"
    assert set(client.indices.get(index="icd10-*")) == {"icd10-two", "icd10-three"}
    # Back to the previous index, which exists: nothing is built.
    index.build([*ENTRIES, Entry("N", "新病two")], "two")
    assert index.search(["新病two"], 1)[0][0].term == "新病two"
    assert set(client.indices.get(index="icd10-*")) == {"icd10-two", "icd10-three"}


def test_searches_find_an_index_at_any_time_during_a_swap(index: ElasticsearchIndex, elasticsearch: LiveServer) -> None:
    index.build(ENTRIES, "zero")
    done = threading.Event()
    answers: list[object] = []

    def search() -> None:
        searcher = ElasticsearchIndex(elasticsearch.url, "icd10", access=ACCESS, patience=Patience(0.0))
        while not done.is_set():
            try:
                answers.append(pairs(searcher.search(["胃炎"], 1)[0]))
            except Exception as error:  # any error fails the test below
                answers.append(error)

    thread = threading.Thread(target=search)
    thread.start()
    for fingerprint in ("one", "two", "three"):
        index.build(ENTRIES, fingerprint)
    done.set()
    thread.join()
    assert answers and set(map(str, answers)) == {"[('K29.7', '胃炎')]"}


def test_finished_index_is_reused(index: ElasticsearchIndex, client: Elasticsearch) -> None:
    name = index.build(ENTRIES, "one")
    before = client.indices.stats(index=name)["indices"][name]
    index.build(list(reversed(ENTRIES)), "one")
    after = client.indices.stats(index=name)["indices"][name]
    assert after["uuid"] == before["uuid"]
    assert after["total"]["indexing"]["index_total"] == before["total"]["indexing"]["index_total"] == 10


def test_interrupted_build_is_completed(
    index: ElasticsearchIndex, client: Elasticsearch, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    create = building._create_documents
    left = [1]

    def stopping(client: Elasticsearch, actions: list[dict[str, object]]) -> None:
        if not left:
            raise KeyboardInterrupt
        left.pop()
        create(client, actions)

    monkeypatch.setattr(building, "_create_documents", stopping)
    with pytest.raises(KeyboardInterrupt):
        index.build(LARGE, "half")
    client.indices.refresh(index="icd10-half")
    assert client.count(index="icd10-half")["count"] == 1000
    assert not client.indices.exists_alias(name="icd10")
    monkeypatch.undo()
    index.build(LARGE, "half")
    assert client.count(index="icd10")["count"] == len(LARGE)
    terms = [entry.term for entry in LARGE[::100]]
    assert_alike(index.search(terms, 20), EmbeddedIndex.build(LARGE, tmp_path).search(terms, 20))


def test_abandoned_builds_are_removed_but_never_indices_of_others(
    index: ElasticsearchIndex, client: Elasticsearch
) -> None:
    index.build(ENTRIES, "one")
    ours = client.indices.get_mapping(index="icd10-one")["icd10-one"]["mappings"]["_meta"]
    day = 24 * 3600
    for name, change in {
        "icd10-abandoned": {"finished": False, "begun": time.time() - day - 60},
        "icd10-underway": {"finished": False, "begun": time.time() - day + 600},
        "icd10-beta-one": {"alias": "icd10-beta"},
        "icd10-theirs": {"made_by": "someone"},
    }.items():
        client.indices.create(index=name, mappings={"_meta": {**ours, **change}})
    client.indices.create(index="icd10-plain")
    index.build(ENTRIES, "two")
    assert set(client.indices.get(index="icd10-*")) == {
        "icd10-one", "icd10-two", "icd10-underway", "icd10-beta-one", "icd10-theirs", "icd10-plain",
    }  # fmt: skip


def test_build_errors(index: ElasticsearchIndex, elasticsearch: LiveServer, client: Elasticsearch) -> None:
    with pytest.raises(UserError, match="no terms to index"):
        index.build([], "none")
    with pytest.raises(UserError, match="'icd10-A B' is not a valid index name"):
        index.build(ENTRIES, "A B")
    with pytest.raises(UserError, match="'ICD10' is not a valid index name"):
        ElasticsearchIndex(elasticsearch.url, "ICD10", access=ACCESS)
    index.build(ENTRIES, "one")
    with pytest.raises(UserError, match="icd10-one already exists with different fields or terms"):
        index.build([*ENTRIES[:-1], Entry("K29.5", "慢性胃炎症")], "one")
    client.indices.create(index="taken")
    with pytest.raises(UserError, match=r"taken is an index at .* cannot be used as an alias"):
        ElasticsearchIndex(elasticsearch.url, "taken", access=ACCESS).build(ENTRIES, "one")
    client.indices.create(index="other-one")
    with pytest.raises(UserError, match=r"other-one at .* was not built by this project"):
        ElasticsearchIndex(elasticsearch.url, "other", access=ACCESS).build(ENTRIES, "one")


def test_index_that_others_write_to_is_not_published(index: ElasticsearchIndex, client: Elasticsearch) -> None:
    index.build(ENTRIES, "one")
    unfinished = {**client.indices.get_mapping(index="icd10-one")["icd10-one"]["mappings"]["_meta"], "finished": False}
    client.indices.delete_alias(index="icd10-one", name="icd10")
    client.indices.put_mapping(index="icd10-one", meta=unfinished)
    client.index(index="icd10-one", id="stranger", document={"code": "?"})
    with pytest.raises(UserError, match="icd10-one contains 11 documents instead of 10: something else writes to it"):
        index.build(ENTRIES, "one")
    assert not client.indices.exists_alias(name="icd10")


# Normalisers, each with its own list


@pytest.fixture
def publish(
    elasticsearch: LiveServer, client: Elasticsearch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Path]:
    """Run normalise/index with a list of one term; return the folder of its normaliser."""
    monkeypatch.setenv("YIWEN_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ELASTICSEARCH_URL", elasticsearch.url)

    def run(term: str, **given: object) -> Path:
        file = tmp_path / f"{term}.csv"
        file.write_text(f"编码,名称\nA01,{term}\n", encoding="utf-8")
        return Path(normalise.fn(rank=False, synonyms=False, terms=str(file), **given))

    return run


def found_on_server(folder: Path, alias: str | None = None) -> list[str]:
    (one,) = open_normaliser(folder, elasticsearch=True, alias=alias).normalise(["胃病"])
    return [candidate.term for candidate in one.considered]


def test_normaliser_searches_its_own_list_wherever_the_alias_points(
    publish: Callable[..., Path], client: Elasticsearch
) -> None:
    first, second = publish("胃病甲"), publish("胃病乙")
    assert [found_on_server(folder) for folder in (first, second)] == [["胃病甲"], ["胃病乙"]]
    (behind,) = client.indices.get_alias(name="icd10")
    assert behind == f"icd10-{EmbeddedIndex(second).content}"
    publish("胃病丙")  # removes the first index; no other list is searched instead
    with pytest.raises(UserError, match=rf"has no terminology icd10-{EmbeddedIndex(first).content}\. .*Repeat the run"):
        found_on_server(first)
    assert publish("胃病甲") == first, "only the lost index is built again"
    assert found_on_server(first) == ["胃病甲"]


def test_builds_for_one_alias_do_not_affect_another(publish: Callable[..., Path], client: Elasticsearch) -> None:
    folder = publish("胃病甲", alias="gastro")
    for term in ("胃病乙", "胃病丙", "胃病丁"):
        publish(term)
    assert found_on_server(folder, alias="gastro") == ["胃病甲"]
    with pytest.raises(UserError, match="has no terminology icd10-"):
        found_on_server(folder)


def test_list_is_indexed_again_when_the_formula_changes(publish: Callable[..., Path], client: Elasticsearch) -> None:
    publish("胃病")
    assert found_on_server(publish("胃病", overrides={"index.fields.k1": 2.0})) == ["胃病"]
    assert len(client.indices.get(index="icd10-*")) == 2


# Servers that are killed, and servers that refuse


def after(seconds: float, do: Callable[[], None]) -> threading.Timer:
    timer = threading.Timer(seconds, do)
    timer.start()
    return timer


def test_build_and_search_wait_for_a_killed_server_to_return(
    index: ElasticsearchIndex, elasticsearch: LiveServer, client: Elasticsearch, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = building._create_documents
    answers = IndexSearcher._answers
    batches = {"build": 0, "search": 0}
    restarts = []

    def killed_at(what: str, batch: int) -> None:
        batches[what] += 1
        if batches[what] == batch:
            elasticsearch.kill()
            restarts.append(after(0.5, elasticsearch.start))

    def creating(client: Elasticsearch, actions: list[dict[str, object]]) -> None:
        killed_at("build", 2)
        create(client, actions)

    def answering(self: IndexSearcher, *arguments: object) -> object:
        killed_at("search", 2)
        return answers(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(building, "_create_documents", creating)
    index.build(LARGE, "killed")
    restarts.pop().join()
    assert batches["build"] > 3, "the batch during which the server was killed was not repeated"
    assert client.count(index="icd10")["count"] == len(LARGE)

    monkeypatch.setattr(IndexSearcher, "_answers", answering)
    found = index.search([entry.term for entry in LARGE[:150]], 1)
    restarts.pop().join()
    assert [pairs(own) for own in found] == [[(entry.code, entry.term)] for entry in LARGE[:150]]


def test_server_can_be_started_twice_and_stopped_twice(
    index: ElasticsearchIndex, elasticsearch: LiveServer, tmp_path: Path
) -> None:
    index.build(ENTRIES, "one")
    process, url = elasticsearch.process(), elasticsearch.url
    elasticsearch.start()
    assert (elasticsearch.process(), elasticsearch.url) == (process, url)
    elasticsearch.stop()
    assert not psutil.pid_exists(process) or psutil.Process(process).status() == psutil.STATUS_ZOMBIE
    elasticsearch.stop()
    LiveServer(tmp_path / "never started").stop()
    elasticsearch.start()
    assert elasticsearch.url == url and elasticsearch.process() != process
    assert pairs(index.search(["胃炎"], 1)[0]) == [("K29.7", "胃炎")], "data survive a restart"


def test_missing_java_and_maven_are_named(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("bash", "basename", "dirname", "flock", "mkdir", "sed"):
        (tools / name).symlink_to(str(shutil.which(name)))
    script = [SCRIPTS / "assemble.sh", tmp_path / "server"]
    done = subprocess.run(script, env={"PATH": str(tools)}, capture_output=True, text=True)
    assert done.returncode == UNAVAILABLE
    assert "Missing on this machine: default-jdk-headless maven" in done.stderr


def test_red_index_is_reported_with_the_state_of_the_cluster(elasticsearch: LiveServer, client: Elasticsearch) -> None:
    index = ElasticsearchIndex(elasticsearch.url, "icd10", access=ACCESS, patience=IMPATIENT)
    index.build(ENTRIES, "one")
    nowhere = {"index.routing.allocation.require._name": "nobody"}
    meta = client.indices.get_mapping(index="icd10-one")["icd10-one"]["mappings"]["_meta"]
    client.indices.create(
        index="icd10-red", mappings={"_meta": meta}, settings=nowhere, wait_for_active_shards="0", aliases={"red": {}}
    )
    red = ElasticsearchIndex(elasticsearch.url, "red", access=ACCESS, patience=IMPATIENT)
    with pytest.raises(UserError, match=r"cluster is red, with 1 unassigned primary shards.*allocation/explain"):
        red.search(["胃炎"], 1)
    with pytest.raises(UserError, match=r"the index icd10-red is red\. Its cluster is red"):
        index.build(ENTRIES, "red")
    assert pairs(index.search(["胃炎"], 1)[0]) == [("K29.7", "胃炎")], "the other index can still be searched"


def test_absent_server_and_server_that_does_not_recover(elasticsearch: LiveServer, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"No Elasticsearch server answers at http://127\.0\.0\.1:1 .*start\.sh.*_URL"):
        ElasticsearchIndex("http://127.0.0.1:1", "icd10", access=ACCESS).search(["胃炎"], 1)
    with serving(version="8.19.3") as (url, server):
        index = ElasticsearchIndex(url, "icd10", access=ACCESS, patience=IMPATIENT)
        with pytest.raises(UserError, match="Build it first"):
            index.search(["胃炎"], 1)
        server.shutdown()
        server.server_close()
        with pytest.raises(UserError, match=r"failed: .*did not recover within 1 s"):
            index.search(["胃炎"], 1)


def test_index_with_other_content_is_not_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = EmbeddedIndex.build(ENTRIES, tmp_path)
    meta = {"made_by": "yiwen", "finished": True, "fields": list(FIELDS.boosts()), "k1": FIELDS.k1, "b": FIELDS.b}
    name = f"gastro-{own.content}"
    held = {name: {"mappings": {"_meta": {**meta, "content": "of others"}}}}
    with serving(replies={f"/{name}/_mapping": [held]}) as (url, _):
        monkeypatch.setenv("ELASTICSEARCH_URL", url)
        with pytest.raises(
            UserError, match=rf"{name} at .* contains a different list from this normaliser's.*Repeat the run"
        ):
            open_server_index(own, "gastro").search(["胃炎"], 1)
        with pytest.raises(UserError, match=rf"no terminology icd10-{own.content}\. "):
            open_server_index(own).search(["胃炎"], 1)
        with pytest.raises(UserError, match="'Gastro' is not a valid index name"):
            open_server_index(own, "Gastro")


def test_only_failed_terms_of_a_batch_are_sent_again() -> None:
    hit = {"_score": 2.5, "_source": {"code": "K29.7", "term": "胃炎"}}
    found, busy = {"status": 200, "hits": {"hits": [hit]}}, {"status": 429, "error": {"reason": "queue is full"}}
    meta = {
        "made_by": "yiwen",
        "finished": True,
        "fields": ["exact", "characters", "bigrams"],
        "k1": FIELDS.k1,
        "b": FIELDS.b,
    }
    replies = {
        "/icd10/_mapping": [{"icd10-one": {"mappings": {"_meta": meta}}}] * 2,
        "/icd10/_msearch": [{"responses": [busy, found, busy]}, {"responses": [found, busy]}, {"responses": [found]}],
    }
    with serving(replies=replies) as (url, _):
        index = ElasticsearchIndex(url, "icd10", access=ACCESS)
        assert index.search(["胃炎", "胃病", "胃"], 1) == [[Candidate("K29.7", "胃炎", 2.5)]] * 3
    replies["/icd10/_msearch"] = [{"responses": [busy]}] * 100
    with serving(replies=replies) as (url, _):
        index = ElasticsearchIndex(url, "icd10", access=ACCESS, patience=IMPATIENT)
        with pytest.raises(UserError, match="failed: the term '胃炎': queue is full"):
            index.search(["胃炎"], 1)


@contextmanager
def serving(
    version: str = "8.0.0",
    status: int = 200,
    product: str | None = "Elasticsearch",
    replies: Mapping[str, list[object]] | None = None,
    seen: list[str | None] | None = None,
) -> Iterator[tuple[str, ThreadingHTTPServer]]:
    """Run a fake server that reports a version.

    Args:
        status: HTTP status of the version request.
        replies: answers by path, each used once; all other paths are not found.
        seen: receives the credentials of every request.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if seen is not None:
                seen.append(self.headers.get("Authorization"))
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            asked = self.path.partition("?")[0]
            known = asked.startswith("/_nodes")
            answer: object = {"nodes": {"one": {"version": version}}} if known and status == 200 else {"error": "no"}
            if waiting := (replies or {}).get(asked):
                known, answer = True, waiting.pop(0)
            body = json.dumps(answer).encode()
            self.send_response(status if known else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            if product:
                self.send_header("X-Elastic-Product", product)
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, *arguments: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", server
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"version": "7.17.28"}, "runs Elasticsearch 7.17.28. Versions 8 and 9 are supported"),
        ({"version": "10.0.1"}, "runs Elasticsearch 10.0.1. Versions 8 and 9 are supported"),
        ({"status": 400}, "does not understand this client's requests. Versions 8 and 9 are supported"),
        ({"product": None}, "is not Elasticsearch. Versions 8 and 9"),
        ({"product": "OpenSearch"}, "is not Elasticsearch. Versions 8 and 9"),
        (
            {"status": 401},
            "requires credentials, or rejects the given ones. Set ELASTICSEARCH_API_KEY, or ELASTICSEARCH_USER",
        ),
    ],
)
def test_unusable_server_is_reported(answer: dict[str, object], message: str) -> None:
    access = ElasticsearchSettings(user="doctor", password="5ecret")
    with serving(**answer) as (url, _), pytest.raises(UserError, match=message) as raised:  # type: ignore[arg-type]
        ElasticsearchIndex(url, "icd10", access=access).search(["胃炎"], 1)
    assert "5ecret" not in str(raised.value)


@pytest.mark.parametrize(
    ("access", "sent"),
    [
        (ElasticsearchSettings(api_key="a2V5"), "ApiKey a2V5"),
        (ElasticsearchSettings(user="doctor", password="5ecret"), "Basic ZG9jdG9yOjVlY3JldA=="),
        (ElasticsearchSettings(), None),
    ],
)
def test_credentials_are_sent(access: ElasticsearchSettings, sent: str | None) -> None:
    seen: list[str | None] = []
    with serving(seen=seen) as (url, _), pytest.raises(UserError, match="Build it first"):
        ElasticsearchIndex(url, "icd10", access=access).search(["胃炎"], 1)
    assert seen and set(seen) == {sent}


def test_untrusted_tls_connection_is_reported() -> None:
    with (
        serving() as (url, _),
        pytest.raises(UserError, match=r"TLS connection to https://.* cannot be trusted.*_CA_CERTS"),
    ):
        ElasticsearchIndex(url.replace("http:", "https:"), "icd10", access=ACCESS).search(["胃炎"], 1)


def test_hidden_version_is_accepted() -> None:
    with serving(status=403) as (url, _), pytest.raises(UserError, match="Build it first"):
        ElasticsearchIndex(url, "icd10", access=ACCESS).search(["胃炎"], 1)


@pytest.mark.parametrize("url", ["127.0.0.1:9200", "http://", "ftp://host:21", "http://host:port", "http://[", ""])
def test_invalid_address_is_an_error(url: str) -> None:
    with pytest.raises(UserError, match="is not an address of Elasticsearch"):
        ElasticsearchIndex(url, "icd10", access=ACCESS)


def test_address_with_credentials_is_refused_and_not_shown() -> None:
    with pytest.raises(UserError, match="Remove them and set ELASTICSEARCH_API_KEY") as raised:
        ElasticsearchIndex("https://doctor:5ecret@host:9200", "icd10", access=ACCESS)
    assert "5ecret" not in str(raised.value)


def test_credentials_come_from_the_environment_and_are_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("URL", "API_KEY", "USER", "PASSWORD", "CA_CERTS"):
        monkeypatch.delenv(f"ELASTICSEARCH_{name}", raising=False)
    assert ElasticsearchSettings.from_environment() == ElasticsearchSettings()
    monkeypatch.setenv("ELASTICSEARCH_USER", "doctor")
    with pytest.raises(UserError, match="go together"):
        ElasticsearchSettings.from_environment()
    monkeypatch.setenv("ELASTICSEARCH_PASSWORD", "5ecret")
    held = ElasticsearchSettings.from_environment()
    assert (held.user, held.password) == ("doctor", "5ecret") and "5ecret" not in repr(held)
    monkeypatch.setenv("ELASTICSEARCH_API_KEY", "a2V5")
    with pytest.raises(UserError, match="Both ELASTICSEARCH_API_KEY and ELASTICSEARCH_USER are set"):
        ElasticsearchSettings.from_environment()
    monkeypatch.delenv("ELASTICSEARCH_USER")
    monkeypatch.delenv("ELASTICSEARCH_PASSWORD")
    monkeypatch.setenv("ELASTICSEARCH_CA_CERTS", "/no/such/file")
    with pytest.raises(UserError, match="ELASTICSEARCH_CA_CERTS='/no/such/file' is not a file"):
        ElasticsearchSettings.from_environment()
