"""The pre-training objectives, by name; `models.objectives.base` says what one is.

Adding one is a folder here and a line in `_OBJECTIVES` (models/README.md walks through it).
"""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields
from typing import Any

import torch

from models.objectives.base import Ablation, Objective
from models.objectives.bert.config import BertObjectiveConfig
from models.objectives.bert.objective import Bert
from models.objectives.ehealth.config import EHealthConfig
from models.objectives.ehealth.objective import EHealth
from models.objectives.electra.config import ElectraObjectiveConfig
from models.objectives.electra.objective import Electra

__all__ = ["Objective", "ablations", "build", "check_keys", "cut_dependence", "describe", "flops_formula", "speed_only"]

_OBJECTIVES: dict[str, tuple[type[Any], type]] = {
    "bert": (Bert, BertObjectiveConfig),
    "ehealth": (EHealth, EHealthConfig),
    "electra": (Electra, ElectraObjectiveConfig),
}


def describe(name: str, config: Mapping[str, Any]) -> Any:
    """Return the objective `name` without memory for its weights, to be asked what it reports and costs.

    Raises ValueError as `build` does.
    """
    with torch.device("meta"):
        return build(name, config)


def ablations(name: str) -> tuple[Ablation, ...]:
    """Return the variants of objective `name` that its paper compares, the full one first."""
    found: tuple[Ablation, ...] = _OBJECTIVES[name][0].ablations
    return found


def tabulated(name: str) -> Mapping[str, str]:
    """Return titles of the held-out figures that a table of variants of objective `name` shows, in its order."""
    found: Mapping[str, str] = _OBJECTIVES[name][0].tabulated
    return found


def cut_dependence(name: str, config: Mapping[str, Any]) -> str | None:
    """Return the setting that makes the loss depend on how a batch is cut into micro-batches; None: it does not."""
    if name not in _OBJECTIVES:
        return None
    found: str | None = _OBJECTIVES[name][0].cut_dependence(config)
    return found


def flops_formula(name: str) -> str:
    """Return how the objective `name` counts the floating-point operations of a training step, in words."""
    objective: Any = _OBJECTIVES[name][0]
    return str(objective.flops_formula)


def speed_only(name: str) -> frozenset[str]:
    """Return the settings of objective `name` that change speed and memory alone; none if it is unknown.

    A run may resume with other values of these.
    """
    return _OBJECTIVES[name][0].speed_only if name in _OBJECTIVES else frozenset()


def build(name: str, config: Mapping[str, Any]) -> Any:
    """Return the objective `name` with fresh weights: an `nn.Module` that is an `Objective`.

    `config` maps field names of the objective's config class to values; the defaults are the paper's base size.
    `vocab_size` has no default. Raises ValueError for an unknown objective, an unknown or missing key (the message
    suggests similar ones) and impossible sizes.
    """
    check_keys(name, config)
    module, config_class = _OBJECTIVES[name]
    missing = [one.name for one in fields(config_class) if one.default is MISSING and one.name not in config]
    if missing:
        raise ValueError(f"objective {name!r} needs {', '.join(missing)}")
    return module(config_class(**config))


def config_keys(name: str) -> list[str]:
    """Return the keys of the config of the objective `name`. Raises ValueError for an unknown objective."""
    if name not in _OBJECTIVES:
        raise ValueError(f"unknown objective {name!r}; known: {', '.join(sorted(_OBJECTIVES))}")
    return [field.name for field in fields(_OBJECTIVES[name][1])]


def check_keys(name: str, config: Iterable[str]) -> None:
    """Raise ValueError for an unknown objective or a key that its config lacks; the message suggests similar ones."""
    known = config_keys(name)
    for key in config:
        if key not in known:
            near = difflib.get_close_matches(str(key), known) or sorted(known)
            raise ValueError(f"unknown key {key!r} for objective {name!r}; did you mean {', '.join(near)}?")
