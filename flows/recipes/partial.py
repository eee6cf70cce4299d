"""Presets for flows that train no model: the sections that such a flow runs with, and checks of those it ignores."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, TypeVar

from flows.recipes.data import MODEL_SECTIONS, Recipe
from flows.recipes.loading import checked, read_preset, section_of
from flows.recipes.pretraining import check_keys
from tasks.runner import warn

R = TypeVar("R", bound=Recipe)


def load_recipe(
    name: str, overrides: Mapping[str, Any] | None = None, *, used: Collection[str] | None = None
) -> Recipe:
    """Return the sections of a preset about data; see `load_sections`."""
    return load_sections(Recipe, name, overrides, used=used)


def load_sections(
    model: type[R], name: str, overrides: Mapping[str, Any] | None = None, *, used: Collection[str] | None = None
) -> R:
    """Return the sections of a preset that a model of them has.

    Overrides of other sections are checked too, and the flow warns that it ignores them: a user who mistypes
    training.steps must learn of it from any flow.

    Args:
        model: the sections to read; `Recipe` or a subclass.
        name: name of a shipped preset, or a path that ends in .toml.
        overrides: dotted keys to values, such as `{"segment.min_tokens": 8}`.
        used: sections that the flow uses; all of the model by default.

    Raises:
        UserError: there is no such preset, or it or the overrides have unknown keys or unusable values.
    """
    values = read_preset(name, overrides)
    ignored = MODEL_SECTIONS - model.model_fields.keys()
    recipe = checked(model, values.without(ignored), others=MODEL_SECTIONS)
    if any(section_of(key) in ignored for key in values.overridden):
        check_keys(values)
    if unused := sorted(key for key in values.overridden if section_of(key) not in (used or model.model_fields)):
        warn(f"This flow ignores {', '.join(unused)}: these are settings of other flows.")
    return recipe
