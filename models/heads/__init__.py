"""Downstream heads, by name (eHealth, appendix E, and the other papers' tasks).

    model = models.heads.build("single", open_encoder(folder), num_labels=44)
    losses = model(model.collate(examples, seed=1, step=0))
    predictions = models.inference.predict(model, examples)

models/heads/examples.py describes the inputs and outputs of each head. To add one, subclass `TaskModel` and add a line
to `_HEADS`. models/heads/task_encoder.py says what a head asks of its encoder, encoders.py how to add a kind.
"""

from __future__ import annotations

import difflib
import inspect
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from infra.errors import UserError
from infra.limits import small_text
from models.encoder.config import EncoderConfig
from models.encoder.network import Encoder
from models.heads import embedding_table, frozen
from models.heads.alignment import Alignment
from models.heads.classification import Choice, MultiLabel, Pair, Ranking, Single
from models.heads.embedding_table import EmbeddingTable
from models.heads.encoders import KINDS, AnyEncoder, open_encoder
from models.heads.over_network import OVER_NETWORKS
from models.heads.tagging import Tagging, TwoStream
from models.heads.task_model import HEAD_CONFIG, HEAD_WEIGHTS, TaskModel
from models.heads.triples import Triples
from models.knowledge_model.source import GivenKnowledge

_HEADS: dict[str, type[TaskModel]] = {
    head.name: head for head in (Single, Pair, MultiLabel, Ranking, Choice, Tagging, TwoStream, Triples, Alignment)
}

KINDS[embedding_table.MODEL_TYPE] = embedding_table.load_table
KINDS[frozen.MODEL_TYPE] = frozen.load_frozen


def build(
    name: str,
    encoder: AnyEncoder | EncoderConfig | Mapping[str, Any] | None = None,
    *,
    num_labels: int | Sequence[int] | None = None,
    seed: int | None = None,
    **options: Any,
) -> TaskModel:
    """Return the head `name` with fresh weights, on `encoder`.

    Args:
        name: `single`, `pair`, `multi_label`, `ranking`, `choice`, `tagging`, `two_stream`, `triples` or `alignment`.
        encoder: an encoder of any kind (it becomes the model's), or the config of a fresh one, also as a mapping of
            `EncoderConfig`'s fields. None: base size with the 21,128 entries of BERT's Chinese vocabulary.
        num_labels: number of classes, labels, tags ("outside" included) or relations. `two_stream` takes two numbers,
            by default 5 and 33; `ranking`, `choice` and `alignment` take none.
        seed: seed of the fresh weights; None: torch's default generator draws them.
        options: the head's own options. All: `dropout` (0.1). `tagging`: `crf` (False). `triples`: `relation_weight`
            (50), `entity_threshold`, `relation_threshold` (0.5), `relation_prior` (0.01). `single`, `pair`,
            `multi_label`, `ranking` and `choice`: `pooling` (cls; mean of the tokens' states). `alignment`: `pooling`
            (mean) and the fields of `MultiSimilarityConfig`. `single`, `multi_label` and `tagging`: `network`, a name
            of `models.networks.build` whose network answers instead of a dense layer. An `Encoder` is frozen then, and
            the network reads its last four layers.

    Raises:
        ValueError: the head or an option is unknown (the message suggests similar ones), or a number is impossible.
    """
    if name not in _HEADS:
        near = difflib.get_close_matches(str(name), _HEADS) or sorted(_HEADS)
        raise ValueError(f"unknown head {name!r}; did you mean {', '.join(near)}?")
    network = options.get("network")
    if network is None and isinstance(encoder, EmbeddingTable):
        raise ValueError("vectors of tokens know no context; give a network that reads them, such as 'bilstm'")
    head: Any = _HEADS[name] if network is None else _over_network(name, str(network))
    known = [key for key in inspect.signature(head.__init__).parameters if key not in ("self", "encoder")]
    if num_labels is not None:
        options["num_labels"] = num_labels
    for key in options:
        if key not in known:
            raise ValueError(f"head {name!r} has no option {key!r}; its options are {', '.join(known)}")
    if "num_labels" in known and name != "two_stream":
        options.setdefault("num_labels", None)  # the head's own message says what is missing
    with torch.random.fork_rng(devices=[], enabled=seed is not None):
        if seed is not None:
            torch.manual_seed(seed)
        return head(_as_encoder(encoder), **options)


def load(folder: str | Path, knowledge: GivenKnowledge = None) -> TaskModel:
    """Load a model that `TaskModel.save` wrote, on the CPU in eval mode; `knowledge` is that of `open_encoder`.

    Raises UserError naming the file that is missing, unreadable or does not fit.
    """
    path = Path(folder)
    if not (path / HEAD_CONFIG).is_file():
        raise UserError(
            f"{path} is not a fine-tuned model: it has no {HEAD_CONFIG}. Run a fine-tuning flow to make one"
        )
    encoder = open_encoder(path, knowledge=knowledge)
    try:
        config = json.loads(small_text(path / HEAD_CONFIG))
        model = build(config.pop("head"), encoder, **config)
        missing, unknown = model.load_state_dict(load_file(path / HEAD_WEIGHTS), strict=False)
        missing = [key for key in missing if not key.startswith("encoder.")]
        if missing or unknown:
            raise ValueError(f"{HEAD_WEIGHTS} lacks {missing} and has unknown {unknown}")
    except Exception as error:
        raise UserError(f"{path}: {HEAD_CONFIG} or {HEAD_WEIGHTS} is damaged: {error}. Fine-tune again") from error
    return model.eval()


def _over_network(name: str, network: str) -> type[TaskModel]:
    if name not in OVER_NETWORKS:
        raise ValueError(
            f"the network {network!r} cannot answer for head {name!r}, only for {', '.join(OVER_NETWORKS)}"
        )
    return OVER_NETWORKS[name]


def _as_encoder(encoder: AnyEncoder | EncoderConfig | Mapping[str, Any] | None) -> AnyEncoder:
    if isinstance(encoder, EncoderConfig):
        return Encoder(encoder)
    if encoder is None or isinstance(encoder, Mapping):
        return Encoder(EncoderConfig(**{"vocab_size": 21_128, **(encoder or {})}))
    return encoder
