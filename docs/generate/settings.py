"""Pages of all settings: those of stages from pydantic fields, those of models from dataclasses."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

from pydantic import BaseModel

from docs.generate.markdown import code, prose, table
from flows import recipes
from flows.recipes.embedding import EmbeddingRecipe
from flows.recipes.evaluating import IntrinsicRecipe, ProductEvaluation
from flows.recipes.finetuning import FinetuneRecipe
from flows.recipes.meanings import Setting, of_dataclass, of_model
from flows.recipes.networks import NetworkRecipe
from flows.recipes.normalising import MappingRecipe, NormaliseRecipe
from flows.recipes.own_task import OwnTaskRecipe
from flows.recipes.pretraining import Preset
from models.objectives import _OBJECTIVES
from models.training.config import TaskConfig, TrainingConfig

RECIPES: tuple[tuple[str, str, type[BaseModel]], ...] = (
    ("Presets", "all flows that take a preset; each reads the sections that it needs", Preset),
    ("Word vectors", "`embed/…`, beside the sections about data above", EmbeddingRecipe),
    ("Evaluation of encoders", "`evaluate/intrinsic`, beside the sections about data above", IntrinsicRecipe),
    ("Evaluation on products", "`evaluate/products`", ProductEvaluation),
    ("Fine-tuning", "`finetune/…`", FinetuneRecipe),
    ("Own tasks", "`finetune/classify`, `/pairs`, `/tag` and `/rank`", OwnTaskRecipe),
    ("Comparison of networks", "`finetune/cmedlms`", NetworkRecipe),
    ("Terms", "`normalise/index` and `normalise/chip-cdn`", NormaliseRecipe),
    ("Mapping of lists", "`normalise/map`", MappingRecipe),
)
"""Title, flows and model of each group of settings; sections that an earlier group has are not repeated."""


def more_recipes() -> list[tuple[str, str, type[BaseModel]]]:
    """Return groups of settings that `RECIPES` lacks, titled by their docstrings: new flows appear by themselves."""
    listed = {base for _, _, recipe in RECIPES for base in recipe.__mro__}
    found: dict[type[BaseModel], None] = {}
    for module in pkgutil.iter_modules(recipes.__path__, f"{recipes.__name__}."):
        for one in vars(importlib.import_module(module.name)).values():
            is_recipe = inspect.isclass(one) and issubclass(one, BaseModel) and one.__name__.endswith("Recipe")
            if is_recipe and one not in listed:
                found[one] = None
    return [(one.__name__, f"the flow of `{one.__module__}`", one) for one in found]


def stages_page() -> str:
    """Return the page of the settings that are pydantic fields."""
    parts = [
        "# Settings of stages",
        "Give them with `--param SECTION.KEY=VALUE` (values are JSON), or in a preset. An unknown key is an "
        "error that names the nearest known ones. The sections `model` and `training` are on the page about models.",
    ]
    seen: set[str] = set()
    for title, flows, recipe in (*RECIPES, *more_recipes()):
        parts.append(f"## {title}\n\nOf {flows}.")
        for name, rows in _sections(recipe).items():
            # `index` of two recipes is the same model with the same keys, and shown once.
            identity = f"{name}: {rows}"
            if identity not in seen and name not in ("model", "training"):
                seen.add(identity)
                parts.append(f"### {name}\n\n{_table(rows)}")
    return "\n\n".join(parts) + "\n"


def models_page() -> str:
    """Return the page of the sections `model` and `training` of presets."""
    parts = [
        "# Settings of models",
        "The sections `training` and `model` of a preset. The keys of `model` depend on the objective. Defaults are "
        "the papers'.",
        f"## training\n\n{_table(of_dataclass(TrainingConfig, 'training.'))}",
        "## training.tasks\n\nFor objectives with several tasks, as in `training.tasks.pap.batch_size`.\n\n"
        + _table(of_dataclass(TaskConfig, "training.tasks.NAME.")),
    ]
    for name, (settings, _) in _OBJECTIVES.items():
        summary = prose((settings.__doc__ or "").partition("\n\n")[0])
        parts.append(f"## model of {name}\n\n{summary}\n\n{_table(of_dataclass(settings, 'model.'))}")
    return "\n\n".join(parts) + "\n"


def _sections(recipe: type[BaseModel]) -> dict[str, list[Setting]]:
    sections: dict[str, list[Setting]] = {}
    for setting in of_model(recipe):
        name, dot, _ = setting.key.partition(".")
        sections.setdefault(name if dot else "of the preset itself", []).append(setting)
    return sections


def _table(settings: object) -> str:
    return table(
        ("key", "type", "default", "meaning"),
        [(code(one.key), one.type, code(one.default), prose(one.meaning)) for one in settings],  # type: ignore[attr-defined]
    )
