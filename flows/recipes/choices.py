"""Types of flow parameters with choices: a list in the form of the Prefect UI, instead of free text.

Where a user's own value is as good, such as the path of a preset of one's own, the form offers both.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from pydantic import WithJsonSchema

from flows.recipes.loading import preset_names


def one_of(names: Iterable[str], otherwise: str | None = None) -> WithJsonSchema:
    """Return the schema of one of some names, or also of other text, which `otherwise` names in the form."""
    named = {"type": "string", "title": "One of", "enum": list(names)}
    if otherwise is None:
        return WithJsonSchema(named)
    return WithJsonSchema({"anyOf": [named, {"type": "string", "title": otherwise}]})


PresetName = Annotated[str, one_of(preset_names(), "A TOML file of your own")]
"""Name of a shipped preset, or a path to a TOML file."""
