"""Linking a corpus: mentions at their places, counts that do not depend on the parts."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import tasks.knowledge.link
from infra.artifacts import Artifact, ArtifactStore
from infra.cluster.session import RayExecutor, start_ray, stop_ray
from infra.errors import UserError
from infra.stage import run
from kg.linking.linker import EntityLinker
from tasks.knowledge.link import (
    EntityFrequenciesParams,
    LinkParams,
    UnambiguousCountsParams,
    entity_frequencies,
    link,
    unambiguous_counts,
)
from tasks.segment.stage import SegmentParams, segment
from tests.support.graphs.linked import entities_artifact
from tests.support.text.stages import do
from tests.support.text.synthetic_text import DISEASES, DRUGS, SYMPTOMS, synthetic_documents
from tests.support.text.tables import documents_artifact

TEXTS = [document["text"] for document in synthetic_documents()]

ENTITIES = [
    *({"entity_id": f"disease:{name}", "name": name, "type": "disease"} for name in DISEASES),
    *({"entity_id": f"symptom:{name}", "name": name, "type": "symptom"} for name in (*SYMPTOMS, "贫血")),
    *({"entity_id": f"drug:{name}", "name": f"{name}片", "aliases": [name, "药"], "type": "drug"} for name in DRUGS),
    {"entity_id": "test:MRI", "name": "磁共振", "aliases": ["ｍｒｉ", "MRI检查"], "type": "test"},
]


def expected(texts: list[str]) -> tuple[Counter[str], Counter[str]]:
    """Return the mentions and documents of each entity, found one text after the other."""
    names = {name: row["entity_id"] for row in ENTITIES for name in (row["name"], *row.get("aliases", ()))}
    linker = EntityLinker({**names, "贫血": "disease:贫血"})
    counts: Counter[str] = Counter()
    documents: Counter[str] = Counter()
    for text in texts:
        found = [entity for _, _, entity in linker.link(text)]
        counts.update(found)
        documents.update(set(found))
    return counts, documents


def frequencies(artifact: Artifact) -> list[dict[str, Any]]:
    return artifact.to_table("entity_frequencies").to_pylist()


def test_mentions_of_segments_are_where_they_say(store: ArtifactStore) -> None:
    documents = documents_artifact(store, TEXTS[::2], TEXTS[1::2])
    segments = do(store, segment, SegmentParams(max_tokens=60, min_tokens=8), documents=documents)
    links = do(store, link, LinkParams(), segments=segments, entities=entities_artifact(store, ENTITIES))
    names = {
        row["entity_id"]: {name.lower().replace("ｍｒｉ", "mri") for name in (row["name"], *row.get("aliases", ()))}
        for row in ENTITIES
    }
    texts = {row["segment_id"]: row["text"] for row in segments.to_table().to_pylist()}
    rows = links.to_table("mentions").to_pylist()
    for row in rows:
        assert texts[row["segment_id"]][row["start"] : row["end"]].lower() in names[row["entity_id"]]
    counters = links.manifest.counters
    assert counters["mentions"] == len(rows) > len(TEXTS)
    assert counters["segments"] == len(texts)
    assert counters["characters"] == sum(map(len, texts.values()))
    assert counters["linked_characters"] == sum(row["end"] - row["start"] for row in rows)
    assert counters["names_left_out"] == 1, "the alias of one character"
    assert counters["ambiguous_surfaces"] == 1
    assert len(links.manifest.tables["mentions"].parts) == 2


def test_frequencies_do_not_depend_on_the_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [*TEXTS, "没有提到任何疾病。", ""]
    found = []
    for parts, characters in ((1, 1 << 20), (4, 100)):
        monkeypatch.setattr(tasks.knowledge.link, "CHARACTERS_AT_ONCE", characters)
        store = ArtifactStore(tmp_path / str(parts))
        documents = documents_artifact(store, *(texts[number::parts] for number in range(parts)))
        links = do(store, link, LinkParams(), documents=documents, entities=entities_artifact(store, ENTITIES))
        found.append(frequencies(do(store, entity_frequencies, EntityFrequenciesParams(), links=links)))
    assert found[0] == found[1]
    counts, documents_with = expected(texts)
    assert found[0] == [
        {"entity_id": entity, "count": counts[entity], "documents": documents_with[entity]} for entity in sorted(counts)
    ]


@pytest.mark.ray
def test_workers_change_no_byte(tmp_path: Path) -> None:
    made = []
    try:
        for workers in (1, 2):
            store = ArtifactStore(tmp_path / str(workers))
            executor = RayExecutor(workers=workers)
            if workers > 1:
                start_ray(workers, None)
            documents = documents_artifact(store, *(TEXTS[number::5] for number in range(5)))
            given = {"documents": documents, "entities": entities_artifact(store, ENTITIES)}
            links = run(link, store, LinkParams(), given, executor=executor).artifact
            assert executor.in_process == (workers == 1), "two workers are Ray's"
            frequent = do(store, entity_frequencies, EntityFrequenciesParams(), links=links)
            counts = run(unambiguous_counts, store, UnambiguousCountsParams(), given, executor=executor).artifact
            made.append((links, frequent, counts))
    finally:
        stop_ray()
    for one, two in zip(*made, strict=True):
        assert one.fingerprint == two.fingerprint
        assert one.manifest.counters == two.manifest.counters
        assert one.manifest.tables == two.manifest.tables, "rows, bytes and hashes of every part"
    links, counted, _ = made[1]
    assert len(links.manifest.tables["mentions"].parts) == 5
    counts, documents_with = expected(TEXTS)
    assert frequencies(counted) == [
        {"entity_id": entity, "count": counts[entity], "documents": documents_with[entity]} for entity in sorted(counts)
    ]


@pytest.mark.parametrize(
    ("table", "column"), [("kg_entities", "name"), ("entities", "surface")], ids=["kg_entities", "entities"]
)
def test_priors_and_frequencies_decide_between_entities(store: ArtifactStore, table: str, column: str) -> None:
    rows = [
        {"entity_id": "a", column: "贫血", "type": "disease"},
        {"entity_id": "b", column: "贫血", "type": "symptom"},
        {"entity_id": "b", column: "血虚", "type": "symptom"},
    ]
    if table == "kg_entities":
        rows = [rows[0], {**rows[1], "aliases": ["血虚"]}]  # type: ignore[dict-item]
    entities = entities_artifact(store, rows, table)
    documents = documents_artifact(store, ["血虚，血虚。", "贫血。"])

    def chosen(entities: Artifact, params: LinkParams, **others: Artifact) -> Counter[str]:
        links = do(store, link, params, documents=documents, entities=entities, **others)
        return Counter(links.to_table("mentions")["entity_id"].to_pylist())

    assert chosen(entities, LinkParams()) == {"a": 1, "b": 2}
    assert chosen(entities, LinkParams(type_priors={"symptom": 1.5})) == {"b": 3}
    links = do(store, link, LinkParams(), documents=documents, entities=entities)
    counted = do(store, entity_frequencies, EntityFrequenciesParams(), links=links)
    assert chosen(entities, LinkParams(), entity_frequencies=counted) == {"b": 3}
    if table == "entities":
        frequent = entities_artifact(store, [{**row, "frequency": place} for place, row in enumerate(rows)], table)
        assert chosen(frequent, LinkParams()) == {"b": 3}


def test_only_names_of_their_own_are_counted_before_linking(store: ArtifactStore) -> None:
    rows = [
        {"entity_id": "a", "name": "贫血", "aliases": ["血红蛋白减少"]},
        {"entity_id": "b", "name": "贫血", "aliases": ["血虚"]},
        {"entity_id": "c", "name": "血虚贫血", "aliases": ["缺铁性贫血"]},
        {"entity_id": "d", "name": "血虚贫血"},
    ]
    entities = entities_artifact(store, rows)
    # Neither the 血虚 nor the 贫血 of a longer name, shared or not, is a name of its own.
    documents = documents_artifact(
        store, ["血虚，血虚；缺铁性贫血。", "血虚贫血，血红蛋白减少。"], ["贫血，血虚。", "血虚贫血。"]
    )
    counted = do(store, unambiguous_counts, UnambiguousCountsParams(), documents=documents, entities=entities)
    assert counted.manifest.counters["ambiguous_surfaces"] == 2
    assert counted.manifest.counters["ambiguous_mentions"] == 3
    frequent = do(store, entity_frequencies, EntityFrequenciesParams(), links=counted)
    assert [tuple(row.values()) for row in frequencies(frequent)] == [("a", 1, 1), ("b", 3, 2), ("c", 1, 1)]
    links = do(store, link, LinkParams(), documents=documents, entities=entities, entity_frequencies=frequent)
    assert Counter(links.to_table("mentions")["entity_id"].to_pylist()) == {"a": 1, "b": 4, "c": 3}


def test_nothing_is_counted_where_no_name_is_shared(store: ArtifactStore) -> None:
    entities = entities_artifact(store, [{"entity_id": "a", "name": "贫血"}])
    given = {"documents": documents_artifact(store, ["贫血。"]), "entities": entities}
    counted = do(store, unambiguous_counts, UnambiguousCountsParams(), **given)
    assert not counted.manifest.counters.get("ambiguous_surfaces")
    assert counted.rows("mention_counts") == 0


def test_a_corpus_without_mentions_has_no_frequencies(store: ArtifactStore) -> None:
    entities = entities_artifact(store, ENTITIES)
    links = do(store, link, LinkParams(), documents=documents_artifact(store, ["今天天气好。"]), entities=entities)
    assert links.rows("mentions") == 0
    assert frequencies(do(store, entity_frequencies, EntityFrequenciesParams(), links=links)) == []


def test_entities_without_a_name_to_link_are_an_error(store: ArtifactStore) -> None:
    documents = documents_artifact(store, TEXTS[:2])
    entities = entities_artifact(store, [{"entity_id": "a", "name": "热", "aliases": ["12", ""]}])
    with pytest.raises(UserError, match="none of the 3 names"):
        do(store, link, LinkParams(), documents=documents, entities=entities)
    with pytest.raises(UserError, match="has no entities to link"):
        do(store, link, LinkParams(), documents=documents, entities=documents)


@pytest.mark.parametrize("prior", [0, -1, float("nan"), float("inf")])
def test_a_prior_is_a_positive_number(prior: float) -> None:
    with pytest.raises(ValueError, match="type_priors"):
        LinkParams(type_priors={"disease": prior})
