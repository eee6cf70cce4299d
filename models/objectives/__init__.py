"""The pre-training objectives, by name; `models.objectives.base` says what one is.

Adding one is a folder here and a line in `_OBJECTIVES` (models/README.md walks through it). Networks are imported when
one is built: settings are checked without torch.
"""

import difflib
import pkgutil
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields
from typing import Any

from models.objectives.bert.config import BertObjectiveConfig
from models.objectives.config import Ablation, ObjectiveConfig, check_shares
from models.objectives.ehealth.config import EHealthConfig
from models.objectives.electra.config import ElectraObjectiveConfig
from models.objectives.electra_em_pap.config import ElectraEmPapConfig
from models.objectives.embert.config import EmbertConfig
from models.objectives.smedbert.config import SMedBertConfig

__all__ = [
    "ablated_in",
    "ablations",
    "build",
    "check",
    "check_keys",
    "config_keys",
    "cut_dependence",
    "data",
    "describe",
    "flops_formula",
    "resources",
    "settings_class",
    "speed_only",
    "tabulated",
]

_OBJECTIVES: dict[str, tuple[type[ObjectiveConfig], str]] = {
    "bert": (BertObjectiveConfig, "models.objectives.bert.objective:Bert"),
    "ehealth": (EHealthConfig, "models.objectives.ehealth.objective:EHealth"),
    "electra": (ElectraObjectiveConfig, "models.objectives.electra.objective:Electra"),
    "embert": (EmbertConfig, "models.objectives.embert.objective:Embert"),
    "electra_em_pap": (ElectraEmPapConfig, "models.objectives.electra_em_pap.objective:ElectraEmPap"),
    "smedbert": (SMedBertConfig, "models.objectives.smedbert.objective:SMedBert"),
}
"""By name, the settings of an objective, and where its `nn.Module` is."""


def describe(name: str, config: Mapping[str, Any]) -> Any:
    """Return the objective `name` without memory for its weights, to be asked what it reports and costs.

    Raises ValueError as `build` does.
    """
    import torch

    with torch.device("meta"):
        return build(name, config)


def ablations(name: str) -> tuple[Ablation, ...]:
    """Return the variants of objective `name` that its paper compares, the full one first."""
    return _OBJECTIVES[name][0].ablations


def ablated_in(name: str) -> str:
    """Return where the paper of objective `name` compares its variants; empty if it has none."""
    return _OBJECTIVES[name][0].ablated_in


def tabulated(name: str) -> Mapping[str, str]:
    """Return titles of the held-out figures that a table of variants of objective `name` shows, in its order."""
    return _OBJECTIVES[name][0].tabulated


def cut_dependence(name: str, config: Mapping[str, Any]) -> str | None:
    """Return the setting that makes the loss depend on how a batch is cut into micro-batches; None: it does not."""
    return _OBJECTIVES[name][0].cut_dependence(config) if name in _OBJECTIVES else None


def data(name: str, config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the inputs that objective `name` needs with these settings, beside examples of text.

    Raises ValueError as `build` does, but needs no torch.
    """
    return tuple(check(name, config).data())


def resources(name: str, config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the artifacts that objective `name` reads beside its rows with these settings.

    Raises ValueError as `build` does, but needs no torch.
    """
    return tuple(check(name, config).resources())


def flops_formula(name: str) -> str:
    """Return how the objective `name` counts the floating-point operations of a training step, in words."""
    return str(_network(name).flops_formula)


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
    settings = check(name, config)
    return _network(name)(settings)


def check(name: str, config: Mapping[str, Any]) -> Any:
    """Return the settings of the objective `name`, checked. Raises ValueError as `build` does, but needs no torch."""
    check_keys(name, config)
    kind: Any = _OBJECTIVES[name][0]
    missing = [one.name for one in fields(kind) if one.default is MISSING and one.name not in config]
    if missing:
        raise ValueError(f"objective {name!r} needs {', '.join(missing)}")
    settings = kind(**config)
    if settings.shares():
        check_shares(settings.shares())
    return settings


def settings_class(name: str) -> type[ObjectiveConfig]:
    """Return the dataclass of the settings of objective `name`, the section `model` of a preset."""
    return _OBJECTIVES[name][0]


def config_keys(name: str) -> list[str]:
    """Return the keys of the config of the objective `name`. Raises ValueError for an unknown objective."""
    if name not in _OBJECTIVES:
        raise ValueError(f"unknown objective {name!r}; known: {', '.join(sorted(_OBJECTIVES))}")
    kind: Any = _OBJECTIVES[name][0]
    return [field.name for field in fields(kind)]


def check_keys(name: str, config: Iterable[str]) -> None:
    """Raise ValueError for an unknown objective or a key that its config lacks; the message suggests similar ones."""
    known = config_keys(name)
    for key in config:
        if key not in known:
            near = difflib.get_close_matches(str(key), known) or sorted(known)
            raise ValueError(f"unknown key {key!r} for objective {name!r}; did you mean {', '.join(near)}?")


def _network(name: str) -> Any:
    """Import the `nn.Module` of an objective."""
    return pkgutil.resolve_name(_OBJECTIVES[name][1])
