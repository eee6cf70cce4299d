"""Weight mapping between our encoder and transformers' layouts, both ways.

ELECTRA, BERT and RoFormer use the same names for encoder layers. They differ in that ELECTRA and RoFormer may have
`embeddings_project`, BERT a pooler, and RoFormer a frozen table of sines instead of learned positions. Ours fuses
query, key and value into one matrix. Names below have no model prefix ("electra.", "bert."): they are those of
`ElectraModel`, `BertModel` and `RoFormerModel` themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from models.encoder.config import EncoderConfig
from models.encoder.network import Encoder
from models.encoder.rotary import BASE

if TYPE_CHECKING:  # transformers takes half a second to import, and checking a preset needs none of it
    from transformers import PreTrainedConfig

WORD_TABLE = "embeddings.word_embeddings.weight"
POSITION_TABLE = "embeddings.position_embeddings.weight"
_EMBEDDINGS = {
    "word.weight": WORD_TABLE,
    "position.weight": POSITION_TABLE,
    "token_type.weight": "embeddings.token_type_embeddings.weight",
    "norm.weight": "embeddings.LayerNorm.weight",
    "norm.bias": "embeddings.LayerNorm.bias",
}
_LAYER = {
    "attention_output": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "intermediate": "intermediate.dense",
    "output": "output.dense",
    "output_norm": "output.LayerNorm",
}
SINE_TABLE = "encoder.embed_positions.weight"
"""RoFormer's table of sines and cosines: a constant, exported so that no weight is missing, and never read."""
_IGNORED = ("pooler.", "embeddings.position_ids", "embeddings.token_type_ids", SINE_TABLE)
"""Prefixes of entries in transformers' checkpoints that are not part of the encoder."""


def to_transformers(encoder: Encoder) -> dict[str, Tensor]:
    """Return the encoder's weights under transformers' names, detached, the word table cut to the true vocabulary.

    The names are those of `ElectraModel` (and of `BertModel`, if there is no projection), or of `RoFormerModel` if
    positions are rotary.
    """
    own = encoder.embeddings.state_dict()
    out = {theirs: own[ours] for ours, theirs in _EMBEDDINGS.items() if ours in own}
    if encoder.config.positions == "rotary":
        out[SINE_TABLE] = sine_table(encoder.config)
    out[WORD_TABLE] = out[WORD_TABLE][: encoder.config.vocab_size]
    if encoder.projection is not None:
        out["embeddings_project.weight"] = encoder.projection.weight
        out["embeddings_project.bias"] = encoder.projection.bias
    for index, layer in enumerate(encoder.layers):
        prefix, state = f"encoder.layer.{index}.", layer.state_dict()
        for kind in ("weight", "bias"):
            parts = state[f"qkv.{kind}"].chunk(3)
            for name, part in zip(("query", "key", "value"), parts, strict=True):
                out[f"{prefix}attention.self.{name}.{kind}"] = part
            for ours, theirs in _LAYER.items():
                out[f"{prefix}{theirs}.{kind}"] = state[f"{ours}.{kind}"]
    return {name: tensor.detach().clone() for name, tensor in out.items()}


def load_from_transformers(encoder: Encoder, state: Mapping[str, Tensor]) -> None:
    """Copy weights of an `ElectraModel`, `BertModel` or `RoFormerModel` state dict into `encoder`.

    Shared embeddings are overwritten too. Raises ValueError naming the weights that are missing, unknown or of another
    shape.
    """
    expected = {name: tensor for name, tensor in to_transformers(encoder).items() if name != SINE_TABLE}
    given = {name: tensor for name, tensor in state.items() if not name.startswith(_IGNORED)}
    problems = [f"missing {name}" for name in expected.keys() - given.keys()]
    problems += [f"unknown {name}" for name in given.keys() - expected.keys()]
    problems += [
        f"{name} has shape {tuple(given[name].shape)}, expected {tuple(expected[name].shape)}"
        for name in expected.keys() & given.keys()
        if given[name].shape != expected[name].shape
    ]
    if problems:
        raise ValueError("weights do not fit this encoder: " + "; ".join(sorted(problems)))
    encoder.embeddings.load_state_dict({ours: given[theirs] for ours, theirs in _EMBEDDINGS.items() if theirs in given})
    if encoder.projection is not None:
        encoder.projection.load_state_dict({kind: given[f"embeddings_project.{kind}"] for kind in ("weight", "bias")})
    for index, layer in enumerate(encoder.layers):
        layer.load_state_dict(_layer_state(given, f"encoder.layer.{index}."))


def _layer_state(given: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    state = {}
    for kind in ("weight", "bias"):
        parts = [given[f"{prefix}attention.self.{name}.{kind}"] for name in ("query", "key", "value")]
        state[f"qkv.{kind}"] = torch.cat(parts)
        state |= {f"{ours}.{kind}": given[f"{prefix}{theirs}.{kind}"] for ours, theirs in _LAYER.items()}
    return state


def sine_table(config: EncoderConfig) -> Tensor:
    """Return RoFormer's frozen table, float32 (max_positions, C): sines of each place's angles, then their cosines."""
    channels = config.hidden_size // config.num_heads
    speeds = BASE ** (-torch.arange(0, channels, 2, dtype=torch.float64) / channels)
    angles = torch.arange(config.max_positions, dtype=torch.float64)[:, None] * speeds
    return torch.cat([angles.sin(), angles.cos()], 1).float()


def transformers_config(config: EncoderConfig, model_type: str = "electra") -> PreTrainedConfig:
    """Return transformers' configuration of this encoder as a bare model, named in `architectures`.

    Args:
        model_type: "electra" or "bert"; with rotary positions it is "roformer" in either case.

    Raises:
        ValueError: BERT has no projection, but this encoder does.
    """
    from transformers import BertConfig, ElectraConfig, RoFormerConfig

    sizes = electra_config(config)
    if config.positions == "rotary":
        return RoFormerConfig(**sizes, rotary_value=False, architectures=["RoFormerModel"])
    if model_type == "electra":
        return ElectraConfig(**sizes, architectures=["ElectraModel"])
    if config.embedding_width != config.hidden_size:
        raise ValueError(
            f"BERT has no projection: embedding_size={config.embedding_width} must equal "
            f"hidden_size={config.hidden_size}"
        )
    return BertConfig(
        **{key: value for key, value in sizes.items() if key != "embedding_size"}, architectures=["BertModel"]
    )


def electra_config(config: EncoderConfig) -> dict[str, Any]:
    """Return keyword arguments of transformers' `ElectraConfig` for this encoder."""
    return {
        "vocab_size": config.vocab_size,
        "embedding_size": config.embedding_width,
        "hidden_size": config.hidden_size,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.num_heads,
        "intermediate_size": config.intermediate_size,
        "hidden_act": "gelu",
        "hidden_dropout_prob": config.hidden_dropout,
        "attention_probs_dropout_prob": config.attention_dropout,
        "max_position_embeddings": config.max_positions,
        "type_vocab_size": config.type_vocab_size,
        "initializer_range": config.initializer_range,
        "layer_norm_eps": config.layer_norm_eps,
    }
