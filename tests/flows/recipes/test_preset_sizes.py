"""Every shipped preset of a model has the published number of parameters, built on the meta device."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import transformers
from transformers import AutoModel, AutoModelForMaskedLM

from flows.recipes.pretraining import load_preset, model_presets
from models import objectives
from models.encoder.network import count_parameters
from models.training.loop import train, training_config
from models.training.meter import peak_flops
from tests.support.training.memory_part import stream_of
from tests.support.training.token_rows import random_rows

CHINESE_BERT = 21_128
"""Size of Google's Chinese vocabulary, with which published sizes are counted."""

ELECTRA = {
    # Clark et al., 2020, Table 6: layers, hidden, FFN, heads, embedding, divisor of the generator
    "ehealth-small": (12, 256, 1024, 4, 128, 4),
    "ehealth": (12, 768, 3072, 12, 768, 3),
    "ehealth-large": (24, 1024, 4096, 16, 1024, 4),
}


def trained_parameters(layers: int, hidden: int, ffn: int, embedding: int, divisor: int, positions: int) -> int:
    """Parameters of generator and discriminator with one embedding block, counted by hand, without padding rows."""

    def dense(inputs: int, outputs: int) -> int:
        return inputs * outputs + outputs

    def body(width: int, inner: int) -> int:
        layer = 4 * dense(width, width) + dense(width, inner) + dense(inner, width) + 2 * 2 * width
        return layers * layer + (dense(embedding, width) if embedding != width else 0)

    tables = (CHINESE_BERT + positions + 2) * embedding + 2 * embedding
    lm_head = dense(hidden // divisor, embedding) + 2 * embedding + CHINESE_BERT
    rtd_head = dense(hidden, hidden) + dense(hidden, 1)
    mts = dense(hidden, embedding) if embedding != hidden else 0
    return tables + body(hidden, ffn) + body(hidden // divisor, ffn // divisor) + lm_head + rtd_head + mts


def build_on_meta(name: str, **changes: Any) -> Any:
    preset = load_preset(name)
    with torch.device("meta"):
        return objectives.build(preset.objective, preset.model | {"vocab_size": CHINESE_BERT} | changes)


def test_the_formula_gives_the_published_base() -> None:
    assert trained_parameters(12, 768, 3072, 768, 3, 512) == 112_162_441


def presets_of(objective: str) -> list[str]:
    return [name for name in model_presets() if load_preset(name).objective == objective]


@pytest.mark.parametrize("name", presets_of("ehealth"))
def test_every_preset_has_the_parameters_of_its_sizes(name: str) -> None:
    model = load_preset(name).model
    sizes = [model[key] for key in ("num_layers", "hidden_size", "intermediate_size", "embedding_size")]
    positions = 0 if model.get("positions") == "rotary" else model["max_positions"]  # rows of the learned table
    expected = trained_parameters(*sizes, model["generator_divisor"], positions)
    assert count_parameters(build_on_meta(name, vocab_multiple=1)) == expected
    filling = -CHINESE_BERT % model.get("vocab_multiple", 1)
    assert count_parameters(build_on_meta(name)) == expected + filling * (model["embedding_size"] + 1)


@pytest.mark.parametrize("name", model_presets())
def test_exports_are_models_of_transformers(name: str) -> None:
    objective = build_on_meta(name)
    with torch.device("meta"):
        theirs = AutoModel.from_config(objective.exported().config)
    shapes = {key: tensor.shape for key, tensor in objective.exported().state.items()}
    expected = {key: tensor.shape for key, tensor in theirs.state_dict().items()}
    # A pooler belongs to a pair task; transformers gives every bare BERT one.
    assert expected | shapes == expected
    assert all(key.startswith("pooler.") for key in expected.keys() - shapes.keys())
    assert ("pooler.dense.weight" in shapes) == (name in ("cmed-bert", "embert", "smedbert"))


@pytest.mark.parametrize("name", presets_of("bert") + presets_of("electra"))
def test_plain_objectives_have_the_parameters_of_transformers_classes(name: str) -> None:
    """Those of BertForMaskedLM or BertForPreTraining; for ELECTRA of the detector and a generator on its embeddings."""
    objective, config = build_on_meta(name, vocab_multiple=1), load_preset(name)
    with torch.device("meta"):
        if config.objective == "bert":
            whole = objective.exported("pre_training").config
            theirs = getattr(transformers, whole.architectures[0])(whole)
            expected = count_trained(theirs)
            if config.model.get("pair_task") == "nsp" and config.model.get("positions") == "rotary":
                width = config.model["hidden_size"]  # RoFormer has neither pooler nor classifier of pairs
                expected += (width + 1) * width + 2 * (width + 1)
        else:
            generator = AutoModelForMaskedLM.from_config(objective.exported("generator").config)
            detector = AutoModel.from_config(objective.exported().config)
            embeddings = sum(p.numel() for p in detector.embeddings.parameters() if p.requires_grad)
            hidden = config.model["hidden_size"]
            head = hidden * hidden + hidden + hidden + 1
            expected = count_trained(generator) - embeddings + count_trained(detector) + head
    assert count_parameters(objective) == expected


def test_products_add_one_dense_layer_to_electra() -> None:
    """The base of numbers: 112,162,441 of ELECTRA with its tables tied, and f of Equation 2, 768 x 768 + 768."""
    with_pap = build_on_meta("electra-em-pap", vocab_multiple=1)
    assert count_parameters(with_pap) == 112_162_441 + 768 * 768 + 768
    assert count_parameters(build_on_meta("electra-em-pap", vocab_multiple=1, pap_share=0.0)) == 112_162_441


def count_trained(model: Any) -> int:
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


@pytest.mark.parametrize("name", ELECTRA)
def test_sizes_are_electras(name: str) -> None:
    model = load_preset(name).model
    keys = ("num_layers", "hidden_size", "intermediate_size", "num_heads", "embedding_size", "generator_divisor")
    assert tuple(model[key] for key in keys) == ELECTRA[name]
    assert model["hidden_size"] // model["num_heads"] == 64


def test_new_sizes_keep_the_papers_objective() -> None:
    paper = load_preset("ehealth").model
    for name in ("ehealth-small", "ehealth-large"):
        model = load_preset(name).model
        for key in ("rtd_weight", "mts_weight", "csp_weight", "mts_negatives", "csp_temperature"):
            assert model[key] == paper[key]


@pytest.mark.parametrize("name", ELECTRA)
def test_presets_for_gpus_fill_matrix_units_and_have_a_known_peak(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    preset = load_preset(name)
    monkeypatch.setattr("models.training.meter.torch.cuda.get_device_name", lambda device: "NVIDIA H200")
    assert peak_flops(torch.device("cuda"), preset.train.training["precision"]) == 989e12
    assert len(build_on_meta(name).discriminator.embeddings.word.weight) % 64 == 0


@pytest.mark.parametrize("name", ELECTRA)
def test_presets_for_gpus_train_on_a_cpu_too(name: str) -> None:
    """Two steps in bfloat16 with a padded vocabulary, at a small size."""
    preset = load_preset(name)
    small = {"num_layers": 1, "num_heads": 12, "hidden_size": 24, "intermediate_size": 48, "embedding_size": 24}
    objective = objectives.build(preset.objective, preset.model | small | {"vocab_size": 100})
    few = {"steps": 2, "warmup_steps": 1, "batch_size": 4, "log_every": 1, "evaluate_every": 2, "checkpoint_every": 2}
    entries: list[tuple[str, Any]] = []
    train(
        objective,
        stream_of(random_rows([12, 20, 9, 30, 16, 24], vocab_size=100)),
        stream_of(random_rows([12, 20], vocab_size=100)),
        training_config(preset.train.training | few),
        report=lambda step, split, figures: entries.append(
            (split, figures["mlm_loss" if split == "held_out" else "loss"])
        ),
    )
    assert [split for split, _ in entries] == ["step", "train", "step", "train", "held_out"]
    assert all(math.isfinite(loss) for _, loss in entries)
    assert {parameter.dtype for parameter in objective.parameters()} == {torch.float32}
