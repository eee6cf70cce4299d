"""Continual pre-training: start from a BERT, ELECTRA or RoFormer that transformers saved, or our run.

An objective names the parts that can begin so (`Start`). Its encoder takes the checkpoint's weights. A second encoder
on the same embeddings, such as a generator, and the heads are copied if the checkpoint has some of the same shapes, and
start fresh otherwise. Rows of the word table follow their tokens: a vocabulary in another order is reordered, one with
other tokens is refused. Of a longer position table the first rows are used; of a shorter one all, and the positions
beyond start fresh.

A folder with the last checkpoint of a run of ours (`state.pt`, a `train` artifact) gives more: every parameter of the
same name and shape, so that BERT continued has its head, and ELECTRA its generator and its detector.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from infra.errors import UserError
from infra.limits import small_text
from models.encoder.config import EncoderConfig
from models.encoder.network import Encoder
from models.objectives.base import Start
from models.training.checkpoint import load_state
from models.training.config import CHECKPOINT_FILE
from models.weights.convert import POSITION_TABLE, WORD_TABLE, load_from_transformers, to_transformers

_PREFIXES = {"bert": "bert.", "electra": "electra.", "roformer": "roformer."}
_ROTARY = ("roformer",)
"""Kinds whose positions are rotary; all others have a learned table."""
_SIZES = {
    "hidden_size": "hidden_size",
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "intermediate_size": "intermediate_size",
    "type_vocab_size": "type_vocab_size",
    "layer_norm_eps": "layer_norm_eps",
}
"""Our names of sizes, and those in config.json."""
_OLD_ENDINGS = {".gamma": ".weight", ".beta": ".bias"}
"""Names of a LayerNorm's parameters in checkpoints of 2018."""
_REMEDY = "Train with the checkpoint's own vocabulary: give its vocab.txt as vocabulary_file."


@dataclass(frozen=True)
class Started:
    """Parts of an objective that hold a checkpoint's weights, and parts that start from random ones."""

    taken: tuple[str, ...]
    fresh: tuple[str, ...]


def initialise_from(objective: Any, folder: str | Path, vocabulary: Sequence[str] | None = None) -> Started:
    """Copy the weights of a folder of `save_pretrained` into a fresh `objective`.

    The objective does not change if anything does not fit. Files read are config.json, then model.safetensors or
    pytorch_model.bin or the files named by an index of theirs, and vocab.txt if it exists.

    `vocabulary`: the tokens that the objective is trained with, by id. Without it, or without vocab.txt, only the
    number of tokens is compared, and ids are assumed to mean the same. Time and memory grow with the checkpoint.

    Raises:
        UserError: the checkpoint is missing or damaged, or has another kind of model, other sizes or another
            vocabulary; the message names what differs, and the remedy.
    """
    place = Path(folder)
    if (place / CHECKPOINT_FILE).is_file():
        return _from_run(objective, place)
    settings = _read_config(place)
    start: Start = objective.start
    encoder: Encoder = objective.get_submodule(start.encoder)
    _check_sizes(place, settings, encoder.config)
    state = _read_weights(place)
    kind = settings["model_type"]
    encoder_state = _encoder_state(state, _PREFIXES[kind])
    order = _token_order(place, encoder_state, encoder.config.vocab_size, vocabulary)
    encoder_state[WORD_TABLE] = encoder_state[WORD_TABLE][order]
    if POSITION_TABLE in encoder_state:
        encoder_state[POSITION_TABLE] = _fit_positions(encoder_state[POSITION_TABLE], encoder)
    try:
        load_from_transformers(encoder, encoder_state)
    except ValueError as error:
        raise UserError(f"{place}: {error}. Give a checkpoint of a whole BERT or ELECTRA.") from error
    taken = [start.encoder]
    if start.twin is not None and _took_layers(objective.get_submodule(start.twin), encoder_state):
        taken.append(start.twin)
    for name, read in start.heads.items():
        head, given = objective.get_submodule(name), read(state, kind, order)
        if {key: tensor.shape for key, tensor in given.items()} == {k: t.shape for k, t in head.state_dict().items()}:
            head.load_state_dict(given)
            taken.append(name)
    return Started(tuple(taken), tuple(name for name, _ in objective.named_children() if name not in taken))


