"""Arrays of a graph: looked up as in plain Python, checked when they are opened, and one copy for all processes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.errors import UserError
from infra.settings import REPOSITORY
from models.knowledge import DESCRIPTION, KINDS, KnowledgeArrays
from tests.support.graphs.knowledge_folders import save_knowledge

Pairs = list[list[tuple[int, list[tuple[int, int]]]]]
"""For each entity its neighbours, best first: row, and the triples as (relation, direction)."""

ENTITIES, RELATIONS = 6, 3
triples = st.lists(st.tuples(st.integers(0, RELATIONS - 1), st.sampled_from([1, -1])), min_size=1, max_size=3)
neighbours = st.lists(st.tuples(st.integers(0, ENTITIES - 1), triples), max_size=5)
graphs = st.lists(neighbours, min_size=ENTITIES, max_size=ENTITIES)


@given(graph=graphs, asked=st.lists(st.integers(0, ENTITIES - 1), max_size=8), k=st.integers(1, 6))
def test_best_neighbours_are_those_of_the_lists(
    tmp_path_factory: pytest.TempPathFactory, graph: Pairs, asked: list[int], k: int
) -> None:
    known = KnowledgeArrays.open(save_knowledge(tmp_path_factory.mktemp("knowledge"), graph, relations=RELATIONS))
    found = known.best(np.array(asked, dtype=np.int64), k)
    wanted = [graph[entity][:k] for entity in asked]
    assert found.offsets.tolist() == np.cumsum([0, *map(len, wanted)]).tolist()
    assert found.entities.tolist() == [other for some in wanted for other, _ in some]
    firsts = [joined[0] for some in wanted for _, joined in some]
    assert list(zip(found.relations.tolist(), found.directions.tolist(), strict=True)) == firsts
    assert all(column.dtype == np.int64 for column in found)


def small(folder: Path) -> Path:
    return save_knowledge(folder, [[(1, [(0, 1), (1, -1)])], [(0, [(0, -1)]), (2, [(2, 1)])], []], relations=3)


def test_arrays_are_mapped_and_cannot_be_written_to(tmp_path: Path) -> None:
    known = KnowledgeArrays.open(small(tmp_path))
    assert known.num_entities == 3 and known.entity_id(2) == "实体2"
    assert known.relation_names == ("关系0", "关系1", "关系2")
    for name in KINDS:
        assert not getattr(known, name).flags.writeable and not getattr(known, name).flags.owndata
    with pytest.raises(ValueError, match="read-only"):
        known.entity_vectors[0] = 1.0


def replaced(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Path], Any]:
    def damage(folder: Path) -> None:
        file = folder / f"{name}.npy"
        np.save(file, change(np.load(file)))

    return damage


def cut(folder: Path) -> None:
    data = (folder / "projections.npy").read_bytes()
    (folder / "projections.npy").write_bytes(data[:-4])


def other_format(folder: Path) -> None:
    described = json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))
    (folder / DESCRIPTION).write_text(json.dumps(described | {"format": 99}), encoding="utf-8")


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda folder: (folder / "types.npy").unlink(), "types.npy cannot be mapped"),
        (cut, "projections.npy cannot be mapped"),
        (lambda folder: (folder / DESCRIPTION).unlink(), "not a folder of knowledge arrays"),
        (lambda folder: (folder / DESCRIPTION).write_text("{", encoding="utf-8"), "knowledge.json cannot be read"),
        (other_format, "format 99"),
        (replaced("types", lambda array: array.astype(np.int64)), r"types.npy .* int64 \(3,\) instead of int32"),
        (replaced("types", lambda array: array + 7), "types.npy .* points outside"),
        (replaced("neighbours", lambda array: array + 2), "neighbours.npy .* points outside of 3"),
        (replaced("neighbours", lambda array: array[:-1]), "neighbours.npy|scores.npy"),
        (replaced("relations", lambda array: array - 1), "relations.npy .* points outside"),
        (replaced("triple_offsets", lambda array: array[[0, 0, 2, 3]]), "joined by no triple"),
        (replaced("neighbour_offsets", lambda array: array + 1), "neighbour_offsets.npy .* does not divide 3"),
        (replaced("entity_vectors", lambda array: array[:, :1]), r"projections.npy .* instead of float32"),
        (replaced("frequencies", lambda array: array[1:]), "frequencies.npy"),
    ],
)
def test_unfit_folder_is_named(tmp_path: Path, damage: Callable[[Path], Any], problem: str) -> None:
    damage(small(tmp_path))
    with pytest.raises(UserError, match=problem):
        KnowledgeArrays.open(tmp_path)


def test_two_processes_hold_one_copy(tmp_path: Path) -> None:
    """The kernel's counts: each process has all of the vectors (Rss), of which one half is its share (Pss)."""
    rows, width = 40_000, 200
    save_knowledge(tmp_path, [[] for _ in range(rows)], relations=1, width=width)
    script = str(REPOSITORY / "tests/support/graphs/mapped_share.py")
    with Member(script, tmp_path) as one, Member(script, tmp_path) as other:
        assert (one.answer(), other.answer()) == ("read", "read")  # before either counts
        counted = [json.loads(member.answer("count")) for member in (one, other)]
    size = rows * width * 4 / 1024
    for own in counted:
        assert own["rss_kib"] == pytest.approx(size, rel=0.02)
        assert own["pss_kib"] == pytest.approx(size / 2, rel=0.02)
        assert own["private_kib"] < 0.01 * size


class Member:
    """A process that answers lines with lines."""

    def __init__(self, script: str, folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, script, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def answer(self, question: str = "") -> str:
        """Return its next line, after it was sent one if any is given."""
        assert self._process.stdin is not None and self._process.stdout is not None
        if question:
            print(question, file=self._process.stdin, flush=True)
        return self._process.stdout.readline().strip()

    def __enter__(self) -> Member:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()
