"""The stage contract: the address of a piece of work, reuse, what a stage writes, and its manifest."""

from __future__ import annotations

import json
import logging
import math
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field, ValidationError

from infra import schemas
from infra.artifacts import ArtifactStore, fingerprint_of
from infra.builds import PartWriter, Unit, open_build, run_unit
from infra.errors import UserError
from infra.settings import REPOSITORY
from infra.stage import Output, SerialExecutor, StageParams, code_version, run, stage
from infra.usage import measure_usage
from infra.version import VERSION
from tests.support.processes.building import SampleParams, run_sample, sample

TOKEN = {"id": 0, "token": "医", "frequency": 1}


class Params(StageParams):
    size: int = Field(default=3, ge=1)
    rate: float = 0.1
    names: frozenset[str] = frozenset()
    free: dict[str, Any] = Field(default_factory=dict)
    speed: int = Field(default=1, exclude=True)


Function = Callable[[Mapping[str, Any], Params, Output], None]


def make(function: Function, name: str = "work", version: int = 1, tables: tuple[str, ...] = ("vocabulary",)) -> Any:
    return stage(name=name, version=version, params=Params, tables=tables)(function)


def write_tokens(inputs: Mapping[str, Any], params: Params, out: Output) -> None:
    out.map(write_token, range(params.size))


def write_token(part: PartWriter, index: int) -> None:
    part.write("vocabulary", [TOKEN | {"id": index}])


@dataclass
class Given:
    """Raw input as a stage sees it."""

    fingerprint: str
    stage: str = "raw"


# The address of a piece of work


def shuffled(value: Any, reverse: bool) -> Any:
    """The same JSON with its keys in another order."""
    if isinstance(value, dict):
        items = [(key, shuffled(inner, reverse)) for key, inner in value.items()]
        return dict(reversed(items) if reverse else sorted(items))
    return [shuffled(inner, reverse) for inner in value] if isinstance(value, list) else value


finite = st.floats(allow_nan=False, allow_infinity=False)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | finite | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)
json_objects = st.dictionaries(text, json_values, max_size=4)


@given(params=json_objects, inputs=st.dictionaries(text, text, max_size=3), version=st.integers(0, 99), name=text)
def test_equal_work_has_the_same_address(params: dict, inputs: dict, version: int, name: str) -> None:
    address = fingerprint_of(name, version, params, inputs)
    assert re.fullmatch("[0-9a-f]{32}", address)
    for reverse in (True, False):
        assert fingerprint_of(name, version, shuffled(params, reverse), shuffled(inputs, reverse)) == address
    assert fingerprint_of(name, version, json.loads(json.dumps(params)), inputs) == address


@given(first=json_objects, second=json_objects)
def test_different_parameters_have_different_addresses(first: dict, second: dict) -> None:
    same = json.dumps(first, sort_keys=True) == json.dumps(second, sort_keys=True)
    assert (fingerprint_of("s", 1, first, {}) == fingerprint_of("s", 1, second, {})) == same


@given(free=json_objects, rate=finite)
@settings(max_examples=40, deadline=None)
def test_parameters_survive_the_manifest(free: dict, rate: float, tmp_path_factory: pytest.TempPathFactory) -> None:
    store = ArtifactStore(tmp_path_factory.mktemp("store"))
    params = Params(size=1, free=free, rate=rate)
    made = run(make(lambda inputs, params, out: None), store, params, {})
    assert store.get("work", made.artifact.fingerprint).manifest.params["free"] == free


def test_address_depends_on_stage_version_params_and_inputs() -> None:
    work, params, inputs = make(write_tokens), Params(), {"documents": Given("a" * 32)}
    others = [
        work.fingerprint(params, inputs),
        make(write_tokens, name="other").fingerprint(params, inputs),
        make(write_tokens, version=2).fingerprint(params, inputs),
        work.fingerprint(Params(size=4), inputs),
        work.fingerprint(Params(names=frozenset("a")), inputs),
        work.fingerprint(Params(free={"a": 1}), inputs),
        work.fingerprint(params, {"documents": Given("b" * 32)}),
        work.fingerprint(params, {"segments": Given("a" * 32)}),
        work.fingerprint(params, {**inputs, "vocabulary": Given("b" * 32)}),
        work.fingerprint(params, {}),
    ]
    assert len(set(others)) == len(others)


