"""A normaliser whose ranker reads knowledge: trained, moved away from its knowledge, and given it again. Synthetic."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from flows.cli import main
from flows.normalise import normalise
from infra.errors import UserError
from tasks.normalise.normaliser import Normaliser
from tests.support.graphs.knowledge_models import save_text_encoder
from tests.support.heads.toy_task import DISEASES, SYMPTOMS

TEXTS = ("患者有高血压", "有头痛", "糖尿病引起咳嗽")
SMALL: dict[str, Any] = {
    "normaliser.epochs": 2,
    "normaliser.batch_sizes": 8,
    "normaliser.learning_rates": 3e-3,
    "normaliser.seeds": 1,
    "normaliser.k": 6,
}


class World:
    """A store with a knowledge model, its knowledge and a normaliser, which is also copied to where neither is."""

    def __init__(self, folder: Path) -> None:
        encoder = save_text_encoder(folder / "store")
        self.arrays = folder / "store" / "knowledge_arrays" / "k1"
        names = (*SYMPTOMS, *DISEASES)
        rows = "".join(f"R{number:02d},{name}\n" for number, name in enumerate(names))
        (folder / "list.csv").write_text(f"编码,名称\n{rows}", encoding="utf-8")
        for split, word in (("train", "患者有"), ("dev", "检查")):
            labelled = [{"text": word + name, "normalized_result": name} for name in names]
            (folder / f"CHIP-CDN_{split}.json").write_text(json.dumps(labelled, ensure_ascii=False), encoding="utf-8")
        asked = {"terms": str(folder / "list.csv"), "data": str(folder), "model": str(encoder), "synonyms": False}
        self.trained = Path(normalise.fn(rank=True, overrides=SMALL, **asked))
        self.index = Path(normalise.fn(rank=False, terms=asked["terms"], synonyms=False))
        self.copied = shutil.copytree(self.trained, folder / "copied")
        written = self.copied / "model" / "encoder" / "config.json"
        config = json.loads(written.read_text(encoding="utf-8"))
        config["knowledge_source"]["folder"] = "knowledge"
        written.write_text(json.dumps(config), encoding="utf-8")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("world")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("YIWEN_HOME", str(folder / "store"))
        patch.delenv("ELASTICSEARCH_URL", raising=False)
        return World(folder)


def scores(normaliser: Normaliser) -> list[dict[str, float]]:
    return [{one.term: one.score for one in answer.considered} for answer in normaliser.normalise(TEXTS)]


def test_knowledge_reaches_the_scores_of_candidates(world: World) -> None:
    found = scores(Normaliser(world.trained, device="cpu"))
    without = scores(Normaliser(world.trained, device="cpu", knowledge=False))
    changes = [abs(score - one[term]) for own, one in zip(found, without, strict=True) for term, score in own.items()]
    assert max(changes) > 1e-5


def test_normaliser_away_from_its_knowledge_takes_it_from_the_command_line(world: World, tmp_path: Path) -> None:
    source, target = tmp_path / "asked.txt", tmp_path / "answers.csv"
    source.write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    command = ["normalise", "--model", str(world.copied), "--input", str(source), "--output", str(target)]
    assert main([*command, "--device", "cpu", "--knowledge", str(world.arrays)]) == 0
    with target.open(encoding="utf-8-sig", newline="") as file:
        shown = [json.loads(row["candidates"]) for row in csv.DictReader(file)]
    expected = scores(Normaliser(world.trained, device="cpu"))
    assert [{one["term"]: one["score"] for one in own} for own in shown] == [
        {term: round(score, 4) for term, score in own.items()} for own in expected
    ]


def test_missing_knowledge_is_named_with_the_option_that_gives_it(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "asked.txt").write_text("头痛\n", encoding="utf-8")
    files = ["--input", str(tmp_path / "asked.txt"), "--output", str(tmp_path / "answers.csv")]
    assert main(["normalise", "--model", str(world.copied), *files, "--device", "cpu"]) == 2
    message = capsys.readouterr().err
    assert "knowledge_arrays/k1" in message and "--knowledge to predict or normalise" in message


def test_knowledge_without_a_ranker_is_refused(world: World) -> None:
    with pytest.raises(UserError, match=r"has no ranker.* Leave the knowledge out"):
        Normaliser(world.index, knowledge=world.arrays)
