"""Yiwen (医文): Chinese medical text and knowledge graphs in; language models, task models and a term normaliser out.

`import yiwen` gives the names of flows/api (docs/python.md). In an installation this file is the package's own
(setup.py), in a checkout it makes the same import work. Nothing heavy is imported before a name is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flows import api
from infra.version import VERSION as __version__

if TYPE_CHECKING:
    from flows.api import (
        EntityLinker,
        KnowledgeGraph,
        Normaliser,
        Predictor,
        UserError,
        configure,
        corpus,
        deidentify,
        finetune,
        knowledge,
        normalise,
        own,
        pretrain,
    )

__all__ = [
    "EntityLinker",
    "KnowledgeGraph",
    "Normaliser",
    "Predictor",
    "UserError",
    "__version__",
    "configure",
    "corpus",
    "deidentify",
    "finetune",
    "knowledge",
    "normalise",
    "own",
    "pretrain",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(api, name)


def __dir__() -> list[str]:
    return sorted(__all__)


if __name__ == "__main__":  # python -m yiwen, in a checkout
    from flows.__main__ import main

    main()
