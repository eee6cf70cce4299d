"""Settings of objectives: keys and defaults are those of finished runs; the shared part gives the sizes of networks."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from models import objectives
from models.encoder.config import EncoderConfig
from models.training.columns import MENTIONS

ENCODER: dict[str, Any] = {
    "vocab_size": 99,
    "hidden_size": 768,
    "num_layers": 12,
    "num_heads": 12,
    "intermediate_size": 3072,
    "max_positions": 512,
    "type_vocab_size": 2,
    "hidden_dropout": 0.1,
    "attention_dropout": 0.1,
    "layer_norm_eps": 1e-12,
    "initializer_range": 0.02,
    "positions": "absolute",
    "vocab_multiple": 1,
    "checkpoint_activations": False,
    "compile_layers": False,
    "mask_probability": 0.15,
    "whole_words": True,
}
GENERATOR: dict[str, Any] = {**ENCODER, "embedding_size": None, "generator_divisor": 3, "rtd_weight": 50.0}
EXPECTED: dict[str, dict[str, Any]] = {
    "bert": {**ENCODER, "max_predictions": None, "pair_task": "none", "pair_weight": 1.0},
    "electra": GENERATOR,
    "embert": {
        **ENCODER,
        "max_predictions": None,
        "pair_task": "sop",
        "pair_weight": 1.0,
        "consistency_weight": 2.0,
        "segmentation_weight": 2.0,
        "bidirectional_weight": 0.5,
        "replace_probability": None,
        "term_probability": None,
        "term_positions": 64,
        "term_position_size": 200,
        "wrong_entity": "random",
    },
    "smedbert": {
        **ENCODER,
        "max_predictions": None,
        "pair_task": "sop",
        "pair_weight": 1.0,
        "infusion": True,
        "infusion_layer": 10,
        "type_attention": True,
        "entity_size": 200,
        "neighbours": 10,
        "hit_ratio": 1.0,
        "mention_probability": None,
        "relation_choice": "first",
        "negatives": 10,
        "score_scale": 10.0,
        "neighbour_score": "eq18",
        "least_frequency": 1.0,
        "neighbour_weight": 2.0,
        "mention_weight": 4.0,
    },
    "ehealth": {
        **GENERATOR,
        "mts_weight": 20.0,
        "csp_weight": 1.0,
        "mts_negatives": 5,
        "mts_projection": None,
        "csp_temperature": 0.07,
        "csp_projection": False,
        "csp_across_micro_batches": True,
    },
}
"""Keys and defaults with which runs were named and checkpoints written: any change orphans them."""


@pytest.mark.parametrize("name", EXPECTED)
def test_keys_and_defaults_are_those_of_finished_runs(name: str) -> None:
    assert asdict(objectives.check(name, {"vocab_size": 99})) == EXPECTED[name]


ODD: dict[str, Any] = {
    "vocab_size": 1_001,
    "hidden_size": 96,
    "num_layers": 3,
    "num_heads": 6,
    "intermediate_size": 192,
    "max_positions": 77,
    "type_vocab_size": 3,
    "hidden_dropout": 0.2,
    "attention_dropout": 0.3,
    "layer_norm_eps": 1e-6,
    "initializer_range": 0.05,
    "positions": "rotary",
    "vocab_multiple": 8,
    "checkpoint_activations": True,
    "compile_layers": True,
}
"""No value is a default, so a field that is not handed on shows."""


def test_every_setting_reaches_the_encoder() -> None:
    assert objectives.check("bert", ODD).encoder == EncoderConfig(**ODD)


@pytest.mark.parametrize("name", ["electra", "ehealth"])
@pytest.mark.parametrize("embedding_size", [None, 48])
def test_generator_is_narrower_on_the_embeddings_of_the_discriminator(name: str, embedding_size: int | None) -> None:
    given = ODD | {"embedding_size": embedding_size, "generator_divisor": 2}
    settings = objectives.check(name, given)
    shared = ODD | {"embedding_size": embedding_size or 96}
    assert settings.discriminator == EncoderConfig(**shared)
    narrow = {"hidden_size": 48, "intermediate_size": 96, "num_heads": 3}
    assert settings.generator == EncoderConfig(**shared | narrow)


@pytest.mark.parametrize("name", EXPECTED)
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"vocab_size": 5}, "vocab_size=5 leaves no token besides the 5 special ones"),
        ({"num_heads": 7}, "num_heads=7 must divide hidden_size=768"),
        ({"hidden_dropout": "none"}, r"model\.hidden_dropout is 'none'; it must be a finite number"),
        ({"positions": "relative"}, "positions must be one of absolute, rotary, got 'relative'"),
    ],
)
def test_shared_settings_are_checked_for_every_objective(name: str, wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        objectives.check(name, {"vocab_size": 99} | wrong)


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        *((name, {}) for name in EXPECTED),
        ("bert", {"pair_task": "nsp"}),
        ("bert", {"pair_task": "sop"}),
        ("embert", {"pair_task": "none"}),
        ("electra_em_pap", {}),
        ("electra_em_pap", {"entity_masking": False}),
        ("electra_em_pap", {"pap_share": 0.0}),
    ],
)
def test_settings_say_what_the_network_reads(name: str, changed: dict[str, Any]) -> None:
    """They are asked before any work is done, the network's tasks only when training starts."""
    settings = objectives.check(name, {"vocab_size": 99, **changed})
    tasks = objectives.describe(name, {"vocab_size": 99, **changed}).tasks
    assert settings.reads_segments == any(task.table == "examples" for task in tasks)
    assert settings.reads_mentions == any(MENTIONS in task.columns for task in tasks)


@pytest.mark.parametrize("given", [("bert", "nsp"), ("bert", "sop"), ("embert", "sop"), ("embert", "none")])
def test_rows_of_two_sentences_need_two_types(given: tuple[str, str]) -> None:
    name, pair_task = given
    with pytest.raises(ValueError, match="type_vocab_size=2"):
        objectives.check(name, {"vocab_size": 99, "pair_task": pair_task, "type_vocab_size": 1})


def test_titles_and_attributes_need_two_types() -> None:
    one_type = {"vocab_size": 99, "type_vocab_size": 1}
    with pytest.raises(ValueError, match="pap_share > 0 needs type_vocab_size=2"):
        objectives.check("electra_em_pap", one_type)
    objectives.check("electra_em_pap", one_type | {"pap_share": 0.0})


@pytest.mark.parametrize(
    ("pair_task", "data", "random_pairs"), [("none", (), False), ("nsp", ("pairs",), True), ("sop", ("pairs",), False)]
)
def test_pair_tasks_ask_for_pairs(pair_task: str, data: tuple[str, ...], random_pairs: bool) -> None:
    given = {"vocab_size": 99, "pair_task": pair_task}
    assert objectives.data("bert", given) == data
    assert objectives.check("bert", given).random_pairs == random_pairs