def check_start(folder: str | Path, objective: Any, vocabulary: Sequence[str] | None = None) -> None:
    """Raise what `initialise_from` would, as far as it is known without reading weights; takes milliseconds.

    Checked are the folder, the kind of model, its sizes against the objective's encoder, and the vocabulary.

    Raises:
        UserError: see `initialise_from`.
    """
    place = Path(folder)
    if (place / CHECKPOINT_FILE).is_file():
        _shared_with_run(objective, place)
        return
    encoder: Encoder = objective.get_submodule(objective.start.encoder)
    _check_sizes(place, _read_config(place), encoder.config)
    _weight_files(place)
    if vocabulary is not None and (place / "vocab.txt").is_file():
        _vocabulary_in_common(place / "vocab.txt", vocabulary)


def _from_run(objective: Any, place: Path) -> Started:
    """Copy what a checkpoint of ours has under the same names and in the same shapes; the encoder must be whole."""
    given = _shared_with_run(objective, place)
    own = objective.state_dict()
    objective.load_state_dict(own | given)
    parts = [name for name, _ in objective.named_children()]
    whole = [part for part in parts if all(name in given for name in own if name.startswith(f"{part}."))]
    return Started(tuple(whole), tuple(part for part in parts if part not in whole))


def _shared_with_run(objective: Any, place: Path) -> dict[str, Tensor]:
    """Return the parameters that the objective and a checkpoint have in common.

    Raises:
        UserError: the checkpoint is damaged, or its encoder is another one.
    """
    try:
        state = load_state(place)["model"]
    except ValueError as error:
        raise UserError(str(error)) from error
    own = objective.state_dict()
    given = {name: value for name, value in state.items() if name in own and value.shape == own[name].shape}
    encoder = f"{objective.start.encoder}."
    lacking = [name for name in own if name.startswith(encoder) and name not in given]
    if lacking:
        there = "is absent there" if lacking[0] not in state else f"has {tuple(state[lacking[0]].shape)} there"
        raise UserError(
            f"{place} holds another encoder: {lacking[0]} {there} and {tuple(own[lacking[0]].shape)} here. Start from "
            "a run of the same sizes and vocabulary, and of the same kind: BERT's objectives from BERT's, "
            "ELECTRA's from ELECTRA's."
        )
    return given


def _read_config(place: Path) -> dict[str, Any]:
    file = place / "config.json"
    if not file.is_file():
        raise UserError(f"{place} has no config.json. Give a folder that transformers' save_pretrained wrote.")
    try:
        settings: dict[str, Any] = json.loads(small_text(file))
        kind = settings.get("model_type")
    except (ValueError, AttributeError) as error:
        raise UserError(f"{file} is not a configuration: {error}. Download the checkpoint again.") from error
    if kind not in _PREFIXES:
        raise UserError(f"{file} describes a {kind!r} model. Pre-training starts from 'bert', 'electra' or 'roformer'.")
    plain = {"hidden_act": "gelu", "position_embedding_type": "absolute"}
    for name, needed in plain.items():
        if settings.get(name, needed) != needed:
            raise UserError(
                f"{file}: {name} is {settings[name]!r}; the encoder here needs {needed!r}. Give another model."
            )
    return settings


def _check_sizes(place: Path, settings: Mapping[str, Any], config: EncoderConfig) -> None:
    defaults = {"type_vocab_size": 2, "layer_norm_eps": 1e-12}  # transformers leaves them out of some files
    given = {ours: settings.get(theirs, defaults.get(ours)) for ours, theirs in _SIZES.items()}
    given["embedding_size"] = settings.get("embedding_size", given["hidden_size"])
    if settings["model_type"] == "bert":
        given["embedding_size"] = given["hidden_size"]
    wanted = {name: getattr(config, name) for name in _SIZES} | {"embedding_size": config.embedding_width}
    wrong = [f"model.{name} = {given[name]}" for name in wanted if given[name] != wanted[name]]
    positions = "rotary" if settings["model_type"] in _ROTARY else "absolute"
    if positions != config.positions:
        wrong.append(f"model.positions = {positions!r}")
    if wrong:
        raise UserError(f"{place} has other sizes than the model to be trained. Set {', '.join(wrong)} in the preset.")


def _read_weights(place: Path) -> dict[str, Tensor]:
    """All weights, in float32, under today's names."""
    weights: dict[str, Tensor] = {}
    for file in _weight_files(place):
        try:
            safe = file.suffix == ".safetensors"
            state = load_file(file) if safe else torch.load(file, map_location="cpu", weights_only=True)
            weights |= {_renamed(name): tensor.float() for name, tensor in state.items()}
        except Exception as error:
            raise UserError(
                f"{file} is damaged, or holds more than weights: {error}. Download the checkpoint again."
            ) from error
    return weights


