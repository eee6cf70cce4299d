"""Reading and writing of an encoder as a transformers folder: config.json with model.safetensors or pytorch_model.bin.

Any BERT-shaped checkpoint will do: BERT, RoBERTa-wwm, MacBERT, MC-BERT, ELECTRA's discriminators, ERNIE, RoFormer and
ERNIE-health (converted to ERNIE's or to ELECTRA's names), and our own exports. Poolers and heads are ignored.
"""

from __future__ import annotations

import json
import pickle
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from infra.errors import UserError
from infra.limits import small_text
from models.encoder.config import TRANSFORMERS_TYPES, EncoderConfig
from models.encoder.network import Encoder
from models.weights.convert import WORD_TABLE, load_from_transformers, to_transformers, transformers_config

if TYPE_CHECKING:  # transformers takes half a second to import, and checking a preset needs none of it
    from transformers import PreTrainedConfig

CONFIG_FILE = "config.json"
SAFETENSORS_FILE = "model.safetensors"
PICKLE_FILE = "pytorch_model.bin"

_PREFIXES = (
    "discriminator.electra.",
    "discriminator.bert.",
    "discriminator.",
    "electra.",
    "bert.",
    "ernie.",
    "roformer.",
    "",
)
"""Prefixes of the encoder's names; the first one that occurs with word embeddings is used."""
_TYPE_TABLE = "embeddings.token_type_embeddings.weight"
_TASK_TABLE = "embeddings.task_type_embeddings.weight"
"""Table with a row for each pre-training task of ERNIE 2.0 (Sun et al., 2020)."""
_GENERATOR = ("generator_predictions.", "generator_lm_head.")
_LFS_POINTER = b"version https://git-lfs"
_OLD_NAMES = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}
"""TensorFlow's names, which early conversions of BERT kept."""


def load_encoder(folder: str | Path, dropout: float | None = None) -> Encoder:
    """Load the encoder of a transformers folder, in float32 on the CPU.

    Its dropout rates are those of the config, or `dropout` for hidden states and attention alike.

    Raises UserError naming the folder if config.json or the weights are missing or unreadable, the model has another
    architecture, only a generator is there, weights and sizes do not match, or a weight is not a finite number.
    """
    path = Path(folder)
    config = _read_config(path)
    state = _read_weights(path)
    if config.get("architectures") == ["ElectraForMaskedLM"] or _is_generator(state):
        raise UserError(f"{path} holds an ELECTRA generator; fine-tuning needs the discriminator's folder")
    sizes = _encoder_config(path, config)
    check_weights_suffice(path, sizes, state.values())
    if dropout is not None:
        sizes = replace(sizes, hidden_dropout=dropout, attention_dropout=dropout)
    encoder, weights = Encoder(sizes), _encoder_weights(path, state)
    try:
        load_from_transformers(encoder, _with_task_type(weights, config))
    except ValueError as error:
        problem = textwrap.shorten(str(error), 600, placeholder=" …")
        raise UserError(
            f"{path}: {problem}. {CONFIG_FILE} and weights are of two models; fetch both from one source"
        ) from error
    _check_finite(path, weights)
    return encoder


def check_weights_suffice(folder: Path, sizes: EncoderConfig, weights: Iterable[Tensor]) -> None:
    """Raise `UserError` if an encoder of these sizes would be far larger than the weights that fill it.

    It is asked before one is built: a config.json of 300 bytes can ask for a terabyte.
    """
    stored = sum(tensor.numel() for tensor in weights)
    if sizes.parameters > 2 * stored + (1 << 20):
        raise UserError(
            f"{folder / CONFIG_FILE} asks for {sizes.parameters:,} weights, and the folder has {stored:,}. They are of "
            "two models; fetch both from one source"
        )


def random_encoder(config: EncoderConfig, seed: int) -> Encoder:
    """Return an encoder with fresh weights from `seed`. torch's default generator does not change."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Encoder(config)


def save_encoder(encoder: Encoder, folder: str | Path) -> None:
    """Write config.json and model.safetensors for `load_encoder` and `AutoModel.from_pretrained`.

    transformers loads them as an `ElectraModel`, or as a `RoFormerModel` if positions are rotary. The folder is
    created; tokeniser files are the caller's.
    """
    state = {name: tensor.float() for name, tensor in to_transformers(encoder).items()}
    write_folder(state, transformers_config(encoder.config), folder)


def write_folder(state: Mapping[str, Tensor], config: PreTrainedConfig, folder: str | Path) -> None:
    """Write weights under transformers' names and the config of their model into a folder, which is created."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    config.dtype = next(iter(state.values())).dtype
    config.save_pretrained(target)
    weights = {name: tensor.contiguous().cpu() for name, tensor in state.items()}
    save_file(weights, target / SAFETENSORS_FILE, metadata={"format": "pt"})


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / CONFIG_FILE
    if not path.is_file():
        raise UserError(
            f"{folder} is not a model folder: it has no {CONFIG_FILE}. Give a folder that transformers can load"
        )
    try:
        config = json.loads(small_text(path))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not JSON: {error}. Download the model again") from error
    if not isinstance(config, dict) or config.get("model_type") not in TRANSFORMERS_TYPES:
        kind = config.get("model_type") if isinstance(config, dict) else None
        raise UserError(
            f"{path}: model_type is {kind!r}; supported are {', '.join(TRANSFORMERS_TYPES)}. Use one of these"
        )
    return config


