"""names.parquet: a model's folder finds the mentions that its training text had, without an artifact store."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from infra.artifacts import Artifact, ArtifactStore
from infra.errors import UserError
from tasks.downstream.features.alignment import TextTokenizer
from tasks.knowledge import names
from tasks.knowledge.link import (
    EntityFrequenciesParams,
    UnambiguousCountsParams,
    entity_frequencies,
    unambiguous_counts,
)
from tasks.knowledge.names import NAMES_FILE, NameLinker, linker_of, names_table, save_names
from tasks.pretrain.encode import EncodeParams, encode
from tasks.segment.stage import SegmentParams, segment
from tasks.vocabulary.stages import CountWordsParams, VocabularyParams, count_words, vocabulary
from tests.support.graphs.linked import entities_artifact
from tests.support.text.stages import do
from tests.support.text.synthetic_text import DISEASES, DRUGS, SYMPTOMS, synthetic_documents
from tests.support.text.tables import documents_artifact

NAMES = (*DISEASES, *SYMPTOMS, *DRUGS)
PRIORS, TYPES = {"药物": 3.0}, ("疾病", "药物")
GRAPH = ("given_kg_entities", "f")


def entities() -> list[dict[str, object]]:
    """Entities whose aliases are shared, written in other ways, and names of each other."""
    kinds = {**dict.fromkeys(DISEASES, "疾病"), **dict.fromkeys(SYMPTOMS, "症状"), **dict.fromkeys(DRUGS, "药物")}
    rows = [{"entity_id": f"E{n}", "name": name, "type": kinds[name]} for n, name in enumerate(NAMES)]
    rows[0]["aliases"] = ["ＭＲＩ", "MRI", NAMES[-1]]
    rows[-1]["aliases"] = ["mri检查"]
    return rows


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Artifact]:
    """The stages that link a text for training, and the graph that they link."""
    store = ArtifactStore(tmp_path_factory.mktemp("store"))
    texts = [document["text"] for document in synthetic_documents()]
    given = {"documents": documents_artifact(store, [f"{t}MRI检查后用{NAMES[-1]}。" for t in texts])}
    given["entities"] = entities_artifact(store, entities())
    words = do(store, count_words, CountWordsParams(), documents=given["documents"])
    given["vocabulary"] = do(store, vocabulary, VocabularyParams(size=1000, min_frequency=2), words=words)
    params = SegmentParams(max_tokens=60, min_tokens=8)
    given["segments"] = do(store, segment, params, documents=given["documents"])
    linked = {"segments": given["segments"], "entities": given["entities"]}
    counted = do(store, unambiguous_counts, UnambiguousCountsParams(), **linked)
    linked["entity_frequencies"] = do(store, entity_frequencies, EntityFrequenciesParams(), links=counted)
    given["entity_frequencies"] = linked["entity_frequencies"]
    for name, kinds in (("all", ()), ("some", TYPES)):
        encoding = EncodeParams(mention_types=kinds, type_priors=PRIORS)
        given[name] = do(store, encode, encoding, vocabulary=given["vocabulary"], **linked)
    return given


@pytest.mark.parametrize(("examples", "kinds"), [("all", ()), ("some", TYPES)])
def test_a_folder_finds_what_training_found(
    made: dict[str, Artifact], examples: str, kinds: tuple[str, ...], tmp_path: Path
) -> None:
    found = names_table(made["entities"], PRIORS, made["entity_frequencies"], kinds)
    save_names(tmp_path, found, GRAPH)
    made["vocabulary"].download(tmp_path / "vocabulary")
    tokenizer = TextTokenizer.from_folder(tmp_path / "vocabulary")
    tokenizer.linker = linker_of(tmp_path, GRAPH)
    texts = made["segments"].to_table("segments").to_pylist()
    expected = {
        tuple(row["input_ids"][1:-1]): [tuple(mention.values()) for mention in row["mentions"]]
        for table in ("examples", "held_out")
        for row in made[examples].to_table(table).to_pylist()
    }
    mentioned = 0
    for tokens in tokenizer.words([row["text"] for row in texts]):
        assert tokens.mentions is not None
        moved = tokens.mentions + np.array([1, 1, 0, 0])  # [CLS]
        assert list(map(tuple, moved.tolist())) == expected[tuple(tokens.ids.tolist())]
        mentioned += len(moved)
    assert mentioned > 100


def test_texts_are_linked_once(made: dict[str, Artifact], monkeypatch: pytest.MonkeyPatch) -> None:
    linker = NameLinker(names_table(made["entities"], {}), GRAPH)
    asked: list[str] = []
    link_many = linker._linker.link_many
    monkeypatch.setattr(linker._linker, "link_many", lambda texts: asked.extend(texts) or link_many(texts))
    monkeypatch.setattr(names, "REMEMBERED_TEXTS", 2)
    first, second = f"有{NAMES[0]}", f"{NAMES[1]}和{NAMES[2]}"
    once = linker([first, second, first, ""])
    assert [one.tolist() for one in once[:2]] == [[[1, 1 + len(NAMES[0]), 0, 0]], linker([second])[0].tolist()]
    assert once[3].shape == (0, 4) and asked == [first, second, ""]
    assert linker([]) == []
    linker([first])  # forgotten: two are kept, the last ones
    assert asked == [first, second, "", first]


def test_missing_damaged_and_foreign_names_are_refused(made: dict[str, Artifact], tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"has no names\.parquet, by which the model finds entities"):
        linker_of(tmp_path, GRAPH)
    save_names(tmp_path, names_table(made["entities"], {}), GRAPH)
    with pytest.raises(UserError, match=r"of the graph given_kg_entities/f, the model reads those of kg/2: the same"):
        linker_of(tmp_path, ("kg", "2"))
    pq.write_table(names_table(made["entities"], {}), tmp_path / NAMES_FILE)
    with pytest.raises(UserError, match=r"names\.parquet cannot be read: .*graph.*Copy the whole folder"):
        linker_of(tmp_path, GRAPH)
    (tmp_path / NAMES_FILE).write_bytes(b"PAR1")
    with pytest.raises(UserError, match=r"names\.parquet cannot be read"):
        linker_of(tmp_path, GRAPH)


def test_only_a_graph_has_names(tmp_path: Path) -> None:
    vocabulary_of_entities = entities_artifact(
        ArtifactStore(tmp_path), [{"entity_id": "a", "surface": "头痛"}], table="entities"
    )
    with pytest.raises(UserError, match="has no table kg_entities, and a model's knowledge is of one"):
        names_table(vocabulary_of_entities, {})
