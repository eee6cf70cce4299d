"""Yiwen from Python, as in a notebook: the flows and tools by keyword, with results that show themselves.

In an installation and in a checkout these are the names of `import yiwen` (yiwen.py); docs/python.md has an example of
each. Importing this package imports nothing else: a name is looked up when it is used, so that `deidentify` needs no
torch and no Prefect.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flows.api import corpus, knowledge, normalise, own
    from flows.api.configuration import configure
    from flows.api.graphs import EntityLinker, KnowledgeGraph
    from flows.api.identifiers import deidentify
    from flows.api.prediction import Predictor
    from flows.api.terms import Normaliser
    from flows.api.training import finetune, pretrain
    from infra.errors import UserError

__all__ = [
    "EntityLinker",
    "KnowledgeGraph",
    "Normaliser",
    "Predictor",
    "UserError",
    "configure",
    "corpus",
    "deidentify",
    "finetune",
    "knowledge",
    "normalise",
    "own",
    "pretrain",
]

_PLACES = {
    "EntityLinker": "flows.api.graphs:EntityLinker",
    "KnowledgeGraph": "flows.api.graphs:KnowledgeGraph",
    "Normaliser": "flows.api.terms:Normaliser",
    "Predictor": "flows.api.prediction:Predictor",
    "UserError": "infra.errors:UserError",
    "configure": "flows.api.configuration:configure",
    "deidentify": "flows.api.identifiers:deidentify",
    "finetune": "flows.api.training:finetune",
    "pretrain": "flows.api.training:pretrain",
}
"""Where the names are defined; those that are missing here are modules of this package."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name not in _PLACES:
        return importlib.import_module(f"{__name__}.{name}")
    from flows.api.calls import explained_errors

    module, _, own = _PLACES[name].partition(":")
    with explained_errors():  # `Predictor` needs torch, and the extra that brings it has a name
        return getattr(importlib.import_module(module), own)


def __dir__() -> list[str]:
    return sorted(__all__)
