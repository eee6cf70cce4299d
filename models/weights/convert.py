"""Weight mapping between our encoder and transformers' layouts, both ways.

ELECTRA and BERT name their encoder layers alike; they differ in that ELECTRA may hold `embeddings_project` and BERT
a pooler. Ours fuses query, key and value into one matrix. Names below carry no model prefix ("electra.", "bert."):
they are those of `ElectraModel` and `BertModel` themselves.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from models.encoder.network import Encoder, EncoderConfig

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
_IGNORED = ("pooler.", "embeddings.position_ids", "embeddings.token_type_ids")
"""What transformers' checkpoints may hold beside the encoder."""


def to_transformers(encoder: Encoder) -> dict[str, Tensor]:
    """The encoder's weights under the names of `ElectraModel` (and of `BertModel`, where there is no projection).
    Detached; the word table cut to the true vocabulary.
    """
    out = {theirs: encoder.embeddings.state_dict()[ours] for ours, theirs in _EMBEDDINGS.items()}
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
    """Copy weights of an `ElectraModel` or `BertModel` state dict into `encoder`, shared embeddings included.

    Raises ValueError naming the weights that are missing, left over or of another shape.
    """
    expected = to_transformers(encoder)
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
    encoder.embeddings.load_state_dict({ours: given[theirs] for ours, theirs in _EMBEDDINGS.items()})
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


def electra_config(config: EncoderConfig) -> dict[str, Any]:
    """The keyword arguments of transformers' `ElectraConfig` for this encoder."""
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