def test_address_does_not_depend_on_order_or_excluded_fields() -> None:
    work = make(write_tokens)
    one, two = {"a": Given("1"), "b": Given("2")}, {"b": Given("2"), "a": Given("1", stage="elsewhere")}
    assert work.fingerprint(Params(), one) == work.fingerprint(Params(), two)
    assert work.fingerprint(Params(speed=1), {}) == work.fingerprint(Params(speed=9), {})
    assert make(lambda inputs, params, out: None).fingerprint(Params(), {}) == work.fingerprint(Params(), {})


def test_address_is_the_same_in_every_process() -> None:
    """The order of a set differs between processes."""
    code = (
        "from tests.infra.test_stage import *; "
        "print(make(write_tokens).fingerprint(Params(names=frozenset('医abcdefgh')), {}))"
    )
    found = set()
    for seed in "12":
        environment = os.environ | {"PYTHONPATH": str(REPOSITORY), "PYTHONHASHSEED": seed}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        found.add(done.stdout)
    assert found == {make(write_tokens).fingerprint(Params(names=frozenset("医abcdefgh")), {}) + "\n"}


@pytest.mark.parametrize(
    "params", [Params(rate=math.nan), Params(free={"limit": math.inf}), Params(free={"a": "\ud800"})]
)
def test_parameters_without_canonical_json_are_rejected(params: Params, store: ArtifactStore) -> None:
    with pytest.raises(UserError, match="parameters of stage work cannot be stored as JSON"):
        run(make(write_tokens), store, params, {})
    assert store.list() == []


def test_unknown_and_impossible_parameters_are_errors() -> None:
    with pytest.raises(ValidationError, match="sise"):
        Params(sise=3)
    with pytest.raises(ValidationError, match="size"):
        Params(size=0)
    with pytest.raises(ValidationError, match="frozen"):
        Params().size = 4


@pytest.mark.parametrize("name", ["", ".hidden", "a/b", "a b", ".."])
def test_stage_name_that_cannot_be_a_folder_is_rejected(name: str) -> None:
    with pytest.raises(ValueError, match="cannot be the name of a stage"):
        make(write_tokens, name=name)


def test_table_without_schema_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"work.*has no tables \['vocabularies'\]"):
        make(write_tokens, tables=("vocabularies",))


# Reuse


def test_second_run_reuses_the_artifact_and_logs_it(store: ArtifactStore, caplog: pytest.LogCaptureFixture) -> None:
    calls = []

    def function(inputs: Mapping[str, Any], params: Params, out: Output) -> None:
        calls.append(params.size)
        write_tokens(inputs, params, out)

    work = make(function)
    first = run(work, store, Params(), {})
    with caplog.at_level(logging.DEBUG, logger="infra"):
        second = run(work, store, Params(), {})
        third = run(work, ArtifactStore(store.root), Params(speed=5), {})
    assert (first.reused, second.reused, third.reused) == (False, True, True)
    assert first.artifact.manifest == second.artifact.manifest == third.artifact.manifest
    assert calls == [3]
    assert caplog.messages == [f"work: reused {first.artifact.path}"] * 2
    assert not run(work, store, Params(size=4), {}).reused
    assert calls == [3, 4]


def test_failed_stage_leaves_no_artifact_but_keeps_its_parts(store: ArtifactStore) -> None:
    made: list[int] = []
    broken = True

    def token(part: PartWriter, index: int) -> None:
        made.append(index)
        write_token(part, index)
        if broken and index == 2:
            raise ArithmeticError("no")

    work = make(lambda inputs, params, out: out.map(token, range(params.size)))
    with pytest.raises(ArithmeticError):
        run(work, store, Params(size=5), {})
    assert store.list() == []
    broken = False
    result = run(work, store, Params(size=5), {})
    assert made == [0, 1, 2, 2, 3, 4]
    assert result.artifact.manifest.resumed_parts == 2
    assert result.artifact.to_table()["id"].to_pylist() == [0, 1, 2, 3, 4]


