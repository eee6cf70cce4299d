"""Heads of pre-training under transformers' names."""

from __future__ import annotations

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


def renamed(layer: nn.Module, name: str) -> dict[str, Tensor]:
    """Return a layer's weights under another name, detached."""
    return {f"{name}.{key}": value.detach().clone() for key, value in layer.state_dict().items()}
