"""Segmentation of entities by the model of the phrases: whole phrases, and words between them."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.artifacts import ArtifactStore
from infra.errors import UserError
from infra.stage import run
from tasks.entities.segments import primitive_segments
from tasks.phrases.autophrase import SEGMENT, SETTING
from tasks.phrases.segments import PhraseSegmentsParams
from tasks.phrases.stage import PhrasesParams, name_cutter, phrases
from tests.support.processes.fake_program import fake
from tests.support.text.phrase_texts import NAMES, list_of, need_program, segments_of, texts
from tests.support.training.given_tables import given_phrases

MODEL: Any = given_phrases((("糖尿病", "肾病"), 0.9, "kg"), (("肾病", "患者"), 0.2, "none"), (("急性",), 0.9, "none"))


def cut(surfaces: list[str], folder: Path, model: Any = MODEL) -> dict[str, tuple[str, ...]]:
    return primitive_segments(surfaces, name_cutter(None, "words"), model, PhraseSegmentsParams(), str(folder))


def test_phrases_stay_whole_and_the_rest_is_cut_into_words(tmp_path: Path) -> None:
    assert cut(["急性糖尿病肾病患者", "肾病患者（糖尿病）", "CT 3.5%", "病"], tmp_path) == {
        "急性糖尿病肾病患者": ("急性", "糖尿病肾病", "患者"),
        "肾病患者（糖尿病）": ("肾病", "患者", "（", "糖尿病", "）"),
        "CT 3.5%": ("CT", " ", "3", ".", "5", "%"),
        "病": ("病",),
    }
    assert cut([], tmp_path) == {}


SURFACES = st.lists(
    st.lists(st.sampled_from(["糖尿病", "肾病", "患者", "急性", " ", "，", "B12"]), min_size=1, max_size=8).map(
        "".join
    ),
    unique=True,
    max_size=6,
)


@given(surfaces=SURFACES)
def test_segments_join_to_the_surface(tmp_path_factory: pytest.TempPathFactory, surfaces: list[str]) -> None:
    found = cut(surfaces, tmp_path_factory.getbasetemp())
    assert list(found) == surfaces
    for surface, segments in found.items():
        assert "".join(segments) == surface and "" not in segments
        ends = list(itertools.accumulate(map(len, segments)))
        for at in range(len(surface)):
            if surface.startswith("糖尿病肾病", at):
                assert at + len("糖尿病") not in ends


@pytest.mark.parametrize("unit", ["words", "characters"])
def test_entities_are_cut_by_the_program_too(store: ArtifactStore, tmp_path: Path, unit: Any) -> None:
    need_program()
    inputs = {"segments": segments_of(store, texts(1, 500)), "labels": list_of(tmp_path, NAMES[::2])}
    model = run(phrases, store, PhrasesParams(unit=unit), inputs).artifact
    found = cut(["患者急性胰腺炎，糖尿病肾病", *NAMES], tmp_path / "scratch", model)
    assert all("".join(segments) == surface for surface, segments in found.items())
    assert sum(found[name] == (name,) for name in NAMES[::2]) > 0.8 * len(NAMES[::2])
    assert found["患者急性胰腺炎，糖尿病肾病"][-2:] == ("，", "糖尿病肾病")
    assert not list((tmp_path / "scratch").rglob("run-*"))


def test_failing_program_is_reported(store: ArtifactStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need_program()
    inputs = {"segments": segments_of(store, texts(1, 300)), "labels": list_of(tmp_path, NAMES[::2])}
    model = run(phrases, store, PhrasesParams(), inputs).artifact
    fake(tmp_path / "build", "print('no memory')\nsys.exit(3)", SEGMENT)
    monkeypatch.setenv(SETTING, str(tmp_path / "build"))
    with pytest.raises(UserError, match=r"segphrase_segment ended with exit code 3[\s\S]*no memory"):
        cut(NAMES, tmp_path / "scratch", model)
