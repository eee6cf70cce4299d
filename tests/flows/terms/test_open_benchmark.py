"""Flow of the open benchmark on a synthetic list and graph."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from flows.open_benchmark import normalise
from infra.artifacts import Artifact, ArtifactStore
from infra.errors import UserError
from tasks.normalise.benchmark_stages import queries_of
from tasks.normalise.normaliser import Retrieval
from tasks.normalise.terms.terminology import entries_of
from tasks.retrieve.categories import with_categories
from tasks.retrieve.embedded import EmbeddedIndex
from tasks.retrieve.fields import comparable_forms

LETTERS = "ABCDEF"
NUMBERS = range(20)
SIGNS = "甲乙丙丁戊己庚辛壬癸子丑寅卯辰巳午未申酉"
KINDS = "肝胆脾肺肾胃"
CODES = [(f"{letter}{number:02}", f"{kind}{sign}病") for letter, kind in zip(LETTERS, KINDS, strict=True)
         for number, sign in zip(NUMBERS, SIGNS, strict=True)]  # fmt: skip


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A list, and a graph with three names per disease, one of which shares no character with the list's name."""
    folder = tmp_path_factory.mktemp("open-benchmark")
    (folder / "list.csv").write_text("编码,名称\n" + "".join(f"{code},{term}\n" for code, term in CODES))
    subjects = {
        f"{term}症": {"ICD10": [code], "别称": [f"慢性{term}", f"羊{number}风"], "就诊科室": ["内科"]}
        for number, (code, term) in enumerate(CODES)
    }
    (folder / "cmekg.pkl").write_bytes(pickle.dumps(subjects))
    said = "。".join(f"{term}俗称羊{number}风" for number, (_, term) in enumerate(CODES))
    (folder / "text.txt").write_text(f"{said}。这些都是病的名字。", encoding="utf-8")
    return {name: str(folder / file) for name, file in
            (("terms", "list.csv"), ("graph", "cmekg.pkl"), ("text", "text.txt"))}  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ArtifactStore:
    return ArtifactStore(tmp_path_factory.mktemp("home"))


@pytest.fixture
def run(store: ArtifactStore, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("YIWEN_HOME", str(store.root))
    monkeypatch.setenv("YIWEN_WORKERS", "1")  # no Ray for a handful of lines
    return normalise.fn


def rows_of(folder: str) -> list[dict[str, Any]]:
    return json.loads(Path(folder, "table.json").read_text(encoding="utf-8"))


def source(store: ArtifactStore, folder: str, name: str) -> Artifact:
    """An input of the artifact in a folder."""
    manifest = json.loads(Path(folder, "manifest.json").read_text(encoding="utf-8"))
    record = manifest["inputs"][name]
    found = store.get(record["stage"], record["fingerprint"])
    assert found is not None
    return found


def test_recall_is_that_of_an_index_without_the_queries(
    run: Any, given: dict[str, str], store: ArtifactStore, tmp_path: Path
) -> None:
    folder = run(terms=given["terms"], graph=given["graph"])
    mentions, listed = (source(store, folder, name) for name in ("mentions", "terminology"))
    entries = entries_of(listed)
    forms = {"".join(form) for form in comparable_forms([name for one in entries for name in one.aliases])}
    index = EmbeddedIndex.build(entries, tmp_path)
    retrieval = Retrieval(with_categories(index, index), entries, k=100)
    seen = 0
    for split in ("dev", "test"):
        queries = queries_of(mentions, split)
        assert not forms & {"".join(form) for form in comparable_forms([query.text for query in queries])}
        found = [[one.code for one in own] for own in retrieval.candidates([query.text for query in queries])]
        for row in rows_of(folder):
            if (row["split"], row["queries"]) == (split, "all"):
                hits = sum(
                    bool(set(query.codes) & set(own[: row["k"]])) for query, own in zip(queries, found, strict=True)
                )
                assert (row["number"], row["recall"]) == (len(queries), hits / len(queries))
                seen += 1
    assert seen == 8
    assert forms
    assert store.latest("candidate_index") is None, "normalising a file would take it for the user's index"


def test_names_from_text_are_found(run: Any, given: dict[str, str]) -> None:
    def first(folder: str) -> dict[str, float]:
        return {row["split"]: row["recall"] for row in rows_of(folder) if row["queries"] == "all" and row["k"] == 1}

    without, with_text = first(run(terms=given["terms"], graph=given["graph"])), first(run(**given))
    assert max(without.values()) < 1.0
    assert set(with_text.values()) == {1.0}


def test_a_list_that_shares_no_code_with_the_graph_is_refused(run: Any, given: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text("编码,名称\nX1,自定义\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"no queries for dev.*ICD-10 codes"):
        run(terms=str(tmp_path / "own.csv"), graph=given["graph"])


def test_missing_files_are_reported_before_any_work(run: Any, given: dict[str, str]) -> None:
    for name in ("terms", "graph", "text"):
        with pytest.raises(UserError, match="absent"):
            run(**given | {name: "/absent"})
    with pytest.raises(UserError, match="one local file"):
        run(terms=given["terms"], graph=[given["graph"], given["terms"]])
