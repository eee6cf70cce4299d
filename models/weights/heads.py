"""Heads of pre-training under transformers' names."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn

_LM_HEADS = {
    "bert": ("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", "cls.predictions.bias"),
    "electra": ("generator_predictions.dense", "generator_predictions.LayerNorm", "generator_lm_head.bias"),
}
"""Dense layer, norm and bias of the vocabulary head; RoFormer calls them as BERT does."""


def lm_head_names(model_type: str) -> tuple[str, str, str]:
    """Return the names of the vocabulary head's dense layer, its norm and its bias in a kind of model."""
    return _LM_HEADS["electra" if model_type == "electra" else "bert"]


def lm_head_state(dense: nn.Module, norm: nn.Module, bias_V: Tensor, model_type: str) -> dict[str, Tensor]:
    """Return the vocabulary head's weights; its table is the encoder's, to which transformers ties it.

    `bias_V` has the entries of the vocabulary alone.
    """
    dense_name, norm_name, bias_name = lm_head_names(model_type)
    return renamed(dense, dense_name) | renamed(norm, norm_name) | {bias_name: bias_V.detach().clone()}


def lm_head_from(state: Mapping[str, Tensor], model_type: str, order_V: Tensor) -> dict[str, Tensor]:
    """Return a checkpoint's vocabulary head as `transform`, `norm` and `bias`, as far as it is there.

    `order_V` is the checkpoint's row for each id of ours.
    """
    dense, norm, bias = lm_head_names(model_type)
    found = layer_from(state, dense, "transform.") | layer_from(state, norm, "norm.")
    return found | ({"bias": state[bias][order_V]} if bias in state else {})


def layer_from(state: Mapping[str, Tensor], theirs: str, ours: str = "") -> dict[str, Tensor]:
    """Return the weight and bias of a checkpoint's layer under our names, as far as they are there."""
    pairs = {f"{ours}{kind}": state.get(f"{theirs}.{kind}") for kind in ("weight", "bias")}
    return {name: tensor for name, tensor in pairs.items() if tensor is not None}


def renamed(layer: nn.Module, name: str) -> dict[str, Tensor]:
    """Return a layer's weights under another name, detached."""
    return {f"{name}.{key}": value.detach().clone() for key, value in layer.state_dict().items()}
