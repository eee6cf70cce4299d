"""Segments of documents that occur again are reused from an earlier artifact, and equal those of a rebuild."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tasks.segment.stage as under_test
from infra.arrays.batching import batches_of
from infra.artifacts import Artifact, ArtifactStore
from infra.builds import parts as parts_of_builds
from infra.stage import run
from tasks.segment.stage import SegmentParams, segment
from tasks.segment.units import UnitCosts
from tests.support.text.tables import documents_artifact

PARAMS = SegmentParams(max_tokens=24, min_tokens=5)


def segmented(store: ArtifactStore, parts: Sequence[Sequence[str]], params: SegmentParams = PARAMS) -> Artifact:
    return run(segment, store, params, {"documents": documents_artifact(store, *map(list, parts))}).artifact


def parts_of(artifact: Artifact) -> dict[str, list[str]]:
    """Return the hashes of all parts."""
    return {name: [part.sha256 for part in table.parts] for name, table in artifact.manifest.tables.items()}


def texts(count: int, seed: int) -> list[str]:
    """Return synthetic texts of one to some twenty sentences; every fifth is too short to be kept."""
    drawn = random.Random(seed)
    words = ["患者", "糖尿病", "空腹血糖7.8mmol/L", "复查", "头痛三天", "咳嗽", "无发热"]
    sentences = [0 if number % 5 == 4 else drawn.randrange(2, 20) for number in range(count)]
    return [
        "".join(f"{number}{drawn.choice(words)}{drawn.choice(words)}。" for _ in range(length)) or f"{number}。"
        for number, length in enumerate(sentences)
    ]


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """List of the texts that were cut."""
    found: list[str] = []

    def spied(given: Sequence[str]) -> UnitCosts:
        found.extend(given)
        return UnitCosts(given)

    monkeypatch.setattr(under_test, "UnitCosts", spied)
    return found


def test_only_new_documents_are_cut(store: ArtifactStore, tmp_path: Path, cut: list[str]) -> None:
    given, new = texts(60, seed=1), "新来的患者头痛三天，咳嗽，无发热。"
    first = segmented(store, [given[:20], given[20:]])
    assert first.manifest.counters["rejected_short_segment"] == first.rows("rejects") == 12
    cut.clear()
    changed = [[*given[:7], *given[8:20]], [*given[20:25], new, *given[25:]]]
    refreshed = segmented(store, changed)
    assert sorted(cut) == sorted([new, *given[4::5]])  # rejected documents count as unknown
    rebuilt = segmented(ArtifactStore(tmp_path / "rebuilt"), changed)
    assert parts_of(refreshed) == parts_of(rebuilt)
    assert refreshed.manifest.counters == rebuilt.manifest.counters


@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_the_result_equals_a_rebuild(data: st.DataObject) -> None:
    pool = texts(30, seed=data.draw(st.integers(0, 3)))
    parts = st.lists(st.lists(st.sampled_from(pool), min_size=1, max_size=12), min_size=1, max_size=3)
    with tempfile.TemporaryDirectory() as folder:
        store = ArtifactStore(Path(folder, "refreshed"))
        for _ in range(2):
            segmented(store, [[*pool[:2]], *data.draw(parts)])
        last = [[*pool[:2]], *data.draw(parts)]
        refreshed, rebuilt = segmented(store, last), segmented(ArtifactStore(Path(folder, "rebuilt")), last)
        assert parts_of(refreshed) == parts_of(rebuilt)
        assert refreshed.manifest.counters == rebuilt.manifest.counters


def test_parts_end_where_those_of_a_rebuild_end(
    store: ArtifactStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(under_test, "batches_of", partial(batches_of, characters=40))
    monkeypatch.setattr(parts_of_builds, "PART_BYTES", 3_000)
    given = texts(300, seed=6)
    segmented(store, [given])
    refreshed = segmented(store, [given[1:]])
    assert len(refreshed.parts()) > 10
    assert parts_of(refreshed) == parts_of(segmented(ArtifactStore(tmp_path / "rebuilt"), [given[1:]]))


def test_nothing_is_reused_of_a_part_that_was_completely_rejected(store: ArtifactStore, tmp_path: Path) -> None:
    given = [text for text in texts(60, seed=4) if len(text) < 5]
    segmented(store, [given, texts(3, seed=5)])
    refreshed = segmented(store, [given[1:], texts(3, seed=5)])
    assert refreshed.rows("rejects") == len(given) - 1
    assert parts_of(refreshed) == parts_of(
        segmented(ArtifactStore(tmp_path / "rebuilt"), [given[1:], texts(3, seed=5)])
    )


def test_nothing_is_reused_with_other_parameters(store: ArtifactStore, tmp_path: Path, cut: list[str]) -> None:
    given = texts(30, seed=2)
    segmented(store, [given])
    cut.clear()
    other = SegmentParams(max_tokens=30, min_tokens=5)
    made = segmented(store, [given[1:]], other)
    assert cut == given[1:]
    assert parts_of(made) == parts_of(segmented(ArtifactStore(tmp_path / "rebuilt"), [given[1:]], other))


@pytest.mark.parametrize("table", ["segments", "rejects"])
@pytest.mark.parametrize("damage", ["gone", "broken"])
def test_a_damaged_earlier_part_costs_only_time(
    store: ArtifactStore, tmp_path: Path, table: str, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    given = texts(40, seed=3)
    earlier = segmented(store, [given])
    (part,) = (Path(earlier.path) / table).iterdir()
    if damage == "gone":
        part.unlink()
    else:
        part.write_bytes(part.read_bytes()[:-20])
    refreshed = segmented(store, [given[1:]])
    assert "anew" in caplog.text and part.name in caplog.text
    assert parts_of(refreshed) == parts_of(segmented(ArtifactStore(tmp_path / "rebuilt"), [given[1:]]))
