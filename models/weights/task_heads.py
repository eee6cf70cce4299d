"""Heads of downstream tasks in transformers' form, so that its classes load a fine-tuned model with equal logits.

Ours are one dense layer on hidden states. transformers' taggers and multiple choice are that too; its classifiers have
a hidden layer with GELU, which holds a dense layer exactly (`sequence_classifier`). The encoder is saved as ELECTRA's,
or as RoFormer's if positions are rotary; BERT's is the former without its projection.

Shape legend: C classes, D hidden size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from models.encoder.network import Encoder
from models.weights.convert import to_transformers, transformers_config
from models.weights.heads import renamed
from models.weights.pretrained import write_folder

_CLASSES = {"electra": "Electra", "roformer": "RoFormer"}
"""Beginning of the names of transformers' classes, by the kind of encoder."""


class TransformersHead(NamedTuple):
    """A head as transformers saves it."""

    task: str
    """End of the class's name: `SequenceClassification`, `TokenClassification` or `MultipleChoice`."""
    outputs: int
    state: Mapping[str, Tensor]
    """Weights under transformers' names."""
    settings: Mapping[str, Any]
    """Fields of the config that the class reads."""


def sequence_classifier(layer: nn.Linear, dropout: float, problem_type: str | None) -> TransformersHead | None:
    """Return a dense layer on [CLS] as the classifier of ELECTRA and RoFormer; None if D < 2 C, which it cannot hold.

    That classifier is a dense layer D x D, GELU and a dense layer C x D. With gelu(x) = x P(N < x),

        gelu(x) - gelu(-x) = x P(N < x) + x P(N < -x) = x,

    so two hidden units per class, W h and -W h, give back the class's logit, up to rounding. The rest are zeros.

    Args:
        problem_type: how pipelines read the logits: `single_label_classification` (softmax),
            `multi_label_classification` (sigmoid), or None for a single logit (sigmoid).
    """
    classes, width = layer.weight.shape
    if width < 2 * classes:
        return None
    weight_CD = layer.weight.detach().float()
    dense_DD, out_CD = weight_CD.new_zeros(width, width), weight_CD.new_zeros(classes, width)
    dense_DD[: 2 * classes] = torch.cat([weight_CD, -weight_CD])
    same_CC = torch.eye(classes, device=weight_CD.device)
    out_CD[:, : 2 * classes] = torch.cat([same_CC, -same_CC], 1)
    state = {
        "classifier.dense.weight": dense_DD,
        "classifier.dense.bias": weight_CD.new_zeros(width),
        "classifier.out_proj.weight": out_CD,
        "classifier.out_proj.bias": layer.bias.detach().clone(),
    }
    settings = {"classifier_dropout": dropout, "problem_type": problem_type}
    return TransformersHead("SequenceClassification", classes, state, settings)


def token_classifier(layer: nn.Linear, dropout: float) -> TransformersHead:
    """Return a dense layer on every token."""
    state = renamed(layer, "classifier")
    return TransformersHead("TokenClassification", len(layer.weight), state, {"classifier_dropout": dropout})


def multiple_choice(layer: nn.Linear, dropout: float) -> TransformersHead:
    """Return a dense layer on each option's [CLS], without the hidden layer that ELECTRA's own has by default."""
    settings = {
        "summary_type": "first",
        "summary_use_proj": False,
        "summary_activation": "linear",
        "summary_last_dropout": dropout,
    }
    return TransformersHead("MultipleChoice", 1, renamed(layer, "classifier"), settings)


def class_name(encoder: Encoder, head: TransformersHead) -> str:
    """Return the class of transformers that has this head on this encoder, such as `ElectraForTokenClassification`."""
    return f"{_CLASSES['roformer' if encoder.config.positions == 'rotary' else 'electra']}For{head.task}"


def save_with_head(encoder: Encoder, head: TransformersHead, folder: str | Path, labels: Sequence[str] | None) -> None:
    """Write config.json and model.safetensors for the class of transformers that has this head.

    `labels`: names of the outputs, for `id2label`; several outputs may share one. None: transformers' own names.

    Raises:
        ValueError: the number of labels is not that of the outputs.
    """
    config = transformers_config(encoder.config)
    config.architectures = [class_name(encoder, head)]
    for name, value in head.settings.items():
        setattr(config, name, value)
    if head.task != "MultipleChoice":
        names = [f"LABEL_{number}" for number in range(head.outputs)] if labels is None else list(labels)
        if len(names) != head.outputs:
            raise ValueError(f"{len(names)} labels were given for a head with {head.outputs} outputs")
        config.id2label = dict(enumerate(names))
        # Of equal names the first counts, which dict() alone would turn round.
        config.label2id = {name: number for number, name in reversed(list(enumerate(names)))}
    state = {f"{config.model_type}.{name}": tensor for name, tensor in to_transformers(encoder).items()}
    write_folder({name: tensor.float() for name, tensor in (state | dict(head.state)).items()}, config, folder)