def test_surplus_parts_and_files_of_a_failed_run_are_dropped(store: ArtifactStore) -> None:
    """After a failure the stage has fewer items and writes other files."""
    broken = True

    def function(inputs: Mapping[str, Any], params: Params, out: Output) -> None:
        out.map(write_token, range(6 if broken else 2))
        source = Path(store.root, "file")
        source.write_bytes(b"x")
        out.add_file("old.txt" if broken else "new.txt", source)
        source.unlink()
        if broken:
            raise ArithmeticError("no")

    with pytest.raises(ArithmeticError):
        run(make(function), store, Params(), {})
    broken = False
    artifact = run(make(function), store, Params(), {}).artifact
    assert artifact.to_table()["id"].to_pylist() == [0, 1]
    files = sorted(path.relative_to(artifact.path).as_posix() for path in artifact.path.rglob("*") if path.is_file())
    recorded = [record.path for record in artifact.manifest.tables["vocabulary"].parts]
    assert files == sorted(["manifest.json", "new.txt", "units.json", *recorded])


# What a stage writes


def test_parts_are_numbered_in_the_order_of_the_calls(store: ArtifactStore) -> None:
    def function(inputs: Mapping[str, Any], params: Params, out: Output) -> None:
        out.map(write_token, [0, 1])
        with out.part() as part:
            write_token(part, 2)
        out.map(write_token, [3, 4])
        with out.part() as part:
            write_token(part, 5)

    artifact = run(make(function), store, Params(), {}).artifact
    assert artifact.to_table()["id"].to_pylist() == [0, 1, 2, 3, 4, 5]
    assert artifact.scan().collect()["id"].to_list() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("is_finished", [True, False])
def test_run_that_fails_takes_what_another_has_finished_meanwhile(tmp_path: Path, is_finished: bool) -> None:
    """As on an object store, which has no locks: the other has cleared away what this one still read."""
    here, there = ArtifactStore(tmp_path / "here"), ArtifactStore(tmp_path / "there")
    rival = run(make(write_tokens), there, Params(), {}).artifact

    def lose(inputs: Mapping[str, Any], params: Params, out: Output) -> None:
        if is_finished:
            shutil.copytree(rival.path, tmp_path / "here" / "work" / rival.fingerprint)
        raise FileNotFoundError("scratch/numbers.arrow")

    if not is_finished:
        with pytest.raises(FileNotFoundError, match="numbers"):
            run(make(lose), here, Params(), {})
        return
    found = run(make(lose), here, Params(), {})
    assert found.reused and found.artifact.fingerprint == rival.fingerprint
    assert found.artifact.rows("vocabulary") == 3


def test_unfinished_part_is_dropped(store: ArtifactStore) -> None:
    def function(inputs: Mapping[str, Any], params: Params, out: Output) -> None:
        try:
            with out.part() as part:
                write_token(part, 7)
                raise KeyError
        except KeyError:
            pass
        with out.part() as part:
            write_token(part, 8)

    artifact = run(make(function), store, Params(), {}).artifact
    assert artifact.to_table()["id"].to_pylist() == [8]


