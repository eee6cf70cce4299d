"""Work in an earlier artifact is checked and reused, with the same result as doing it again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from infra import schemas
from infra.artifacts import Artifact, ArtifactStore
from infra.builds import PartWriter
from infra.memo import Memo, WorkKeys
from infra.stage import Output, StageParams, run, stage
from tests.support.text.tables import documents_artifact

done: list[str] = []
"""Texts that were computed and not reused."""


class Shout(StageParams):
    mark: str = "!"


def write_text(part: PartWriter, text: str) -> None:
    done.append(text)
    part.count("characters", len(text))
    part.write("vocabulary", [{"id": len(text), "token": text, "frequency": 1}])


@stage(name="given", version=1, params=Shout, tables=("vocabulary",))
def shout(inputs: Mapping[str, Any], params: Shout, out: Output) -> None:
    out.map(shout_part, inputs["documents"].parts("documents"), params)


def shout_part(part: PartWriter, documents: Any, params: Shout) -> None:
    for text in documents.read()["text"].to_pylist():
        write_text(part, text + params.mark)


def shouted(store: ArtifactStore, texts: list[str], mark: str = "!") -> Artifact:
    documents = documents_artifact(store, *[[text] for text in texts])
    done.clear()
    return run(shout, store, Shout(mark=mark), {"documents": documents}).artifact


def content(artifact: Artifact) -> dict[str, bytes]:
    folder = Path(artifact.path)
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != "manifest.json"
    }


def test_refresh_computes_only_new_parts_and_equals_a_rebuild(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "refreshed")
    shouted(store, ["甲", "乙", "丙"])
    assert done == ["甲!", "乙!", "丙!"]
    refreshed = shouted(store, ["丁", "甲", "丙", "戊"])
    assert done == ["丁!", "戊!"]
    assert refreshed.manifest.taken_over_parts == 2
    refreshed.verify()
    rebuilt = shouted(ArtifactStore(tmp_path / "rebuilt"), ["丁", "甲", "丙", "戊"])
    assert content(refreshed) == content(rebuilt)
    assert refreshed.manifest.counters == rebuilt.manifest.counters == {"characters": 8}


class Overheard(StageParams):
    mark: str = "!"


@stage(name="overheard", version=1, params=Overheard, tables=("vocabulary",))
def overhear(inputs: Mapping[str, Any], params: Overheard, out: Output) -> None:
    heard.append(out.earlier(inputs, but={"documents"}))
    out.map(write_text, [name for name in inputs])


heard: list[Artifact | None] = []
"""Return values of `Output.earlier`."""


def test_earlier_finds_the_newest_artifact_that_differs_only_in_the_named_inputs(store: ArtifactStore) -> None:
    first, second = (documents_artifact(store, [text]) for text in "甲乙")

    def overheard(mark: str = "!", **inputs: Artifact) -> tuple[Artifact, Artifact | None]:
        return run(overhear, store, Overheard(mark=mark), inputs).artifact, heard[-1]

    made, nothing = overheard(documents=first, fixed=first)
    assert nothing is None
    _, other = overheard(documents=second, fixed=second)
    assert other is None  # the input `fixed` differs too
    again, found = overheard(documents=second, fixed=first)
    assert found is not None and found.fingerprint == made.fingerprint
    assert overheard(documents=first)[1] is None  # it had one input more
    assert overheard(documents=second, fixed=first, more=first)[1] is None  # or one input less
    assert overheard(mark="?", documents=first, fixed=first)[1] is None
    _, newest = overheard(documents=documents_artifact(store, ["丙"]), fixed=first)
    assert newest is not None and newest.fingerprint == again.fingerprint


def test_earlier_artifact_of_another_version_is_not_taken(store: ArtifactStore) -> None:
    made = run(overhear, store, Overheard(), {"documents": documents_artifact(store, ["甲"])}).artifact
    memo, params = Memo(store, "overheard"), made.manifest.params
    assert memo.newest(2, params, {"documents": None}) is None
    same = memo.newest(1, params, {"documents": None})
    assert same is not None and same.fingerprint == made.fingerprint


@stage(name="rehearsed", version=1, params=Shout, tables=("vocabulary",))
def rehearse(inputs: Mapping[str, Any], params: Shout, out: Output) -> None:
    def nested(part: PartWriter, text: str) -> None:
        write_text(part, text)

    out.prepare(note, ["初", "次"])
    out.map(write_text, ["甲", "乙乙"])
    out.map(nested, ["丙丙丙"])


def note(part: PartWriter, text: str) -> None:
    part.count("noted")


def test_only_units_that_another_artifact_can_take_are_listed(store: ArtifactStore) -> None:
    """Neither what was prepared, which has no table, nor work without a key."""
    artifact = run(rehearse, store, Shout(), {}).artifact
    listed = json.loads(artifact.read_file("units.json"))
    assert [unit["counters"] for unit in listed] == [{"characters": 1}, {"characters": 2}]
    assert artifact.manifest.counters == {"characters": 6, "noted": 2}


def test_work_with_other_parameters_is_not_reused(store: ArtifactStore) -> None:
    shouted(store, ["甲"])
    assert shouted(store, ["甲", "乙"], mark="?").to_table()["token"].to_pylist() == ["甲?", "乙?"]
    assert done == ["甲?", "乙?"]


def test_damaged_part_is_not_reused(store: ArtifactStore, caplog: pytest.LogCaptureFixture) -> None:
    first = shouted(store, ["甲", "乙"])
    damaged = Path(first.path) / "vocabulary" / "part-00000-000.parquet"
    damaged.chmod(0o644)
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")
    second = shouted(store, ["甲", "乙", "丙"])
    assert done == ["甲!", "丙!"]
    second.verify()
    assert str(damaged) in caplog.text


def test_damaged_list_of_units_only_costs_time(store: ArtifactStore) -> None:
    first = shouted(store, ["甲"])
    (Path(first.path) / "units.json").write_text("[]")
    assert shouted(store, ["甲", "乙"]).rows() == 2
    assert done == ["甲!", "乙!"]


def test_reused_parts_outlive_their_source(store: ArtifactStore) -> None:
    first = shouted(store, ["甲"])
    second = shouted(store, ["甲", "乙"])
    shutil.rmtree(first.path)
    second.verify()


def test_reworded_descriptions_of_columns_cost_no_work(store: ArtifactStore, monkeypatch: pytest.MonkeyPatch) -> None:
    old = schemas.TABLES["vocabulary"]
    first = shouted(store, ["甲"])
    fields = [column.with_metadata({"description": f"reworded: {column.name}"}) for column in old]
    monkeypatch.setitem(schemas.TABLES, "vocabulary", pa.schema(fields))
    first.verify()
    second = shouted(store, ["甲", "乙"])
    assert done == ["乙!"]
    assert second.to_table()["token"].to_pylist() == second.scan().collect()["token"].to_list() == ["甲!", "乙!"]
    assert second.manifest.tables["vocabulary"].columns[0]["description"] == "reworded: id"


@dataclass(frozen=True)
class Place:
    content: str
    path: str = field(compare=False, default="")


class Model(BaseModel):
    value: float


def key(item: Any, shared: tuple[Any, ...] = ()) -> str:
    return WorkKeys("given", 1, Shout(), write_text, shared).of(item)


def test_key_identifies_a_value_by_its_content() -> None:
    assert key(Place("a", "here")) == key(Place("a", "there")) != key(Place("b"))
    assert key(Model(value=1)) == key(Model(value=1)) != key(Model(value=2))
    assert key({"a": 1, "b": 2}) == key({"b": 2, "a": 1}) != key({"a": 2, "b": 1})
    assert len({key("a"), key(b"a"), key(["a"]), key({"a": "a"}), key(None), key("x" * 500), key("y" * 500)}) == 7
    assert key("a", ("b",)) != key("a", ("c",))


def test_key_names_the_stage_its_version_and_the_function() -> None:
    def nested(part: PartWriter, text: str) -> None:
        write_text(part, text)

    named = [("given", 1, write_text), ("given", 2, write_text), ("other", 1, write_text), ("given", 1, shout_part)]
    keys = [WorkKeys(name, version, Shout(), function, ()).of("a") for name, version, function in named]
    assert len(set(keys)) == len(keys) and "" not in keys
    assert WorkKeys("given", 1, Shout(), nested, ()).of("a") == ""  # it may depend on what is around it


@pytest.mark.parametrize("value", [Path("file"), object(), {"a": Path("file")}, [object()]])
def test_value_without_identifiable_content_has_no_key(value: Any) -> None:
    assert key(value) == "" == key("a", (value,))


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(PLAIN, PLAIN)
def test_different_values_have_different_keys(one: Any, other: Any) -> None:
    same = repr(one) == repr(other) or (one == other and isinstance(one, dict))
    assert (key(one) == key(other)) >= same
    if one != other:
        assert key(one) != key(other)