def _encoder_config(folder: Path, config: Mapping[str, Any]) -> EncoderConfig:
    if config.get("hidden_act", "gelu") != "gelu":
        raise UserError(
            f"{folder}: hidden_act is {config['hidden_act']!r}; only 'gelu' is supported. Use another encoder"
        )
    if config.get("position_embedding_type", "absolute") != "absolute":
        kind = config["position_embedding_type"]
        raise UserError(f"{folder}: position_embedding_type is {kind!r}, not 'absolute'. Use another encoder")
    if config.get("rotary_value"):
        raise UserError(f"{folder}: rotary_value is true; only queries and keys are turned here. Use another encoder")
    kind = config["model_type"]
    try:
        return EncoderConfig(
            vocab_size=config["vocab_size"],
            hidden_size=config["hidden_size"],
            num_layers=config["num_hidden_layers"],
            num_heads=config["num_attention_heads"],
            intermediate_size=config["intermediate_size"],
            embedding_size=config.get("embedding_size") if kind in ("electra", "roformer") else None,
            positions="rotary" if kind == "roformer" else "absolute",
            max_positions=config["max_position_embeddings"],
            type_vocab_size=config.get("type_vocab_size", 2),
            hidden_dropout=config.get("hidden_dropout_prob", 0.1),
            attention_dropout=config.get("attention_probs_dropout_prob", 0.1),
            layer_norm_eps=config.get("layer_norm_eps", 1e-12),
            initializer_range=config.get("initializer_range", 0.02),
        )
    except KeyError as error:
        raise UserError(f"{folder / CONFIG_FILE} lacks {error}. Download the model again") from error
    except ValueError as error:
        raise UserError(f"{folder / CONFIG_FILE}: {error}. Download the model again") from error


def _read_weights(folder: Path) -> dict[str, Tensor]:
    for name, read in ((SAFETENSORS_FILE, load_file), (PICKLE_FILE, _load_pickle)):
        path = folder / name
        if path.is_file():
            try:
                return {key: value.float() for key, value in read(path).items() if value.is_floating_point()}
            except Exception as error:
                if _is_lfs_pointer(path):
                    raise UserError(f"{path} is a Git LFS pointer. Run `git lfs pull` in {folder}") from error
                raise UserError(
                    f"{path} is not a readable file of weights: {error}. Download the model again"
                ) from error
    raise UserError(f"{folder} has neither {SAFETENSORS_FILE} nor {PICKLE_FILE}; fetch one of them")


def _load_pickle(path: Path) -> dict[str, Tensor]:
    """Tensors of a pickle; `weights_only` refuses any other object. Raises ValueError for one, or without names."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:  # torch's own message is long, and suggests loading it nevertheless
        raise ValueError("it is damaged, or holds more than tensors, which could be code") from error
    if not isinstance(state, dict):
        raise ValueError(f"it holds a {type(state).__name__}, not weights by their names")
    return {name: value for name, value in state.items() if isinstance(name, str) and isinstance(value, Tensor)}


def _is_lfs_pointer(path: Path) -> bool:
    """True if a clone without Git LFS left its note in place of the file."""
    with path.open("rb") as file:
        return file.read(len(_LFS_POINTER)) == _LFS_POINTER


def _check_finite(folder: Path, weights: Mapping[str, Tensor]) -> None:
    for name, tensor in weights.items():
        if not torch.isfinite(tensor).all():
            raise UserError(
                f"{folder}: {name} contains values that are not finite. Download the model again, or use a checkpoint "
                "from before its training diverged"
            )


def _is_generator(state: Mapping[str, Tensor]) -> bool:
    return any(name.startswith(_GENERATOR) for name in state) and not any("discriminator" in name for name in state)


def _encoder_weights(folder: Path, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Encoder's part of a state dict, under the names of `ElectraModel`."""
    for prefix in _PREFIXES:
        if prefix + WORD_TABLE in state:
            kept = {_current_name(name.removeprefix(prefix)): t for name, t in state.items() if name.startswith(prefix)}
            wanted = ("embeddings.", "embeddings_project.", "encoder.")
            return {name: tensor for name, tensor in kept.items() if name.startswith(wanted)}
    if any(name.startswith("generator.") for name in state):
        raise UserError(f"{folder} holds an ELECTRA generator; fine-tuning needs the discriminator's folder")
    raise UserError(
        f"{folder}: the weights have no {WORD_TABLE}; is this a BERT, ELECTRA or ERNIE model? Give the folder of one"
    )


def _with_task_type(weights: Mapping[str, Tensor], config: Mapping[str, Any]) -> dict[str, Tensor]:
    """Weights of ERNIE with its table of tasks, if it is used, added to that of segment types.

    Every token belongs to task 0 unless `ErnieModel` is told otherwise, so its row adds to every type alike. Raises
    ValueError if the table is missing or does not fit.
    """
    if config["model_type"] != "ernie":
        return dict(weights)
    kept = {name: tensor for name, tensor in weights.items() if name != _TASK_TABLE}
    if config.get("use_task_id") and _TYPE_TABLE in kept:
        if _TASK_TABLE not in weights:
            raise ValueError(f"use_task_id is true, but the weights have no {_TASK_TABLE}")
        tasks, types = weights[_TASK_TABLE], kept[_TYPE_TABLE]
        if not len(tasks) or tasks.shape[1:] != types.shape[1:]:
            raise ValueError(f"{_TASK_TABLE} of shape {tuple(tasks.shape)} does not fit types of {tuple(types.shape)}")
        kept[_TYPE_TABLE] = types + tasks[0]
    return kept


def _current_name(name: str) -> str:
    for old, new in _OLD_NAMES.items():
        name = name.replace(old, new)
    return name
