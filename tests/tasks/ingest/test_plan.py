"""The plan: files decide where units end, so that a changed file changes only the units around it."""

from __future__ import annotations

import dataclasses
import hashlib
import pickle
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.artifacts import ArtifactStore
from tasks.files.raw_input import RawFile, RawInput
from tasks.files.slices import Slice
from tasks.ingest.plan import plan_units
from tasks.ingest.stage import IngestParams, ingest
from tests.support.text.reading import jsonl, parquet, written, zipped
from tests.support.text.stages import do

PART = 1 << 20


def raw_file(name: str, version: int, size: int) -> RawFile:
    """Return a file that is never opened: a file that is not cut is planned by its name, hash and size alone."""
    return RawFile(f"/nowhere/{name}", name, hashlib.sha256(f"{name}{version}".encode()).hexdigest(), size, "0")


def units_of(files: list[RawFile]) -> list[tuple[Slice, ...]]:
    return plan_units(sorted(files, key=lambda file: file.name), PART, None, "auto")


FILES = st.lists(
    st.tuples(st.integers(0, 10**6), st.integers(0, PART // 2)),
    min_size=1,
    max_size=150,
    unique_by=lambda file: file[0],
)


@settings(max_examples=150, deadline=None)
@given(FILES, st.data())
def test_one_changed_file_changes_few_units(sizes: list[tuple[int, int]], data: st.DataObject) -> None:
    files = [raw_file(f"{number:07}.csv", 0, size) for number, size in sizes]
    index = data.draw(st.integers(0, len(files) - 1))
    changed, without = (
        raw_file(files[index].name, 1, data.draw(st.integers(0, PART))),
        files[:index] + files[index + 1 :],
    )
    before = units_of(files)
    assert [piece.name for unit in before for piece in unit] == sorted(file.name for file in files)
    for after in (units_of(without), units_of([*without, changed])):
        # If a unit is full before its drawn end, the next unit begins elsewhere too: a rare chain.
        assert len(set(after) - set(before)) <= 6
        assert len(set(before) - set(after)) <= 6


@settings(max_examples=50, deadline=None)
@given(FILES)
def test_units_are_bounded_and_contain_every_file(sizes: list[tuple[int, int]]) -> None:
    units = units_of([raw_file(f"{number:07}.csv", 0, size) for number, size in sizes])
    assert all(len(unit) == 1 or sum(piece.size for piece in unit) <= PART for unit in units)
    assert sum(map(len, units)) == len(sizes)


def test_units_contain_a_quarter_of_the_bound_on_average() -> None:
    units = units_of([raw_file(f"{number:07}.csv", 0, 10_000) for number in range(5000)])
    assert 0.15 < 5000 * 14_096 / len(units) / PART < 0.35


def test_equal_files_give_equal_units_in_any_folder(tmp_path: Path) -> None:
    files = {
        "a.jsonl": jsonl([{"text": f"{n}" * 20} for n in range(100)]),
        "b.parquet": parquet([{"text": f"{n}" * 20} for n in range(100)]),
        "c.zip": zipped({"x.txt": b"x"}),
        "d.txt": b"y",
    }
    plans = [plan_units(RawInput(written(tmp_path / at, files)).files, 500, None, "auto") for at in ("one", "two")]
    assert plans[0] == plans[1] and hash(tuple(plans[0])) == hash(tuple(plans[1]))
    assert len(plans[0]) > 8
    assert pickle.loads(pickle.dumps(plans[0])) == plans[0]
    keys = {
        tuple(getattr(piece, field.name) for field in dataclasses.fields(piece) if field.compare)
        for unit in plans[0]
        for piece in unit
    }
    assert len(keys) == sum(map(len, plans[0]))
    assert all(isinstance(value, str | int | None) for key in keys for value in key)


@pytest.mark.parametrize("txt_documents", ["lines", "blank_lines"])
@given(text=st.text(st.sampled_from("甲乙 \n\t"), max_size=300), size=st.integers(1, 60))
@settings(max_examples=80, deadline=None)
def test_ranges_join_to_the_file_and_count_its_lines(
    tmp_path_factory: pytest.TempPathFactory, txt_documents: str, text: str, size: int
) -> None:
    folder = written(tmp_path_factory.mktemp("ranges"), {"a.txt": text.encode()})
    pieces = [piece for unit in plan_units(RawInput(folder).files, size, None, txt_documents) for piece in unit]  # type: ignore[arg-type]
    if len(pieces) == 1:
        return
    data = text.encode()
    assert [piece.start for piece in pieces] == [0, *(piece.end for piece in pieces[:-1])]
    assert pieces[-1].end == len(data)
    assert all(piece.first_row == 1 + data[: piece.start].count(b"\n") for piece in pieces)


def test_a_refresh_reads_only_the_units_around_new_files(tmp_path: Path) -> None:
    files = {f"{number:03}.jsonl": jsonl([{"text": f"第{number}篇" * 300}]) for number in range(120)}
    params, store = IngestParams(bytes_per_part=100_000), ArtifactStore(tmp_path / "store")
    before = do(store, ingest, params, corpus=RawInput(written(tmp_path / "one", files)))
    changed = {**files, "050.jsonl": jsonl([{"text": "改"}]), "0505.jsonl": jsonl([{"text": "新"}])}
    after = do(store, ingest, params, corpus=RawInput(written(tmp_path / "two", changed)))
    alone = do(ArtifactStore(tmp_path / "other"), ingest, params, corpus=RawInput(tmp_path / "two"))
    assert after.to_table().to_pylist() == alone.to_table().to_pylist()
    assert len(before.parts("documents")) > 15
    assert after.manifest.taken_over_parts >= len(before.parts("documents")) - 4
