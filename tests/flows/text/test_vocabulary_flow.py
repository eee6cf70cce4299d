"""Vocabularies of flows: built from text, or brought by the user."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flows.pretrain import pretrain
from flows.recipes.pretraining import load_preset
from flows.shared.vocabularies import adopt_vocabulary, build_vocabulary
from flows.vocabulary import vocabulary
from infra.artifacts import Artifact, ArtifactStore
from infra.errors import UserError
from infra.stage import Stage, StageParams, run
from models.tokenizer.wordpiece import SPECIAL_TOKENS
from tasks.files.raw_input import RawInput
from tests.support.text.tables import documents_artifact


def test_a_vocabulary_is_built_or_adopted(store: ArtifactStore, tmp_path: Path) -> None:
    def runner(work: Stage[Any], params: StageParams, **inputs: Any) -> Artifact:
        return run(work, store, params, inputs).artifact

    file = tmp_path / "vocab.txt"
    file.write_text("\n".join(["甲", *SPECIAL_TOKENS]), encoding="utf-8")
    recipe = load_preset("ehealth-tiny", {"vocabulary.unused": 2})
    documents = documents_artifact(store, ["患者CT"] * 5)
    own = build_vocabulary(runner, recipe, documents)
    assert own.to_table()["token"].to_pylist()[5:] == ["[unused1]", "[unused2]", "##t", "c", "患", "者", "ct"]
    brought = adopt_vocabulary(runner, recipe, RawInput(file))
    assert brought.to_table()["token"].to_pylist() == [*SPECIAL_TOKENS, "甲"]
    assert b'"model_max_length": 128' in brought.read_file("tokenizer_config.json")


def test_a_faulty_vocabulary_is_reported_before_any_work(tmp_path: Path) -> None:
    file = tmp_path / "vocab.txt"
    file.write_text("\n".join([*SPECIAL_TOKENS, "甲", "甲"]), encoding="utf-8")
    for flow, name in ((vocabulary, "compare"), (pretrain, "vocabulary_file")):
        with pytest.raises(UserError, match=r"vocab\.txt, line 7: '甲' is already on line 6"):
            flow.fn(**{name: str(file)})