def test_rejected_rows_are_written_while_there_are_more(store: ArtifactStore, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    write = PartWriter.write

    def watched(part: PartWriter, table: str, rows: list[dict[str, Any]]) -> None:
        sizes.append(len(rows))
        write(part, table, rows)

    def function(inputs: Mapping[str, Any], params: Params, out: Output) -> None:
        with out.part() as part:
            for row in range(20_001):
                part.reject(doc_id=str(row), source="emr", reason="short", detail="", text="")

    monkeypatch.setattr(PartWriter, "write", watched)
    artifact = run(make(function, tables=("rejects",)), store, Params(), {}).artifact
    assert sizes == [10_000, 10_000, 1]
    assert artifact.to_table("rejects")["doc_id"].to_pylist() == [str(row) for row in range(20_001)]


def test_undeclared_table_is_an_error(store: ArtifactStore) -> None:
    def function(inputs: Mapping[str, Any], params: Params, out: Output) -> None:
        with out.part() as part:
            part.reject(doc_id="a", source="emr", reason="short", detail="", text="")

    with pytest.raises(ValueError, match=r"stage work writes \['rejects'\].*tables="):
        run(make(function), store, Params(), {})
    assert store.list() == []


@pytest.mark.parametrize(
    ("table", "rows", "message"),
    [
        ("vocabulary", [{"id": 0, "token": "a"}], "'frequency'"),
        ("vocabulary", [TOKEN | {"surplus": 1}], "unknown columns"),
        ("vocabulary", [TOKEN | {"token": 3}], "bytes"),
        ("vocabulary", pa.table({"id": [1]}), "names"),
        ("words", [], "no such table"),
    ],
)
def test_error_for_invalid_rows_names_stage_part_and_table(
    table: str, rows: Any, message: str, store: ArtifactStore
) -> None:
    def function(inputs: Mapping[str, Any], params: Params, out: Output) -> None:
        with out.part() as part:
            part.write(table, rows)

    with pytest.raises(ValueError, match=f"stage work, part 0, table {table}: .*{message}"):
        run(make(function), store, Params(), {})


@pytest.mark.parametrize("name", ["manifest.json", "/etc/passwd", "../other", "a/../../b", "", "a//b"])
def test_files_stay_inside_the_artifact(name: str, store: ArtifactStore, tmp_path: Path) -> None:
    (tmp_path / "source").write_text("x")
    work = make(lambda inputs, params, out: out.add_file(name, tmp_path / "source"))
    with pytest.raises(ValueError, match="cannot be the name of a file"):
        run(work, store, Params(), {})


def test_last_of_two_files_with_the_same_name_is_kept(store: ArtifactStore, tmp_path: Path) -> None:
    def function(inputs: Mapping[str, Any], params: Params, out: Output) -> None:
        for content in ("first", "second"):
            (tmp_path / "source").write_text(content)
            out.add_file("note.txt", tmp_path / "source")

    artifact = run(make(function), store, Params(), {}).artifact
    assert artifact.read_file("note.txt") == b"second"
    assert [record.path for record in artifact.manifest.files] == ["note.txt"]


def test_small_writes_share_row_groups_and_a_large_table_has_several_parts(store: ArtifactStore) -> None:
    def function(inputs: Mapping[str, Any], params: Params, out: Output) -> None:
        with out.part() as part:
            for index in range(1000):
                write_token(part, index)
            column = pa.array(["医" * 1000]).take(pa.array(np.zeros(15_000, np.int32)))
            numbers = pa.array(np.zeros(15_000, np.int64))
            for _ in range(4):
                part.write("vocabulary", pa.table({"id": numbers, "token": column, "frequency": numbers}))

    artifact = run(make(function), store, Params(), {}).artifact
    assert artifact.rows() == 61_000
    assert artifact.scan().collect().height == 61_000
    assert artifact.to_table()["id"][:1000].to_pylist() == list(range(1000))
    # 45 MB a write: the second one fills a part of 64 MiB.
    assert [part.record.rows for part in artifact.parts()] == [31_000, 30_000]
    metadata = pa.parquet.read_metadata(artifact.path / artifact.parts()[0].record.path)
    assert metadata.num_row_groups < 6


ways: list[tuple[str, ...]] = []
"""Words that the stage below writes first, one entry per run; the last run finishes."""


@stage(name="wayward", version=1, params=Params, tables=("vocabulary",))
def wayward(inputs: Any, params: Params, out: Output) -> None:
    out.map(write_word, ways.pop(0))
    if ways:
        raise KeyboardInterrupt
    out.map(write_word, ("丁", "戊"))


def write_word(part: PartWriter, word: str) -> None:
    part.write("vocabulary", [{"id": 0, "token": word, "frequency": 1}])


def test_part_of_a_killed_run_is_not_mistaken_for_other_work_with_its_number(store: ArtifactStore) -> None:
    ways[:] = [("甲", "乙", "丙"), ("甲",)]
    with pytest.raises(KeyboardInterrupt):
        run(wayward, store, Params(), {})
    artifact = run(wayward, store, Params(), {}).artifact
    assert artifact.to_table()["token"].to_pylist() == ["甲", "丁", "戊"]
    assert artifact.manifest.resumed_parts == 1
    artifact.verify()


class LosingExecutor(SerialExecutor):
    def run(self, *arguments: Any) -> Iterator[Any]:
        yield from list(super().run(*arguments))[:-1]


def test_executor_that_loses_a_part_is_detected(store: ArtifactStore) -> None:
    with pytest.raises(RuntimeError, match=r"no result for parts \[2\]"):
        run(make(write_tokens), store, Params(), {}, executor=LosingExecutor())
    assert store.list() == []


def test_progress_is_reported(store: ArtifactStore) -> None:
    reported = []
    run(
        make(write_tokens),
        store,
        Params(),
        {},
        on_progress=lambda name, done, total, note="": reported.append((done, total)),
    )
    assert reported == [(0, 3), (1, 3), (2, 3), (3, 3)]


# The manifest


def test_manifest_records_the_work(store: ArtifactStore) -> None:
    before = datetime.now(UTC).isoformat()
    upstream = run_sample(store.root, SampleParams(parts=1)).artifact

    def function(inputs: Mapping[str, Any], params: Params, out: Output) -> None:
        assert inputs["documents"].rows() == 60
        with out.part() as part:
            write_token(part, 0)
            for row in range(3):
                part.reject(doc_id=f"{row}", source="emr", reason="short", detail="1 < 2", text="痛" * 999)
            part.count("kept")
        out.count("documents_in", 4)
        out.count("documents_in")

    work = make(function, version=7, tables=("vocabulary", "rejects"))
    inputs = {"documents": upstream, "corpus": Given("f" * 32)}
    artifact = run(work, store, Params(size=2, speed=3), inputs).artifact
    after = datetime.now(UTC).isoformat()
    manifest = json.loads((artifact.path / "manifest.json").read_text(encoding="utf-8"))

    assert manifest["stage"] == "work"
    assert manifest["stage_version"] == 7
    assert manifest["fingerprint"] == artifact.path.name
    assert manifest["params"] == {"size": 2, "rate": 0.1, "names": [], "free": {}}
    assert manifest["inputs"] == {
        "documents": {"stage": "sample", "fingerprint": upstream.fingerprint, "bytes": upstream.manifest.bytes},
        "corpus": {"stage": "raw", "fingerprint": "f" * 32},
    }
    assert manifest["counters"] == {"documents_in": 5, "kept": 1, "rejected_short": 3}
    for name, rows in (("vocabulary", 1), ("rejects", 3)):
        table = manifest["tables"][name]
        assert table["columns"] == schemas.describe(schemas.TABLES[name])
        assert table["rows"] == rows == sum(part["rows"] for part in table["parts"])
        assert table["bytes"] == sum((artifact.path / part["path"]).stat().st_size for part in table["parts"])
    assert artifact.to_table("rejects")["excerpt"].to_pylist() == ["痛" * 200] * 3
    assert before <= manifest["created_at"] <= after
    assert manifest["code_version"] == code_version()
    assert 0 < manifest["wall_seconds"] < 60
    assert manifest["peak_memory_bytes"] > 10 * 2**20


def test_counters_do_not_depend_on_a_resume(store: ArtifactStore, tmp_path: Path) -> None:
    whole = run_sample(tmp_path / "whole", SampleParams(parts=3)).artifact.manifest
    assert whole.counters == {"documents_in": 3, "lines": 378, "rejected_short": 18}
    with pytest.raises(RuntimeError, match="no result"):
        run(sample, store, SampleParams(parts=3), {}, executor=LosingExecutor())
    resumed = run_sample(store.root, SampleParams(parts=3)).artifact.manifest
    assert resumed.resumed_parts == 3
    assert resumed.counters == whole.counters


def test_seconds_are_counted_once(store: ArtifactStore) -> None:
    def burn(part: PartWriter, index: int) -> None:
        _burn(0.3)
        write_token(part, index)

    def function(inputs: Mapping[str, Any], params: Params, out: Output) -> None:
        out.map(burn, range(2))
        _burn(0.4)

    before = time.process_time()
    manifest = run(make(function), store, Params(), {}).artifact.manifest
    assert 1.0 <= manifest.cpu_seconds <= time.process_time() - before
    assert manifest.wall_seconds >= 1.0


def test_seconds_of_processes_that_a_stage_started_are_counted(store: ArtifactStore) -> None:
    manifest = run(make(lambda inputs, params, out: out.add_cpu_seconds(600.0)), store, Params(), {}).artifact.manifest
    assert 600.0 <= manifest.cpu_seconds < 610.0


def test_cost_of_a_unit_includes_writing_its_files(store: ArtifactStore) -> None:
    text = np.random.default_rng(0).integers(0x4E00, 0x9FA5, 8_000_000, np.uint32).tobytes().decode("utf-32-le")
    words = [text[at : at + 1_000] for at in range(0, len(text), 1_000)]
    rows = pa.table({"word": words, "count": [1] * len(words)})
    with open_build(store, "sample", "0" * 32) as build:
        assert build is not None
        before = time.process_time()
        record = run_unit(build.place, PartWriter.write, Unit(0, ("word_counts", rows)))
    assert record.cpu_seconds > 0.8 * (time.process_time() - before)


def _burn(seconds: float) -> None:
    """Work for `seconds` by both clocks, because other threads of this process may also use the CPU."""
    cpu, wall = time.process_time(), time.monotonic()
    while min(time.process_time() - cpu, time.monotonic() - wall) < seconds:
        sum(range(1000))


@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="this kernel keeps one peak per process")
def test_peak_memory_includes_what_came_before_the_parts(store: ArtifactStore) -> None:
    """Measuring a part resets the peak; the stage's own peak before it must not be lost."""

    def function(inputs: Mapping[str, Any], params: Params, out: Output) -> None:
        np.ones(1000 * 2**20, np.uint8)
        write_tokens(inputs, params, out)

    with measure_usage() as now:
        pass
    manifest = run(make(function), store, Params(), {}).artifact.manifest
    # The kernel may reclaim other pages meanwhile, so not all of the 1,000 MiB need show.
    assert manifest.peak_memory_bytes > now.peak_memory_bytes + 250 * 2**20


