"""Word vectors from raw text and a graph, by both methods and at both levels, with a page and what a person reads."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gensim.models import KeyedVectors

from flows.catalogue import find
from flows.embed import embed
from infra.artifacts import ArtifactStore
from infra.errors import UserError
from models.word_vectors import WordVectors
from tests.support.text.synthetic_text import DISEASES, DRUGS, write_corpus

pytestmark = pytest.mark.slow

SMALL = {"word2vec.epochs": 2, "glove.epochs": 2, "segment.min_tokens": 4, "embedding_words.min_count": 2}


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Synthetic articles, and a graph that has their drugs treat their diseases."""
    folder = tmp_path_factory.mktemp("embed")
    rows = [f"{disease}\tDisease\t用药\t{drug}\tDrug" for disease, drug in zip(DISEASES, DRUGS, strict=True)]
    text = "\n".join(["head\thead_type\trelation\ttail\ttail_type", *rows])
    (folder / "treats.tsv").write_text(text, encoding="utf-8")
    return {
        "corpus": str(write_corpus(folder / "corpus")),
        "graphs": {"treats": {"path": str(folder / "treats.tsv"), "type_columns": ["head_type", "tail_type"]}},
        "overrides": SMALL,
    }


@pytest.fixture(scope="module")
def deployed(given: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    home = tmp_path_factory.mktemp("home")

    def run(name: str, **changes: Any) -> Path:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("YIWEN_HOME", str(home))
            patch.setenv("YIWEN_WORKERS", "1")
            return Path(embed.fn(**{**find(name).parameters, **given, **changes}))

    return run


def page_of(vectors: Path) -> dict[str, Any]:
    """The figures of the newest page of a run's store."""
    found = ArtifactStore(str(vectors.parent.parent)).latest("report_vectors")
    assert found is not None
    figures: dict[str, Any] = json.loads(found.read_file("summary.json"))
    return figures


@pytest.mark.parametrize(
    ("name", "width", "is_word"),
    [("word2vec-word", 100, True), ("word2vec-char", 100, False), ("glove-word", 50, True), ("glove-char", 50, False)],
)
def test_every_deployment_ends_with_vectors_and_what_they_know(
    deployed: Callable[..., Path], capsys: pytest.CaptureFixture[str], name: str, width: int, is_word: bool
) -> None:
    folder = deployed(f"embed/{name}")
    found = WordVectors.open(folder)
    assert found.width == width and np.isfinite(found.matrix).all()
    # The names of the graph are words: jieba would cut 甲巯咪唑.
    assert ("甲巯咪唑" in found) == is_word and "患" in "".join(found.words)
    assert all(len(word) == 1 for word in found.words) != is_word
    assert KeyedVectors.load(str(folder / "vectors.kv")).index_to_key == list(found.words)
    printed = capsys.readouterr().out
    page = page_of(folder)
    assert page["vectors"][0]["dimensions"] == width and page["names_known"] >= 15
    assert all(f"{row['measure']}: " in printed for row in page["scores"]) and page["scores"]
    assert f"{page['neighbours'][0]['word']}: {page['neighbours'][0]['nearest'][0]['word']} " in printed
    picture = next(line for line in printed.splitlines() if line.startswith("Picture: ")).removeprefix("Picture: ")
    assert Path(picture).read_bytes().startswith(b"\x89PNG")
    other = name.replace("word2vec", "GLOVE").replace("glove", "word2vec").replace("GLOVE", "glove")
    assert f"python -m flows run embed/{other} --param compare={folder}" in printed


def test_finished_vectors_are_adopted_and_compared(deployed: Callable[..., Path], tmp_path: Path) -> None:
    own = deployed("embed/glove-word")
    general = tmp_path / "general.bin"
    WordVectors([*DISEASES, *DRUGS], np.random.default_rng(0).normal(size=(20, 8)).astype(np.float32)).write(general)
    adopted = deployed("embed/word2vec-word", vectors=str(general), compare=[str(own)], corpus=None)
    assert adopted.parent.name == "adopt_vectors"
    assert np.array_equal(WordVectors.open(adopted).matrix, WordVectors.read(general).matrix)
    page = page_of(adopted)
    assert [one["name"] for one in page["vectors"]] == ["general.bin", f"glove {own.name[:8]}"]
    assert {row["vectors"] for row in page["scores"]} == {one["name"] for one in page["vectors"]}


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"vectors": "absent.txt"}, r"vectors: .*absent\.txt does not exist"),
        ({"compare": "absent.kv"}, r"compare: .*absent\.kv does not exist"),
        ({"overrides": {"glove.window": 3}}, r"unknown key 'glove\.window'.*known keys: glove\.alpha"),
        ({"overrides": {"cooccurrences.window": 21}}, r"cooccurrences\.window is 21 .*at most 20"),
        ({"level": "syllable"}, r"embedding_counts\.level is 'syllable'"),
        ({"overrides": {**SMALL, "embedding_words.min_count": 10**6}}, r"No word occurs 1,000,000 times in the corpus"),
    ],
)
def test_what_cannot_be_used_is_refused(deployed: Callable[..., Path], wrong: dict[str, Any], problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        deployed("embed/glove-word", **wrong)
