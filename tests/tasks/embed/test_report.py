"""Adopted vectors and the page about vectors: compared on the same pairs, with and without names of the graph."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infra.artifacts import Artifact, ArtifactStore
from infra.errors import UserError
from infra.stage import run
from models.word_vectors import WordVectors
from tasks.embed.adopt import AdoptVectorsParams, VectorsFile, adopt_vectors, name_of, open_vectors
from tasks.embed.report import ReportVectorsParams, report_vectors
from tasks.knowledge.thesaurus import ThesaurusParams, thesaurus
from tests.support.graphs.given_knowledge import GivenParams, graph_of

KINDS = ("疾病", "药物")
NAMES = [(f"{kind}{number}", f"{kind}又名{number}", kind) for kind in KINDS for number in range(12)]
PARAMS = ReportVectorsParams(pairs=50, words=3, neighbours=2)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ArtifactStore:
    return ArtifactStore(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def graph(store: ArtifactStore) -> dict[str, Artifact]:
    entities = [
        {"entity_id": name, "name": name, "aliases": [alias, "甲乙", "点"], "type": kind, "sources": []}
        for name, alias, kind in NAMES
    ]
    rows: dict[str, list[dict[str, Any]]] = {
        "kg_entities": entities,
        "kg_triples": [
            {"head": f"疾病{number}", "relation": "用药", "tail": f"药物{number}", "sources": []}
            for number in range(12)
        ],
    }
    found = run(graph_of, store, GivenParams(rows=rows), {}).artifact
    return {
        "kg_entities": found,
        "synonyms": run(thesaurus, store, ThesaurusParams(), {"kg_entities": found}).artifact,
    }


def vectors_that_know(names: list[tuple[str, str, str]], seed: int) -> WordVectors:
    """A type is a direction, an entity another; both names of an entity nearly the same."""
    random = np.random.default_rng(seed)
    kinds, numbers = 3 * random.normal(size=(2, 24)), random.normal(size=(12, 24))
    words, rows = [], []
    for name, alias, kind in names:
        for word in (name, alias):
            words.append(word)
            rows.append(kinds[KINDS.index(kind)] + numbers[int(name[2:])] + 0.01 * random.normal(size=24))
    return WordVectors([*words, "的"], np.array([*rows, np.ones(24)], dtype=np.float32))


def adopted(store: ArtifactStore, vectors: WordVectors, path: Path) -> Artifact:
    vectors.write(path)
    return run(adopt_vectors, store, AdoptVectorsParams(), {"file": VectorsFile(path)}).artifact


def test_vectors_are_compared_on_names_that_all_know(
    store: ArtifactStore, graph: dict[str, Artifact], tmp_path: Path
) -> None:
    whole = adopted(store, vectors_that_know(NAMES, 1), tmp_path / "own.txt")
    fewer = adopted(store, vectors_that_know(NAMES[2:], 2), tmp_path / "general.bin")
    made = run(report_vectors, store, PARAMS, {"vectors": whole, "other_0": fewer, **graph}).artifact
    rows = made.to_table("vector_scores").to_pylist()
    assert [(row["measure"], row["vectors"]) for row in rows] == [
        (measure, name) for measure in ("synonym", "type", "analogy") for name in ("own.txt", "general.bin")
    ]
    for one, other in zip(rows[::2], rows[1::2], strict=True):
        assert one["pairs"] == other["pairs"] > 3
        assert one["score"] > 0.95 and other["score"] > 0.95
    summary = json.loads(made.read_file("summary.json"))
    # 甲乙 is an alias of every entity, so it means more than one thing.
    assert (summary["names"], summary["names_known"], summary["names_compared"]) == (48, 48, 44)
    assert summary["neighbours"][0]["word"] == "疾病0"
    assert summary["neighbours"][0]["nearest"][0]["word"] == "疾病又名0"
    assert made.read_file("vectors.png").startswith(b"\x89PNG")
    page = made.read_file("report.html").decode()
    assert "general.bin" in page and "data:image/png;base64," in page
    again = run(
        report_vectors, ArtifactStore(tmp_path / "again"), PARAMS, {"vectors": whole, "other_0": fewer, **graph}
    )
    assert again.artifact.manifest.files == made.manifest.files


def test_vectors_of_other_words_get_a_page_without_scores(
    store: ArtifactStore, graph: dict[str, Artifact], tmp_path: Path
) -> None:
    foreign = WordVectors(["the", "头痛", "发热"], np.eye(3, dtype=np.float32))
    given = adopted(store, foreign, tmp_path / "foreign.txt")
    made = run(report_vectors, store, PARAMS, {"vectors": given, **graph}).artifact
    summary = json.loads(made.read_file("summary.json"))
    assert summary["scores"] == [] and summary["picture"] == "" and made.rows("vector_scores") == 0
    assert [row["word"] for row in summary["neighbours"]] == ["头痛", "发热"]
    page = made.read_file("report.html").decode()
    assert "No score: of 48 names" in page and "No picture: only 0 names" in page


def test_characters_know_names_by_their_means(store: ArtifactStore, graph: dict[str, Artifact], tmp_path: Path) -> None:
    characters = sorted(set("".join(name + alias for name, alias, _ in NAMES)) - {"又"})
    matrix = np.random.default_rng(0).normal(size=(len(characters), 8)).astype(np.float32)
    given = adopted(store, WordVectors(characters, matrix), tmp_path / "characters.txt")
    made = run(report_vectors, store, PARAMS, {"vectors": given, **graph}).artifact
    summary = json.loads(made.read_file("summary.json"))
    # The aliases have a character without a vector.
    assert summary["names_known"] == 24 and summary["points"] == 24
    assert {row["measure"] for row in summary["scores"]} == {"type", "analogy"}
    assert {row["word"] for row in summary["neighbours"]} < {"疾", "病", "药", "物"}


def test_adopted_vectors_are_those_of_the_file(store: ArtifactStore, tmp_path: Path) -> None:
    given = vectors_that_know(NAMES, 3)
    made = adopted(store, given, tmp_path / "general.txt")
    opened = open_vectors(made)
    assert list(opened.words) == list(given.words) and np.array_equal(opened.matrix, given.matrix)
    assert made.to_table()["frequency"].to_pylist() == [0] * len(given)
    assert name_of(made) == "general.txt"
    # The folder of vectors, as the flow prints it, is a file of vectors too.
    folder = run(adopt_vectors, store, AdoptVectorsParams(), {"file": VectorsFile(made.path)}).artifact
    assert np.array_equal(open_vectors(folder).matrix, given.matrix)


def test_damaged_and_missing_files_are_refused(store: ArtifactStore, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"compare: .*absent\.txt does not exist\. Give a file in word2vec's"):
        VectorsFile(tmp_path / "absent.txt", "compare")
    path = tmp_path / "short.txt"
    path.write_text("2 3\na 1 2 3\nb 1 2\n")
    with pytest.raises(UserError, match=r"short\.txt, line 3: 2 values instead of 3"):
        run(adopt_vectors, store, AdoptVectorsParams(), {"file": VectorsFile(path)})
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"vectors: .*empty cannot be opened as a folder of word vectors"):
        VectorsFile(tmp_path / "empty")
    path.write_text("2 x\na 1 2 3\n")
    with pytest.raises(UserError, match=r"compare: .*short\.txt, line 1: '2 x' is not the number of words"):
        VectorsFile(path, "compare")