def test_code_version_starts_with_the_version_of_the_project() -> None:
    assert code_version().split("+")[0] == VERSION


def test_cost_of_an_inner_stage_is_not_counted_twice(store: ArtifactStore) -> None:
    heard: list[str] = []

    @stage(name="inner", version=1, params=Params, tables=("vocabulary",))
    def inner(inputs: Mapping[str, Any], params: Params, out: Output) -> None:
        _burn(0.6)
        out.map(write_token, [1])

    @stage(name="outer", version=1, params=Params, tables=("vocabulary",))
    def outer(inputs: Mapping[str, Any], params: Params, out: Output) -> None:
        found = out.run(inner, params, {}, on_progress=lambda name, *counts, note="": heard.append(name))
        assert found.stage == "inner" and found.fingerprint != out.fingerprint
        assert out.run(inner, params, {}).path == found.path
        with out.part() as part:
            write_token(part, 2)

    before = time.process_time()
    artifact = run(outer, store, Params(), {}).artifact
    spent = time.process_time() - before
    within = store.latest("inner")
    assert within is not None and within.manifest.cpu_seconds >= 0.6
    assert within.manifest.cpu_seconds + artifact.manifest.cpu_seconds <= spent
    assert set(heard) == {"inner"}


def test_bytes_become_a_file_of_the_artifact(store: ArtifactStore) -> None:
    def function(inputs: Mapping[str, Any], params: Params, out: Output) -> None:
        out.add_bytes("表/note.txt", "头痛\r\n".encode())

    artifact = run(make(function), store, Params(), {}).artifact
    assert artifact.read_file("表/note.txt") == "头痛\r\n".encode()


def test_scratch_survives_a_failure_and_not_the_end(store: ArtifactStore) -> None:
    seen: list[bool] = []

    def function(inputs: Mapping[str, Any], params: Params, out: Output) -> None:
        state = Path(out.scratch, "state")
        seen.append(state.exists())
        state.write_bytes(b"x")
        if len(seen) == 1:
            raise ArithmeticError("no")

    with pytest.raises(ArithmeticError):
        run(make(function), store, Params(), {})
    run(make(function), store, Params(), {})
    assert seen == [False, True]
    assert not list(Path(store.root).rglob("state"))
