"""Page of the shipped presets: what distinguishes them, and their files."""

from __future__ import annotations

import tomllib
from typing import Any

from docs.generate.markdown import code, fenced, table
from flows.recipes.loading import PRESETS, preset_names
from flows.recipes.meanings import as_json

COMPARED = (
    "objective",
    "model.num_layers",
    "model.hidden_size",
    "model.num_heads",
    "vocabulary.size",
    "encode.max_length",
    "training.steps",
    "training.batch_size",
    "training.learning_rate",
    "training.precision",
    "cluster.workers",
)
"""Keys in the columns of the first table."""


def page() -> str:
    """Return the page."""
    files = {name: (PRESETS / f"{name}.toml").read_text(encoding="utf-8") for name in preset_names()}
    values = {name: tomllib.loads(text) for name, text in files.items()}
    compared = table(
        ("preset", *(code(key) for key in COMPARED)),
        [(f"[{name}](#{name})", *(_shown(values[name], key) for key in COMPARED)) for name in files],
    )
    sections = [f"## {name}\n\n{fenced(text, 'toml')}" for name, text in files.items()]
    return "\n\n".join(
        [
            "# Presets",
            "A preset is a TOML file. `--param preset=NAME` names one of these, `--param preset=mine.toml` yours, "
            "and `--param SECTION.KEY=VALUE` sets any key on top. An empty cell is the default of the settings' pages.",
            compared,
            *sections,
        ]
    )


def _shown(preset: dict[str, Any], key: str) -> str:
    held: Any = preset
    for part in key.split("."):
        held = held.get(part) if isinstance(held, dict) else None
    return "" if held is None else code(held if isinstance(held, str) else as_json(held))