def _weight_files(place: Path) -> list[Path]:
    """Files that hold the weights: one, or those that an index names."""
    for name in ("model.safetensors", "pytorch_model.bin"):
        if (place / name).is_file():
            return [place / name]
        index = place / f"{name}.index.json"
        if index.is_file():
            return _files_of_index(index)
    raise UserError(f"{place} has neither model.safetensors nor pytorch_model.bin, nor an index of several files.")


def _files_of_index(index: Path) -> list[Path]:
    try:
        names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
        inside = all(name == Path(name).name for name in names)
        if not names:
            raise ValueError("it names no files")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{index} is not an index of weights: {error!r}. Download the checkpoint again.") from error
    if not inside:
        raise UserError(f"{index} names files outside its folder. Download the checkpoint again.")
    missing = [name for name in names if not (index.parent / name).is_file()]
    if missing:
        raise UserError(
            f"{index} names {len(names):,} files, of which {_some(missing)} are missing. Download the checkpoint again."
        )
    return [index.parent / name for name in names]


def _renamed(name: str) -> str:
    for old, new in _OLD_ENDINGS.items():
        if name.endswith(old):
            return name.removesuffix(old) + new
    return name


def _encoder_state(state: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Encoder's weights under the names of `ElectraModel` and `BertModel` themselves, without heads."""
    if any(name.startswith(prefix) for name in state):
        return {name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)}
    return dict(state)


def _token_order(place: Path, state: Mapping[str, Tensor], vocab_size: int, vocabulary: Sequence[str] | None) -> Tensor:
    """Row of the checkpoint's table for each of our ids: int64 (V,)."""
    if WORD_TABLE not in state:
        raise UserError(f"{place} has no embedding tables. Give a checkpoint of a whole BERT or ELECTRA.")
    rows = len(state[WORD_TABLE])
    file = place / "vocab.txt"
    if vocabulary is None or not file.is_file():
        if rows != vocab_size:
            raise UserError(f"{place} has {rows:,} tokens, the vocabulary in use {vocab_size:,}. {_REMEDY}")
        return torch.arange(rows)
    theirs = _vocabulary_in_common(file, vocabulary)
    if rows < len(theirs):
        raise UserError(
            f"{file} names {len(theirs):,} tokens, but the weights have {rows:,}. Download the checkpoint again."
        )
    places = {token: row for row, token in enumerate(theirs)}
    return torch.tensor([places[token] for token in vocabulary])


def _vocabulary_in_common(file: Path, vocabulary: Sequence[str]) -> list[str]:
    """Tokens of a vocab.txt, which must be those in use, in any order."""
    theirs = [line.removesuffix("\r") for line in file.read_text(encoding="utf-8").removesuffix("\n").split("\n")]
    ours, known = set(vocabulary), set(theirs)
    unknown = [token for token in vocabulary if token not in known]
    if unknown or len(theirs) != len(vocabulary):
        unused = [token for token in theirs if token not in ours]
        raise UserError(
            f"{file} is not the vocabulary in use: {_some(unknown)} only in use, "
            f"{_some(unused)} only in the checkpoint. {_REMEDY}"
        )
    return theirs


def _some(tokens: Sequence[str]) -> str:
    """Number of tokens, and the first of them: `2 ('a', 'b')`."""
    return (
        f"{len(tokens):,} ({', '.join(map(repr, tokens[:3]))}{', …' if len(tokens) > 3 else ''})" if tokens else "none"
    )


def _fit_positions(table: Tensor, encoder: Encoder) -> Tensor:
    assert encoder.embeddings.position is not None, "_check_sizes compares the kind of positions"
    fitted = encoder.embeddings.position.weight.detach().clone()
    shared = min(len(fitted), len(table))
    fitted[:shared] = table[:shared]
    return fitted


def _took_layers(twin: Encoder, encoder_state: Mapping[str, Tensor]) -> bool:
    """Copy the encoder's layers into its twin as well, if it is as wide."""
    wanted = to_transformers(twin)
    if any(name not in encoder_state or encoder_state[name].shape != wanted[name].shape for name in wanted):
        return False
    load_from_transformers(twin, encoder_state)
    return True
