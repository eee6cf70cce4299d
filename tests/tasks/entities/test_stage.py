"""The stage entities: the table, the two files beside it, and the same result for any parts and any order."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from infra.artifacts import Artifact, ArtifactStore
from infra.errors import UserError
from infra.stage import run
from kg.entities.cut_points import read_cut_points
from tasks.entities.stage import DICTIONARY, REVIEW, EntitiesParams, entities
from tasks.files.raw_input import RawInput
from tests.support.graphs.entity_corpus import GRAPH_ROWS, TEXTS, segments_of
from tests.support.text.stages import do
from tests.support.training.given_tables import given_graph, given_phrases

PHRASE_ROWS = (
    (("糖尿病",), 0.9, "kg"),
    (("血", "常规"), 0.7, "none"),
    (("复查", "血", "常规"), 0.55, "none"),
    (("发热",), 0.6, "none"),
    (("患者", "常"), 0.2, "none"),
    (("120", "/", "80"), 0.9, "none"),
)


def made(store: ArtifactStore, params: EntitiesParams | None = None, **inputs: Any) -> Artifact:
    return do(store, entities, params or EntitiesParams(), **inputs)


def rows_of(artifact: Artifact) -> list[dict[str, Any]]:
    return artifact.to_table("entities").to_pylist()


@pytest.fixture
def whole(store: ArtifactStore) -> Artifact:
    return made(
        store,
        phrases=given_phrases(*PHRASE_ROWS),
        kg_entities=given_graph(*GRAPH_ROWS),
        segments=segments_of(store, TEXTS),
    )


def test_table_has_names_and_phrases_with_their_structure(whole: Artifact) -> None:
    rows = {row["surface"]: row for row in rows_of(whole)}
    told = ("entity_id", "type", "origin", "quality")
    assert {surface: tuple(row[column] for column in told) for surface, row in rows.items()} == {
        "糖尿病": ("D1", "disease", "both", 0.9),
        "消渴病": ("D1", "disease", "kg", None),
        "甲状腺功能亢进症": ("D2", "disease", "kg", None),
        "甲亢": ("D2", "disease", "kg", None),
        "急性出血性坏死性胰腺炎": ("D3", "disease", "kg", None),
        "奥美拉唑": ("M1", "drug", "kg", None),
        "发热": ("S1", "symptom", "kg", None),
        "恶性肿瘤": ("S2", "", "kg", None),
        "血常规": ("phrase:血常规", "", "phrase", 0.7),
        "复查血常规": ("phrase:复查血常规", "", "phrase", 0.55),
    }  # fmt: skip
    text = "".join(TEXTS)
    for surface, row in rows.items():
        assert row["frequency"] == text.count(surface)
        assert "".join(row["pieces"]) == surface == row["adjective"] + row["atomic"]
        assert row["is_long"] == (len(row["pieces"]) > 1)
    assert rows["急性出血性坏死性胰腺炎"]["pieces"] == ["急性", "出血性", "坏死性", "胰腺炎"]
    assert (rows["急性出血性坏死性胰腺炎"]["adjective"], rows["急性出血性坏死性胰腺炎"]["atomic"]) == (
        "急性出血性坏死性",
        "胰腺炎",
    )
    assert rows["复查血常规"]["pieces"] == ["复查", "血常规"]
    assert rows["糖尿病"]["frequency"] > 0


def test_drops_are_recorded_and_counted(whole: Artifact) -> None:
    rejects = whole.to_table("rejects").to_pylist()
    assert {(row["excerpt"], row["source"], row["reason"]) for row in rejects} == {
        ("120/80", "phrase", "digits"),
        ("A", "kg", "single_letter"),
        ("患者常", "phrase", "low_quality"),
    }
    counters = whole.manifest.counters
    assert counters["rejected_digits"] == counters["rejected_single_letter"] == counters["rejected_low_quality"] == 1
    assert (counters["origin_kg"], counters["origin_phrase"], counters["origin_both"]) == (7, 2, 1)
    assert (counters["surfaces"], counters["long_candidates"]) == (10, 5)
    assert counters["long"] == sum(row["is_long"] for row in rows_of(whole))


def test_dictionary_has_the_short_entities(whole: Artifact) -> None:
    lines = whole.read_file(DICTIONARY).decode().splitlines()
    assert lines == sorted(row["surface"] for row in rows_of(whole) if not row["is_long"])
    assert {"糖尿病", "发热", "奥美拉唑"} <= set(lines)


def test_review_file_has_the_answers_used_and_can_be_passed_back(
    whole: Artifact, store: ArtifactStore, tmp_path: Path
) -> None:
    data = whole.read_file(REVIEW)
    answers = {(row.character, row.side): row.keep for row in read_cut_points(data, REVIEW)}
    assert answers["性", "end"] and not answers["能", "end"]
    file = tmp_path / REVIEW
    file.write_bytes(b"".join(line for line in data.splitlines(keepends=True) if "性".encode() not in line))
    graph = given_graph(("D1", "卵巢恶性肿瘤", (), "disease"))
    assert rows_of(made(store, kg_entities=graph))[0]["pieces"] == ["卵巢", "恶性", "肿瘤"]
    changed = made(store, kg_entities=graph, cut_points=RawInput(file))
    assert rows_of(changed)[0]["pieces"] == ["卵巢", "恶性肿瘤"]
    kept = {(row.character, row.side) for row in read_cut_points(changed.read_file(REVIEW), REVIEW) if row.keep}
    assert ("性", "end") not in kept and ("型", "end") in kept


def test_cut_points_are_counted_in_the_segments_of_the_phrases_or_in_words(store: ArtifactStore) -> None:
    model = given_phrases((("糖尿病", "肾病"), 0.9, "kg"))
    graph = given_graph(("D1", "糖尿病肾病综合征", (), "disease"))

    def counted(**params: Any) -> dict[tuple[str, str], tuple[int, tuple[str, ...]]]:
        found = made(store, EntitiesParams(**params), kg_entities=graph, phrases=model)
        rows = read_cut_points(found.read_file(REVIEW), REVIEW)
        return {(row.character, row.side): (row.count, row.examples) for row in rows if row.count}

    segments = counted()
    assert segments == dict.fromkeys([("病", "end"), ("综", "start")], (1, ("糖尿病肾病|综合征",)))
    words = counted(cut_points_from="words")
    examples = ("糖尿病|肾病", "糖尿病|肾病|综合征")
    assert words == {("病", "end"): (3, examples), ("肾", "start"): (2, examples), ("综", "start"): (1, examples[1:])}


def test_segments_of_the_phrases_may_replace_a_wrong_cut(store: ArtifactStore) -> None:
    long, later = ("铌", "钽", "慢性", "胰腺炎"), ("胰腺炎", "锇", "铱")
    given = {
        "phrases": given_phrases((long, 0.9, "kg"), (later, 0.9, "none")),
        "kg_entities": given_graph(("D1", "铌钽慢性胰腺炎锇铱", (), "disease"), ("D2", "急性胰腺炎", (), "disease")),
    }

    def pieces(**params: Any) -> dict[str, list[str]]:
        return {row["surface"]: row["pieces"] for row in rows_of(made(store, EntitiesParams(**params), **given))}

    by_phrases, by_segments = pieces(), pieces(correction="segments")
    assert by_phrases["铌钽慢性胰腺炎锇铱"] == ["铌钽", "慢性", "胰腺炎锇铱"]
    assert by_segments["铌钽慢性胰腺炎锇铱"] == ["铌钽慢性胰腺炎", "锇铱"], "as the model, whose left-overs are one"
    assert by_phrases["急性胰腺炎"] == by_segments["急性胰腺炎"] == ["急性", "胰腺炎"]


def test_parts_and_order_do_not_matter(whole: Artifact, tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "another")
    drawn = random.Random(7)
    texts = drawn.sample(TEXTS, len(TEXTS))
    other = made(
        store,
        phrases=given_phrases(*drawn.sample(PHRASE_ROWS, len(PHRASE_ROWS))),
        kg_entities=given_graph(*drawn.sample(GRAPH_ROWS, len(GRAPH_ROWS))),
        segments=segments_of(store, texts[:3], texts[3:50], texts[50:]),
    )
    assert rows_of(other) == rows_of(whole)
    assert other.read_file(DICTIONARY) == whole.read_file(DICTIONARY)
    assert other.read_file(REVIEW) == whole.read_file(REVIEW)
    assert other.to_table("rejects") == whole.to_table("rejects")


def test_new_parts_are_counted_and_old_ones_reused(store: ArtifactStore) -> None:
    graph = given_graph(*GRAPH_ROWS)
    made(store, kg_entities=graph, segments=segments_of(store, TEXTS[:50]))
    made(store, kg_entities=graph, segments=segments_of(store, TEXTS[:50], TEXTS[50:]))
    counted = store.latest("entity_counts")
    assert counted is not None
    assert counted.manifest.taken_over_parts == 1
    assert len(counted.parts("entity_counts")) == 2


def test_graph_alone_or_phrases_alone_suffice(store: ArtifactStore) -> None:
    alone = rows_of(made(store, kg_entities=given_graph(*GRAPH_ROWS)))
    assert len(alone) == 8 and {row["frequency"] for row in alone} == {0} and {row["origin"] for row in alone} == {"kg"}
    alone = rows_of(made(store, phrases=given_phrases(*PHRASE_ROWS)))
    assert [row["surface"] for row in alone] == ["复查血常规", "糖尿病", "血常规"]


def test_thresholds_are_those_of_the_parameters(store: ArtifactStore) -> None:
    params = EntitiesParams(min_quality=0.6, min_quality_word=0.5, max_length=2)
    found = made(store, params, phrases=given_phrases(*PHRASE_ROWS))
    assert [row["surface"] for row in rows_of(found)] == ["发热"]
    assert found.manifest.counters["rejected_too_long"] == 2


def test_empty_vocabulary_error_names_the_remedy(store: ArtifactStore) -> None:
    with pytest.raises(UserError, match="vocabulary is empty: all 2 phrases and names were dropped"):
        made(store, phrases=given_phrases((("患者", "常"), 0.2, "none")), kg_entities=given_graph(("1", "A", (), "")))
    with pytest.raises(UserError, match="vocabulary is empty"):
        made(store)


def test_error_for_a_bad_review_file_names_it(store: ArtifactStore, tmp_path: Path) -> None:
    graph = given_graph(*GRAPH_ROWS)
    folder = tmp_path / "reviews"
    folder.mkdir()
    (folder / "a.csv").write_text("character,side,keep\n性,end,perhaps\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"^a\.csv, line 2: the column keep contains 'perhaps'"):
        made(store, kg_entities=graph, cut_points=RawInput(folder))
    (folder / "b.csv").write_text("", encoding="utf-8")
    with pytest.raises(UserError, match=r"one review file of cut points, not 2: a\.csv, b\.csv"):
        made(store, kg_entities=graph, cut_points=RawInput(folder))


def test_existing_vocabulary_is_reused(store: ArtifactStore) -> None:
    inputs = {"kg_entities": given_graph(*GRAPH_ROWS)}
    assert not run(entities, store, EntitiesParams(), inputs).reused
    assert run(entities, store, EntitiesParams(), inputs).reused
