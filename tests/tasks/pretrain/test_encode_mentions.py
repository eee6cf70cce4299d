"""Mentions in examples: spans of tokens that cover the characters of the name, and none without entities."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.artifacts import Artifact, ArtifactStore
from infra.errors import UserError
from kg.linking.linker import EntityLinker
from models.tokenizer.corpus import CorpusTokenizer
from models.tokenizer.wordpiece import build_tokenizer
from tasks.pretrain.encode import EncodeParams, encode, token_spans
from tasks.pretrain.linked import linked_entities
from tasks.pretrain.pairs import PairsParams, pairs
from tasks.segment.stage import SegmentParams, segment
from tasks.vocabulary.stages import CountWordsParams, VocabularyParams, build_vocabulary, count_words, vocabulary
from tests.support.graphs.linked import entities_artifact
from tests.support.text.stages import do
from tests.support.text.synthetic_text import DISEASES, DRUGS, SYMPTOMS, synthetic_documents
from tests.support.text.tables import documents_artifact

TEXTS = [document["text"] for document in synthetic_documents()]
TOKENIZER = CorpusTokenizer(build_tokenizer(build_vocabulary(TEXTS, 1000, 2)).to_str())
CHARACTERS = "糖尿病患者mriMRIct12 Ⅱ㎎℃ﬁ，。\n\u200bé\u0301각ᄀ\u1161\u11a8😀龘"

NAMES = [*DISEASES, *SYMPTOMS, *DRUGS, "MRI", "白细胞"]
ENTITIES = [{"entity_id": f"E:{name}", "name": name} for name in NAMES]


@settings(max_examples=300, deadline=None)
@given(texts=st.lists(st.text(CHARACTERS, max_size=20), min_size=1, max_size=4), data=st.data())
def test_spans_cover_exactly_their_characters(texts: list[str], data: st.DataObject) -> None:
    encoded = TOKENIZER.encode(texts)
    stretches = [
        (number, start, end)
        for number, text in enumerate(texts)
        for start in range(len(text))
        for end in range(start + 1, len(text) + 1)
    ]
    drawn = data.draw(st.lists(st.sampled_from(stretches), max_size=20)) if stretches else []
    places = np.array(drawn, dtype=np.int64).reshape(-1, 3).T
    for (number, start, end), (first, last) in zip(drawn, token_spans(encoded, *places).tolist(), strict=True):
        of_text = slice(encoded.borders[number], encoded.borders[number + 1])
        starts, ends = encoded.starts[of_text].tolist(), encoded.ends[of_text].tolist()
        if start in starts and end in ends:
            assert (first, last) == (starts.index(start), len(ends) - ends[::-1].index(end))
            assert (min(starts[first:last]), max(ends[first:last])) == (start, end)
        else:
            assert (first, last) == (-1, -1)


@settings(max_examples=300, deadline=None)
@given(
    names=st.lists(st.text(CHARACTERS, min_size=2, max_size=5), max_size=20),
    text=st.text(CHARACTERS.replace("\u1161", "").replace("\u11a8", "").replace("\u0301", ""), max_size=40),
)
def test_no_name_ends_inside_a_token_of_settled_characters(names: list[str], text: str) -> None:
    found = EntityLinker({name: name for name in names}).link_many([text])
    spans = token_spans(TOKENIZER.encode([text]), found.texts, found.starts, found.ends)
    visible = [text[start:end] for start, end in zip(found.starts, found.ends, strict=True)]
    assert [surface for surface, (first, _) in zip(visible, spans.tolist(), strict=True) if first < 0] == []


def prepared(store: ArtifactStore, *texts: str) -> dict[str, Artifact]:
    documents = documents_artifact(store, [*TEXTS, *texts])
    words = do(store, count_words, CountWordsParams(), documents=documents)
    return {
        "segments": do(store, segment, SegmentParams(max_tokens=60, min_tokens=8), documents=documents),
        "vocabulary": do(store, vocabulary, VocabularyParams(size=1000, min_frequency=2), words=words),
    }


def rows_of(artifact: Artifact) -> list[dict[str, Any]]:
    return [row for table in ("examples", "held_out") for row in artifact.to_table(table).to_pylist()]


PARAMS = EncodeParams(max_length=64, held_out_share=0.3)


def test_tokens_of_a_mention_spell_its_name(store: ArtifactStore) -> None:
    inputs = prepared(store)
    artifact = do(store, encode, PARAMS, **inputs, entities=entities_artifact(store, ENTITIES))
    tokens = inputs["vocabulary"].to_table()["token"].to_pylist()
    count = 0
    for row in rows_of(artifact):
        places = [place for mention in row["mentions"] for place in (mention["start"], mention["end"])]
        assert places == sorted(places), "from left to right, none over another"
        for mention in row["mentions"]:
            ids = row["input_ids"][mention["start"] : mention["end"]]
            spelt = "".join(tokens[number].removeprefix("##") for number in ids)
            assert spelt.lower() == NAMES[mention["entity"]].lower()
            assert mention["surface"] == 0
            count += 1
    linker = EntityLinker({name: name for name in NAMES})
    segments = inputs["segments"].to_table()["text"].to_pylist()
    assert count == artifact.manifest.counters["mentions"] == sum(len(linker.link(text)) for text in segments)
    assert count > len(segments)
    assert "mentions_inside_tokens" not in artifact.manifest.counters


def test_without_entities_nothing_changes(store: ArtifactStore) -> None:
    inputs = prepared(store)
    without = do(store, encode, PARAMS, **inputs)
    linked = do(store, encode, PARAMS, **inputs, entities=entities_artifact(store, ENTITIES))
    assert "type_priors" not in without.manifest.params
    assert not any("mention" in counter for counter in without.manifest.counters)
    assert [row["mentions"] for row in rows_of(without)] == [[]] * len(rows_of(without))
    assert [{**row, "mentions": []} for row in rows_of(linked)] == rows_of(without)


def test_a_mention_on_the_last_kept_token_is_kept(store: ArtifactStore) -> None:
    """A segment has the tokens [CLS], 30 that are kept at most, and [SEP]."""
    inputs = prepared(store, *("，" * before + "糖尿病。，，，，，，，，，" for before in (26, 27, 28)))
    params = EncodeParams(max_length=32, held_out_share=0.3)
    artifact = do(store, encode, params, **inputs, entities=entities_artifact(store, [ENTITIES[NAMES.index("糖尿病")]]))
    ends = [mention["end"] for row in rows_of(artifact) for mention in row["mentions"]]
    assert max(ends) == 31


def test_truncated_and_split_mentions_are_counted(store: ArtifactStore) -> None:
    # Typed as single sounds, the syllable 각 is one token; the name ends before its last sound.
    inputs = prepared(store, "患者可能患有환ᄀ\u1161\u11a8，需要进一步检查。")
    entities = entities_artifact(store, [*ENTITIES, {"entity_id": "cut", "name": "환가"}])
    whole = do(store, encode, PARAMS, **inputs, entities=entities).manifest.counters
    short = do(store, encode, EncodeParams(max_length=20, held_out_share=0.3), **inputs, entities=entities)
    counters = short.manifest.counters
    assert whole["mentions_inside_tokens"] == counters["mentions_inside_tokens"] == 1
    assert "truncated_mentions" not in whole
    assert counters["truncated_mentions"] > 0
    assert counters["mentions"] + counters["truncated_mentions"] == whole["mentions"]
    for row in rows_of(short):
        assert all(0 < mention["start"] < mention["end"] < len(row["input_ids"]) for mention in row["mentions"])


@pytest.mark.parametrize(("priors", "entity"), [({}, "a"), ({"symptom": 2.0}, "b")])
def test_priors_decide_as_in_linking(store: ArtifactStore, priors: dict[str, float], entity: str) -> None:
    rows = [
        {"entity_id": "a", "name": "贫血", "type": "disease"},
        {"entity_id": "b", "name": "贫血", "type": "symptom"},
    ]
    params = EncodeParams(max_length=64, held_out_share=0.3, type_priors=priors)
    artifact = do(store, encode, params, **prepared(store), entities=entities_artifact(store, rows))
    found = {rows[mention["entity"]]["entity_id"] for row in rows_of(artifact) for mention in row["mentions"]}
    assert found == {entity}


def spellings(artifact: Artifact, vocabulary: Artifact) -> list[tuple[str, int, int]]:
    """The tokens of every mention, joined, with its row and surface."""
    tokens = vocabulary.to_table()["token"].to_pylist()
    return [
        (
            "".join(
                tokens[number].removeprefix("##") for number in row["input_ids"][mention["start"] : mention["end"]]
            ),
            mention["entity"],
            mention["surface"],
        )
        for row in rows_of(artifact)
        for mention in row["mentions"]
    ]


def test_mention_of_a_graph_has_the_row_and_the_number_of_its_name(store: ArtifactStore) -> None:
    """Rows are in another order than ids; a name that only differs in width counts as the first with its form."""
    first, second, third = DISEASES[:3]
    rows = [
        {"entity_id": "z", "name": "没有提到", "aliases": [first, second]},
        {"entity_id": "a", "name": "ＭＲＩ", "aliases": ["MRI", third, "mri"]},
    ]
    inputs = prepared(store, f"患者因{third}行MRI检查，未见{first}。" * 3)
    artifact = do(store, encode, PARAMS, **inputs, entities=entities_artifact(store, rows))
    found = set(spellings(artifact, inputs["vocabulary"]))
    assert found == {(first, 0, 1), (second, 0, 2), (third, 1, 2), ("mri", 1, 0)}


def test_mention_of_a_vocabulary_has_the_row_of_its_surface(store: ArtifactStore) -> None:
    """The table `entities` has a row for each surface and homonym, so that the row alone says which name it is."""
    first, second = DISEASES[:2]
    rows = [
        {"entity_id": "rare", "surface": first, "frequency": 1},
        {"entity_id": "same", "surface": second, "frequency": 5},
        {"entity_id": "same", "surface": first, "frequency": 5},
    ]
    inputs = prepared(store)
    artifact = do(store, encode, PARAMS, **inputs, entities=entities_artifact(store, rows, "entities"))
    assert set(spellings(artifact, inputs["vocabulary"])) == {(first, 2, 0), (second, 1, 0)}


def test_entity_with_too_many_aliases_is_named(store: ArtifactStore) -> None:
    many = [f"第{number}号名称" for number in range(2**16)]
    rows = [{"entity_id": "few", "name": "贫血"}, {"entity_id": "many", "name": "发热", "aliases": many}]
    with pytest.raises(UserError, match="'many' in table kg_entities has more than 65,535 aliases"):
        do(store, encode, PARAMS, **prepared(store), entities=entities_artifact(store, rows))


def test_linked_artifact_is_found_in_the_manifest(store: ArtifactStore) -> None:
    inputs = prepared(store)
    entities = entities_artifact(store, ENTITIES)
    linked = linked_entities(do(store, encode, PARAMS, **inputs, entities=entities))
    assert linked is not None and (linked.stage, linked.fingerprint) == (entities.stage, entities.fingerprint)
    assert linked_entities(do(store, encode, PARAMS, **inputs)) is None


def test_only_mentions_of_the_types_that_are_asked_for_are_recorded(store: ArtifactStore) -> None:
    rows = [{"entity_id": name, "name": name, "type": "Disease"} for name in DISEASES]
    rows += [{"entity_id": name, "name": name, "type": "Drug"} for name in DRUGS]
    inputs = {**prepared(store), "entities": entities_artifact(store, rows)}
    params = {"max_length": 64, "held_out_share": 0.3}
    whole, drugs = (
        do(store, encode, EncodeParams(**params, mention_types=types), **inputs) for types in ((), ("Drug",))
    )
    of_drugs = [[m for m in row["mentions"] if rows[m["entity"]]["type"] == "Drug"] for row in rows_of(whole)]
    assert [row["mentions"] for row in rows_of(drugs)] == of_drugs
    assert 0 < drugs.manifest.counters["mentions"] < whole.manifest.counters["mentions"]
    assert "mention_types" not in whole.manifest.params
    with pytest.raises(UserError, match=r"encode.mention_types names Drugs, but .* have the types Disease, Drug"):
        do(store, encode, EncodeParams(**params, mention_types=("Drugs",)), **inputs)


def test_types_that_no_entity_has_are_named(store: ArtifactStore, caplog: pytest.LogCaptureFixture) -> None:
    rows = [{"entity_id": name, "name": name, "type": "Drug"} for name in DRUGS]
    params = EncodeParams(max_length=64, held_out_share=0.3, mention_types=("Drug", "Formula"))
    artifact = do(store, encode, params, **prepared(store), entities=entities_artifact(store, rows))
    assert artifact.manifest.counters["mentions"] > 0
    assert "encode.mention_types names Formula" in caplog.text


def test_linked_artifact_of_pairs_is_that_of_their_examples(store: ArtifactStore) -> None:
    inputs = prepared(store)
    entities = entities_artifact(store, ENTITIES)
    examples = do(store, encode, PARAMS, **inputs, entities=entities)
    paired = do(store, pairs, PairsParams(), examples=examples, vocabulary=inputs["vocabulary"])
    linked = linked_entities(paired)
    assert linked is not None and (linked.stage, linked.fingerprint) == (entities.stage, entities.fingerprint)
    mentions = [mention for row in paired.to_table("pairs").to_pylist() for mention in row["mentions"]]
    assert mentions and all(mention["entity"] < len(ENTITIES) and mention["surface"] == 0 for mention in mentions)


def test_an_example_has_room_for_a_token() -> None:
    """[CLS], one token and [SEP]."""
    assert EncodeParams(max_length=3).max_length == 3
    with pytest.raises(ValueError, match="max_length"):
        EncodeParams(max_length=2)
