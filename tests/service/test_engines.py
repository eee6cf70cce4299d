"""Folders that an engine cannot open are told by option and name, before anything listens."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from flows.service.app import specs_of
from flows.service.engines import (
    DEIDENTIFY,
    LINK,
    NORMALISE,
    PREDICT,
    BadRecordError,
    Engine,
    EngineSpec,
    Predicting,
    artifact_of,
    fingerprint_of_folder,
    open_engine,
)
from flows.service.settings import ServiceSettings
from flows.service.worker import Failure, outcomes_of
from infra.errors import UserError
from tasks.finetune.predict import Predictor
from tests.support.service import folders


@pytest.fixture
def copied(served: ServiceSettings, tmp_path: Path) -> Callable[[Path], Path]:
    """Copies of folders, to be damaged."""

    def copy(folder: Path) -> Path:
        return Path(shutil.copytree(folder, tmp_path / "copies" / folder.parent.name / folder.name))

    return copy


def refused(kind: str, name: str, folder: Path | None) -> str:
    with pytest.raises(UserError) as error:
        open_engine(EngineSpec(kind, name, folder, "cpu"))
    assert "\n" not in str(error.value)
    return str(error.value)


def test_wrong_folders_are_told_by_name(served: ServiceSettings, tmp_path: Path) -> None:
    model, normaliser, graph = served.models["cmeee"], served.normaliser, served.linker
    assert normaliser is not None and graph is not None
    assert "trained for cmeee, not for the task cmedqq" in refused(PREDICT, "predict/cmedqq", model)
    assert f"--model own: {normaliser} is a normaliser" in refused(PREDICT, "predict/own", normaliser)
    assert f"--normaliser: {model} is a fine-tuned model" in refused(NORMALISE, "normalise", model)
    assert f"--normaliser: {graph} contains no normaliser" in refused(NORMALISE, "normalise", graph)
    assert f"--linker: {model} is no artifact" in refused(LINK, "link", model)
    assert f"--model own: {graph} is not a fine-tuned model" in refused(PREDICT, "predict/own", graph)
    nowhere = tmp_path / "nowhere"
    for kind, name in ((PREDICT, "predict/own"), (NORMALISE, "normalise"), (LINK, "link")):
        assert f"there is no folder {nowhere}" in refused(kind, name, nowhere)


def test_damaged_folders_are_told_by_name(served: ServiceSettings, copied: Callable[[Path], Path]) -> None:
    model = copied(served.models["cmeee"])
    for file in ("head.safetensors", "head.json", "task.json", "tokenizer.json"):
        content = (model / file).read_bytes()
        for damage in (content[: len(content) // 2], b"\xff" * 100, b""):
            (model / file).write_bytes(damage)
            assert str(model) in refused(PREDICT, "predict/own", model), file
        (model / file).write_bytes(content)
    assert served.normaliser is not None and served.linker is not None
    index = copied(served.normaliser)
    for path in sorted(index.glob("*.*")):
        content = path.read_bytes()
        path.write_bytes(content[: len(content) // 3])
        if path.suffix in (".json", ".parquet", ".npy"):
            assert "--normaliser: " in refused(NORMALISE, "normalise", index), path
        path.write_bytes(content)
    graph = Path(shutil.copytree(served.linker.parent.parent, index.parent / "store")) / served.linker.parent.name
    part = next((graph / served.linker.name).rglob("*.parquet"))
    part.write_bytes(part.read_bytes()[:-5])
    assert part.name in refused(LINK, "link", graph / served.linker.name)


def test_fingerprint_is_that_of_the_content(served: ServiceSettings, copied: Callable[[Path], Path]) -> None:
    model = served.models["matching"]
    copy = copied(model)
    assert fingerprint_of_folder(copy) == fingerprint_of_folder(model)
    (copy / "vocab.txt").write_text("x")
    changed = fingerprint_of_folder(copy)
    assert changed != fingerprint_of_folder(model)
    (copy / "vocab.txt").rename(copy / "vocab2.txt")
    assert fingerprint_of_folder(copy) not in (changed, fingerprint_of_folder(model))
    assert artifact_of(model) is None and served.linker is not None
    assert artifact_of(served.linker) == f"{served.linker.parent.name}/{served.linker.name}"


def test_profile_rules_and_encoder_change_the_fingerprint(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('[deny]\nname = ["老王头"]\n', encoding="utf-8")
    specs = [
        EngineSpec(DEIDENTIFY, DEIDENTIFY),
        EngineSpec(DEIDENTIFY, DEIDENTIFY, profile="hipaa"),
        EngineSpec(DEIDENTIFY, DEIDENTIFY, rules=rules),
        EngineSpec(DEIDENTIFY, DEIDENTIFY, encoder=True),
    ]
    opened = [open_engine(spec) for spec in specs]
    assert len({one.opened.fingerprint for one in opened}) == 4
    assert "encoder" not in opened[0].opened.about and opened[3].opened.about["encoder"] is True
    assert open_engine(specs[0]).opened == opened[0].opened
    text = "取消预约成功:成龙飞,心血管内科,04-27下午,号源已释放。一个月内爽约三次将限制预约。"
    stays = ["成龙飞" in next(iter(one.answers([(text, False)]))).decode() for one in opened]
    assert stays == [True, True, True, False]
    assert [one.encoder for one in specs_of(ServiceSettings(deidentify=True, encoder=True))] == [True]
    (answer,) = opened[2].answers([("老王头来诊", False)])
    assert "老王头" not in answer.decode()
    assert "there are minimal, hipaa" in refused_profile()


def refused_profile() -> str:
    with pytest.raises(UserError) as error:
        open_engine(EngineSpec(DEIDENTIFY, DEIDENTIFY, profile="none"))
    return str(error.value)


def test_record_that_a_model_does_not_take_spoils_no_other(served: ServiceSettings) -> None:
    engine: Engine = open_engine(EngineSpec(PREDICT, "predict/own", served.models["matching"], "cpu"))
    with pytest.raises(BadRecordError):
        list(engine.answers([["头痛"]]))
    found = list(outcomes_of(engine, [["头痛", "发热"], ["头痛"], ["头痛", "发热"]]))
    assert found[0] == found[2] and isinstance(found[0], bytes)
    assert isinstance(found[1], Failure) and found[1].is_users
    assert folders.PAIRED.task in found[1].message and "头痛" not in found[1].message


@pytest.mark.parametrize("together", [False, True])
def test_model_computes_what_waits_one_by_one_or_together(
    together: bool, served: ServiceSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Predicting(EngineSpec(PREDICT, "predict/own", served.models["matching"], "cpu", together))
    sizes: list[int] = []
    predict = Predictor.predict

    def counted(self: Predictor, texts: Sequence[Any], progress: None = None) -> list[Any]:
        sizes.append(len(texts))
        return predict(self, texts, progress)

    monkeypatch.setattr(Predictor, "predict", counted)
    records = [["头痛三天", "发热"], ["头痛", " "], ["胸闷", "头痛三天，伴恶心和呕吐"], ["发热", "咳嗽"]]
    found = [json.loads(one) for one in engine.answers(records)]
    assert sizes == ([3] if together else [1, 1, 1])
    assert engine.one_by_one is not together
    assert found[1] == {"answer": None, "scores": None, "error": "text 2 is empty"}
    for one, (given, answer) in enumerate(zip(records, found, strict=True)):
        if one != 1:
            (alone,) = map(json.loads, engine.answers([given]))
            assert answer["answer"] == alone["answer"]
            assert answer["scores"] == pytest.approx(alone["scores"], abs=1e-6)
    assert [json.loads(one)["error"] for one in engine.answers([["", "发热"]])] == ["text 1 is empty"]


class Halting:
    """An engine that answers in one go, and fails at the third of several records."""

    one_by_one = False

    def answers(self, records: Sequence[str]) -> Iterator[bytes]:
        for place, record in enumerate(records):
            if place == 2:
                raise ZeroDivisionError(record)
            yield record.encode()


def test_each_record_has_one_answer_though_an_engine_fails_halfway() -> None:
    """A surplus answer would become that of the next client's request."""
    found = list(outcomes_of(Halting(), ["a", "b", "c", "d"]))  # type: ignore[arg-type]
    assert found == [b"a", b"b", b"c", b"d"]
