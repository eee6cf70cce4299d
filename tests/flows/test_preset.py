"""Presets: the paper's values, and errors that name the key."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from flows.preset import Preset, load_preset, preset_names
from flows.recipe import OF_NETWORKS, Recipe, load_recipe
from infra.errors import UserError
from infra.settings import REPOSITORY
from models import objectives

TABLE_7: dict[str, Any] = {
    "model.num_layers": 12,
    "model.hidden_size": 768,
    "model.intermediate_size": 3072,
    "model.num_heads": 12,
    "model.embedding_size": 768,
    "model.generator_divisor": 3,
    "model.mask_probability": 0.15,
    "training.warmup_steps": 10_000,
    "training.learning_rate": 2e-4,
    "training.adam_epsilon": 1e-6,
    "training.adam_beta1": 0.9,
    "training.adam_beta2": 0.999,
    "model.attention_dropout": 0.1,
    "model.hidden_dropout": 0.1,
    "training.weight_decay": 0.01,
    "training.batch_size": 256,
    "training.steps": 1_000_000,
    "model.rtd_weight": 50,
    "model.mts_weight": 20,
    "model.csp_weight": 1,
    "model.mts_negatives": 5,
    "model.csp_temperature": 0.07,
}


def test_ehealth_holds_table_7() -> None:
    preset = load_preset("ehealth")
    for key, value in TABLE_7.items():
        section, name = key.split(".")
        assert getattr(preset, section)[name] == value, key
    assert preset.model["hidden_size"] // preset.model["num_heads"] == 64
    assert (preset.segment.min_tokens, preset.segment.max_tokens, preset.encode.max_length) == (32, 510, 512)
    assert preset.vocabulary.min_frequency == 5


@pytest.mark.parametrize("name", preset_names())
def test_every_shipped_preset_loads_and_its_lengths_fit(name: str) -> None:
    preset = load_preset(name)
    assert preset.segment.max_tokens + 2 <= preset.encode.max_length <= preset.model["max_positions"]
    assert preset.description


def test_tiny_has_the_same_objective_and_is_small() -> None:
    tiny, full = load_preset("ehealth-tiny"), load_preset("ehealth")
    assert tiny.objective == full.objective
    for key in ("rtd_weight", "mts_weight", "csp_weight", "mts_negatives", "csp_temperature", "mask_probability"):
        assert tiny.model[key] == full.model[key]
    model = objectives.build(tiny.objective, {**tiny.model, "vocab_size": tiny.vocabulary.size})
    assert sum(parameter.numel() for parameter in model.parameters()) < 10_000_000


def test_overrides_reach_every_section() -> None:
    preset = load_preset("ehealth-tiny", {"training.steps": 60, "segment.min_tokens": 8, "cluster.workers": 2})
    assert preset.train.training["steps"] == 60
    assert preset.segment.min_tokens == 8
    assert preset.cluster.workers == 2


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"segment.max_token": 5}, r"unknown key 'segment\.max_token'; did you mean 'max_tokens'"),
        ({"deidentify.sources": "[emr]"}, r"--param 'deidentify\.sources=\[\"…\"\]' \(given: '\[emr\]'\)"),
        ({"ingest.source_of": "emr"}, r"ingest\.source_of takes JSON, .*'ingest\.source_of={\"…\": \"…\"}'"),
        ({"segmnt.max_tokens": 5}, r"unknown key 'segmnt'; did you mean 'segment'"),
        ({"repeated_lines.min_document": 5}, r"'repeated_lines\.min_document'; did you mean 'min_documents'"),
        ({"segment.max_tokens": "many"}, r"segment\.max_tokens.*'many'"),
        ({"segment.max_tokens": 8}, r"max_tokens.*min_tokens"),
        ({"model.num_heads": 5}, "num_heads"),
        ({"model.hiden_size": 5}, "hiden_size.*hidden_size"),
        ({"training.step": 5}, "unknown key 'step' in training; did you mean steps"),
        ({"training.steps": "1_000"}, r"training\.steps is '1_000'; it must be an integer"),
        ({"model.mask_probability": "x"}, r"model\.mask_probability is 'x'; it must be a finite number"),
        ({"model.vocab_size": 5}, r"model\.vocab_size follows from the vocabulary\. Set vocabulary\.size"),
        ({"cluster.best_by": "nonsense"}, r"best_by='nonsense' is no held-out figure; there are: .*mts_accuracy"),
        ({"objective": "bert"}, "unknown objective 'bert'"),
        ({"description.x": 1}, "is a value, not a section"),
    ],
)
def test_mistakes_are_told_by_key(overrides: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        load_preset("ehealth-tiny", overrides)


def test_unknown_and_broken_presets_are_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no preset 'ehealt'.*ehealth-tiny"):
        load_preset("ehealt")
    broken = tmp_path / "mine.toml"
    broken.write_text("steps = = 3")
    with pytest.raises(UserError, match=r"mine\.toml is not valid TOML"):
        load_preset(str(broken))


@pytest.mark.parametrize("name", preset_names())
def test_a_recipe_is_what_the_preset_says_about_data(name: str) -> None:
    recipe, preset = load_recipe(name, {"segment.min_tokens": 8}), load_preset(name, {"segment.min_tokens": 8})
    assert set(Preset.model_fields) == set(Recipe.model_fields) | set(OF_NETWORKS)
    assert recipe.model_dump() == {key: preset.model_dump()[key] for key in Recipe.model_fields}
    with pytest.raises(UserError, match=r"unknown key 'segment\.max_token'; did you mean 'max_tokens'"):
        load_recipe(name, {"segment.max_token": 5})
    with pytest.raises(UserError, match=r"unknown key 'trainin'"):
        load_recipe(name, {"trainin.steps": 5})


def test_flows_over_text_bring_no_torch() -> None:
    code = "import sys, flows.corpus, flows.vocabulary, flows.entities; sys.exit('torch' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, env=environment, check=True, timeout=300)
